// The page of one activity: the model, and what changes it. view.js says what is
// shown, and screen.js shows it.

const m = {
  id: /^\/a\/([1-9]\d{0,18})$/.exec(location.pathname)?.[1],
  missing: false, // There is no such activity.
  act: null, // The activity, as last heard.
  opening: false, // The start has come by our clock; the server has not said so.
  record: null, // See ticket.js.
  step: '', // What is under way: proof, send, pay, cancel.
  progress: 0, // Of the proof.
  stuck: false, // A purchase has had no answer yet.
  note: null, // Why the last attempt came to nothing: reason, msg, until, tone, again.
  quantity: 1,
  shopPays: false, // This server does not simulate payment.
  cut: false, // The last request had no answer.
  reminds: false,
  canRemind: 'Notification' in window && isSecureContext && Notification.permission !== 'denied',
};

function keep(changes) {
  m.record = changes && { ...m.record, ...changes };
  records.set(m.act.id, m.act.run, m.record);
  render();
}

function say(note) {
  m.note = note;
  render();
}


// ---- The activity ----

let refreshTimer = 0;
let refreshing = null;

function refresh() {
  refreshing ||= load().finally(() => {
    refreshing = null;
    clearTimeout(refreshTimer);
    refreshTimer = setTimeout(refresh, m.missing ? 60000 : nextRefresh());
    render();
  });
  return refreshing;
}

let advice = 0;

async function load() {
  advice = 0;
  try {
    if (!m.id) throw Object.assign(new Error(), { missing: true });
    const answer = await call('GET', '/v1/activities/' + m.id, { open: true });
    m.missing = answer.status === 404;
    advice = answer.retry;
    m.cut = !answer.ok && !m.missing;
    if (answer.ok) learn(answer);
  } catch (e) {
    m.missing = !!e.missing;
    m.cut = !m.missing;
  }
}

function learn(answer) {
  const act = answer.data;
  clock.learn(act.server_time, answer);
  const before = m.act;
  m.act = act;
  if (act.state !== 'scheduled' && act.state !== 'ready') m.opening = false;
  m.quantity = Math.min(m.quantity, act.limit_per_user || 1);
  if (!before || before.run !== act.run) adopt();
}

// How long until the activity is asked for again. The moment of the start is
// looked after by the clock, so there is no hurry before.
function nextRefresh() {
  if (advice) return later(advice);
  if (!m.act || m.cut) return around(2000);
  if (m.opening) return around(700);
  const left = Date.parse(m.act.starts_at) - clock.now();
  const calm = { open: 4000, paused: 4000, sold_out: 6000, ended: 60000 }[m.act.state] || (left < 60000 ? 10000 : 30000);
  return around(document.hidden ? calm * 5 : calm);
}

// ---- The ticket ----

let following = null;

// adopt takes up what is kept of this run: after a reload, from another tab, or
// of another buyer.
function adopt() {
  following?.abort();
  following = null;
  m.record = records.get(m.act.id, m.act.run);
  m.note = null;
  const { record } = m;
  if (!record) return;
  m.quantity = Math.min(record.quantity || 1, m.act.limit_per_user || 1);
  // An attempt without an answer is repeated with its key while it is fresh.
  // Later it waits for the button, and is forgotten in the end.
  if (!record.ticket) {
    const age = Date.now() - record.at;
    if (age > 600e3) keep(null);
    else if (age < 60e3 && !record.refused && !m.step) buy();
  } else if (!final(record.state)) {
    track();
  } else {
    askOrder();
  }
}

function track() {
  following?.abort();
  following = new AbortController();
  pace.seen = [];
  const { ticket } = m.record;
  follow(ticket, (data) => {
    if (m.record?.ticket !== ticket) return;
    m.cut = !data;
    if (data) heard(data);
    render();
  }, following.signal);
}

