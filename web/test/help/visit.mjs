// What the tests of the page share: a fresh server and fresh browsers for each test.

import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach } from 'node:test';
import { eventually, launch, open } from './browser.mjs';
import { startFake } from './fake.mjs';

let browser;
let pages;

// The server of the test that is running.
export let fake;

// Prepares each test of a file, and fails those in which a browser complained.
export function setup() {
  before(async () => { browser = await launch(); });
  after(() => browser?.close());
  beforeEach(async () => {
    fake = await startFake();
    pages = [];
  });
  afterEach(async () => {
    const complaints = pages.flatMap((page) => page.complaints);
    for (const context of new Set(pages.map((page) => page.context()))) await context.close();
    fake.close();
    assert.deepEqual(complaints, [], 'the browser complained');
  });
}

// Opens the page; prepare is script that runs before its own.
export async function visit({ path = '/a/7', prepare, ...options } = {}) {
  const page = await open(browser, null, options);
  pages.push(page);
  if (prepare) await page.addInitScript(prepare);
  await page.goto(fake.url + path);
  return page;
}

export const go = (page) => page.locator('#go');
export const shows = (page, selector, text) => eventually(async () => {
  assert.match(await page.locator(selector).innerText(), text instanceof RegExp ? text : new RegExp(text));
});
export const canPress = (page, act) => page.waitForSelector(`#go[data-act=${act}]`);
export const keys = () => fake.requests.filter((r) => r.name === 'POST purchases').map((r) => r.key);
export const startsIn = (ms) => {
  fake.act.state = 'ready';
  fake.act.starts_at = new Date(Date.now() + fake.skew + ms).toISOString();
};

// Brings the start near for a page that is loaded, however long that took, and lets
// it hear of it: coming online again it asks.
export async function bringNear(page, ms) {
  await shows(page, '#go', 'Starts in');
  startsIn(ms);
  const asked = fake.count('GET activity');
  await page.evaluate(() => dispatchEvent(new Event('online')));
  await eventually(() => assert.ok(fake.count('GET activity') > asked));
}

// A button that has just got another meaning is dead for a moment: see activity.js.
export const settled = (page) => page.waitForTimeout(450);

export async function queued(page) {
  await canPress(page, 'buy');
  await go(page).click();
  await shows(page, '#title', 'You are in the queue');
  return fake.last();
}

export async function confirmed(page, payMs) {
  fake.confirm(await queued(page), payMs);
  await shows(page, '#title', 'You got it');
  await settled(page);
}
