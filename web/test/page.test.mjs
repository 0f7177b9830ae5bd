// The buyer page in every state, against a server that does as the test says.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, before, beforeEach, afterEach, test } from 'node:test';
import { audit, desktop, eventually, launch, open, phone } from './help/browser.mjs';
import { startFake } from './help/fake.mjs';

let browser;
let fake;
let pages;

before(async () => { browser = await launch(); });
after(() => browser?.close());
beforeEach(async () => {
  fake = await startFake();
  pages = [];
});
afterEach(async () => {
  const complaints = pages.flatMap((page) => page.complaints);
  for (const page of pages) await page.context().close();
  fake.close();
  assert.deepEqual(complaints, [], 'the browser complained');
});

async function visit(options = {}) {
  const page = await open(browser, null, options);
  pages.push(page);
  if (options.prepare) await page.addInitScript(options.prepare);
  await page.goto(fake.url + (options.path || '/a/7'));
  return page;
}

const go = (page) => page.locator('#go');
const shows = (page, selector, text) => eventually(async () => {
  assert.match(await page.locator(selector).innerText(), text instanceof RegExp ? text : new RegExp(text));
});
const canPress = (page, act) => page.waitForSelector(`#go[data-act=${act}]`);
const keys = () => fake.requests.filter((r) => r.name === 'POST purchases').map((r) => r.key);
const startsIn = (ms) => {
  fake.act.state = 'ready';
  fake.act.starts_at = new Date(Date.now() + fake.skew + ms).toISOString();
};

// A button that has just got another meaning is dead for a moment: see activity.js.
const settled = (page) => page.waitForTimeout(450);

async function queued(page) {
  await canPress(page, 'buy');
  await go(page).click();
  await shows(page, '#title', 'You are in the queue');
  return fake.last();
}

async function confirmed(page, payMs) {
  fake.confirm(await queued(page), payMs);
  await shows(page, '#title', 'You got it');
  await settled(page);
}

// ---- Before the start ----

// The browser's clock is an hour and a half behind the server's, and is not asked.
test('the countdown goes by the server clock', async () => {
  fake.skew = 5400e3;
  startsIn(252e3);
  const page = await visit();
  await shows(page, '#go', /Starts in\s+00:04:1[0-2]/);
  assert.equal(await go(page).getAttribute('aria-disabled'), 'true');
  await go(page).click({ force: true });
  assert.equal(fake.count('POST purchases'), 0);
});

// The start is the server's to say, whatever the clock of the page makes of it.
test('it is never open early, and opens by itself', async () => {
  startsIn(3000);
  const page = await visit();
  await shows(page, '#go', 'Starts in');
  await shows(page, '#go', 'Starting now');
  assert.equal(await page.locator('#go[data-act=buy]').count(), 0);
  assert.ok(Date.now() >= Date.parse(fake.act.starts_at));
  fake.act.state = 'open';
  await canPress(page, 'buy');
});

// A hundred thousand pages must not ask in the same millisecond.
test('pages ask at the start each after a little wait of its own', async () => {
  startsIn(4000);
  const waits = {};
  for (const random of [0.1, 0.9]) {
    const page = await visit({ prepare: `Math.random = () => ${random}` });
    await shows(page, '#go', 'Starts in');
    page.on('request', (r) => {
      const wait = Date.now() - Date.parse(fake.act.starts_at);
      if (/activities\/7$/.test(r.url()) && wait >= 0) waits[random] ??= wait;
    });
  }
  await eventually(() => assert.equal(Object.keys(waits).length, 2));
  assert.ok(waits[0.9] > 430, `the patient page waited ${waits[0.9]} ms`);
  assert.ok(waits[0.9] > waits[0.1], JSON.stringify(waits));
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
    new MutationObserver(() => { if (button.dataset.act === 'pay') button.click(); }).observe(button, { attributes: true });
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
  const tab = await open(browser, fake.url + '/a/7', { context: page.context() });
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
  assert.deepEqual(tab.complaints, []);
});

