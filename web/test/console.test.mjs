// The console in a real browser, against a fake of the admin API: what an operator sees and can do,
// page by page. console-sale.test.mjs watches a real sale.

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import en from '../console/src/text/en.js';
import zh from '../console/src/text/zh.js';
import { confirm, dialog, enter, fake, fill, press, reads, see, setup, tick } from './help/console-visit.mjs';
import { eventually } from './help/browser.mjs';

const internal = fileURLToPath(new URL('../../internal/', import.meta.url));

setup();

test('both languages have the same words', () => {
  assert.deepEqual(Object.keys(zh).sort(), Object.keys(en).sort());
  for (const [key, text] of Object.entries(en)) {
    assert.ok(zh[key].trim() && text.trim(), key);
    assert.deepEqual((zh[key].match(/\{\w+\}/g) || []).sort(), (text.match(/\{\w+\}/g) || []).sort(), `what is filled in in ${key}`);
  }
});

// What the server notes, as its sources say it.
test('every action of the audit log has words', () => {
  const source = readdirSync(internal, { recursive: true }).filter((name) => name.endsWith('.go') && !name.endsWith('_test.go')).map((name) => readFileSync(internal + name, 'utf8')).join('\n');
  const noted = [...source.matchAll(/\b(?:audit|note|Note)\((?:ctx, )?(?:by, |db\.\w+, )?"(\w+\.\w+)"/g), ...source.matchAll(/"((?:activity|account|session|switch|block|dead_letter|order|reconcile|webhook)\.[a-z_]+)"/g)].map((m) => m[1]);
  const events = new Set(['activity.html', 'activity.js', 'order.write', 'order.eaten']); // Files, and what traces say.
  const actions = [...new Set(noted)].filter((name) => !events.has(name)).sort();
  assert.ok(actions.length > 30, `${actions.length} actions are too few to be true`);
  assert.deepEqual(actions.filter((name) => !(`action.${name}` in en)), []);
});

test('one logs in with the token, stays in over a reload, and leaves', async () => {
  const page = await enter({ as: null });
  await page.fill('input[name=token]', 'a guess');
  await page.keyboard.press('Enter');
  await see(page, '[role=alert]', 'That is not the token.');
  await page.fill('input[name=token]', fake.token);
  await press(page, 'Log in');
  await see(page, '.who', /admin-token\s*admin/);
  await page.reload();
  await see(page, '.who', /admin-token/);
  assert.deepEqual(await page.evaluate(() => [localStorage.length, JSON.stringify(Object.values(localStorage)).includes('token-of')]), [0, false]);
  await press(page, 'Log out');
  await page.waitForSelector('input[name=token]');
  assert.deepEqual(fake.sessions, {});
});

test('one logs in with an account; a disabled one cannot', async () => {
  fake.people.vic.disabled = true;
  const page = await enter({ as: null, path: '/audit' });
  await page.click('text=Account');
  await press(page, 'Log in');
  await see(page, '[role=alert]', 'fill in');
  for (const [name, want] of [['vic', /wrong, or the account is disabled/], ['olga', null]]) {
    await page.fill('input[name=name]', name);
    await page.fill('input[name=password]', 'correct horse');
    await press(page, 'Log in');
    if (want) await see(page, '[role=alert]', want);
  }
  await see(page, 'h1', 'Audit'); // Where she wanted to go.
  await see(page, '.who', /olga\s*operator/);
});

test('a session that ends brings back to the log-in, and then to where one was', async () => {
  const page = await enter({ as: 'olga', path: '/dead-letters' });
  await see(page, 'h1', 'Dead letters');
  fake.sessions = {};
  await see(page, '.login .notice', 'Your session has ended.');
  assert.equal(await page.inputValue('input[name=name]'), 'olga');
  await page.fill('input[name=password]', 'correct horse');
  await page.keyboard.press('Enter');
  await see(page, 'h1', 'Dead letters');
  await press(page, 'Log out');
  await page.waitForSelector('input[name=token]');
  assert.equal(await page.locator('.login .notice').count(), 0, 'who leaves knows it');
});

test('the overview shows the sale as it goes', async () => {
  const page = await enter();
  await reads(page, { total: '1,000', available: '312', queued: '41', awaiting_payment: '520', paid: '127', dead: '0' });
  await see(page, '.verdict', 'balanced');
  await see(page, '.vital', /455\/s[^]*176\/s[^]*11\.8 ms[^]*41/);
  assert.equal(await page.locator('.chart canvas').count(), 4);
  const b = fake.find('activities', 2).books;
  Object.assign(b, { available: 300, queued: 40, balanced: false });
  fake.tell();
  await reads(page, { available: '300', queued: '40' });
  await see(page, '.verdict', 'in motion');
  await see(page, '.verdict', /not balanced\s*13 units missing/); // It stays so.
  Object.assign(b, { queued: 53, balanced: true });
  fake.tell();
  await see(page, '.verdict', /^balanced$/);
});

test('a reload keeps the charts; leaving forgets them', async () => {
  fake.live.outcomes = { not_started: 9 };
  const page = await enter();
  const legend = '.chart >> nth=0';
  await see(page, legend, 'too early');
  fake.live.outcomes = { accepted: 5 };
  await see(page, '.vital', '5/s');
  await page.reload();
  await see(page, '.vital', '5/s');
  await see(page, legend, 'too early');
  await press(page, 'Log out');
  await page.waitForSelector('input[name=token]');
  assert.equal(await page.evaluate(() => sessionStorage.length), 0);
});

test('what acts by itself is said, with its figure', async () => {
  const page = await enter();
  await see(page, '.guards', /Backlog guard\s*not acting/);
  const since = new Date().toISOString();
  Object.assign(fake.guards[0], { acting: true, since, reason: 'Too many reservations wait for an order.', figure: '100412 reservations wait for an order; stops at 100000, starts again at 50000' });
  Object.assign(fake.guards[1], { acting: true, since, reason: 'no answer for 200ms' });
  fake.tell();
  await see(page, '.guards .acting', /Backlog guard[^]*100,412 wait; stops at 100,000, starts again at 50,000[^]*Too many reservations[^]*refused as busy/);
  await see(page, '.guards .acting', /Circuit breaker[^]*The stock does not answer[^]*no answer for 200ms/);
  await see(page, '.pill.guard', 'Backlog guard');
  await press(page, '中文');
  await see(page, '.guards .acting', /积压保护[^]*100,412 个在等待；到 100,000 停止，降到 50,000 恢复[^]*以“繁忙”拒绝/);
  for (const g of fake.guards) g.acting = false;
  fake.tell();
  await see(page, '.guards', /熔断\s*自 \d\d:\d\d:\d\d 起未动作/);
});

test('a stream that is cut is said to be, the books go on, and it comes back', async () => {
  const page = await enter();
  await see(page, '.stream', 'live');
  fake.liveOff = true;
  fake.cut();
  await see(page, '.stream', /no news for \d+ s/);
  await see(page, '.notice', /stopped at \d\d:\d\d:\d\d/);
  fake.find('activities', 2).books = { total: 1000, available: 7, queued: 0, awaiting_payment: 993, paid: 0, dead: 0, balanced: true };
  await reads(page, { available: '7' });
  fake.liveOff = false;
  await see(page, '.stream', 'live');
  assert.equal(await page.locator('.notice').count(), 0);
});

test('intake is paused with one click, a confirmation and a reason', async () => {
  const page = await enter({ as: 'olga' });
  await press(page, 'Pause intake');
  await see(page, dialog + ' .effect', /Buyers hear that the sale is paused[^]*Now 455 purchases a second[^]*about 455 of them would be refused/);
  await confirm(page, 'Pause intake');
  await see(page, dialog, 'This is needed.');
  assert.equal(fake.switches[0].value, true);
  await confirm(page, 'Pause intake', 'price is wrong');
  await see(page, '.el-message', 'Intake is now: Off');
  await see(page, '.acts', /Resume intake[^]*Not as usual:\s*Intake: Off/);
  await see(page, '.recent', /switched[^]*switch\/intake[^]*olga[^]*price is wrong/);
  const { body, headers } = fake.requests.findLast((r) => r.path === 'switches/intake' && !r.body.dry_run);
  assert.deepEqual(body, { value: false, reason: 'price is wrong' });
  assert.ok(headers['x-csrf-token'].startsWith('csrf-'));
});

test('admission is a share, and can be scheduled', async () => {
  const page = await enter({ as: 'olga', path: '/switches' });
  const card = page.locator('.switch', { hasText: 'Admission' });
  await card.getByRole('button', { name: 'Change' }).click();
  await fill(page, { value: '25' });
  await see(page, dialog + ' .effect', '25 of 100 purchases reach the stock');
  await confirm(page, 'Change', 'too many');
  await eventually(async () => assert.match(await card.innerText(), /25 %[^]*25 of 100[^]*olga[^]*too many/));
  await card.getByRole('button', { name: 'Schedule…' }).click();
  await fill(page, { value: '100' });
  await confirm(page, 'Schedule', 'the end of it');
  await eventually(() => assert.equal(fake.switches[3].scheduled[0]?.value, 100));
  await see(page, '.switch .recent', /→ 100 %/);
  await card.getByRole('button', { name: 'Cancel the schedule' }).click();
  await confirm(page, 'Cancel the schedule');
  await eventually(() => assert.deepEqual(fake.switches[3].scheduled, []));
});

test('an activity is created, and what is wrong stands at its field', async () => {
  const page = await enter({ as: 'olga', path: '/activities' });
  await press(page, 'Create an activity');
  await confirm(page, 'Create an activity');
  await see(page, dialog + ' .name, ' + dialog + ' .field >> nth=0', 'This is needed.');
  await fill(page, { name: 'Kettle', stock: '200000000', price_cents: '19.9' });
  await see(page, dialog + ' .facts', /Sells\s*200,000,000 × ¥19\.90[^]*Lasts\s*1 h[^]*Asia\/Shanghai/);
  await confirm(page, 'Create an activity');
  await see(page, dialog + ' .field:has(#f-stock)', 'stock must be at most 100000000.');
  await fill(page, { stock: '500' });
  await confirm(page, 'Create an activity');
  await see(page, 'h1', 'Kettle');
  await reads(page, { total: '500' });
  const { body } = fake.last('POST', 'activities');
  assert.equal(body.price_cents, 1990);
  assert.equal(body.stock, 500);
  assert.ok(new Date(body.ends_at) - new Date(body.starts_at) === 3600e3 && body.starts_at.endsWith('Z'));
  assert.ok(!('reason' in body));
});

test('an activity is led through its life', async () => {
  const page = await enter({ as: 'olga', path: '/activities/3' });
  for (const [command, state] of [['Preload', 'ready'], ['Pause', 'paused'], ['Resume', 'open'], ['Close', 'ended']]) {
    await press(page, command);
    await confirm(page, command, 'as planned');
    await see(page, '.under .state', new RegExp(`^${state}$`));
  }
  await press(page, 'Run again');
  await fill(page, { stock: '80' });
  await see(page, dialog + ' .facts', /Run\s*2/);
  await confirm(page, 'Run again', 'next night');
  await see(page, '.under', 'run 2');
  await reads(page, { total: '80' });
  await see(page, '.recent', /run again[^]*closed[^]*resumed[^]*paused[^]*preloaded/);
});

test('restocking says what will be there, and takes away no more than there is', async () => {
  const page = await enter({ as: 'olga', path: '/activities/2' });
  await press(page, 'Restock');
  await fill(page, { quantity: '-400' });
  await see(page, dialog + ' .facts', /Available then\s*-88/);
  await confirm(page, 'Restock', 'damaged');
  await see(page, dialog + ' .field', 'quantity must be at least -312');
  await fill(page, { quantity: '-12' });
  await confirm(page, 'Restock', 'damaged');
  await reads(page, { total: '988', available: '300' });
});

test('a list of buyers is looked through and uploaded', async () => {
  const page = await enter({ as: 'olga', path: '/activities/3' });
  await see(page, '.audience', 'nobody may buy');
  const upload = (text) => page.setInputFiles('input[type=file]', { name: 'buyers.txt', mimeType: 'text/plain', buffer: Buffer.from(text) });
  await upload('ann\nbö\ncy\n');
  await see(page, '.audience', 'Line 2 is no buyer’s id: bö');
  assert.ok(await page.getByRole('button', { name: 'Upload' }).isDisabled());
  await upload(Array.from({ length: 100000 }, (_, i) => 'buyer-' + i).join('\r\n'));
  await see(page, '.audience', '100,000 buyers in this file.');
  await press(page, 'Upload');
  await see(page, '.audience .big', '100,000');
  assert.equal(fake.last('PUT', 'activities/3/audience').headers['content-type'], 'text/plain');
});

test('dead letters are retried and dropped', async () => {
  const page = await enter({ as: 'olga', path: '/dead-letters' });
  const row = (text) => page.locator('tbody tr', { hasText: text });
  await row('version 9').getByRole('button', { name: 'Retry' }).click();
  await confirm(page, 'Retry');
  await see(page, '.el-message--error', 'It failed again: message version 9');
  await row('buyer-77').getByRole('button', { name: 'Drop' }).click();
  await see(page, dialog + ' .effect', 'for sale again');
  await tick(page, 'return_stock');
  await see(page, dialog + ' .effect', 'The unit is not for sale again');
  await confirm(page, 'Drop', 'refunded by hand');
  await eventually(async () => assert.equal(await row('buyer-77').count(), 0));
  assert.deepEqual(fake.last('POST', 'dead-letters/11/drop').body, { return_stock: false, reason: 'refunded by hand' });
  fake.dead = [];
  await see(page, '.empty', 'No dead letters.');
});

test('who misbehaves is blocked, and let in again', async () => {
  const page = await enter({ as: 'olga', path: '/access' });
  await see(page, 'tbody', /203\.0\.113\.0\/24[^]*by hand/);
  await press(page, 'Add a block');
  await page.click(dialog + ' .el-select');
  await page.click('.el-select-dropdown__item:has-text("network")');
  await fill(page, { value: '198.51.100.7' });
  await confirm(page, 'Add a block', 'bots');
  await see(page, dialog + ' .field:has(#f-value)', 'value must be a network');
  await fill(page, { value: '198.51.100.0/24' });
  await tick(page, 'ends');
  await confirm(page, 'Add a block', 'bots');
  const row = page.locator('tbody tr', { hasText: '198.51.100.0/24' });
  await row.waitFor();
  assert.ok(new Date(fake.last('POST', 'blocks').body.until) > Date.now());
  await row.getByRole('button', { name: 'Remove' }).click();
  await confirm(page, 'Remove');
  await row.waitFor({ state: 'detached' });
});

test('what differs is found, and repaired', async () => {
  const page = await enter({ as: 'olga', path: '/reconcile?activity=2' });
  await press(page, 'Compare');
  await see(page, '.findings', /stock drift[^]*The stock says 310[^]*2[^]*no/);
  await press(page, 'Repair');
  await confirm(page, 'Repair', 'after the crash');
  await see(page, '.findings .state', 'yes');
  await press(page, 'Compare');
  await see(page, '.findings', 'Nothing differs.');
  assert.deepEqual(fake.requests.filter((r) => r.path === 'activities/2/reconcile').map((r) => r.body.repair), [false, true, false]);
});

test('a buyer’s orders are found, and one is marked as paid', async () => {
  const page = await enter({ as: 'olga', path: '/orders' });
  await page.fill('input[name=buyer]', 'buyer-7');
  await page.keyboard.press('Enter');
  await page.locator('tbody tr', { hasText: '4001' }).getByRole('button', { name: 'Mark as paid' }).click();
  await fill(page, { payment_ref: 'pay-1' });
  await confirm(page, 'Mark as paid', 'by transfer');
  await see(page, 'tbody tr:has-text("4001") .state', /^paid$/);
  assert.match(page.url(), /buyer=buyer-7/);
  await page.goto(fake.url + '/#/orders?buyer=nobody');
  await see(page, '.empty', 'Buyer nobody has no orders.');
});

test('a node in trouble shows on its page, and above every page', async () => {
  const page = await enter({ path: '/nodes' });
  await see(page, '.pill.good >> nth=0', 'Stock');
  Object.assign(fake.nodes[0], { stock: 'dial tcp: connection refused', ready: false, reason: 'stock does not answer' });
  await see(page, '.pill.warn >> nth=0', 'Stock');
  await see(page, 'tbody tr:has-text("gw-1")', /not ready\s*stock does not answer[^]*connection refused/);
  for (const n of fake.nodes) n.stock = 'dial tcp: connection refused';
  await see(page, '.pill.bad', 'Stock');
});

test('tables are sorted, filtered, kept in the address, exported, and loaded on', async () => {
  const at = (i) => new Date(Date.UTC(2026, 10, 1) + i * 1000).toISOString();
  fake.audit = Array.from({ length: 250 }, (_, i) => ({ id: 250 - i, at: at(250 - i), who: i % 2 ? 'ada' : 'olga', from: '', reason: i === 0 ? '=1+1, "quoted"' : '', action: 'activity.pause', object: 'activity/2', detail: {} }));
  const page = await enter({ path: '/audit' });
  await see(page, '.count', '100 rows so far');
  await press(page, 'Load more');
  await see(page, '.count', '200 rows so far');
  await press(page, 'Load more');
  await see(page, '.count', '250 rows');
  await page.fill('.filter input', 'olga');
  await see(page, '.count', '125 of 250 rows');
  await page.click('th button:has-text("When")');
  await page.click('th button:has-text("When")');
  assert.match(page.url(), /q=olga/);
  assert.equal(await page.locator('th[aria-sort=descending]').innerText(), 'When↓');
  const [file] = await Promise.all([page.waitForEvent('download'), page.click('text=Export CSV')]);
  const csv = readFileSync(await file.path(), 'utf8');
  assert.match(file.suggestedFilename(), /^seckill-audit-.*\.csv$/);
  assert.match(csv, /^\ufeffat,who,from,action,object,reason,detail\r\n2026-11-01T00:04:10\.000Z,olga,,activity\.pause,activity\/2,"'=1\+1, ""quoted""",\{\}\r\n/);
  assert.equal(csv.trim().split('\r\n').length, 126);
  await page.reload();
  await see(page, '.count', /50 of 100 rows/);
});

test('times are sorted as times, whatever zeros the server leaves out', async () => {
  const at = ['32.5Z', '32.123Z', '32.12Z', '32Z', '31.999Z'];
  fake.audit = at.map((s, i) => ({ id: 9 - i, at: '2026-11-01T00:00:' + s, who: 'w' + s, from: '', reason: '', action: 'activity.pause', object: 'activity/2', detail: {} }));
  const page = await enter({ path: '/audit' });
  await see(page, 'tbody', new RegExp(at.map((s) => 'w' + s).join('[^]*')));
  await page.click('th button:has-text("When")');
  await see(page, 'tbody', new RegExp(at.toReversed().map((s) => 'w' + s).join('[^]*')));
});

test('the capacity plan is worked out while one types', async () => {
  const page = await enter({ path: '/plan' });
  await see(page, '.figures', /500,000[^]*8,333[^]*83,333[^]*125,000[^]*13/);
  await fill(page, { node_qps: '50000' }, '#main');
  await see(page, '.figures .nodes b', /^3$/);
  await eventually(() => assert.match(page.url(), /node_qps=50000/));
  await fill(page, { participants: '' }, '#main');
  await see(page, '.field:has(#f-participants)', 'participants must be at least 1.');
});

test('an administrator manages accounts', async () => {
  const page = await enter({ as: 'ada', path: '/accounts' });
  await press(page, 'Add an account');
  await fill(page, { name: 'zoe', password: 'short' });
  await confirm(page, 'Add an account');
  await see(page, dialog + ' .field:has(#f-password)', 'at least 12 characters');
  await fill(page, { password: 'long enough for her' });
  await confirm(page, 'Add an account');
  const row = page.locator('tbody tr', { hasText: 'zoe' });
  await row.getByRole('button', { name: 'Disable' }).click();
  await confirm(page, 'Disable');
  await eventually(async () => assert.match(await row.innerText(), /disabled/));
  assert.equal(await page.locator('tbody tr', { hasText: 'ada' }).getByRole('button', { name: 'Remove' }).count(), 0); // Not herself.
  await row.getByRole('button', { name: 'Remove' }).click();
  await confirm(page, 'Remove');
  await row.waitFor({ state: 'detached' });
  assert.deepEqual(fake.audit.slice(0, 3).map((e) => e.action), ['account.remove', 'account.change', 'account.create']);
});

test('an administrator manages webhooks, and sees what was sent', async () => {
  const page = await enter({ as: 'ada', path: '/webhooks' });
  await press(page, 'Add a webhook');
  await fill(page, { url: 'http://127.0.0.1/' });
  await confirm(page, 'Add a webhook');
  await see(page, dialog + ' .field:has(#f-url)', 'url must be a public address.');
  await fill(page, { url: 'https://shop.example/2' });
  await tick(page, 'order.paid');
  await confirm(page, 'Add a webhook');
  await see(page, '.notice', 'whsec_made_once');
  assert.deepEqual(fake.last('POST', 'webhooks').body.events, ['reservation.confirmed', 'reservation.failed', 'order.cancelled', 'order.expired']);
  await page.locator('tbody tr', { hasText: '/hooks/seckill' }).getByRole('button', { name: 'Deliveries' }).click();
  await see(page, '.sent tbody', /order expired[^]*waiting[^]*503 Service Unavailable/);
  await page.locator('.sent tr', { hasText: 'given up' }).getByRole('button', { name: 'Send again' }).click();
  await confirm(page, 'Send again');
  await see(page, '.sent tr:has-text("4010")', 'waiting');
});

test('a webhook is tested, enabled again, and gets another secret', async () => {
  Object.assign(fake.webhooks[0], { disabled: true, reason: 'The receiver answered 410.' });
  const page = await enter({ as: 'ada', path: '/webhooks' });
  const row = page.locator('tbody tr', { hasText: '/hooks/seckill' });
  await see(page, 'tbody tr', /disabled\s*The receiver answered 410/);
  await row.getByRole('button', { name: 'Enable' }).click();
  await confirm(page, 'Enable');
  await see(page, 'tbody tr .state', /^enabled$/);
  for (const [answer, want] of [[{}, /Not received: answered with 500/], [{ delivered: true, status: 204, error: '' }, /Received: status 204, 41 ms/]]) {
    Object.assign(fake.tested, answer);
    await row.getByRole('button', { name: 'Test' }).click();
    await confirm(page, 'Test');
    await see(page, '.el-message', want);
  }
  await row.getByRole('button', { name: 'New secret' }).click();
  await confirm(page, 'New secret', 'it leaked');
  await see(page, '.notice', 'whsec_made_anew');
});

test('a viewer sees everything and can change nothing; an operator manages no accounts', async () => {
  const acts = /^(Pause|Resume|Restock|Close$|Preload|Run again|Repair|Drop|Retry|Remove|Add a|Create a|Change|Schedule…|Cancel the|Mark as|Let through|Open challenge|Hold|Test|New secret|Enable|Send again)/;
  const page = await enter({ as: 'vic' });
  for (const path of ['/', '/activities', '/activities/2', '/activities/3', '/orders?buyer=buyer-7', '/switches', '/dead-letters', '/access', '/nodes', '/webhooks', '/audit', '/plan']) {
    await page.goto(fake.url + '/#' + path);
    await page.waitForSelector('h1');
    await page.waitForLoadState('networkidle').catch(() => {});
    await page.waitForSelector('[aria-busy=true]', { state: 'detached' });
    const found = (await page.locator('main button').allInnerTexts()).filter((b) => acts.test(b));
    assert.deepEqual(found, [], path);
    assert.equal(await page.locator('input[type=file]').count(), 0, path);
  }
  for (const [name, path] of [['vic', '/accounts'], ['olga', '/accounts']]) {
    const other = await enter({ as: name });
    assert.equal(await other.locator(`nav a[href="#${path}"]`).count(), 0);
    await other.goto(fake.url + '/#' + path); // By its address.
    await see(other, '.el-alert--error', 'Your role may not do this.');
  }
});

test('what the server does not answer is said, and nothing is done twice', async () => {
  const page = await enter({ as: 'olga', path: '/activities/2' });
  await press(page, 'Pause');
  fake.down = true;
  await confirm(page, 'Pause', 'wrong price');
  await see(page, dialog, 'The server does not answer.');
  fake.down = false;
  fake.answers['POST activities/2/pause'] = () => fake.refuse(409, 'conflict', { msg: 'That is not possible in this state.', detail: 'It has ended.' });
  await confirm(page, 'Pause', 'wrong price');
  await see(page, dialog, /not possible in this state\. It has ended\./);
  delete fake.answers['POST activities/2/pause'];
  await page.locator(dialog + ' .ask-buttons button').last().dblclick();
  await see(page, '.under .state', /^paused$/);
  assert.equal(fake.audit.filter((e) => e.action === 'activity.pause').length, 1);
});
