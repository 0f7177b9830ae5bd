// The page of one activity: the model, what changes it, and how it gets onto the
// screen. view.js says what is shown.

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

// ---- The screen ----

let last = { key: '', said: '', at: 0 };

function render() {
  const v = view(m);
  const { act } = m;
  if (m.missing) renderMissing();
  else if (act) renderSale(act, v);
  show('connection', m.cut ? t('reconnecting') : '');

  const focused = document.activeElement;
  $('panel').hidden = !v.title;
  $('panel').className = 'panel ' + (v.tone || '');
  put($('title'), v.title || '');
  put($('text'), v.text || '');
  $('figure').hidden = !v.figure;
  put($('figure-label'), v.figure?.[0] || '');
  put($('figure-value'), v.figure?.[1] || '');
  $('bar').hidden = v.bar === undefined;
  $('bar').classList.toggle('endless', v.bar === null);
  $('bar-level').style.width = v.bar === null ? '' : (v.bar || 0) * 100 + '%';

  const go = $('go');
  put($('go-label'), v.button.label);
  put($('go-digits'), v.button.digits || '');
  put($('go-said'), v.button.said || '');
  mean('go', v.button.act);
  go.setAttribute('aria-disabled', v.button.act ? 'false' : 'true');
  show('alt', v.alt?.label);
  mean('alt', v.alt?.act);
  show('line', v.line);
  const many = !!v.quantity && act.limit_per_user > 1;
  $('quantity').hidden = !many;
  if (many) renderQuantity(act.limit_per_user);
  // The button that was pressed may be gone; then the keyboard goes on from what
  // took its place.
  if (focused?.hidden) ($('panel').hidden ? go : $('panel')).focus();
  announce(v);
  renderBuyer();
}

// mean notes what a button does, and since when.
const meant = { go: { at: 0 }, alt: { at: 0 } };
function mean(id, act = '') {
  const { dataset } = $(id);
  if (dataset.act !== act) meant[id].at = performance.now();
  dataset.act = act;
}

function renderMissing() {
  put($('name'), t('missing_title'));
  $('name').classList.remove('wait');
  show('description', t('missing_text'));
  document.title = t('missing_title');
  for (const id of ['stock', 'timer', 'fine']) $(id).hidden = true;
}

function renderSale(act, v) {
  put($('name'), act.name);
  $('name').classList.remove('wait');
  show('description', act.description);
  put($('price'), money(act.price_cents));
  document.title = (v.button.digits ? v.button.digits + ' · ' : v.tone === 'good' ? t('got_tab') + ' · ' : '') + act.name;
  const known = act.total > 0 && act.state !== 'ended';
  $('stock').hidden = !known;
  if (known) {
    const left = act.state === 'sold_out' ? 0 : act.remaining;
    put($('left'), stockWord(left, act.total));
    put($('total'), t('stock_total', { n: number(act.total) }));
    $('level').style.width = Math.max(0, Math.min(100, Math.ceil(left / act.total * 20) * 5)) + '%';
  }
  const end = Date.parse(act.ends_at) - clock.now();
  const timer = v.pay !== undefined ? ['pay_left', v.pay] : /^open( |$)/.test(v.key) && end > 0 ? ['ends_in', end] : null;
  $('timer').hidden = !timer;
  if (timer) {
    put($('timer-label'), t(timer[0]));
    put($('timer-digits'), digits(timer[1]));
    $('timer').classList.toggle('soon', timer[1] < 60e3);
  }
  const limit = t('limit', { n: number(act.limit_per_user || 1) });
  const pay = act.payment_window_seconds;
  show('fine', pay ? t('fine_join', { a: limit, b: t('pay_within', { time: inWords(pay * 1000) }) }) : t('fine_one', { a: limit }));
}

function renderQuantity(limit) {
  put($('count'), number(m.quantity));
  $('less').setAttribute('aria-disabled', m.quantity <= 1);
  $('more').setAttribute('aria-disabled', m.quantity >= limit);
}

function renderBuyer() {
  const token = store.get('token');
  $('who').hidden = m.note?.reason === 'unauthenticated';
  put($('who-text'), token ? t('logged_in') : t('buyer_is', { id: buyer() }));
  $('who-change').hidden = !!token;
}