function heard(data) {
  if (data.state === 'unknown') {
    findOrder();
    return;
  }
  if (data.state === 'refused') {
    m.note = refusal(data.answer);
    return;
  }
  m.note = null;
  const changes = { state: data.state, reason: data.reason };
  if (data.state === 'queued') {
    changes.ahead = data.ahead ?? m.record.ahead ?? 0;
    changes.first = Math.max(m.record.first || 0, changes.ahead);
    pace.add(changes.ahead);
  }
  if (data.order) changes.order = typeof data.order === 'object' ? data.order : { id: data.order };
  keep(changes);
  if (data.state === 'failed') {
    keep(null);
    say({ reason: TEXTS[data.reason + '_title'] ? data.reason : 'failed' });
    refresh();
  }
  if (data.state === 'confirmed' && !changes.order?.state) askOrder();
}

// The server does not know the ticket any more, or not its order. If an order came
// of it, it is among the buyer's; else the place was lost with the queue.
async function findOrder() {
  const { ticket } = m.record;
  try {
    const answer = await call('GET', '/v1/orders');
    m.cut = false;
    if (m.record?.ticket !== ticket) return;
    const order = answer.ok && answer.data.orders?.find((o) => o.ticket === ticket);
    if (order) {
      keep({ state: 'confirmed', order });
      settle(order);
    } else if (answer.ok) {
      keep(null);
      say({ reason: 'lost' });
    } else {
      say(refusal(answer));
      setTimeout(() => m.record?.ticket === ticket && findOrder(), later(Math.max(answer.retry, 5000)));
    }
  } catch {
    m.cut = true;
    render();
    setTimeout(() => m.record?.ticket === ticket && findOrder(), around(3000));
  }
}

// ---- The purchase ----

// buy makes one attempt. Its key is kept until the attempt has a definite answer,
// so whatever is pressed or reloaded meanwhile repeats it and takes no second unit.
async function buy() {
  if (m.step) return;
  const kept = records.get(m.act.id, m.act.run);
  const pending = kept && !kept.ticket ? kept : null;
  if (kept?.ticket && m.record?.ticket !== kept.ticket) {
    // Another tab was quicker.
    adopt();
    return;
  }
  m.step = 'send';
  m.note = null;
  m.stuck = false;
  m.record = null;
  keep(pending ? { ...pending, refused: false } : { key: uuid(), at: Date.now(), quantity: m.quantity });
  const { id, run } = m.act;
  try {
    await attempt(id);
  } finally {
    m.step = '';
    m.stuck = false;
    if (m.act.id === id && m.act.run === run) render();
    else adopt();
  }
}

async function attempt(id) {
  const path = '/v1/activities/' + id + '/purchases';
  let proofs = m.act.challenge || m.act.entry_token ? 1 : 0;
  let token;
  for (let tries = 0; ;) {
    try {
      if (proofs > 0 && !token) token = await enter(id, m.act.challenge || proofs > 1);
      m.step = 'send';
      render();
      const body = { quantity: m.record.quantity };
      if (token) body.entry_token = token;
      const answer = await call('POST', path, { body, key: m.record.key });
      m.cut = false;
      const { reason } = answer.data;
      // Both ask for a new token, once; then the words of the refusal are shown.
      if ((reason === 'challenge_required' || reason === 'replayed') && proofs < 2) {
        proofs = 2;
        token = null;
        continue;
      }
      answered(answer);
      return;
    } catch (e) {
      if (e.refused) {
        answered(e.refused);
        return;
      }
      // No answer: the unit may be taken, so the same attempt is made again.
      m.stuck = true;
      m.cut = true;
      render();
      await sleep(around(Math.min(1000 * 2 ** tries++, 15000)));
    }
  }
}

// enter gets an entry token, for which the browser may have to work.
async function enter(id, challenged) {
  const path = '/v1/activities/' + id;
  const refused = (answer) => Object.assign(new Error(), { refused: answer });
  let proof = '';
  if (challenged) {
    m.step = 'proof';
    m.progress = 0;
    render();
    const answer = await call('GET', path + '/challenge');
    if (!answer.ok) throw refused(answer);
    proof = await solve(answer.data, (part) => {
      m.progress = part;
      render();
    });
    if (!proof) throw refused({ status: 0, data: {} });
  }
  const answer = await call('POST', path + '/entry', { body: { proof } });
  if (!answer.ok) throw refused(answer);
  return answer.data.entry_token;
}

