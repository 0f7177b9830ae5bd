// A small server with the console and the admin API, as a test tells it to be: every state of
// every page can be shown, also those that a real sale gets into rarely.

import { createReadStream, existsSync, readFileSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const dist = fileURLToPath(new URL('../../../internal/console/dist/', import.meta.url));
const types = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml' };
// As internal/console has it.
const go = readFileSync(new URL('../../../internal/console/console.go', import.meta.url), 'utf8');
const policy = /policy\s+= "(default-src[^"]*)"/.exec(go)[1] + /policyRest = "([^"]*)"/.exec(go)[1];

const ago = (seconds) => new Date(Date.now() - seconds * 1000).toISOString();
const books = (total, available, queued, awaiting_payment, paid, dead) => ({
  total, available, queued, awaiting_payment, paid, dead, balanced: total === available + queued + awaiting_payment + paid + dead,
});

function world() {
  const activity = (id, name, state, b, more = {}) => ({
    id, name, description: '', price_cents: 99900, state, run: 1, starts_at: ago(120), ends_at: ago(-3480), server_time: ago(0), total: b.total, remaining: b.available,
    limit_per_user: 1, challenge: false, entry_token: false, sub_stocks: 1, preload_before_seconds: 300, payment_window_seconds: 900, audience: 'everyone', created_at: ago(86400), epoch: 1, books: b, ...more,
  });
  return {
    people: { ada: { password: 'correct horse', role: 'admin' }, olga: { password: 'correct horse', role: 'operator' }, vic: { password: 'correct horse', role: 'viewer' } },
    token: 'token-of-the-test',
    sessions: {}, // By cookie.
    activities: [
      activity(1, 'Walnut desk lamp', 'ended', books(200, 3, 0, 0, 197, 0), { starts_at: ago(90000), ends_at: ago(86400) }),
      activity(2, 'Phone X, 256 GB', 'open', books(1000, 312, 41, 520, 127, 0), { description: 'The one of the year, at half its price.' }),
      activity(3, 'Members’ night: tea set', 'scheduled', books(50, 50, 0, 0, 0, 0), { starts_at: ago(-7200), ends_at: ago(-10800), audience: 'listed' }),
    ],
    audiences: { 3: { count: 0, version: 0, updated_at: null } },
    switches: [
      { name: 'intake', value: true, default: true, changed_at: null, changed_by: '', reason: '', scheduled: [] },
      { name: 'consumers', value: true, default: true, changed_at: null, changed_by: '', reason: '', scheduled: [] },
      { name: 'challenge', value: false, default: false, changed_at: ago(3600), changed_by: 'olga', reason: 'rehearsal is over', scheduled: [{ id: 7, at: ago(-1800), value: true, by: 'ada', reason: 'for the start' }] },
      { name: 'admission_percent', value: 100, default: 100, changed_at: null, changed_by: '', reason: '', scheduled: [] },
    ],
    guards: [
      { name: 'backlog', acting: false, since: null, reason: '', figure: '' },
      { name: 'breaker', acting: false, since: null, reason: '', figure: '' },
    ],
    dead: [
      { id: 11, activity_id: 2, run: 1, ticket: '2-1-9f2c04', buyer: 'buyer-77', quantity: 1, reserved_at: ago(95), payload: '{"v":1,"ticket":"2-1-9f2c04"}', reason: 'write order: column amount_cents: out of range', attempts: 5, at: ago(60) },
      { id: 12, payload_base64: 'AAECAw==', reason: 'message version 9 is newer than this program knows', attempts: 1, at: ago(30) },
    ],
    blocks: [
      { id: 1, kind: 'cidr', value: '203.0.113.0/24', until: null, reason: 'farm of phones', source: 'operator', created_at: ago(5000), created_by: 'olga' },
      { id: 2, kind: 'user', value: 'buyer-666', until: ago(-3600), reason: '400 requests a second', source: 'automatic', created_at: ago(50), created_by: 'guard' },
    ],
    orders: Array.from({ length: 3 }, (_, i) => ({
      id: String(4001 + i), activity_id: 2, run: 1, ticket: '2-1-aa0' + i, buyer: 'buyer-7', state: ['awaiting_payment', 'paid', 'cancelled'][i], quantity: 1, amount_cents: 99900, payment_ref: i === 1 ? 'pay-889' : '', created_at: ago(90 - i), pay_before: ago(-800),
    })),
    nodes: [
      { id: 'gw-1', address: '10.0.0.11:8080', roles: ['gateway'], version: '0.6.0', started_at: ago(90000), seen_at: ago(0), ready: true, reason: '', stock: 'ok', queue: 'ok', database: 'ok' },
      { id: 'gw-2', address: '10.0.0.12:8080', roles: ['gateway', 'console'], version: '0.6.0', started_at: ago(90000), seen_at: ago(1), ready: true, reason: '', stock: 'ok', queue: 'ok', database: 'ok' },
      { id: 'wk-1', address: '10.0.0.21:8080', roles: ['worker'], version: '0.6.0', started_at: ago(4000), seen_at: ago(1), ready: true, reason: '', stock: 'ok', queue: 'ok', database: 'ok' },
    ],
    audit: [
      { id: 3, at: ago(3600), who: 'olga', from: '10.1.0.4', reason: 'rehearsal is over', action: 'switch.set', object: 'switch/challenge', detail: { value: false } },
      { id: 2, at: ago(86000), who: 'ada', from: '10.1.0.3', reason: '', action: 'activity.create', object: 'activity/2', detail: { name: 'Phone X, 256 GB', stock: 1000 } },
      { id: 1, at: ago(86400), who: 'admin-token', from: '127.0.0.1', reason: '', action: 'activity.create', object: 'activity/1', detail: {} },
    ],
    webhooks: [{ id: 1, url: 'https://shop.example/hooks/seckill', events: ['order.paid', 'order.expired'], created_at: ago(5000), disabled: false, reason: '' }],
    tested: { delivered: false, status: 500, error: 'answered with 500', took_ms: 41 }, // How a receiver answers a test.
    deliveries: [{ id: 1, event: 'order.paid', order: '4002', attempts: 1, state: 'delivered', last_error: '', next_at: null, delivered_at: ago(40) }, { id: 2, event: 'order.expired', order: '4009', attempts: 3, state: 'pending', last_error: '503 Service Unavailable', next_at: ago(-60), delivered_at: null }, { id: 3, event: 'order.paid', order: '4010', attempts: 40, state: 'given_up', last_error: 'no answer within 10 s', next_at: null, delivered_at: null }],
    findings: [{ kind: 'stock_drift', detail: 'The stock says 310, the books say 312.', units: 2, repaired: false }],
    live: { outcomes: { accepted: 180, sold_out: 0, rate_limited: 240, already_purchased: 35 }, latency_ms: { p50: 1.4, p90: 4.2, p99: 11.8 }, backlog: 41, backlog_oldest_seconds: 0.4, orders_per_second: 176, order_lag_ms: { p50: 12, p99: 48 } },
    liveOff: false, // No stream at all.
    down: false, // No answer to anything.
    answers: {}, // "POST activities" and the like, to a function of the request: overrides.
    requests: [],
    streams: new Set(),
  };
}

const problem = (status, reason, more = {}) => ({ status, data: { type: 'urn:seckill:problem:' + reason, title: reason, status, reason, msg: more.msg || 'What the server says for people.', ...more } });
const rank = { viewer: 1, operator: 2, admin: 3 };

export async function startConsole() {
  const fake = world();
  fake.refuse = problem;
  fake.find = (list, id) => fake[list].find((x) => String(x.id) === String(id));
  fake.note = (r, action, object, detail = {}) => fake.audit.unshift({ id: fake.audit[0].id + 1, at: ago(0), who: r.who.name, from: '127.0.0.1', reason: r.body?.reason || '', action, object, detail });
  fake.event = () => ({
    at: ago(0), node: 'gw-2', nodes: fake.nodes.length, guards: fake.guards, ...fake.live,
    activities: fake.activities.map((a) => ({ id: a.id, run: a.run, name: a.name, state: a.state, ...a.books })),
  });
  fake.tell = () => { for (const s of fake.streams) s.write(`event: live\ndata: ${JSON.stringify(fake.event())}\n\n`); };
  const beat = setInterval(fake.tell, 1000);
  fake.cut = () => { for (const s of fake.streams) s.destroy(); };
  const { routes } = await import('./console-routes.mjs');
  const table = routes(fake, { problem, ago, books });

  function who(request) {
    const sid = /(?:^|; )sid=([^;]+)/.exec(request.headers.cookie || '')?.[1];
    return fake.sessions[sid] && { sid, ...fake.sessions[sid] };
  }

  function session(r) {
    if (r.method === 'GET') return r.who ? { data: { name: r.who.name, role: r.who.role, csrf: r.who.csrf } } : problem(401, 'unauthenticated');
    if (r.method === 'DELETE') {
      if (r.who) delete fake.sessions[r.who.sid];
      return { status: 204 };
    }
    const { token, name, password } = r.body;
    const person = fake.people[name];
    const role = token === fake.token ? 'admin' : person && person.password === password && !person.disabled && person.role;
    if (!role) return problem(401, 'unauthenticated');
    const sid = Math.random().toString(36).slice(2);
    fake.sessions[sid] = { name: token ? 'admin-token' : name, role, csrf: 'csrf-' + sid };
    const { csrf } = fake.sessions[sid];
    return { data: { name: fake.sessions[sid].name, role, csrf }, headers: { 'Set-Cookie': `sid=${sid}; HttpOnly; SameSite=Strict; Path=/` } };
  }

  function answer(r) {
    if (r.path === 'session') return session(r);
    if (!r.who) return problem(401, 'unauthenticated');
    if (r.method !== 'GET' && r.headers['x-csrf-token'] !== r.who.csrf) return problem(403, 'blocked', { msg: 'no csrf token' });
    const over = fake.answers[`${r.method} ${r.path}`];
    if (over) return over(r);
    for (const [method, pattern, role, make] of table) {
      const m = r.method === method && new RegExp(`^${pattern}$`).exec(r.path);
      if (!m) continue;
      return rank[r.who.role] >= rank[role] ? make(r, ...m.slice(1).map(decodeURIComponent)) : problem(403, 'forbidden', { msg: 'Your role may not do this.' });
    }
    return problem(404, 'not_found', { msg: 'There is no such thing.' });
  }

  function serve(path, response) {
    const name = join(dist, path === '/' ? 'index.html' : path);
    if (!name.startsWith(dist) || !existsSync(name) || !statSync(name).isFile()) {
      response.writeHead(404).end();
      return;
    }
    response.writeHead(200, { 'Content-Type': types[extname(name)] || 'application/octet-stream', 'Content-Security-Policy': policy, 'X-Content-Type-Options': 'nosniff' });
    createReadStream(name).pipe(response);
  }

  const server = createServer(async (request, response) => {
    const url = new URL(request.url, 'http://fake');
    if (!url.pathname.startsWith('/admin/v1/')) {
      serve(url.pathname, response);
      return;
    }
    if (fake.down) {
      request.socket.destroy();
      return;
    }
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const text = Buffer.concat(chunks).toString();
    const json = request.headers['content-type']?.startsWith('application/json');
    const r = { method: request.method, path: url.pathname.slice('/admin/v1/'.length), search: url.search, query: Object.fromEntries(url.searchParams), headers: request.headers, text, body: json && text ? JSON.parse(text) : undefined, who: who(request) };
    fake.requests.push(r);
    if (r.path === 'live' && r.who && !fake.liveOff) {
      response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store' });
      fake.streams.add(response);
      response.on('close', () => fake.streams.delete(response));
      response.write(`event: live\ndata: ${JSON.stringify(fake.event())}\n\n`);
      return;
    }
    const a = await answer(r);
    const type = (a.status || 200) < 400 ? 'application/json' : 'application/problem+json';
    response.writeHead(a.status || 200, { 'Content-Type': type, ...a.headers }).end(a.data === undefined ? undefined : JSON.stringify(a.data));
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  fake.url = 'http://127.0.0.1:' + server.address().port;
  fake.count = (method, path) => fake.requests.filter((r) => r.method === method && r.path === path).length;
  fake.last = (method, path) => fake.requests.filter((r) => r.method === method && r.path === path).at(-1);
  fake.close = () => {
    clearInterval(beat);
    server.close();
    server.closeAllConnections();
  };
  return fake;
}
