// A small server that speaks the public API as a test tells it to, so that every
// state of the page can be shown, also those a real sale gets into rarely. It
// serves the page from its sources, put together as internal/page does it.

import { createHash, randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';

const folder = new URL('../../../internal/page/', import.meta.url);
const read = (name) => readFileSync(new URL('assets/' + name, folder), 'utf8');
const hash = (text) => 'sha256-' + createHash('sha256').update(text).digest('base64');

function compose(body, list) {
  const go = readFileSync(new URL('page.go', folder), 'utf8');
  const names = [...new RegExp(list + '\\s*= \\[\\]string\\{(.*)\\}').exec(go)[1].matchAll(/"([^"]+)"/g)].map((m) => m[1]);
  const style = read('page.css');
  const lines = names.flatMap((name) => read(name).split('\n')).map((l) => l.trim()).filter((l) => l && !l.startsWith('//'));
  const script = "'use strict';\nconst TEXTS = " + read('texts.json').trim() + ';\n' + lines.join('\n') + '\n';
  const html = read('shell.html')
    .replace('<!-- body -->', () => read(body))
    .replace('/* style */', () => style)
    .replace('/* script */', () => script);
  const csp = /"(default-src 'none'; script-src [^"]*)"\+\s*"([^"]*)"/.exec(go.replace(/"\s*\+\s*\n\s*"/, '"+"'));
  const policy = (csp[1] + csp[2]).replace('%s', hash(script)).replace('%s', hash(style));
  return { html, policy };
}

export async function startFake() {
  const start = Date.now();
  const fake = {
    act: {
      id: 7, name: 'Walnut desk lamp', description: 'Warm light, made by hand. 100 pieces.', price_cents: 19900, state: 'open', run: 1,
      starts_at: new Date(start - 60e3).toISOString(), ends_at: new Date(start + 1800e3).toISOString(),
      total: 100, remaining: 47, limit_per_user: 1, challenge: false, entry_token: false, payment_window_seconds: 900,
    },
    ahead: 0, // Of new tickets.
    hold: true, // Whether tickets stay queued until the test says otherwise.
    skew: 0, // Of the server's clock, in milliseconds.
    down: false, // Requests to the API get no answer at all.
    answers: {}, // Overrides: "POST purchases" and the like, to a function of the request.
    events: true, // Whether the stream of events is there.
    requests: [],
    tickets: new Map(),
    orders: new Map(),
    streams: new Set(),
  };
  const pages = { list: compose('list.html', 'listScripts'), activity: compose('activity.html', 'activityScripts') };
  const now = () => Date.now() + fake.skew;

  fake.count = (name) => fake.requests.filter((r) => r.name === name).length;
  fake.told = (ticket) => {
    const { state, reason, ahead, order } = ticket;
    const told = { ticket: ticket.ticket, state };
    if (reason) told.reason = reason;
    if (state === 'queued') Object.assign(told, { ahead, poll_after_ms: 300 });
    if (order) told.order = fake.orders.get(order);
    return told;
  };
  // move changes a ticket and tells who listens.
  fake.move = (ticket, changes) => {
    Object.assign(ticket, changes);
    for (const stream of fake.streams) if (stream.ticket === ticket) fake.tell(stream);
  };
  fake.tell = ({ ticket, response }) => {
    response.write(`id: ${++fake.eventId}\nevent: ticket\ndata: ${JSON.stringify(fake.told(ticket))}\n\n`);
    if (ticket.state !== 'queued') response.end();
  };
  fake.eventId = 0;
  fake.cutStreams = () => {
    for (const { response } of fake.streams) response.destroy();
  };
  fake.confirm = (ticket, payMs = 900e3) => {
    const id = String(4001 + fake.orders.size);
    fake.orders.set(id, {
      id, activity_id: fake.act.id, run: fake.act.run, ticket: ticket.ticket, state: 'awaiting_payment', quantity: ticket.quantity,
      amount_cents: fake.act.price_cents * ticket.quantity, created_at: new Date(now()).toISOString(), pay_before: new Date(now() + payMs).toISOString(),
    });
    fake.move(ticket, { state: 'confirmed', order: id });
  };
  fake.last = () => [...fake.tickets.values()].at(-1);
  fake.refuse = (status, reason, more = {}, headers = {}) => ({ status, data: { status, title: reason, reason, msg: 'What the server says for people.', ...more }, headers });

  function purchase(r) {
    const same = [...fake.tickets.values()].find((t) => t.key === r.key && t.buyer === r.buyer);
    if (same) return { status: 202, data: fake.told(same) };
    const held = [...fake.tickets.values()].find((t) => t.buyer === r.buyer && (t.state === 'queued' || ['awaiting_payment', 'paid'].includes(fake.orders.get(t.order)?.state)));
    if (held && fake.act.limit_per_user === 1) return fake.refuse(409, 'already_purchased', { ticket: held.ticket });
    const ticket = { ticket: '7-1-' + randomBytes(10).toString('hex'), key: r.key, buyer: r.buyer, quantity: r.body.quantity, state: 'queued', ahead: fake.ahead };
    fake.tickets.set(ticket.ticket, ticket);
    if (!fake.hold) fake.confirm(ticket);
    return { status: 202, data: { ticket: ticket.ticket, state: 'queued', ahead: ticket.ahead, poll_after_ms: 300 } };
  }

  function order(r, id, change) {
    const found = fake.orders.get(id);
    if (!found || fake.tickets.get(found.ticket).buyer !== r.buyer) return fake.refuse(404, 'not_found');
    if (change && found.state !== change && found.state !== 'awaiting_payment') return fake.refuse(409, 'conflict');
    if (change) found.state = change;
    return { data: found };
  }

  function answer(r) {
    let m;
    if (r.path === '/v1/activities') return { name: 'GET activities', data: { activities: [fake.act, ...(fake.others || [])] } };
    if ((m = /^\/v1\/activities\/(\d+)(?:\/(\w+))?$/.exec(r.path))) {
      if (m[1] !== String(fake.act.id)) return { name: 'GET activity', ...fake.refuse(404, 'not_found') };
      if (!m[2]) return { name: 'GET activity', data: { ...fake.act, server_time: new Date(now()).toISOString() } };
      const name = r.method + ' ' + m[2];
      return { name, make: m[2] === 'purchases' ? () => purchase(r) : () => fake.refuse(404, 'not_found') };
    }
    if ((m = /^\/v1\/tickets\/([^/]+)(\/events)?$/.exec(r.path))) {
      const ticket = fake.tickets.get(m[1]);
      const known = ticket && ticket.buyer === r.buyer;
      if (m[2]) return { name: 'GET events', stream: known && fake.events && ticket, ...fake.refuse(404, 'not_found') };
      return { name: 'GET ticket', make: () => known ? { data: fake.told(ticket) } : fake.refuse(404, 'not_found') };
    }
    if (r.path === '/v1/orders') return { name: 'GET orders', data: { orders: [...fake.orders.values()] } };
    if ((m = /^\/v1\/orders\/([^/]+)(?:\/(pay|cancel))?$/.exec(r.path))) {
      const change = { pay: 'paid', cancel: 'cancelled' }[m[2]];
      return { name: m[2] ? 'POST ' + m[2] : 'GET order', make: () => order(r, m[1], change) };
    }
    return { name: r.path, ...fake.refuse(404, 'not_found') };
  }

  const server = createServer(async (request, response) => {
    const path = new URL(request.url, 'http://fake').pathname;
    const page = path === '/' ? pages.list : path.startsWith('/a/') ? pages.activity : null;
    if (page) {
      response.writeHead(200, { 'Content-Type': 'text/html; charset=utf-8', 'Content-Security-Policy': page.policy }).end(page.html);
      return;
    }
    if (path.startsWith('/favicon')) {
      response.writeHead(200, { 'Content-Type': 'image/svg+xml' }).end(read('favicon.svg'));
      return;
    }
    let text = '';
    for await (const chunk of request) text += chunk;
    const r = {
      method: request.method, path, body: text ? JSON.parse(text) : undefined, headers: request.headers, at: Date.now(),
      buyer: request.headers['x-user-id'] || request.headers.authorization, key: request.headers['idempotency-key'],
    };
    let a = answer(r);
    r.name = a.name;
    fake.requests.push(r);
    if (fake.down) {
      request.socket.destroy();
      return;
    }
    a = await fake.answers[r.name]?.(r) || (a.make ? a.make() : a);
    if (a.destroy) {
      request.socket.destroy();
    } else if (a.stream) {
      const stream = { ticket: a.stream, response };
      response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store' });
      fake.streams.add(stream);
      response.on('close', () => fake.streams.delete(stream));
      fake.tell(stream);
    } else {
      const type = (a.status || 200) < 400 ? 'application/json' : 'application/problem+json';
      response.writeHead(a.status || 200, { 'Content-Type': type, ...a.headers }).end(JSON.stringify(a.data));
    }
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  fake.url = 'http://127.0.0.1:' + server.address().port;
  fake.close = () => {
    server.close();
    server.closeAllConnections();
  };
  return fake;
}
