// bin/seckill on free ports, as the browser tests need it: its addresses and its token.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { eventually } from './browser.mjs';

const binary = process.env.SECKILL_BIN || fileURLToPath(new URL('../../../bin/seckill', import.meta.url));
const listen = ['--listen', '127.0.0.1:0', '--admin-listen', '127.0.0.1:0'];

// What is set for the tests, or by who runs them, is not meant for the server.
const bare = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('SECKILL_')));

// start runs a program in a folder of its own, which goes with it. It resolves when found says what there is to know.
async function start(program, args, found, env) {
  const folder = mkdtempSync(join(tmpdir(), 'seckill-browser-'));
  const child = spawn(program, args, { cwd: folder, env: { ...bare, ...env } });
  let printed = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => { printed += data; });
  const ended = new Promise((done) => child.once('exit', (code, signal) => done(code ?? signal)));
  const clean = () => rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
  const stop = async () => {
    child.kill('SIGCONT'); // One that is held would not hear of its end.
    child.kill('SIGTERM');
    const code = await ended;
    clean();
    assert.equal(code, 0, `the exit status of ${program} ${args[0]}; it printed:\n${printed}`);
  };
  try {
    const known = await eventually(async () => {
      if (child.exitCode !== null) return null;
      return await found(printed);
    });
    assert.ok(known, `${program} ${args[0]} has ended`);
    return { ...known, stop, printed: () => printed, signal: (name) => child.kill(name) };
  } catch (e) {
    child.kill('SIGKILL');
    await ended;
    clean();
    throw new Error(`${e.message}; it printed:\n${printed}`);
  }
}

async function startSeckill(args, found, env) {
  assert.ok(existsSync(binary), `there is no ${binary}: make build makes it, or SECKILL_BIN names another`);
  const server = await start(binary, [...args, ...listen], found, env);
  const page = await (await fetch(server.admin + '/')).text();
  if (!page.includes('id="app"')) {
    await server.stop();
    assert.fail('this program was built without its console: make console build');
  }
  return server;
}

export const startDemo = (...args) => startSeckill(['demo', ...args], (printed) => {
  const word = (name) => new RegExp(`${name}\\s+(\\S+)`).exec(printed)?.[1];
  assert.ok(word('admin token'), 'no token');
  return { shop: new URL(word('buyer page')).origin, admin: new URL(word('console')).origin, token: word('admin token') };
});

const token = 'token-of-the-browser-tests';

// startServer starts one without an activity. admin asks its admin API, buy makes a purchase.
export async function startServer(...args) {
  const server = await startSeckill(['serve', '--auth', 'open', '--simulate-payment', ...args], (printed) => {
    const m = /public=(\S+) admin=(\S+)/.exec(printed);
    assert.ok(m, 'no addresses');
    return { shop: 'http://' + m[1], admin: 'http://' + m[2], token };
  }, { SECKILL_ADMIN_TOKEN: token });
  return { ...server, ask: (method, path, body) => ask(server, method, path, body), sell: (activity) => sell(server, activity) };
}

async function ask(server, method, path, body) {
  const answer = await fetch(`${server.admin}/admin/v1/${path}`, {
    method, headers: { Authorization: 'Bearer ' + token, ...(body ? { 'Content-Type': 'application/json' } : {}) }, body: body && JSON.stringify(body),
  });
  const text = await answer.text();
  assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${text}`);
  return text ? JSON.parse(text) : null;
}

// sell makes an activity that is open, and answers it.
async function sell(server, activity) {
  const made = await ask(server, 'POST', 'activities', {
    name: 'Walnut lamp', stock: 100, price_cents: 19900, starts_at: new Date(Date.now() - 1000).toISOString(), ends_at: new Date(Date.now() + 3600e3).toISOString(), ...activity,
  });
  await eventually(async () => assert.equal((await (await fetch(`${server.shop}/v1/activities/${made.id}`)).json()).state, 'open'));
  return made;
}

// buy makes one purchase, as the buyer page does.
export async function buy(server, activity, buyer) {
  const started = performance.now();
  const answer = await fetch(`${server.shop}/v1/activities/${activity}/purchases`, {
    method: 'POST', headers: { 'Content-Type': 'application/json', 'X-User-Id': buyer, 'Idempotency-Key': buyer + Math.random() }, body: '{"quantity":1}',
  });
  return { status: answer.status, ...await answer.json(), took: performance.now() - started };
}

const freePort = () => new Promise((done, fail) => {
  const s = createServer().once('error', fail).listen(0, '127.0.0.1', () => {
    const { port } = s.address();
    s.close(() => done(port));
  });
});

// startRedis starts a Redis that keeps nothing on disk. hold makes it hang, and release ends that.
export async function startRedis() {
  const program = ['redis-server', 'valkey-server'].flatMap((name) => process.env.PATH.split(':').map((folder) => join(folder, name))).find(existsSync);
  assert.ok(program, 'there is no redis-server: scripts/setup-tests.sh installs it');
  const port = await freePort();
  const redis = await start(program, ['--bind', '127.0.0.1', '--port', String(port), '--save', '', '--appendonly', 'no'], (printed) => {
    assert.match(printed, /Ready to accept connections/);
    return { url: `redis://127.0.0.1:${port}` };
  });
  return { ...redis, hold: () => redis.signal('SIGSTOP'), release: () => redis.signal('SIGCONT') };
}
