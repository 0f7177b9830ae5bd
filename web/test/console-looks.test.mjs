// How the console looks and can be used: each page in English on a laptop, and in Chinese
// and dark on a phone held sideways; audited by axe-core, and left as pictures in the folder screenshots.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { audit, eventually, shoot } from './help/browser.mjs';
import { dialog, enter, fake, see, setup, sideways } from './help/console-visit.mjs';

setup();

const pages = ['/', '/activities', '/activities/2', '/activities/3', '/orders?buyer=buyer-7', '/switches', '/dead-letters', '/reconcile?activity=2', '/access', '/nodes', '/webhooks', '/plan', '/audit', '/accounts'];

// A few minutes of a sale, as if the console had been open: the charts have something to show.
function history() {
  const at = Date.now();
  const points = Array.from({ length: 290 }, (_, i) => {
    const s = 290 - i;
    const rush = i < 60 ? 0 : Math.exp(-(i - 60) / 70);
    const wave = 1 + 0.2 * Math.sin(i / 7) + 0.1 * Math.sin(i / 2.3);
    return {
      at: at - s * 1000, backlog: Math.round(900 * rush * wave * (i > 75 ? 1 : (i - 60) / 15 > 0 ? (i - 60) / 15 : 0)),
      outcomes: i < 60 ? { not_started: Math.round(60 * wave + i * 2) } : { accepted: Math.round(180 * wave), rate_limited: Math.round(900 * rush * wave + 150), already_purchased: Math.round(60 * wave) },
      latency: { p50: 1.3 * wave, p99: (8 + 30 * rush) * wave }, lag: i < 60 ? {} : { p50: 12 * wave, p99: (40 + 900 * rush) * wave }, stock: { 2: [i < 60 ? 1000 : Math.round(312 + 688 * Math.exp(-(i - 60) / 90)), 41] },
    };
  });
  const kept = { points, marks: [{ kind: 'guard', name: 'backlog', at: at - 205e3, detail: 'on' }, { kind: 'switch', name: 'challenge', at: at - 120e3, detail: 'true' }] };
  return `sessionStorage.setItem('seckill-console-live', ${JSON.stringify(JSON.stringify(kept))})`;
}