function answered(answer) {
  const { data } = answer;
  if (answer.ok && data.ticket) {
    keep({ ticket: data.ticket, state: data.state || 'queued', ahead: data.ahead || 0, first: data.ahead || 0 });
    track();
    return;
  }
  if (data.reason === 'already_purchased' && data.ticket) {
    // Bought earlier, in another browser perhaps: what there is of it is shown.
    keep({ ticket: data.ticket, state: '', earlier: true });
    track();
    return;
  }
  // Where trying again is the advice, the same attempt is tried again.
  const again = answer.retry || answer.status === 429 || answer.status >= 500;
  keep(again ? { refused: true } : null);
  say(refusal(answer));
  refresh();
}

// ---- The order ----

async function askOrder() {
  const { order } = m.record;
  if (!order) {
    findOrder();
    return;
  }
  try {
    const answer = await call('GET', '/v1/orders/' + encodeURIComponent(order.id));
    m.cut = false;
    if (m.record?.order?.id !== order.id) return;
    if (answer.ok) settle(answer.data);
    else if (answer.status === 404) keep(null);
  } catch {
    m.cut = true;
    render();
  }
}

function settle(order) {
  const was = m.record.order.state;
  keep({ order });
  if (order.state === 'cancelled' || order.state === 'expired') {
    m.note = { reason: order.state, tone: 'calm', again: true };
    if (was !== order.state) refresh();
  } else {
    m.note = null;
  }
  render();
}

async function change(step) {
  if (m.step || !m.record?.order) return;
  m.step = step;
  m.note = null;
  render();
  const { id } = m.record.order;
  try {
    const answer = await call('POST', '/v1/orders/' + encodeURIComponent(id) + '/' + step);
    m.cut = false;
    if (answer.ok && answer.data.state) {
      settle(answer.data);
    } else if (answer.ok) {
      await askOrder();
    } else if (answer.status === 404 && step === 'pay') {
      m.shopPays = true;
    } else {
      say(refusal(answer));
      // Something else may have been quicker: payment, expiry, another tab.
      if (answer.status < 429) await askOrder();
    }
  } catch {
    m.cut = true;
    await askOrder();
  } finally {
    m.step = '';
    render();
  }
}

// ---- The clock's work ----

let asked = 0;

function tick() {
  const now = clock.now();
  const { act, record } = m;
  if (act && clock.known) {
    const left = Date.parse(act.starts_at) - now;
    const before = act.state === 'scheduled' || act.state === 'ready';
    if (before && left <= 0 && !m.opening) {
      // Everybody's page comes here at once, so each waits a little of its own.
      m.opening = true;
      clearTimeout(refreshTimer);
      refreshTimer = setTimeout(refresh, Math.random() * 500);
    }
    if (before && m.reminds && left < 30e3 && left > 0) remindNow();
    if (act.state === 'open' && Date.parse(act.ends_at) <= now && now - asked > 3000) {
      asked = now;
      refresh();
    }
    // An order that is not paid here is asked after: the shop takes the money, or
    // its time has passed.
    if (record?.order && (record.order.state || 'awaiting_payment') === 'awaiting_payment' && !m.step) {
      const late = !record.order.state || Date.parse(record.order.pay_before) <= now;
      if ((late || m.shopPays || m.cut) && now - asked > (late ? 2000 : 8000)) {
        asked = now;
        askOrder();
      }
    }
  }
  render();
  setTimeout(tick, 1000 - (act ? (((now - Date.parse(act.starts_at)) % 1000) + 1000) % 1000 : 0) + 5);
}

function remindNow() {
  m.reminds = false;
  try {
    new Notification(t('remind_title'), { body: m.act.name });
  } catch { /* Some phones allow notifications only to installed pages. */ }
}
