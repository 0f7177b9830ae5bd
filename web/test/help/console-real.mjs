// The console of a real server, as somebody at it: for tests that share one browser and one server.

import assert from 'node:assert/strict';
import { open } from './browser.mjs';
import { laptop, see } from './console-visit.mjs';

export function visitors(browser, server) {
  const visits = [];
  return {
    // sit opens the console and logs in, with the token or as [name, password].
    async sit({ as = server.token, ...options } = {}) {
      const page = await open(browser, null, { size: laptop, ...options });
      visits.push(page);
      page.strangers = [];
      page.on('request', (r) => { if (!/^(data|blob):/.test(r.url()) && !r.url().startsWith(server.admin)) page.strangers.push(r.url()); });
      await page.goto(server.admin + '/');
      if (as) await login(page, as);
      return page;
    },
    async go(page, path, heading) {
      await page.goto(server.admin + '/#' + path);
      await see(page, 'h1', heading);
    },
    // quiet fails if a browser complained, or asked anybody else for something.
    quiet() {
      for (const page of visits) assert.deepEqual([...page.complaints, ...page.strangers], []);
    },
  };
}

export async function login(page, as) {
  const token = typeof as === 'string';
  await page.waitForSelector('.login');
  await page.locator('.ways input').nth(token ? 0 : 1).check({ force: true });
  for (const [name, value] of token ? [['token', as]] : [['name', as[0]], ['password', as[1]]]) await page.fill(`input[name=${name}]`, value);
  await page.keyboard.press('Enter');
  await page.waitForSelector('.frame h1, .wrong');
}