const name = (path) => path.replace(/^\/$/, 'overview').replace(/\?.*/, '').replace(/^\//, '').replaceAll('/', '-');

async function settle(page, path) {
  await page.goto(fake.url + '/#' + path);
  await page.waitForSelector('h1');
  await page.waitForSelector('[aria-busy=true]', { state: 'detached' });
  if (path === '/') await page.waitForSelector('.chart canvas');
  await page.evaluate(() => document.fonts.ready);
}

// Each language, each theme, and each width is in one of the two.
for (const [what, options] of Object.entries({ 'en-laptop': {}, 'zh-phone-dark': { lang: 'zh-CN', size: sideways, dark: true } })) {
  test(`each page, ${what}`, async () => {
    const page = await enter({ ...options, still: true, prepare: history() });
    for (const path of pages) {
      await settle(page, path);
      if (path.startsWith('/reconcile')) {
        await page.click('.bar-form button');
        await page.waitForSelector('.findings tbody');
      }
      await shoot(page, `console-${name(path)}-${what}`);
      await audit(page, `${path}, ${what}`);
      const { wide, raw } = await page.evaluate(() => ({
        wide: document.documentElement.scrollWidth - innerWidth,
        raw: document.body.innerText.match(/\b(?:nav|books|state|order|switch|activity|activities|dead|finding|block|node|nodes|plan|audit|account|hook|do|table|live|error|guard|role|chart)\.[a-z_]+(?:\.[a-z_]+)?\b/g)?.filter((w) => !/^activity\.[a-z]+$/.test(w)) || [],
      }));
      assert.ok(wide <= 0, `${path}: ${wide} px too wide`);
      assert.deepEqual(raw, [], `${path}: keys without words`);
    }
  });
  test(`the log-in and the dialogs, ${what}`, async () => {
    const out = await enter({ ...options, as: null, still: true });
    await shoot(out, `console-login-${what}`);
    await audit(out, `log-in, ${what}`);
    const page = await enter({ ...options, still: true });
    const look = async (picture) => {
      await page.waitForSelector(dialog + ' .ask-buttons');
      await page.waitForTimeout(400); // The effect is asked for, and shown.
      await page.screenshot({ path: new URL(`./screenshots/console-${picture}-${what}.png`, import.meta.url).pathname, animations: 'disabled' });
      await audit(page, `${picture}, ${what}`);
      await page.keyboard.press('Escape');
      await page.waitForSelector(dialog, { state: 'hidden' });
    };
    await page.locator('.acts button').first().click();
    await look('pause');
    await page.locator('.acts button').nth(2).click();
    await look('admission');
    await settle(page, '/activities');
    await page.locator('.page-acts button').click();
    await look('create');
    await settle(page, '/dead-letters');
    await page.locator('tbody tr').last().locator('button').last().click();
    await look('drop');
  });
}

test('language and theme are the browser’s first, then what was chosen, and remembered', async () => {
  const page = await enter({ lang: 'zh-CN', dark: true });
  await see(page, '.nav', /总览\s*活动/);
  assert.equal(await page.evaluate(() => document.documentElement.className + document.documentElement.lang), 'darkzh-CN');
  await page.getByRole('button', { name: 'English' }).click();
  await page.getByRole('button', { name: 'Light theme' }).click();
  await see(page, '.nav', /Overview\s*Activities/);
  assert.match(await page.title(), /^Overview · Seckill$/);
  await page.reload();
  await see(page, '.nav', /Overview\s*Activities/);
  assert.equal(await page.evaluate(() => document.documentElement.className + document.documentElement.lang), 'en');
  // An EventSource says what the browser does, and the figures it is told have no language.
  assert.equal(fake.requests.findLast((r) => r.path !== 'live').headers['accept-language'], 'en');
});

test('all is done by keyboard, and the focus comes back', async () => {
  const page = await enter({ as: 'olga' });
  await page.waitForSelector('.acts button');
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate(() => document.activeElement.className), 'skip');
  await page.keyboard.press('Enter');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'main');
  const focused = () => page.evaluate(() => document.activeElement.innerText || document.activeElement.id || document.activeElement.className);
  for (let i = 0; i < 8 && await focused() !== 'Pause intake'; i++) await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await page.waitForSelector(dialog + ' #f-reason', { state: 'visible' });
  await eventually(async () => assert.ok(await page.evaluate((d) => document.querySelector(d).parentElement.contains(document.activeElement), dialog), 'the focus is in the dialog'));
  await page.keyboard.press('Escape');
  await page.waitForSelector(dialog, { state: 'hidden' });
  await eventually(async () => assert.equal(await focused(), 'Pause intake'));
  await page.keyboard.press('Enter');
  for (let i = 0; i < 6 && await focused() !== 'f-reason'; i++) await page.keyboard.press('Tab');
  await page.keyboard.type('rehearsal');
  await page.keyboard.press('Enter');
  await see(page, '.el-message', 'Intake is now: Off');
});

test('on a phone the pages are behind a button', async () => {
  const page = await enter({ size: sideways });
  assert.equal(await page.locator('.nav').isVisible(), false);
  await page.getByRole('button', { name: 'Pages' }).click();
  await page.locator('.nav a', { hasText: 'Audit' }).click();
  await see(page, 'h1', 'Audit');
  assert.equal(await page.locator('.nav').isVisible(), false);
});

test('the charts are loaded only where they are shown', async () => {
  const page = await enter({ path: '/switches' });
  const loaded = () => page.evaluate(() => performance.getEntriesByType('resource').filter((r) => /\/Charts-.*\.js/.test(r.name)).length);
  await see(page, 'h1', 'Switches');
  assert.equal(await loaded(), 0);
  await page.click('.nav a[href="#/"]');
  await page.waitForSelector('.chart canvas');
  assert.equal(await loaded(), 1);
});
