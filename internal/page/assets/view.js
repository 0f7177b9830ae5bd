// What is shown for what is known: view(m) is a function of the model alone, and
// changes nothing. It answers
//   key                 names the state; a change of it is announced
//   tone                good, calm, warn: how the panel looks
//   title, text         of the panel
//   figure              [label, value]: one large figure in the panel
//   bar                 0 to 1, or null for one without an end; undefined: no bar
//   button              {label, digits, said, act}: without act it cannot be pressed
//   alt                 {label, act}: the second, quieter button
//   line                one line under the buttons
//   quantity            whether the buyer may choose how many
//   say                 what a screen reader announces, when not the title and text

function view(m) {
  const { act, record, note } = m;
  if (m.missing) return { key: 'missing', button: { label: t('back'), act: 'leave' }, say: t('missing_title') };
  if (!act) return { key: 'loading', button: { label: t('loading') } };
  if (m.step === 'proof') {
    return { key: 'proof', tone: 'calm', title: t('checking_title'), text: t('checking_text'), bar: m.progress, button: { label: t('checking') } };
  }
  // A ticket of which nothing is known yet, or an order that is being looked up.
  const asking = record?.ticket && (!record.state || record.state === 'confirmed' && !record.order?.state);
  if (m.step === 'send' || asking) {
    const what = m.stuck ? 'stuck' : 'sending';
    return { key: what, tone: m.stuck ? 'warn' : 'calm', title: t(what + '_title'), text: t(what + '_text'), bar: null, button: { label: t('sending') } };
  }
  if (record?.state === 'queued') return viewQueued(m);
  if (record?.order?.state === 'awaiting_payment') return viewUnpaid(m);
  if (record?.order?.state === 'paid') return viewPaid(m);
  return note ? viewNote(m, viewSale(m)) : viewSale(m);
}

function viewQueued({ record, note }) {
  if (note) {
    return { key: 'queued ' + note.reason, tone: 'warn', title: noteTitle(note), text: noteText(note), button: { label: t('queued_button') } };
  }
  const place = number(record.ahead + 1);
  const range = pace.range();
  const wait = range ? t('queued_wait', { range: rangeInWords(...range) }) : t('queued_wait_unknown');
  return {
    key: 'queued', tone: 'calm', title: t('queued_title'),
    figure: record.ahead > 0 ? [t('queued_place'), place] : ['', t('queued_next')],
    bar: record.first > 0 ? Math.max(0.02, 1 - record.ahead / record.first) : null,
    text: wait, line: t('queued_leave'), button: { label: t('queued_button') },
    say: record.ahead > 0 ? t('queued_said', { n: place }) + ' ' + (range ? wait : '') : t('queued_next'),
  };
}

function viewUnpaid({ record, step, note, shopPays }) {
  const { order } = record;
  const left = Date.parse(order.pay_before) - clock.now();
  const v = {
    key: 'unpaid', tone: 'good', title: t('got_title'), text: t(record.earlier ? 'earlier_text' : 'got_text'),
    figure: [t('order_number'), order.id],
    button: { label: t('pay', { amount: money(order.amount_cents) }), act: 'pay' },
    alt: { label: t('cancel'), act: 'ask' },
    pay: Math.max(0, left),
  };
  if (shopPays) {
    v.text = t('pay_in_shop', { order: order.id });
    v.button = { label: t('pay_in_shop_button') };
  }
  if (step === 'pay' || step === 'cancel') {
    v.button = { label: t(step === 'pay' ? 'paying' : 'cancelling') };
    v.alt = null;
  } else if (left <= 0) {
    v.key = 'late';
    v.text = t('pay_late');
    v.button = { label: t('loading') };
    v.alt = null;
  } else if (note) {
    v.key = 'unpaid ' + note.reason;
    v.tone = 'warn';
    v.text = noteText(note);
    if (note.until > clock.now()) v.button = waiting(note);
  }
  if (v.key === 'unpaid' && left < 60e3) v.say = t('pay_left_said', { wait: inWords(Math.ceil(left / 15e3) * 15e3) });
  return v;
}

