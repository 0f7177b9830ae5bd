// bin/seckill demo on free ports, as the console's tests need it: its addresses and its token.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { eventually } from './browser.mjs';
import { startConsole } from './console-fake.mjs';

const binary = process.env.SECKILL_BIN || fileURLToPath(new URL('../../../bin/seckill', import.meta.url));

export async function startDemo(...args) {
  assert.ok(existsSync(binary), `there is no ${binary}: make build makes it, or SECKILL_BIN names another`);
  const folder = mkdtempSync(join(tmpdir(), 'seckill-console-'));
  const child = spawn(binary, ['demo', ...args, '--listen', '127.0.0.1:0', '--admin-listen', '127.0.0.1:0'], { cwd: folder });
  let printed = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => { printed += data; });
  const ended = new Promise((done) => child.once('exit', (code, signal) => done(code ?? signal)));
  const stop = async () => {
    child.kill('SIGTERM');
    const code = await ended;
    rmSync(folder, { recursive: true, force: true });
    assert.equal(code, 0, `the demo's exit status; it printed:\n${printed}`);
  };
  const found = (name) => new RegExp(`${name}\\s+(\\S+)`).exec(printed)?.[1];
  await eventually(() => {
    assert.equal(child.exitCode, null, `the demo has ended; it printed:\n${printed}`);
    assert.ok(found('admin token'));
  }, 30000);
  return { shop: new URL(found('buyer page')).origin, admin: new URL(found('console')).origin, token: found('admin token'), stop, printed: () => printed };
}

// parts are what the console asks for that a server may not have yet.
const parts = ['session', 'switches', 'blocks', 'nodes', 'live', 'accounts', 'webhooks', 'plan', 'orders'];

// consoleOf is the address of the console of a demo: the demo's own, or, where it lacks parts,
// one in front of it that makes up these parts. has tells which parts are real.
export async function consoleOf(demo) {
  const real = new Set();
  for (const part of parts) {
    const leave = new AbortController();
    const answer = await fetch(`${demo.admin}/admin/v1/${part}`, { headers: { Authorization: 'Bearer ' + demo.token }, signal: leave.signal });
    if (answer.status !== 404) real.add(part);
    leave.abort();
  }
  const page = await (await fetch(demo.admin + '/')).text();
  const has = (part) => real.has(part);
  if (parts.every(has) && page.includes('id="app"')) return { url: demo.admin, has, whole: true, close() {} };
  const lacking = parts.filter((part) => part === 'session' || !real.has(part));
  const fake = await startConsole({ upstream: { url: demo.admin, token: demo.token }, own: new RegExp(`^\\w+ (${lacking.join('|')})(/(?!\\w+/paid)|$)`) });
  fake.token = demo.token;
  fake.liveOff = true; // Figures that are made up are worse than none.
  return { url: fake.url, has, whole: false, close: fake.close };
}
