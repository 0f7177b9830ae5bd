// The buyer page and a real server that asks for a proof of work, for an entry token, or says no: what
// the page does by itself, and what it tells the buyer, in both languages.

import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';
import { audit, desktop, eventually, launch, open, phone, shoot } from './help/browser.mjs';
import { startServer } from './help/demo.mjs';

let browser;
let server;
let pages = [];
before(async () => {
  browser = await launch();
  server = await startServer('--limit-ip', 'off', '--limit-device', '1/s:6', '--challenge-difficulty', '300000');
});
after(async () => {
  await browser?.close();
  await server?.stop();
});
afterEach(async () => {
  const complaints = pages.flatMap((page) => page.complaints);
  for (const page of pages) await page.context().close();
  pages = [];
  assert.deepEqual(complaints, [], 'the browser complained');
});

// Opens the page of a sale as a buyer of his own, and notes all that it asks for and shows.
async function arrive(sale, options) {
  const page = await open(browser, null, { size: phone, ...options });
  pages.push(page);
  page.asked = [];
  page.on('response', (r) => {
    const m = /\/v1\/activities\/\d+\/(challenge|entry|purchases)$/.exec(r.url());
    if (m) page.asked.push(m[1] + ' ' + r.status());
  });
  await page.addInitScript(() => {
    globalThis.seen = { titles: [], levels: [] };
    document.addEventListener('DOMContentLoaded', () => {
      const [title, level] = ['title', 'bar-level'].map((id) => document.getElementById(id));
      new MutationObserver(() => globalThis.seen.titles.push(title.textContent)).observe(title, { childList: true });
      new MutationObserver(() => globalThis.seen.levels.push(Number.parseFloat(level.style.width) || 0)).observe(level, { attributes: true });
    });
  });
  await page.goto(`${server.shop}/a/${sale.id}`);
  await page.waitForSelector('#go[data-act=buy]');
  return page;
}
const shows = (page, selector, text) => eventually(async () => assert.match(await page.locator(selector).innerText(), text));
const kept = (page, name) => page.evaluate((n) => localStorage.getItem('seckill.' + n), name);
// A button that has just got another meaning is dead for a moment: see activity.js.
const settled = (page) => page.waitForTimeout(450);

const post = (path, headers, body) => fetch(`${server.shop}/v1/activities/${path}`, {
  method: 'POST', headers: { 'Content-Type': 'application/json', 'Idempotency-Key': 'k' + Math.random(), ...headers }, body: JSON.stringify(body),
});

test('the browser solves what is asked, shows how far it is, and buys', async () => {
  const sale = await server.sell({ challenge: true });
  const refused = await (await post(sale.id + '/purchases', { 'X-User-Id': 'script' }, { quantity: 1 })).json();
  assert.equal(refused.reason, 'challenge_required', 'a script that solves nothing buys nothing');
  const page = await arrive(sale, { lang: 'zh-CN' });
  await page.click('#go');
  await shows(page, '#title', /快速验证/);
  await shoot(page, 'entry-1-check-zh-phone');
  await audit(page, 'the check');
  await shows(page, '#title', /抢到了/);
  assert.deepEqual(page.asked, ['challenge 200', 'entry 200', 'purchases 202']);
  const { levels } = await page.evaluate(() => globalThis.seen);
  const steps = levels.filter((v, i) => v > 0 && v !== levels[i - 1]);
  assert.ok(steps.length > 2 && steps.every((v, i) => !i || v > steps[i - 1]), `the bar: ${levels}`);
  await settled(page);
  await page.click('#go');
  await shows(page, '#title', /付款成功/);
});

test('an entry is taken without work where only that is asked', async () => {
  const sale = await server.sell({ entry_token: true });
  const page = await arrive(sale, { size: desktop, dark: true });
  await page.click('#go');
  await shows(page, '#title', /You got it/);
  assert.deepEqual(page.asked, ['entry 200', 'purchases 202']);
  assert.ok(!(await page.evaluate(() => globalThis.seen.titles)).includes('A short check'));
});

