// The buyer page for everybody: languages, screen readers, narrow screens, no script.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { audit, desktop, eventually, phone } from './help/browser.mjs';
import { bringNear, canPress, fake, go, queued, settled, setup, shows, startsIn, visit } from './help/visit.mjs';

setup();

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
  startsIn(60e3);
  const page = await visit();
  await bringNear(page, 2000);
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
