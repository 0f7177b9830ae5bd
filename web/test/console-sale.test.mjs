// A whole sale watched in the console, against bin/seckill demo, while 2,000 buyers rush in; and then
// what an operator does afterwards. Pictures are left in the folder screenshots.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { audit, eventually, launch, shoot } from './help/browser.mjs';
import { visitors } from './help/console-real.mjs';
import { confirm, dialog, fill, press, see, sideways, tick } from './help/console-visit.mjs';
import { buy, startDemo } from './help/demo.mjs';

let browser;
let demo;
let seats;

before(async () => {
  browser = await launch();
  demo = await startDemo('--starts-in', '25s', '--stock', '200', '--buyers', '2000');
  seats = visitors(browser, demo);
});
after(async () => {
  await browser?.close();
  await demo?.stop();
});

const term = (page, name) => page.locator(`.books .term.${name} b`).innerText().then((t) => Number(t.replace(/\D/g, '')));
const click = (buyer) => buy(demo, 1, buyer);

test('a sale, from before the start to the books afterwards', async (t) => {
  const { sit, go } = seats;
  const page = await sit();
  const phone = await sit({ size: sideways, lang: 'zh-CN', dark: true });

  await t.test('all is for sale before the start', async () => {
    await see(page, '.state', /scheduled|ready/);
    await eventually(async () => assert.deepEqual([await term(page, 'total'), await term(page, 'available')], [200, 200]));
    await see(page, '.verdict', 'balanced');
  });

  await t.test('the stock falls while buyers rush in, and the books balance at the end', async () => {
    await see(page, '.state', /open|sold out/);
    const seen = [];
    await eventually(async () => {
      const now = Object.fromEntries(await Promise.all(['total', 'available', 'queued', 'awaiting_payment', 'paid', 'dead'].map(async (n) => [n, await term(page, n)])));
      seen.push(now);
      assert.deepEqual(now, { total: 200, available: 0, queued: 0, awaiting_payment: 200, paid: 0, dead: 0 });
    });
    await see(page, '.verdict', /^balanced$/);
    await see(page, '.state', 'sold out');
    await see(phone, '.verdict', '账目平衡');
    await see(page, '.chart', /Requests[^]*accepted[^]*sold out/);
    await shoot(page, 'console-sale-sold-out-en-laptop');
    await shoot(phone, 'console-sale-sold-out-zh-phone-dark');
    await audit(page, 'sold out');
  });

  await t.test('restocked, the sale goes on', async () => {
    await go(page, '/activities/1', 'Demo kettle');
    await press(page, 'Restock');
    await fill(page, { quantity: '20' });
    await confirm(page, 'Restock', 'found a box');
    await eventually(async () => assert.deepEqual([await term(page, 'total'), await term(page, 'available')], [220, 20]));
    await see(page, '.recent', /restocked[^]*found a box/);
    assert.equal((await click('ann')).status, 202);
    await eventually(async () => assert.deepEqual([await term(page, 'available'), await term(page, 'awaiting_payment')], [19, 201]));
  });

  await t.test('the buyer’s order is found, and marked as paid', async () => {
    await go(page, '/orders?buyer=ann', 'Orders');
    await page.locator('tbody tr').getByRole('button', { name: 'Mark as paid' }).click();
    await fill(page, { payment_ref: 'pay-1' });
    await confirm(page, 'Mark as paid', 'cash');
    await see(page, 'tbody .state', /^paid$/);
  });

  await t.test('switches and blocks reach the buyers', async () => {
    await go(page, '/switches', 'Switches');
    await press(page, 'Pause intake');
    await page.waitForSelector(dialog + ' .effect');
    await confirm(page, 'Pause intake', 'price is wrong');
    await eventually(async () => assert.equal((await click('bo')).reason, 'paused'));
    await press(page, 'Resume intake');
    await confirm(page, 'Resume intake', 'price is right');
    await eventually(async () => assert.equal((await click('bo')).status, 202));

    await go(page, '/access', 'Access');
    await press(page, 'Add a block');
    await page.click(dialog + ' .el-select');
    await page.click('.el-select-dropdown__item:has-text("buyer")');
    await fill(page, { value: 'cy' });
    await tick(page, 'ends');
    await confirm(page, 'Add a block', 'a bot');
    await eventually(async () => assert.equal((await click('cy')).reason, 'blocked'));
    await page.locator('tbody tr', { hasText: 'cy' }).getByRole('button', { name: 'Remove' }).click();
    await confirm(page, 'Remove');
    await eventually(async () => assert.equal((await click('cy')).status, 202));
  });

  await t.test('what is wrong with a new activity is said by the server, at its field', async () => {
    await go(page, '/activities', 'Activities');
    await press(page, 'Create an activity');
    await fill(page, { name: 'Kettle II', stock: '999999999999' });
    await confirm(page, 'Create an activity');
    await see(page, dialog + ' .field:has(#f-stock) .el-form-item__error', /./);
    await fill(page, { stock: '5', price_cents: '19.9' });
    await confirm(page, 'Create an activity');
    await see(page, 'h1', 'Kettle II');
    await see(page, '.facts', '¥19.90');
    for (const [command, state] of [['Preload', 'ready'], ['Pause', 'paused'], ['Resume', 'ready'], ['Close', 'ended']]) {
      await press(page, command);
      await confirm(page, command, 'rehearsal');
      await see(page, '.under .state', new RegExp(`^${state}$`));
    }
    await press(page, 'Run again');
    await fill(page, { stock: '7' });
    await confirm(page, 'Run again', 'for real');
    await see(page, '.under', 'run 2');
    await eventually(async () => assert.equal(await term(page, 'total'), 7));
  });

  await t.test('nothing differs, and everything is in the audit log', async () => {
    await go(page, '/reconcile?activity=1', 'Reconciliation');
    // The run has just begun: who hears that something still moves asks again.
    await eventually(async () => {
      await press(page, 'Compare');
      await see(page, '.verdict', 'balanced', 3000);
    });
    await see(page, '.findings', 'Nothing differs.');
    await go(page, '/audit', 'Audit');
    await see(page, 'tbody', /run again[^]*for real[^]*closed[^]*resumed[^]*paused[^]*preloaded[^]*created[^]*restocked[^]*found a box/);
    await go(page, '/dead-letters', 'Dead letters');
    await see(page, '.empty', 'No dead letters.');
  });

  await t.test('neither browser complained, or asked anybody else', () => {
    seats.quiet();
  });
});
