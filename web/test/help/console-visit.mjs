// What the console's tests share: a fresh server for each test, and what a person does.

import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach } from 'node:test';
import { eventually, launch, open } from './browser.mjs';
import { startConsole } from './console-fake.mjs';

export const laptop = { width: 1366, height: 768 };
export const sideways = { width: 844, height: 390 }; // A phone, held in landscape.
export const dialog = '.ask';

let browser;
let pages;
export let fake;

export function setup() {
  before(async () => { browser = await launch(); });
  after(() => browser?.close());
  beforeEach(async () => {
    fake = await startConsole();
    pages = [];
  });
  afterEach(async () => {
    const complaints = pages.flatMap((page) => [...page.complaints, ...page.strangers]);
    for (const page of pages) await page.context().close();
    fake.close();
    assert.deepEqual(complaints, [], 'the browser complained');
  });
}

// Opens the console, logged in already unless as is null; prepare is script that runs before its own. What it asks of other hosts is collected.
export async function enter({ as = 'ada', path = '/', size = laptop, prepare, ...options } = {}) {
  const page = await open(browser, null, { size, ...options });
  page.strangers = [];
  page.on('request', (r) => { if (!/^(data|blob):/.test(r.url()) && !r.url().startsWith(fake.url)) page.strangers.push(r.url()); });
  pages.push(page);
  if (prepare) await page.addInitScript(prepare);
  if (as) {
    const answer = await page.request.post(fake.url + '/admin/v1/session', { data: { name: as, password: 'correct horse' } });
    assert.equal(answer.status(), 200);
  }
  await page.goto(fake.url + '/#' + path);
  await page.waitForSelector('h1');
  return page;
}

export const see = (page, selector, text, ms) => eventually(async () => {
  const found = await page.locator(selector).filter({ visible: true }).allInnerTexts();
  const want = text instanceof RegExp ? text : new RegExp(text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  assert.ok(found.some((t) => want.test(t.trim())), `${selector}: got ${JSON.stringify(found)}, want ${want}`);
}, ms);

export const reads = (page, figures) => eventually(async () => {
  for (const [name, want] of Object.entries(figures)) assert.equal(await page.locator(`.books .term.${name} b`).innerText(), want, name);
});

export const press = (page, name) => page.locator('main, header, .login').getByRole('button', { name, exact: true }).first().click();

// Fills in the fields of the dialog, or of another part, by their names.
export async function fill(page, values, where = dialog) {
  for (const [name, value] of Object.entries(values)) {
    await page.fill(`${where} [id="f-${name}"]`, value);
    await page.locator(`${where} [id="f-${name}"]`).blur();
  }
}

// Element Plus hides the box itself; a person clicks what it says.
export const tick = (page, name) => page.click(`${dialog} label:has([id="f-${name}"])`);

// Gives the reason, if there is one, and presses the button that does it. It waits until the
// dialog has gone or says why not.
export async function confirm(page, name, reason) {
  await page.waitForSelector(dialog + ' .ask-buttons', { state: 'visible' });
  if (reason) await page.fill(dialog + ' #f-reason', reason);
  await page.locator(dialog + ' .ask-buttons').getByRole('button', { name, exact: true }).click();
  await eventually(async () => {
    const left = !await page.locator(dialog).isVisible();
    const said = await page.locator(`${dialog} .trouble, ${dialog} .el-form-item__error`).count();
    assert.ok(left || said, 'the dialog neither goes nor says why');
  });
}
