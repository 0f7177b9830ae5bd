// Who may do what, at the console of a real server: an administrator lets a viewer and an operator in,
// each does what the role allows, and the audit log tells all of it.

import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { after, before, test } from 'node:test';
import { eventually, launch, shoot } from './help/browser.mjs';
import { login, visitors } from './help/console-real.mjs';
import { confirm, dialog, fill, press, see } from './help/console-visit.mjs';
import { buy, startServer } from './help/demo.mjs';

let browser;
let server;
let sale;
let shop; // What the shop would have: it hears of orders.
const told = [];
before(async () => {
  browser = await launch();
  shop = createServer((request, response) => {
    const chunks = [];
    request.on('data', (chunk) => chunks.push(chunk));
    request.on('end', () => {
      told.push(JSON.parse(Buffer.concat(chunks)).type);
      response.writeHead(204).end();
    });
  });
  await new Promise((done) => { shop.listen(0, '127.0.0.1', done); });
  server = await startServer('--limit-ip', 'off', '--webhook-private');
  sale = await server.sell({ stock: 10 });
});
after(async () => {
  await browser?.close();
  await server?.stop();
  shop?.close();
  shop?.closeAllConnections();
});

const vera = ['vera', 'only looks at it'];
const olga = ['olga', 'runs the evening'];
const acts = /^(Pause|Resume|Restock|Close$|Preload|Run again|Repair|Drop|Retry|Remove|Add a|Create a|Change|Schedule…|Cancel the|Mark as|Let through|Open challenge|Hold|Test|New secret|Enable|Send again)/;
const places = ['/', '/activities', '/activities/1', '/orders?buyer=ann', '/switches', '/dead-letters', '/reconcile?activity=1', '/access', '/nodes', '/webhooks', '/plan', '/audit'];

// forge asks, from within the page, for what its buttons do not offer. csrf is what the session says.
const forge = (page, method, path, body, csrf) => page.evaluate(async ([method, path, body, csrf]) => {
  const token = csrf ?? (await (await fetch('/admin/v1/session')).json()).csrf;
  const answer = await fetch('/admin/v1/' + path, { method, headers: { 'Content-Type': 'application/json', 'X-CSRF-Token': token }, body: body && JSON.stringify(body) });
  return [answer.status, (await answer.json().catch(() => ({}))).reason];
}, [method, path, body, csrf]);

