// The buyer page on its straight way, against a server that does as the test says.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually } from './help/browser.mjs';
import { bringNear, canPress, confirmed, fake, go, keys, queued, settled, setup, shows, startsIn, visit } from './help/visit.mjs';

setup();

// ---- Before the start ----

// The browser's clock is an hour and a half behind the server's, and is not asked.
test('the countdown goes by the server clock', async () => {
  fake.skew = 5400e3;
  startsIn(252e3);
  const page = await visit();
  await eventually(async () => {
    const shown = /Starts in\s+00:0(\d):(\d\d)/.exec(await go(page).innerText());
    const left = (Date.parse(fake.act.starts_at) - Date.now() - fake.skew) / 1000;
    assert.ok(Math.abs(shown[1] * 60 + shown[2] * 1 - left) < 2, `${shown}, but ${left} s are left`);
  });
  assert.equal(await go(page).getAttribute('aria-disabled'), 'true');
  await go(page).click({ force: true });
  assert.equal(fake.count('POST purchases'), 0);
});

// The start is the server's to say, whatever the clock of the page makes of it.
test('it is never open early, and opens by itself', async () => {
  startsIn(60e3);
  const page = await visit();
  await bringNear(page, 2000);
  await shows(page, '#go', 'Starting now');
  assert.equal(await page.locator('#go[data-act=buy]').count(), 0);
  assert.ok(Date.now() >= Date.parse(fake.act.starts_at));
  fake.act.state = 'open';
  await canPress(page, 'buy');
});

// A hundred thousand pages must not ask in the same millisecond: each draws lots for
// up to half a second. This one draws 0.9.
test('pages ask at the start each after a little wait of its own', async () => {
  startsIn(60e3);
  const page = await visit({ prepare: 'Math.random = () => 0.9' });
  await bringNear(page, 2500);
  const start = Date.parse(fake.act.starts_at);
  const asked = await eventually(() => {
    const first = fake.requests.find((r) => r.name === 'GET activity' && r.at >= start);
    assert.ok(first, 'it has not asked yet');
    return first.at;
  });
  // Less than the 450 ms that it means to wait: it knows the server's clock to half a round trip.
  assert.ok(asked - start > 300, `it asked ${asked - start} ms after the start`);
});

// A cache in front of the API says how old its answer is.
test('an answer out of a cache does not put the clock back', async () => {
  startsIn(600e3);
  const age = 90;
  fake.answers['GET activity'] = () => ({
    data: { ...fake.act, server_time: new Date(Date.now() - age * 1000).toISOString() }, headers: { Age: String(age) },
  });
  const page = await visit();
  await shows(page, '#go', /00:(10:00|09:5\d)/);
});

test('who wants to be reminded is, half a minute before', async () => {
  startsIn(100e3);
  const page = await visit({ permissions: ['notifications'], prepare: 'Notification = class { static permission = "default"; static requestPermission = async () => "granted"; constructor(title, { body }) { globalThis.reminded = title + ": " + body; } }' });
  await page.waitForSelector('#alt[data-act=remind]');
  await settled(page);
  await page.click('#alt');
  await shows(page, '#line', 'We will remind you 30 seconds before the start. Keep this page open.');
  await bringNear(page, 20e3);
  await eventually(async () => assert.equal(await page.evaluate(() => globalThis.reminded), 'It starts in 30 seconds: Walnut desk lamp'));
});

test('what every buyer gets alike is asked without saying who asks', async () => {
  const page = await visit();
  await canPress(page, 'buy');
  const asked = fake.requests.find((r) => r.name === 'GET activity');
  assert.equal(asked.headers['x-user-id'], undefined);
  assert.equal(asked.headers.authorization, undefined);
});

test('the picture, name, price, stock and limit are there', async () => {
  const page = await visit();
  await shows(page, '#name', 'Walnut desk lamp');
  assert.equal(await page.locator('#price').innerText(), '¥199.00');
  assert.equal(await page.locator('#left').innerText(), 'About half left');
  assert.equal(await page.locator('#total').innerText(), 'of 100');
  assert.equal(await page.locator('#fine').innerText(), 'Limit 1 per buyer, pay within 15 minutes.');
  assert.match(await page.locator('#timer').innerText(), /Ends in\s+00:(30:00|29:5\d)/);
  assert.match(await page.title(), /Walnut desk lamp/);
});