test('an answer that was lost is asked for with the same key', async () => {
  let lost = 0;
  fake.answers['POST purchases'] = () => lost++ < 2 && { destroy: true };
  const page = await visit();
  await canPress(page, 'buy');
  await go(page).click();
  await shows(page, '#title', 'No answer yet');
  await shows(page, '#title', 'You are in the queue');
  assert.equal(new Set(keys()).size, 1);
  assert.equal(keys().length, 3);
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

// ---- Refusals ----

const refusals = {
  blocked: [403, 'You cannot take part'],
  not_eligible: [403, 'This sale is by invitation'],
  unauthenticated: [401, 'Please log in'],
  already_purchased: [409, 'You have already bought'],
  sold_out: [410, 'Sold out'],
  ended: [403, 'This sale has ended'],
  not_started: [403, 'It has not started yet'],
  internal: [500, 'Something went wrong on our side'],
  invalid_request: [400, 'That did not work'],
  something_new: [403, 'That did not work'],
};
for (const [reason, [status, title]] of Object.entries(refusals)) {
  test(`refused as ${reason}: in plain words`, async () => {
    fake.answers['POST purchases'] = () => fake.refuse(status, reason);
    const page = await visit();
    await canPress(page, 'buy');
    await go(page).click();
    await shows(page, '#title', title);
    const text = await page.locator('main').innerText();
    assert.doesNotMatch(text, new RegExp(`${status}|${reason.includes('_') ? reason : '_'}`), 'codes are not for buyers');
    assert.ok((await page.locator('#text').innerText()).length > 20, 'it says what can be done');
    // In the other language at once, also what has already happened.
    await page.click('#lang');
    assert.match(await page.locator('#title').innerText(), /\p{Script=Han}/u);
  });
}

for (const [reason, status] of [['rate_limited', 429], ['busy', 503], ['paused', 503]]) {
  test(`refused as ${reason}: the button says when to try again, with the same key`, async () => {
    let until = 0;
    fake.answers['POST purchases'] = () => {
      if (until) return null;
      until = Date.now() + 4000;
      return fake.refuse(status, reason, {}, { 'Retry-After': '4' });
    };
    const page = await visit();
    await canPress(page, 'buy');
    await go(page).click();
    await shows(page, '#go', /Try again in\s+4 s/);
    await go(page).click({ force: true });
    assert.equal(keys().length, 1, 'pressing it early does nothing');
    await canPress(page, 'buy');
    assert.ok(Date.now() >= until, 'not before the server advised');
    await shows(page, '#go', /^Try again$/);
    await go(page).click();
    await shows(page, '#title', 'You are in the queue');
    assert.equal(new Set(keys()).size, 1);
  });
}

test('bought before, in another browser: that order is shown', async () => {
  const first = await visit();
  await confirmed(first);
  const { buyer } = fake.last();
  const page = await visit({ prepare: `localStorage.setItem('seckill.buyer', '${buyer}')` });
  await canPress(page, 'buy');
  await go(page).click();
  await shows(page, '#text', 'You had bought this already');
  await shows(page, '#figure', /Order\s+4001/);
});

test('a ticket that fails says why, and the buyer may try again', async () => {
  const page = await visit();
  const ticket = await queued(page);
  fake.move(ticket, { state: 'failed', reason: 'internal' });
  await shows(page, '#title', 'Something went wrong on our side');
  await go(page).click();
  await shows(page, '#title', 'You are in the queue');
  assert.equal(new Set(keys()).size, 2);
  fake.move(fake.last(), { state: 'failed', reason: 'sold_out' });
  await shows(page, '#title', 'Sold out');
  await page.reload();
  await shows(page, '#go', 'Buy now');
  await new Promise((done) => { setTimeout(done, 500); });
  assert.equal(await page.locator('#panel').isVisible(), false, 'it is over and done with');
});

test('a ticket that the server lost says so, unless an order came of it', async () => {
  const page = await visit();
  const ticket = await queued(page);
  fake.tickets.delete(ticket.ticket);
  fake.cutStreams();
  await shows(page, '#title', 'Your place was lost');
  await go(page).click();
  await eventually(() => assert.equal(fake.tickets.size, 1));
  const second = fake.last();
  fake.events = false;
  fake.cutStreams();
  fake.answers['GET ticket'] = () => fake.refuse(404, 'not_found');
  fake.confirm(second);
  await shows(page, '#title', 'You got it');
});

// ---- Connections ----

test('without a stream of events the page asks, as often as it is told', async () => {
  fake.events = false;
  fake.ahead = 9;
  const page = await visit();
  const ticket = await queued(page);
  fake.move(ticket, { ahead: 4 });
  await shows(page, '#figure', /Your place\s+5/);
  await eventually(() => assert.ok(fake.count('GET ticket') > 4));
  const polls = fake.requests.filter((r) => r.name === 'GET ticket').map((r) => r.at);
  for (let i = 1; i < polls.length; i++) assert.ok(polls[i] - polls[i - 1] >= 290, `asked again after ${polls[i] - polls[i - 1]} ms`);
  fake.confirm(ticket);
  await shows(page, '#title', 'You got it');
});

// Some proxies hold a stream back until it ends.
test('a stream that stays silent is given up', async () => {
  fake.answers['GET events'] = () => new Promise(() => {});
  fake.ahead = 3;
  const page = await visit();
  const ticket = await queued(page);
  fake.confirm(ticket);
  await shows(page, '#title', 'You got it');
});

test('when the connection is cut, the last known state stays, and it goes on by itself', async () => {
  fake.ahead = 20;
  const page = await visit();
  const ticket = await queued(page);
  await eventually(() => assert.equal(fake.streams.size, 1));
  fake.move(ticket, { ahead: 18 });
  await shows(page, '#figure', /Your place\s+19/);
  fake.down = true;
  fake.cutStreams();
  await shows(page, '#connection', 'Reconnecting');
  await shows(page, '#figure', /Your place\s+19/);
  ticket.ahead = 6;
  fake.down = false;
  await shows(page, '#figure', /Your place\s+7/);
  await eventually(async () => assert.equal(await page.locator('#connection').isVisible(), false));
  const resumed = fake.requests.filter((r) => r.name === 'GET events').at(-1);
  assert.match(resumed.headers['last-event-id'], /^\d+$/);
});

test('the browser going offline is said, and the first answer afterwards takes it back', async () => {
  const page = await visit();
  await canPress(page, 'buy');
  await page.context().setOffline(true);
  await shows(page, '#connection', 'Reconnecting');
  await shows(page, '#name', 'Walnut desk lamp');
  await page.context().setOffline(false);
  await eventually(async () => assert.equal(await page.locator('#connection').isVisible(), false));
});

// ---- Challenge and token ----

const sha = (text) => createHash('sha256').update(text).digest('hex');

test('a challenge is solved by itself, and its token is used once', async () => {
  fake.act.challenge = true;
  const number = 31337;
  const salt = 'a1b2c3?expires=9999999999';
  fake.answers['GET challenge'] = () => ({ data: { algorithm: 'SHA-256', challenge: sha(salt + number), maxnumber: 50000, salt, signature: 'signed' } });
  fake.answers['POST entry'] = (r) => ({ data: { entry_token: 'for ' + JSON.parse(atob(r.body.proof)).number, expires_at: fake.act.ends_at } });
  const page = await visit();
  await canPress(page, 'buy');
  await go(page).click();
  await shows(page, '#title', /A short check|You are in the queue/);
  await shows(page, '#title', 'You are in the queue');
  const proof = JSON.parse(atob(fake.requests.find((r) => r.name === 'POST entry').body.proof));
  assert.deepEqual([proof.algorithm, proof.challenge, proof.number, proof.salt, proof.signature], ['SHA-256', sha(salt + number), number, salt, 'signed']);
  assert.deepEqual(fake.requests.find((r) => r.name === 'POST purchases').body, { quantity: 1, entry_token: 'for 31337' });
});

test('a challenge that is asked for only at the purchase is solved as well', async () => {
  const salt = 'salt';
  fake.answers['GET challenge'] = () => ({ data: { algorithm: 'SHA-256', challenge: sha(salt + 5), maxnumber: 1000, salt, signature: 's' } });
  fake.answers['POST entry'] = () => ({ data: { entry_token: 'token' } });
  fake.answers['POST purchases'] = (r) => r.body.entry_token ? null : fake.refuse(428, 'challenge_required');
  const page = await visit();
  await queued(page);
  assert.equal(new Set(keys()).size, 1);
});

test('a shop that embeds the page gives it a token', async () => {
  const page = await visit({ prepare: "localStorage.setItem('seckill.token', 'abc.def.ghi')" });
  await queued(page);
  const request = fake.requests.find((r) => r.name === 'POST purchases');
  assert.equal(request.headers.authorization, 'Bearer abc.def.ghi');
  assert.equal(request.headers['x-user-id'], undefined);
  assert.equal(fake.requests.find((r) => r.name === 'GET events').headers.authorization, 'Bearer abc.def.ghi');
  assert.equal(await page.locator('#who-text').innerText(), 'You are logged in at the shop.');
});

// ---- The sale itself ----

test('a sale that is sold out opens again by itself', async () => {
  Object.assign(fake.act, { state: 'sold_out', remaining: 0 });
  const page = await visit();
  await shows(page, '#title', 'Sold out');
  await shows(page, '#left', 'None left');
  assert.equal(await go(page).getAttribute('aria-disabled'), 'true');
  Object.assign(fake.act, { state: 'open', remaining: 1 });
  await canPress(page, 'buy');
});

for (const [state, title] of [['paused', 'The sale is paused'], ['ended', 'This sale has ended']]) {
  test(`a sale that is ${state} says so`, async () => {
    fake.act.state = state;
    const page = await visit();
    await shows(page, '#title', title);
    assert.equal(await go(page).getAttribute('aria-disabled'), 'true');
  });
}

test('a new run begins anew', async () => {
  const page = await visit();
  await confirmed(page);
  fake.act.run = 2;
  await canPress(page, 'buy');
});

test('a sale that there is not is said to be missing', async () => {
  for (const path of ['/a/99', '/a/none-such']) {
    const page = await visit({ path });
    await shows(page, '#name', 'There is no such sale');
    await settled(page);
    await go(page).click();
    await shows(page, '.card h2', 'Walnut desk lamp');
  }
});

test('another buyer has another ticket, and the first keeps his', async () => {
  const page = await visit();
  await confirmed(page);
  const first = fake.last().buyer;
  await page.click('#who-change');
  await page.fill('#who-id', 'somebody else');
  await page.click('#who-save');
  await canPress(page, 'buy');
  await page.click('#who-change');
  await page.fill('#who-id', '你好');
  await page.click('#who-save');
  assert.equal(await page.getAttribute('#who-id', 'aria-invalid'), 'true');
  await page.fill('#who-id', first);
  await page.click('#who-save');
  await shows(page, '#title', 'You got it');
});

test('the list leads to each sale', async () => {
  fake.others = [{ ...fake.act, id: 8, name: '限量版游戏机', state: 'sold_out' }];
  const page = await visit({ path: '/' });
  await shows(page, '.card:nth-child(2) .standing', 'Sold out');
  await page.click('text=Walnut desk lamp');
  await canPress(page, 'buy');
});

// ---- Languages, and everybody ----

test('the language is the browser’s, can be changed, and stays', async () => {
  const page = await visit({ lang: 'zh-CN' });
  await shows(page, '#go', '立即抢购');
  assert.equal(await page.getAttribute('html', 'lang'), 'zh-CN');
  await page.click('#lang');
  await shows(page, '#go', 'Buy now');
  assert.equal(await page.getAttribute('html', 'lang'), 'en');
  await page.reload();
  await shows(page, '#go', 'Buy now');
  await page.goto(fake.url + '/');
  await shows(page, '#heading', 'Sales');
});

test('a language that the page does not speak gets English', async () => {
  const page = await visit({ lang: 'fr-FR' });
  await shows(page, '#go', 'Buy now');
});

test('without JavaScript it says, in both languages, what is missing', async () => {
  const page = await visit({ javaScriptEnabled: false });
  const text = await page.locator('body').innerText();
  assert.match(text, /needs JavaScript/);
  assert.match(text, /需要启用 JavaScript/);
  assert.equal(await go(page).isVisible(), false);
});

test('changes are announced politely', async () => {
  startsIn(3000);
  const page = await visit();
  await shows(page, '#go', 'Starts in');
  fake.act.state = 'open';
  const live = page.locator('[role=status][aria-live=polite]');
  await eventually(async () => assert.equal(await live.textContent(), 'The sale is open. You can buy now.'));
  await go(page).click();
  await eventually(async () => assert.match(await live.textContent(), /You are next|You are in the queue/));
  fake.confirm(fake.last());
  await eventually(async () => assert.match(await live.textContent(), /You got it/));
});

test('nothing moves for who wants no movement', async () => {
  fake.ahead = 10;
  for (const [still, want] of [[true, 0], [false, 1]]) {
    fake.answers['POST purchases'] = () => new Promise(() => {});
    const page = await visit({ still });
    await canPress(page, 'buy');
    await go(page).click();
    await shows(page, '#title', 'Sending your order');
    const moving = await page.evaluate(() => document.getAnimations().filter((a) => a instanceof CSSAnimation).length);
    assert.equal(moving, want);
  }
});

// Every state, at the narrowest width that WCAG asks for: no scrolling sideways,
// and targets that a thumb hits. In light and dark, audited by axe-core.
for (const [name, options] of Object.entries({
  'English, light, phone': {}, 'Chinese, dark, phone': { lang: 'zh-CN', dark: true },
  'Chinese, light, desktop': { lang: 'zh-CN', size: desktop }, 'English, dark, 320 px': { dark: true, size: { width: 320, height: 640 } },
})) {
  test(`accessibility: ${name}`, async () => {
    const check = async (page, state) => {
      await audit(page, `${name}, ${state}`);
      const { wide, small } = await page.evaluate(() => ({
        wide: document.documentElement.scrollWidth - innerWidth,
        small: [...document.querySelectorAll('button, input, header a')].filter((e) => e.offsetParent && e.offsetHeight < 44).map((e) => e.id),
      }));
      assert.ok(wide <= 0, `${state}: ${wide} px too wide`);
      assert.deepEqual(small, [], `${state}: targets under 44 px`);
    };
    fake.ahead = 12345;
    fake.act.limit_per_user = 2;
    startsIn(1e8);
    const page = await visit({ size: phone, still: true, ...options });
    await page.waitForSelector('#go-digits:not(:empty)');
    await check(page, 'before');
    fake.act.state = 'open';
    await page.reload();
    await canPress(page, 'buy');
    await check(page, 'open');
    await go(page).click();
    await page.waitForSelector('#figure:not([hidden])');
    await check(page, 'queued');
    fake.confirm(fake.last());
    await canPress(page, 'pay');
    await check(page, 'unpaid');
    await settled(page);
    await page.click('#alt');
    await check(page, 'asking');
    await page.click('#ask-yes');
    await canPress(page, 'buy');
    await page.click('#who-change');
    await check(page, 'cancelled');
    fake.answers['POST purchases'] = () => fake.refuse(429, 'rate_limited', {}, { 'Retry-After': '60' });
    await go(page).click();
    await page.waitForSelector('.panel.warn');
    fake.down = true;
    await page.waitForSelector('#connection:not([hidden])');
    await check(page, 'refused and cut off');
    fake.down = false;
    Object.assign(fake.act, { state: 'sold_out', remaining: 0 });
    await page.reload();
    await page.waitForSelector('#panel:not([hidden])');
    await check(page, 'sold out');
    await page.goto(fake.url + '/');
    await page.waitForSelector('.card');
    await check(page, 'list');
  });
}