test('an administrator, an operator, a viewer, and a stranger', async (t) => {
  assert.equal((await buy(server, sale.id, 'ann')).status, 202);
  const seats = visitors(browser, server);
  const { sit, go } = seats;
  const admin = await sit();

  await t.test('the administrator gives accounts, and hears at the field what is wrong', async () => {
    await go(admin, '/accounts', 'Accounts');
    await see(admin, '.empty', 'There are no accounts yet');
    for (const [[name, password], role] of [[vera, 'viewer'], [olga, 'operator']]) {
      await press(admin, 'Add an account');
      await fill(admin, { name, password: 'short' });
      await admin.click(dialog + ' .el-select');
      await admin.locator('.el-select-dropdown__item', { hasText: role + ' ·' }).filter({ visible: true }).click();
      await confirm(admin, 'Add an account', 'for the evening');
      await see(admin, dialog + ' .field:has(#f-password)', /12/);
      await fill(admin, { password });
      await confirm(admin, 'Add an account', 'for the evening');
      await see(admin, 'tbody tr', new RegExp(`${name}\\s*${role}[^]*enabled`));
    }
  });

  await t.test('who does not know the password is told so, in both languages', async () => {
    const stranger = await sit({ as: null });
    await login(stranger, ['vera', 'a guess of mine']);
    await see(stranger, '.wrong', 'wrong, or the account is disabled');
    await login(stranger, ['nobody', 'a guess of mine']);
    await see(stranger, '.wrong', 'wrong, or the account is disabled');
    await press(stranger, '中文');
    await login(stranger, 'a guess');
    await see(stranger, '.wrong', '令牌不对');
    assert.deepEqual(await forge(stranger, 'GET', 'accounts', undefined, ''), [401, 'unauthenticated']);
  });

  const viewer = await sit({ as: vera });
  await t.test('the viewer sees everything but accounts, and finds no button that changes anything', async () => {
    await see(viewer, '.who', /vera\s*viewer/);
    await see(viewer, '.stream', 'live');
    for (const place of places) {
      await viewer.goto(server.admin + '/#' + place);
      await viewer.waitForSelector('h1');
      await viewer.waitForSelector('[aria-busy=true]', { state: 'detached' });
      await viewer.waitForTimeout(150);
      const found = (await viewer.locator('main button').allInnerTexts()).filter((b) => acts.test(b));
      assert.deepEqual(found, [], place);
      assert.equal(await viewer.locator('.el-alert--error').count(), 0, place);
    }
    await see(viewer, 'tbody', /account added[^]*admin-token|admin-token[^]*account added/);
    assert.equal(await viewer.locator('nav a[href="#/accounts"]').count(), 0);
    await go(viewer, '/accounts', 'Accounts');
    await see(viewer, '.el-alert--error', 'Your role may not do this.');
    await shoot(viewer, 'console-roles-forbidden-en-laptop');
  });

  await t.test('what the viewer forges is refused', async () => {
    for (const [method, path, body] of [
      ['POST', 'activities/1/pause', { reason: 'x' }], ['PUT', 'switches/intake', { value: false, reason: 'x' }], ['POST', 'blocks', { kind: 'user', value: 'ann', reason: 'x' }],
      ['POST', 'activities/1/reconcile', { repair: true, reason: 'x' }], ['GET', 'accounts'], ['POST', 'accounts', { name: 'eve', password: 'twelve letters', role: 'admin' }], ['PUT', 'accounts/vera', { role: 'admin' }],
    ]) assert.deepEqual(await forge(viewer, method, path, body), [403, 'forbidden'], `${method} ${path}`);
    assert.deepEqual(await forge(viewer, 'POST', 'activities/1/reconcile', { repair: false }), [200, undefined]);
  });

  const operator = await sit({ as: olga });
  await t.test('the operator pauses and switches, and manages no accounts', async () => {
    assert.deepEqual(await forge(operator, 'PUT', 'switches/intake', { value: false, reason: 'x' }, 'made up'), [403, 'forbidden'], 'a page that does not know what the session says');
    await go(operator, '/activities/1', 'Walnut lamp');
    await press(operator, 'Pause');
    await confirm(operator, 'Pause', 'the price is wrong');
    await see(operator, '.under .state', /^paused$/);
    await eventually(async () => assert.equal((await buy(server, sale.id, 'bo')).reason, 'paused'));
    await press(operator, 'Resume');
    await confirm(operator, 'Resume', 'the price is right');
    await go(operator, '/', 'Walnut lamp');
    await press(operator, 'Open challenge for all');
    await confirm(operator, 'Open challenge for all', 'robots');
    await see(operator, '.changed', /Challenge/);
    await go(operator, '/access', 'Access');
    await press(operator, 'Add a block');
    await fill(operator, { value: '203.0.113.9' });
    await confirm(operator, 'Add a block', 'a farm');
    await see(operator, 'tbody tr', /203\.0\.113\.9[^]*olga/);
    assert.equal(await operator.locator('nav a[href="#/accounts"]').count(), 0);
    assert.deepEqual(await forge(operator, 'DELETE', 'accounts/vera', {}), [403, 'forbidden']);
    assert.deepEqual(await forge(operator, 'POST', 'webhooks', { url: 'https://shop.example/' }), [403, 'forbidden']);
  });

  await t.test('the administrator says who is told, the operator tests it, and both see what was sent', async () => {
    await go(admin, '/webhooks', 'Webhooks');
    await press(admin, 'Add a webhook');
    await fill(admin, { url: `http://127.0.0.1:${shop.address().port}/hooks` });
    await confirm(admin, 'Add a webhook', 'the shop');
    await see(admin, '.notice', /whsec_/);
    await go(operator, '/webhooks', 'Webhooks');
    const row = operator.locator('tbody tr', { hasText: '/hooks' });
    await row.getByRole('button', { name: 'Test' }).click();
    await confirm(operator, 'Test');
    await see(operator, '.el-message', /Received: status 204/);
    assert.deepEqual([await row.getByRole('button', { name: 'Remove' }).count(), await row.getByRole('button', { name: 'New secret' }).count()], [0, 0]);
    await go(operator, '/orders?buyer=ann', 'Orders');
    await press(operator, 'Mark as paid');
    await fill(operator, { payment_ref: 'pay-1' });
    await confirm(operator, 'Mark as paid', 'by transfer');
    await eventually(() => assert.deepEqual(told, ['webhook.test', 'order.paid']));
    await admin.locator('tbody tr', { hasText: '/hooks' }).getByRole('button', { name: 'Deliveries' }).click();
    await see(admin, '.sent tbody', /order paid[^]*delivered/);
    await shoot(admin, 'console-roles-webhooks-en-laptop');
    await go(admin, '/accounts', 'Accounts');
  });

  await t.test('an account that is disabled is out at once, is told, and is back where it was when it may', async () => {
    await go(operator, '/dead-letters', 'Dead letters');
    const row = admin.locator('tbody tr', { hasText: 'olga' });
    await row.getByRole('button', { name: 'Disable' }).click();
    await confirm(admin, 'Disable', 'her shift is over');
    await see(operator, '.login .notice', 'Your session has ended.');
    await shoot(operator, 'console-roles-ended-en-laptop');
    await press(operator, '中文');
    await see(operator, '.login .notice', '登录已失效');
    await press(operator, 'English');
    await login(operator, olga);
    await see(operator, '.wrong', 'the account is disabled');
    await row.getByRole('button', { name: 'Enable' }).click();
    await confirm(admin, 'Enable');
    await login(operator, olga);
    await see(operator, 'h1', 'Dead letters');
  });

  await t.test('the audit log tells all of it, by name', async () => {
    await press(viewer, 'Log out');
    await viewer.waitForSelector('.login');
    assert.equal(await viewer.locator('.notice').count(), 0, 'who leaves needs no telling');
    await go(admin, '/audit', 'Audit');
    await see(admin, 'tbody', /logged out/);
    const rows = (await admin.locator('tbody tr').allInnerTexts()).map((r) => r.replace(/\s+/g, ' '));
    for (const want of [
      /admin-token 127\.0\.0\.1 logged in/, /admin-token 127\.0\.0\.1 account added account\/vera for the evening/, /admin-token .*account added account\/olga/, /vera .*log-in refused/, /vera .*logged in/, /vera .*logged out/,
      /olga .*paused activity\/1 the price is wrong/, /olga .*resumed activity\/1 the price is right/, /olga .*switched switch\/challenge robots/, /olga .*blocked .*a farm/, /admin-token .*account changed account\/olga her shift is over/, /olga .*log-in refused/,
      /admin-token .*webhook added .*the shop/, /olga .*webhook tested/, /olga .*order paid .*by transfer/,
    ]) assert.ok(rows.some((r) => want.test(r)), `${want} in\n${rows.join('\n')}`);
    assert.ok(!rows.some((r) => / x /.test(r)), 'what was refused changed nothing');
    await shoot(admin, 'console-roles-audit-en-laptop');
    await press(admin, '中文');
    await see(admin, 'tbody', /登录被拒/);
    assert.doesNotMatch(await admin.locator('tbody').innerText(), /\b(session|account|switch|block)\.\w/, 'no codes');
    seats.quiet();
  });
});