// ---- The purchase ----

test('a double click is one attempt, and says who buys', async () => {
  const page = await visit();
  await canPress(page, 'buy');
  await go(page).dblclick();
  await shows(page, '#title', 'You are in the queue');
  assert.equal(fake.count('POST purchases'), 1);
  const request = fake.requests.find((r) => r.name === 'POST purchases');
  assert.match(request.key, /^[0-9a-f-]{36}$/);
  assert.deepEqual(request.body, { quantity: 1 });
  assert.equal(await page.locator('#who-text').innerText(), `You are buyer ${request.headers['x-user-id']}.`);
});

// The order may be there between the two clicks, and the button pay for it. It is
// pressed at the first sight of "Pay", as a second click would.
test('a second click or a key held down does not also pay', async () => {
  fake.hold = false;
  const page = await visit();
  await canPress(page, 'buy');
  await page.evaluate(() => {
    const button = document.getElementById('go');
    new MutationObserver((_, observer) => {
      if (button.dataset.act !== 'pay') return;
      observer.disconnect();
      button.click();
    }).observe(button, { attributes: true });
  });
  await go(page).focus();
  await page.keyboard.down('Enter');
  await canPress(page, 'pay');
  await settled(page);
  for (let i = 0; i < 3; i++) await page.keyboard.down('Enter');
  await page.keyboard.up('Enter');
  assert.equal(fake.count('POST pay'), 0);
  await page.keyboard.press('Enter');
  await shows(page, '#title', 'Paid. It is yours.');
});

// crypto.randomUUID and crypto.subtle exist in secure contexts only; a shop tried
// out on a LAN address is none.
test('it works on plain HTTP', async () => {
  const page = await visit({ prepare: 'delete Crypto.prototype.randomUUID; delete Crypto.prototype.subtle' });
  await queued(page);
  assert.match(keys()[0], /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/);
});

test('it works without local storage', async () => {
  const page = await visit({ prepare: "for (const f of ['getItem', 'setItem', 'removeItem']) Storage.prototype[f] = () => { throw new Error('forbidden'); }" });
  await confirmed(page);
});

test('the place in the queue falls live, with the expected wait as a range', async () => {
  fake.ahead = 1234;
  const page = await visit();
  const ticket = await queued(page);
  await shows(page, '#figure', /Your place\s+1,235/);
  await shows(page, '#text', 'Working out');
  let { ahead } = fake;
  await eventually(async () => {
    fake.move(ticket, { ahead: ahead = Math.max(100, ahead - 20) });
    assert.match(await page.locator('#text').innerText(), /^Expected wait: \d+–\d+ (second|minute)s\.$/);
  });
  await shows(page, '#figure', new RegExp(`Your place\\s+${(ahead + 1).toLocaleString('en')}`));
  assert.equal(fake.count('GET events'), 1, 'one stream carries it all');
  assert.equal(await page.locator('#line').innerText(), 'You can leave this page: your place is kept.');
  fake.move(ticket, { ahead: 0 });
  await shows(page, '#figure', 'You are next');
});

test('a reload and a second tab show the same ticket', async () => {
  fake.ahead = 50;
  const page = await visit();
  const ticket = await queued(page);
  await page.reload();
  await shows(page, '#title', 'You are in the queue');
  const tab = await visit({ context: page.context() });
  await shows(tab, '#figure', /51/);
  fake.confirm(ticket);
  await shows(page, '#title', 'You got it');
  await shows(tab, '#title', 'You got it');
  await settled(tab);
  assert.equal(fake.count('POST purchases'), 1);
  // What is done in one tab is seen in the other.
  await tab.click('#go');
  await shows(tab, '#title', 'Paid');
  await shows(page, '#title', 'Paid');
});

