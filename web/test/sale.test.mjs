// A whole sale in a real browser: bin/seckill demo with three units, and five
// buyers. Pictures of what they see are left in the folder screenshots.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { audit, desktop, eventually, launch, open, phone, shoot } from './help/browser.mjs';
import { startDemo } from './help/demo.mjs';

let browser;
let demo;
let shop; // Address of the public listener.
let sale; // Path of the activity's page.
const buyers = [];

before(async () => {
  browser = await launch();
  demo = await startDemo('--starts-in', '8s', '--stock', '3');
  shop = demo.shop;
  const { activities } = await (await fetch(shop + '/v1/activities')).json();
  sale = '/a/' + activities[0].id;
});
after(async () => {
  await browser?.close();
  await demo?.stop();
});

// Opens the sale as a buyer of his own, and notes all that is shown as title.
async function arrive(options) {
  const page = await open(browser, null, { still: false, ...options }); // As most people have it.
  buyers.push(page);
  page.bytes = 0;
  page.strangers = [];
  page.on('request', (request) => { if (!request.url().startsWith(shop)) page.strangers.push(request.url()); });
  page.on('requestfinished', async (request) => {
    const sizes = await request.sizes().catch(() => null);
    if (sizes) page.bytes += sizes.responseBodySize + sizes.responseHeadersSize;
  });
  await page.addInitScript(() => {
    globalThis.titles = [];
    document.addEventListener('DOMContentLoaded', () => {
      const title = document.getElementById('title');
      if (title) new MutationObserver(() => globalThis.titles.push(title.textContent)).observe(title, { childList: true });
    });
  });
  await page.goto(shop + sale);
  return page;
}

const shows = (page, selector, text) => eventually(async () => assert.match(await page.locator(selector).innerText(), text));
const canPress = (page, act) => page.waitForSelector(`#go[data-act=${act}]`);
// A button that has just got another meaning is dead for a moment: see activity.js.
const settled = (page) => page.waitForTimeout(450);
async function buy(page, title) {
  await canPress(page, 'buy');
  await page.click('#go');
  await shows(page, '#title', title);
  await settled(page);
}

test('a sale, from the countdown to sold out and beyond', async (t) => {
  const ann = await arrive({ size: phone });
  const bo = await arrive({ size: desktop, lang: 'zh-CN', dark: true });

  await t.test('both see the countdown', async () => {
    await shows(ann, '#go', /Starts in\s+00:00:0\d/);
    await shows(bo, '#go', /距开始\s+00:00:0\d/);
    await shoot(ann, 'sale-1-countdown-en-phone');
    await shoot(bo, 'sale-1-countdown-zh-desktop-dark');
  });

  await t.test('Ann buys the moment it opens, and goes through the queue', async () => {
    await canPress(ann, 'buy');
    await shoot(ann, 'sale-2-open-en-phone');
    await ann.dblclick('#go');
    await shows(ann, '#title', /You got it/);
    assert.ok((await ann.evaluate(() => globalThis.titles)).includes('You are in the queue'));
    await shows(ann, '#timer', /Time left to pay\s+00:\d\d:\d\d/);
    await shoot(ann, 'sale-3-got-it-en-phone');
    await audit(ann, 'confirmed');
  });

  await t.test('a reload and a second tab keep her order', async () => {
    const order = await ann.locator('#figure-value').innerText();
    await ann.reload();
    await shows(ann, '#figure-value', new RegExp(`^${order}$`));
    const tab = await open(browser, shop + sale, { context: ann.context() });
    await shows(tab, '#figure-value', new RegExp(`^${order}$`));
    await tab.close();
  });

  await t.test('she pays', async () => {
    await settled(ann);
    await ann.click('#go');
    await shows(ann, '#title', /Paid\. It is yours\./);
    await shoot(ann, 'sale-4-paid-en-phone');
    await ann.reload();
    await shows(ann, '#title', /Paid\. It is yours\./);
  });

  await t.test('Bo buys, cancels, and buys again', async () => {
    await buy(bo, /抢到了/);
    await shoot(bo, 'sale-3-got-it-zh-desktop-dark');
    const first = await bo.locator('#figure-value').innerText();
    await bo.click('#alt');
    await shoot(bo, 'sale-5-ask-zh-desktop-dark');
    await bo.click('#ask-yes');
    await shows(bo, '#title', /订单已取消/);
    await shoot(bo, 'sale-5-cancelled-zh-desktop-dark');
    await buy(bo, /抢到了/);
    assert.notEqual(await bo.locator('#figure-value').innerText(), first);
  });

  const cy = await arrive({ size: phone, lang: 'zh-CN' });
  const di = await arrive({ size: phone, lang: 'zh-CN', dark: true });
  const ed = await arrive({ size: desktop });

  await t.test('Cy takes the last one; for Di and Ed it is sold out', async () => {
    await buy(cy, /抢到了/);
    await shoot(cy, 'sale-3-got-it-zh-phone');
    // Di may still see it open, and hears it when he tries.
    if (await di.locator('#go[data-act=buy]').count()) await di.click('#go');
    await shows(di, '#title', /已售罄/);
    await shows(ed, '#title', /Sold out/);
    await shoot(di, 'sale-6-sold-out-zh-phone-dark');
    await shoot(ed, 'sale-6-sold-out-en-desktop');
    await audit(ed, 'sold out');
  });

  await t.test('Cy cancels, and what comes back is sold to Di', async () => {
    await cy.click('#alt');
    await cy.click('#ask-yes');
    await shows(cy, '#title', /订单已取消/);
    await buy(di, /抢到了/);
    await shows(ed, '#title', /Sold out/);
  });

  await t.test('the list says what there is', async () => {
    await ed.goto(shop + '/');
    await ed.waitForSelector('.card');
    await shoot(ed, 'sale-7-list-en-desktop');
    await ed.click('.card a');
    await shows(ed, '#title', /Sold out/);
  });

  await t.test('no browser complained, and nobody else was asked for anything', () => {
    assert.deepEqual(buyers.flatMap((page) => page.complaints), []);
    assert.deepEqual(buyers.flatMap((page) => page.strangers), []);
  });
});

// What a CDN and a browser are told of the page.
test('the page can be cached, and is shut to everything foreign', async () => {
  const answer = await fetch(shop + sale, { headers: { 'Accept-Encoding': 'gzip' } });
  const header = (name) => answer.headers.get(name) || '';
  assert.equal(answer.status, 200);
  assert.match(header('Content-Security-Policy'), /^default-src 'none'; script-src 'sha256-/);
  assert.match(header('Cache-Control'), /public, max-age=\d+/);
  assert.equal(header('Content-Encoding'), 'gzip');
  assert.match(header('Vary'), /Accept-Encoding/i);
  assert.equal(header('Set-Cookie'), '');
  const again = await fetch(shop + '/a/999', { headers: { 'If-None-Match': header('ETag') } });
  assert.equal(again.status, 304);
});

// Over the wire, headers and API included, and nothing cached.
test('a first visit costs less than 50 KB', async () => {
  const page = await arrive({ size: phone });
  await page.waitForSelector('#name:not(.wait)');
  await eventually(() => assert.ok(page.bytes > 5000, `${page.bytes} bytes are too few to be true`));
  assert.ok(page.bytes < 50 * 1024, `${page.bytes} bytes`);
});
