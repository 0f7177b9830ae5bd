// How what view.js says gets onto the screen, and what clicks do.

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
  const disabled = String(!v.button.act);
  if (go.getAttribute('aria-disabled') !== disabled) go.setAttribute('aria-disabled', disabled);
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
  $('price').parentElement.hidden = true;
}

function renderSale(act, v) {
  put($('name'), act.name);
  $('name').classList.remove('wait');
  show('description', act.description);
  put($('price'), money(act.price_cents));
  $('price').parentElement.hidden = false;
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
