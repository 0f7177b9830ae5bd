// What the server says once a second, and what it said in the last ten minutes. When it
// falls silent, the last figures stay, are said to be old, and the books are asked for instead.

import { reactive, shallowReactive } from 'vue';
import { get, resume, session } from './api.js';

const KEPT = 600; // Seconds of history.
const SILENT = 4000; // Milliseconds after which figures are old.
const STORE = 'seckill-console-live';

export const live = reactive({
  status: 'connecting', // connecting, live, stale
  at: 0, // When the last event came, by this browser's clock.
  node: '', nodes: 0, backlog: 0, backlogOldest: 0, ordersPerSecond: 0, guards: [],
});

// figures are replaced whole each second; history is plain, and tick says that it grew.
export const figures = shallowReactive({ outcomes: {}, latency: {}, lag: {}, activities: [], tick: 0 });
export const history = { points: [], marks: [] };

let source = null;
let timer = 0;
let began = 0;
let opened = 0;
let failures = 0;
let asking = false;

const sum = (counts) => Object.values(counts || {}).reduce((a, b) => a + b, 0);
export const requests = () => (live.at ? sum(figures.outcomes) : null);

// What one did oneself is heard of from the server as well: by its clock, and a little later.
export function mark(kind, name, at = Date.now(), detail = '') {
  if (history.marks.some((m) => m.kind === kind && m.name === name && m.detail === detail && Math.abs(m.at - at) < 3000)) return;
  history.marks = [...history.marks.filter((m) => m.at > Date.now() - KEPT * 1000), { kind, name, at, detail }];
}

function guards(list) {
  for (const g of list) {
    const before = live.guards.find((x) => x.name === g.name);
    if (before && before.acting !== g.acting) mark('guard', g.name, Date.now(), g.acting ? 'on' : 'off');
  }
  live.guards = list;
}

function take(data) {
  const now = Date.now();
  Object.assign(live, {
    status: 'live', at: now, node: data.node || '', nodes: data.nodes || 0, backlog: data.backlog || 0,
    backlogOldest: data.backlog_oldest_seconds || 0, ordersPerSecond: data.orders_per_second || 0,
  });
  guards(data.guards || []);
  figures.outcomes = data.outcomes || {};
  figures.latency = data.latency_ms || {};
  figures.lag = data.order_lag_ms || {};
  figures.activities = data.activities || [];
  const stock = {};
  for (const a of figures.activities) stock[a.id] = [a.available, a.queued];
  history.points.push({ at: now, outcomes: figures.outcomes, latency: figures.latency, lag: figures.lag, backlog: live.backlog, stock });
  const old = history.points.findIndex((p) => p.at > now - KEPT * 1000);
  if (old > 0) history.points.splice(0, old);
  figures.tick++;
}

// Without the stream, the books and the guards can be asked for.
async function ask() {
  if (asking) return;
  asking = true;
  try {
    const [{ activities }, switches] = await Promise.all([get('activities?limit=1000'), get('switches').catch(() => ({}))]);
    guards(switches.guards || []);
    figures.activities = activities.map((a) => ({
      ...a.books, id: a.id, run: a.run, name: a.name, state: a.state, total: a.books?.total ?? a.total,
      available: a.books?.available ?? a.remaining, unknown: !a.books,
    }));
    figures.tick++;
  } catch { /* It is stale already, and said to be. */ }
  asking = false;
}

function close() {
  source?.close();
  source = null;
}

function connect() {
  close();
  opened = Date.now();
  source = new EventSource('/admin/v1/live');
  source.addEventListener('live', (e) => {
    failures = 0;
    take(JSON.parse(e.data));
  });
  source.onerror = () => {
    // A stream that was refused is not tried again by the browser. Perhaps the session has ended.
    if (source?.readyState !== EventSource.CLOSED) return;
    failures++;
    close();
    resume();
  };
}

function watch() {
  if (!session.name) return;
  const now = Date.now();
  if (now - (live.at || began) > SILENT) live.status = 'stale'; // Whether one is trying again or not.
  const wait = Math.min(1000 * 2 ** failures, 15000);
  if (!source && now - opened > wait || source && now - Math.max(live.at, opened) > 15000) connect();
  if (live.status === 'stale' && !document.hidden && Math.floor(Date.now() / 1000) % 3 === 0) ask();
}

function restore() {
  try {
    const kept = JSON.parse(sessionStorage.getItem(STORE));
    if (kept && history.points.length === 0) {
      history.points = kept.points.filter((p) => p.at > Date.now() - KEPT * 1000);
      history.marks = kept.marks;
    }
  } catch { /* Then the charts begin now. */ }
}

// A reload keeps the charts.
addEventListener('pagehide', () => {
  try {
    if (session.name) sessionStorage.setItem(STORE, JSON.stringify(history));
  } catch { /* As above. */ }
});

export function start() {
  if (timer) return;
  began = Date.now();
  restore();
  connect();
  timer = setInterval(watch, 1000);
  ask();
}

export function stop() {
  clearInterval(timer);
  timer = 0;
  close();
  try {
    sessionStorage.removeItem(STORE); // It is not for who comes next.
  } catch { /* As above. */ }
  history.points = [];
  history.marks = [];
  Object.assign(live, { status: 'connecting', at: 0, guards: [] });
  Object.assign(figures, { outcomes: {}, latency: {}, lag: {}, activities: [], tick: 0 });
}