function viewPaid({ act, record }) {
  const more = act.limit_per_user > record.order.quantity && act.state === 'open';
  return {
    key: 'paid', tone: 'good', title: t('paid_title'), text: t(record.earlier ? 'earlier_text' : 'paid_text'), figure: [t('order_number'), record.order.id],
    button: { label: t('paid_button') }, alt: more ? { label: t('buy_more'), act: 'buy' } : null,
  };
}

// viewNote says above the sale what became of the last attempt. The button is the
// sale's own, unless there is a time to wait for, or nothing that a click would do.
function viewNote({ note, record }, sale) {
  const v = { ...sale, key: sale.key + ' ' + note.reason, tone: note.tone || 'warn', title: noteTitle(note), text: noteText(note), say: '' };
  // The page hears of an activity that goes on; of the intake, only by trying.
  if (note.reason === 'paused' && sale.key === 'open') v.text = t('paused_try');
  // An attempt that is not settled is repeated as it was.
  if (record) v.quantity = false;
  if (sale.key !== 'open') {
    if (sale.title && note.reason !== sale.key) v.text = sentences(v.text, t('sale_is', { state: sale.title }));
  } else if (note.until > clock.now()) {
    v.button = waiting(note);
  } else {
    if (note.again) v.text = sentences(v.text, t('again_open'));
    v.button = { label: t(note.again ? 'buy_again' : 'try_again'), act: 'buy' };
  }
  return v;
}

// A reason that this page does not know is said in the server's words.
const noteTitle = (note) => t((TEXTS[note.reason + '_title'] ? note.reason : 'other') + '_title');
const noteText = (note) => TEXTS[note.reason + '_text'] ? t(note.reason + '_text') : note.msg || t('other_text');

// Chinese sentences follow each other without a space.
const sentences = (...all) => all.join(lang === 'zh' ? '' : ' ');

function waiting(note) {
  const seconds = Math.ceil((note.until - clock.now()) / 1000);
  return { label: t('try_in'), digits: t('seconds', { n: number(seconds) }), said: '' };
}

function viewSale({ act, opening, reminds, canRemind }) {
  const left = Date.parse(act.starts_at) - clock.now();
  switch (act.state) {
    case 'scheduled':
    case 'ready': {
      const v = { key: 'before', line: t('starts_exact', { time: moment(act.starts_at) }), quantity: true };
      if (opening || left <= 0) return { ...v, key: 'opening', button: { label: t('starts_soon') } };
      v.button = { label: t('starts_in'), digits: digits(left), said: inWords(left) };
      v.say = soonSaid(left);
      if (left > 40e3 && reminds) v.line = sentences(v.line, t('remind_on'));
      else if (left > 40e3 && canRemind) v.alt = { label: t('remind'), act: 'remind' };
      return v;
    }
    case 'open':
      return { key: 'open', button: { label: t('buy'), act: 'buy' }, quantity: true, say: t('open_said') };
    case 'paused':
      return { key: 'paused', tone: 'calm', title: t('paused_title'), text: t('paused_text'), button: { label: t('paused_button') } };
    case 'sold_out':
      return { key: 'sold_out', tone: 'calm', title: t('sold_out_title'), text: t('sold_out_text'), button: { label: t('sold_out_title') } };
    default:
      return { key: 'ended', tone: 'calm', title: t('ended_title'), text: t('ended_text'), button: { label: t('ended_button') }, alt: { label: t('back'), act: 'leave' } };
  }
}

// The countdown is read out at a few moments only.
function soonSaid(left) {
  const mark = [10e3, 60e3, 300e3].find((ms) => left <= ms);
  return mark ? t('soon_said', { wait: inWords(mark) }) : '';
}

// refusal notes why the API said no, and when to try again. An answer without a
// reason comes from something on the way, and its status has to do.
function refusal(answer) {
  const { status } = answer;
  const guess = { 401: 'unauthenticated', 404: 'missing', 429: 'rate_limited', 503: 'busy' }[status];
  const retry = answer.retry || (status === 429 || status >= 500 ? 3000 : 0);
  return {
    reason: answer.data.reason || guess || (status >= 500 ? 'internal' : 'other'),
    msg: answer.data.msg, until: retry ? clock.now() + retry : 0,
  };
}
