// What the buyer page says and does when things do not go straight.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { eventually } from './help/browser.mjs';
import { canPress, confirmed, fake, go, keys, queued, settled, setup, shows, visit } from './help/visit.mjs';

setup();

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
  await eventually(() => assert.equal(fake.requests.find((r) => r.name === 'GET events')?.headers.authorization, 'Bearer abc.def.ghi'));
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
