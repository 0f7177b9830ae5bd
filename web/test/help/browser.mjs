// A browser for the tests: the system's Chromium, driven by playwright-core.

import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const shots = fileURLToPath(new URL('../screenshots/', import.meta.url));

const names = ['chromium-headless-shell', 'chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];
const found = () => names.map((name) => '/usr/bin/' + name).find(existsSync);

// How long to wait for what will come, in milliseconds: a test on a machine with too much to do is slow, and not wrong.
export const patience = 60000;

export const phone = { width: 390, height: 844 };
export const desktop = { width: 1280, height: 800 };

export async function launch() {
  const executablePath = process.env.CHROMIUM || found();
  assert.ok(executablePath, `found none of ${names.join(', ')} in /usr/bin; CHROMIUM names another`);
  return chromium.launch({
    executablePath,
    args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
      '--disable-component-update', '--disable-sync'],
  });
}

// Opens a page as one buyer's browser. He asks for no motion, which costs a machine without a graphics card most of
// its time. What the browser complains of, a refused script above all, is collected in page.complaints.
export async function open(browser, url, { lang = 'en-GB', dark = false, size = phone, still = true, context, ...rest } = {}) {
  context ||= await browser.newContext({
    locale: lang, viewport: size, colorScheme: dark ? 'dark' : 'light', reducedMotion: still ? 'reduce' : 'no-preference',
    timezoneId: 'Asia/Shanghai', ...rest,
  });
  context.setDefaultTimeout(patience);
  const page = await context.newPage();
  page.complaints = [];
  page.on('pageerror', (e) => page.complaints.push(String(e)));
  page.on('console', (message) => {
    // The browser logs each answer from 400 on; those are part of the tests.
    if (message.type() === 'error' && !/Failed to load resource/.test(message.text())) page.complaints.push(message.text());
  });
  if (url) await page.goto(url);
  return page;
}

// Takes a picture of the whole page, for people to look at.
export async function shoot(page, name) {
  mkdirSync(shots, { recursive: true });
  await page.screenshot({ path: shots + name + '.png', fullPage: true, animations: 'disabled' });
}

// Audits against WCAG 2.2 A and AA.
export async function audit(page, name) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, {
    runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'],
  }));
  const told = violations.map((v) => `${v.id}: ${v.help}: ${v.nodes.map((n) => n.html).join(' | ')}`);
  assert.deepEqual(told, [], name);
}

// Waits until check does not throw any more.
export async function eventually(check, ms = patience) {
  const end = Date.now() + ms;
  for (;;) {
    try {
      return await check();
    } catch (e) {
      if (Date.now() > end) throw e;
      await new Promise((done) => setTimeout(done, 50));
    }
  }
}