test('an answer that was lost is asked for with the same key', async () => {
  // The browser itself sends again what was lost on a connection that had been used before.
  fake.answers['POST purchases'] = () => ({ destroy: true });
  const page = await visit();
  await canPress(page, 'buy');
  await go(page).click();
  await shows(page, '#title', 'No answer yet');
  delete fake.answers['POST purchases'];
  await shows(page, '#title', 'You are in the queue');
  assert.equal(new Set(keys()).size, 1);
  assert.ok(keys().length > 1);
});

test('a reload in the middle repeats the same attempt', async () => {
  let release;
  const held = new Promise((done) => { release = done; });
  fake.answers['POST purchases'] = () => held;
  const page = await visit();
  await canPress(page, 'buy');
  await go(page).click();
  await eventually(() => assert.equal(fake.count('POST purchases'), 1));
  delete fake.answers['POST purchases'];
  await page.reload();
  await shows(page, '#title', 'You are in the queue');
  release();
  assert.equal(new Set(keys()).size, 1);
});

test('where there is a limit above one, the buyer chooses how many', async () => {
  fake.act.limit_per_user = 3;
  const page = await visit();
  await canPress(page, 'buy');
  for (let i = 0; i < 4; i++) await page.click('#more', { force: true });
  await page.click('#less');
  await confirmed(page);
  assert.equal(fake.last().quantity, 2);
  assert.match(await go(page).innerText(), /Pay ¥398\.00/);
});

// ---- The order ----

test('the order is paid, by keyboard alone', async () => {
  const page = await visit();
  await canPress(page, 'buy');
  await go(page).focus();
  await page.keyboard.press('Enter');
  await shows(page, '#title', 'You are in the queue');
  fake.confirm(fake.last());
  await shows(page, '#figure', /Order\s+4001/);
  await shows(page, '#timer', /Time left to pay\s+00:(15:00|14:5\d)/);
  assert.equal(await page.evaluate(() => document.activeElement.id), 'go', 'the focus stays');
  await settled(page);
  await page.keyboard.press('Enter');
  await shows(page, '#title', 'Paid. It is yours.');
  assert.equal(fake.orders.get('4001').state, 'paid');
  await page.reload();
  await shows(page, '#title', 'Paid. It is yours.');
});

test('where payment is not simulated, the buyer is sent to the shop', async () => {
  fake.answers['POST pay'] = () => fake.refuse(404, 'not_found');
  const page = await visit();
  await confirmed(page);
  await go(page).click();
  await shows(page, '#text', 'Please pay in the shop: your order number is 4001');
  fake.orders.get('4001').state = 'paid';
  await shows(page, '#title', 'Paid. It is yours.');
});

test('cancelling asks first, and then the buyer may buy again', async () => {
  const page = await visit();
  await confirmed(page);
  await page.click('#alt');
  assert.equal(await page.locator('#ask-title').innerText(), 'Cancel this order?');
  await page.keyboard.press('Escape');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'alt', 'the focus goes back');
  assert.equal(fake.count('POST cancel'), 0);
  await page.click('#alt');
  await page.click('#ask-yes');
  await shows(page, '#title', 'Your order is cancelled');
  await shows(page, '#go', 'Buy again');
  await page.reload();
  await shows(page, '#title', 'Your order is cancelled');
  await go(page).click();
  await shows(page, '#title', 'You are in the queue');
  assert.equal(new Set(keys()).size, 2, 'a new intention has a new key');
});

test('an order that is not paid in time lapses, and the buyer may buy again', async () => {
  fake.answers['GET order'] = () => {
    const order = fake.orders.get('4001');
    if (Date.now() > Date.parse(order.pay_before) + 1000) order.state = 'expired';
    return null;
  };
  const page = await visit();
  await confirmed(page, 1500);
  await shows(page, '#title', 'The time to pay has passed');
  await shows(page, '#go', 'Buy again');
});

// Somebody's payment and the expiry may cross; what the server says then counts.
test('paying too late tells what became of the order', async () => {
  fake.answers['POST pay'] = () => {
    fake.orders.get('4001').state = 'expired';
    return fake.refuse(409, 'conflict');
  };
  const page = await visit();
  await confirmed(page);
  await go(page).click();
  await shows(page, '#title', 'The time to pay has passed');
});