// announce speaks a new state at once, and what changes within one not too often.
function announce(v) {
  const text = v.say || [v.title, v.text].filter(Boolean).join('. ');
  if (!text || text === last.said) {
    if (v.key !== last.key) last = { ...last, key: v.key };
    return;
  }
  const now = performance.now();
  if (v.key === last.key && now - last.at < 12000) return;
  // The first state of all is read with the page.
  if (last.key && last.key !== 'loading') put($('live'), text);
  last = { key: v.key, said: text, at: now };
}

function labels() {
  put($('back'), t('back'));
  put($('quantity-label'), t('quantity'));
  $('less').setAttribute('aria-label', t('less'));
  $('more').setAttribute('aria-label', t('more'));
  put($('who-change'), t('buyer_change'));
  put($('who-label'), t('buyer_label'));
  put($('who-save'), t('buyer_save'));
  put($('who-new'), t('buyer_new'));
  put($('who-hint'), t('buyer_hint'));
  put($('ask-title'), t('ask_title'));
  put($('ask-text'), t('ask_text'));
  put($('ask-yes'), t('ask_yes'));
  put($('ask-no'), t('ask_no'));
  render();
}

// ---- Clicks ----

let pressed = 0;

const acts = {
  buy,
  pay: () => change('pay'),
  ask: () => $('ask').showModal(),
  leave: () => location.assign('/'),
  async remind() {
    const answer = await Notification.requestPermission();
    m.reminds = answer === 'granted';
    m.canRemind = answer !== 'denied';
    render();
  },
};

// A button that has just got another meaning is not pressed by the second click of
// somebody who clicked twice, nor by a key held down. Only buying is always meant.
for (const id of ['go', 'alt']) {
  $(id).addEventListener('click', () => {
    const { act } = $(id).dataset;
    const now = performance.now();
    if (act !== 'buy' && now - meant[id].at < 400) return;
    if (act) pressed = now;
    acts[act]?.();
  });
  $(id).addEventListener('keydown', (event) => {
    if (event.repeat) event.preventDefault();
  });
}
// Nor does it mark the text that came to stand where the button was.
document.addEventListener('mousedown', (event) => {
  if (event.detail > 1 && performance.now() - pressed < 1000) event.preventDefault();
});

function count(by) {
  m.quantity = Math.min(Math.max(1, m.quantity + by), m.act.limit_per_user);
  render();
}
$('less').addEventListener('click', () => count(-1));
$('more').addEventListener('click', () => count(1));

$('ask-no').addEventListener('click', () => $('ask').close());
$('ask-yes').addEventListener('click', () => {
  $('ask').close();
  change('cancel');
});

function become(id) {
  if (m.step) return;
  store.set('buyer', id);
  $('who-form').hidden = true;
  $('who-change').focus();
  if (m.act) adopt();
  render();
}
$('who-change').addEventListener('click', () => {
  $('who-form').hidden = !$('who-form').hidden;
  $('who-id').value = buyer();
  if (!$('who-form').hidden) $('who-id').focus();
});
$('who-new').addEventListener('click', () => become('b-' + uuid().slice(0, 8)));
$('who-form').addEventListener('submit', (event) => {
  event.preventDefault();
  const id = $('who-id').value.trim();
  const valid = /^[ -~]{1,64}$/.test(id);
  $('who-id').setAttribute('aria-invalid', String(!valid));
  if (valid) become(id);
});

// Another tab of this browser bought, paid or cancelled.
addEventListener('storage', (event) => {
  if (!m.act || m.step || event.key && !event.key.startsWith('seckill.')) return;
  const kept = records.get(m.act.id, m.act.run);
  // Both tabs hear of one ticket; each would else begin anew whenever the other heard.
  if (kept?.ticket && kept.ticket === m.record?.ticket) {
    m.record = kept;
    if (kept.order?.state) settle(kept.order);
  } else if (kept?.key !== m.record?.key || kept?.ticket) {
    adopt();
  }
  render();
});

function look() {
  if (document.hidden) return;
  refresh();
  if (m.record?.order && !m.step) askOrder();
}
document.addEventListener('visibilitychange', look);
addEventListener('online', look);
addEventListener('offline', () => {
  m.cut = true;
  render();
});

document.querySelector('.picture').style.setProperty('--tint', tint(m.id));
languages(labels);
refresh();
tick();
