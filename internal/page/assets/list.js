// The list of activities.

let shelf = null;
let cut = false;

// A card says where its activity stands, in one line.
function standing(act) {
  if (act.state === 'scheduled' || act.state === 'ready') return t('state_soon', { time: moment(act.starts_at) });
  return TEXTS['state_' + act.state] ? t('state_' + act.state) : '';
}

function element(name, className, ...children) {
  const e = document.createElement(name);
  e.className = className;
  e.append(...children);
  return e;
}

function picture(act) {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  const use = document.createElementNS('http://www.w3.org/2000/svg', 'use');
  svg.setAttribute('aria-hidden', 'true');
  use.setAttribute('href', '#parcel');
  svg.append(use);
  const frame = element('div', 'picture', svg);
  frame.style.setProperty('--tint', tint(act.id));
  return frame;
}

function card(act) {
  const link = element('a', 'name', act.name);
  link.href = '/a/' + act.id;
  const facts = element('p', 'facts', element('span', 'amount', money(act.price_cents)), element('span', 'standing ' + act.state, standing(act)));
  return element('li', 'card', picture(act), element('h2', '', link), facts);
}

let shown = '';

function paint() {
  document.title = t('sales');
  put($('heading'), t('sales'));
  show('connection', cut ? t('reconnecting') : '');
  show('empty', shelf ? (shelf.length ? '' : t('empty_list')) : t('loading'));
  // Cards are made anew only when something on them changed: focus stays.
  const now = JSON.stringify([lang, (shelf || []).map((a) => [a.id, a.name, a.price_cents, a.state, a.starts_at])]);
  if (now === shown) return;
  shown = now;
  const focused = document.activeElement?.getAttribute('href');
  $('list').replaceChildren(...(shelf || []).map(card));
  if (focused) document.querySelector('a[href="' + CSS.escape(focused) + '"]')?.focus();
}

async function refresh() {
  let wait = 15000;
  try {
    const answer = await call('GET', '/v1/activities', { open: true });
    cut = !answer.ok;
    if (answer.ok) shelf = answer.data.activities || [];
    wait = Math.max(cut ? 3000 : wait, answer.retry);
  } catch {
    cut = true;
    wait = 3000;
  }
  paint();
  setTimeout(refresh, later(document.hidden ? wait * 5 : wait));
}

languages(paint);
refresh();