// Somebody, in another tab perhaps, has used the entry that the page has got.
for (const challenge of [false, true]) {
  test(`an entry that is used up already is replaced by itself, ${challenge ? 'with' : 'without'} a challenge`, async () => {
    const sale = await server.sell({ entry_token: true, challenge, limit_per_user: 2 });
    const page = await arrive(sale);
    let used = 0;
    await page.route('**/entry', async (route) => {
      const response = await route.fetch();
      if (!used++) {
        const { entry_token: token } = await response.json();
        const first = await post(sale.id + '/purchases', { 'X-User-Id': await kept(page, 'buyer') }, { quantity: 1, entry_token: token });
        assert.equal(first.status, 202);
      }
      await route.fulfill({ response });
    });
    await page.click('#go');
    await shows(page, '#title', /You got it/);
    const purchases = page.asked.filter((a) => a.startsWith('purchases'));
    assert.deepEqual(purchases, ['purchases 409', 'purchases 202']);
    assert.equal(used, 2);
  });
}

test('the switch for everybody is heard of by a page that is open already', async () => {
  const sale = await server.sell({});
  const page = await arrive(sale);
  await server.ask('PUT', 'switches/challenge', { value: true, reason: 'robots' });
  await page.click('#go');
  await shows(page, '#title', /You got it/);
  assert.ok((await page.evaluate(() => globalThis.seen.titles)).includes('A short check'));
  await server.ask('PUT', 'switches/challenge', { value: false, reason: 'they are gone' });
});

const turn = (name, value) => server.ask('PUT', 'switches/' + name, { value, reason: 'a test' });
const heard = async (sale, want) => eventually(async () => {
  const { reason } = await (await post(sale.id + '/purchases', { 'X-User-Id': 'probe' }, { quantity: 1 })).json();
  assert.equal(reason, want);
});
// Each makes the server refuse the buyer of a page, and answers how to undo it.
const refusals = {
  blocked: { titles: [/You cannot take part/, /您无法参与此活动/], make: async (page) => {
    await server.ask('POST', 'blocks', { kind: 'user', value: await kept(page, 'buyer'), reason: 'a test' });
    await page.waitForTimeout(1000); // Every node knows within a second.
  } },
  // Until a node has read the list it answers busy.
  not_eligible: { sale: { audience: 'listed' }, titles: [/This sale is by invitation/, /本活动仅限受邀用户/], make: async (page, sale) => { await heard(sale, 'not_eligible'); } },
  paused: { titles: [/The sale is paused/, /活动暂停/], again: true, make: async (page, sale) => {
    await turn('intake', false);
    await heard(sale, 'paused');
    return () => turn('intake', true);
  } },
  busy: { titles: [/Very many people are here/, /现在人数较多/], again: true, make: async (page, sale) => {
    await turn('admission_percent', 0);
    await heard(sale, 'busy');
    return () => turn('admission_percent', 100);
  } },
  rate_limited: { titles: [/A little too fast/, /操作太频繁/], again: true, make: async (page, sale) => {
    await page.evaluate(() => localStorage.setItem('seckill.device', 'a-farm'));
    const click = async () => (await (await post(sale.id + '/purchases', { 'X-User-Id': 'u' + Math.random(), 'X-Device-Id': 'a-farm' }, { quantity: 1 })).json()).reason;
    await eventually(async () => assert.equal(await click(), 'rate_limited'));
    const flood = setInterval(click, 25); // Four times as fast as he may, as the machine may be slow.
    return () => clearInterval(flood);
  } },
};
for (const [reason, { sale: activity, titles, again, make }] of Object.entries(refusals)) {
  test(`refused as ${reason} by the server: plain words, in both languages`, async () => {
    const sale = await server.sell({ ...activity });
    const page = await arrive(sale);
    const undo = await make(page, sale);
    try {
      await page.click('#go');
      await shows(page, '#title', titles[0]);
      await shoot(page, `entry-2-${reason}-en-phone`);
      await page.click('#lang');
      await shows(page, '#title', titles[1]);
      await shoot(page, `entry-2-${reason}-zh-phone`);
      assert.doesNotMatch(await page.locator('main').innerText(), new RegExp(reason), 'codes are not for buyers');
    } finally {
      await undo?.();
    }
    if (!again) return;
    await page.waitForSelector('#go[data-act=buy]');
    await settled(page);
    await eventually(async () => {
      if (await page.locator('#go[data-act=buy]').count()) await page.click('#go');
      assert.match(await page.locator('#title').innerText(), /抢到了/);
    });
  });
}
