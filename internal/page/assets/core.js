// What both pages need: words, numbers and times in the buyer's language, the
// server's clock, storage, and requests.

const $ = (id) => document.getElementById(id);

// Storage may be forbidden or full; then what is kept lasts as long as the page.
const memory = {};
const store = {
  get(name) {
    try {
      return localStorage.getItem('seckill.' + name);
    } catch {
      return memory[name] ?? null;
    }
  },
  set(name, value) {
    memory[name] = value;
    try {
      localStorage.setItem('seckill.' + name, value);
    } catch { /* It is in memory. */ }
  },
  drop(name) {
    delete memory[name];
    try {
      localStorage.removeItem('seckill.' + name);
    } catch { /* There is nothing to drop. */ }
  },
};

let lang = store.get('lang');
if (lang !== 'en' && lang !== 'zh') {
  const wanted = navigator.languages.map((l) => l.slice(0, 2).toLowerCase());
  lang = wanted.find((l) => l === 'en' || l === 'zh') || 'en';
}

function t(key, values) {
  const text = TEXTS[key][lang === 'zh' ? 1 : 0];
  return values ? text.replace(/\{(\w+)\}/g, (_, name) => values[name]) : text;
}

// English is said as the buyer's own region says it.
function locale() {
  return lang === 'zh' ? 'zh-CN' : navigator.languages.find((l) => /^en\b/i.test(l)) || 'en';
}

// Formats are dear to make, and some are used each second.
const formats = {};
function intl(kind, name, options) {
  return formats[lang + name] ||= new Intl[kind](locale(), options);
}

const number = (n) => intl('NumberFormat', 'number').format(n);

function money(cents) {
  return intl('NumberFormat', 'money', { style: 'currency', currency: 'CNY', currencyDisplay: 'narrowSymbol' }).format(cents / 100);
}

function unitFormat(unit) {
  return intl('NumberFormat', unit, { style: 'unit', unit, unitDisplay: 'long', maximumFractionDigits: 0 });
}

// A length of time in one unit, rounded: for what is read out, not for clocks.
function inWords(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 100) return unitFormat('second').format(seconds);
  if (seconds < 100 * 60) return unitFormat('minute').format(Math.round(seconds / 60));
  if (seconds < 48 * 3600) return unitFormat('hour').format(Math.round(seconds / 3600));
  return unitFormat('day').format(Math.round(seconds / 86400));
}

function rangeInWords(fromMs, toMs) {
  const unit = toMs > 100e3 ? 'minute' : 'second';
  const per = unit === 'minute' ? 60e3 : 1e3;
  const step = unit === 'second' && toMs > 20e3 ? 5 : 1;
  const from = Math.max(1, Math.floor(fromMs / per / step) * step);
  const to = Math.max(from + step, Math.ceil(toMs / per / step) * step);
  const format = unitFormat(unit);
  return format.formatRange ? format.formatRange(from, to) : from + '–' + format.format(to);
}

// Whole seconds are rounded up, so that 00:00:01 is shown until the very start.
function digits(ms) {
  const seconds = Math.max(0, Math.ceil(ms / 1000));
  const two = (n) => String(n).padStart(2, '0');
  const days = Math.floor(seconds / 86400);
  const text = [Math.floor(seconds % 86400 / 3600), Math.floor(seconds % 3600 / 60), seconds % 60].map(two).join(':');
  return days ? t('days', { days: unitFormat('day').format(days), digits: text }) : text;
}

// A moment in the buyer's own time zone, which is named after it.
function moment(iso) {
  const date = new Date(iso);
  const year = date.getFullYear() !== new Date().getFullYear();
  const exact = date.getSeconds() > 0;
  const parts = intl('DateTimeFormat', 'moment' + year + exact, {
    year: year ? 'numeric' : undefined, month: 'short', day: 'numeric', weekday: 'short',
    hour: '2-digit', minute: '2-digit', second: exact ? '2-digit' : undefined,
  }).format(date);
  const zone = intl('DateTimeFormat', 'zone', { timeZoneName: 'short' }).formatToParts(date).find((p) => p.type === 'timeZoneName');
  return t('moment', { time: parts, zone: zone.value });
}

function stockWord(remaining, total) {
  const part = total > 0 ? remaining / total : 0;
  if (remaining <= 0) return t('stock_none');
  if (part < 0.06) return t('stock_last');
  if (part < 0.22) return t('stock_few');
  if (part < 0.42) return t('stock_third');
  if (part < 0.62) return t('stock_half');
  return t(part < 0.95 ? 'stock_most' : 'stock_all');
}

// The server's clock. The browser's own may be wrong or be set while the page is
// open, so it is never asked: between two answers time goes by performance.now.
const clock = {
  known: false,
  offset: 0,
  roundTrip: 0,
  at: 0,
  now() {
    return performance.now() + this.offset;
  },
  // An answer bears the server's time of some moment of the round trip, the
  // middle at best. A quick answer says it more exactly. An answer that came out
  // of a cache is behind, and so is performance.now after the machine slept:
  // of two that contradict each other, the later time is right.
  learn(serverTime, answer) {
    const server = Date.parse(serverTime) + answer.age * 1000;
    if (!(server > 0)) return;
    const roundTrip = answer.received - answer.sent;
    const offset = server - (answer.sent + answer.received) / 2;
    const best = this.roundTrip + (answer.received - this.at) * 1e-4;
    const slack = (roundTrip + best) / 2;
    const better = roundTrip <= best && offset >= this.offset - slack;
    if (this.known && !better && offset <= this.offset + slack) return;
    Object.assign(this, { known: true, offset, roundTrip, at: answer.received });
  },
};

// randomUUID exists in secure contexts only, and a shop on a LAN is none.
function uuid() {
  if (crypto.randomUUID) return crypto.randomUUID();
  const hex = [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, '0')).join('');
  return hex.replace(/(.{8})(.{4})(.{4})(.{4})(.{12})/, '$1-$2-$3-$4-$5');
}

function sleep(ms, signal) {
  return new Promise((done) => {
    const end = () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', end);
      done();
    };
    const timer = setTimeout(end, ms);
    signal?.addEventListener('abort', end);
  });
}

// Both spread what many pages would do at the same moment; later never hurries.
const around = (ms) => ms * (0.8 + Math.random() * 0.4);
const later = (ms) => ms * (1 + Math.random() * 0.25);

// Who the buyer is. A shop that embeds the page puts its own bearer token into
// local storage under "seckill.token". Else the page makes a buyer up, whom only
// a server with open identity believes.
function buyer() {
  let id = store.get('buyer');
  if (!/^[ -~]{1,64}$/.test(id || '')) {
    id = 'b-' + uuid().slice(0, 8);
    store.set('buyer', id);
  }
  return id;
}

function identity() {
  let device = store.get('device');
  if (!device) store.set('device', device = uuid());
  const token = store.get('token');
  const who = token ? { Authorization: 'Bearer ' + token } : { 'X-User-Id': buyer() };
  return { ...who, 'X-Device-Id': device, 'Accept-Language': lang === 'zh' ? 'zh-CN' : 'en' };
}

// call asks the API, and throws when no answer came. What every buyer gets alike
// is asked without saying who asks, so that a cache may answer.
async function call(method, path, { body, key, open } = {}) {
  const headers = { Accept: 'application/json', ...(open ? {} : identity()) };
  if (body) headers['Content-Type'] = 'application/json';
  if (key) headers['Idempotency-Key'] = key;
  const abort = new AbortController();
  const timer = setTimeout(() => abort.abort(), 15000);
  try {
    const sent = performance.now();
    const response = await fetch(path, {
      method, headers, body: body && JSON.stringify(body), cache: 'no-store', signal: abort.signal,
    });
    const received = performance.now();
    const text = await response.text();
    let data = {};
    try {
      data = JSON.parse(text) || {};
    } catch {
      // A proxy on the way answered with a page of its own.
      if (response.ok) throw new Error('not JSON');
    }
    const header = (name) => Math.max(0, Number(response.headers.get(name)) || 0);
    return { ok: response.ok, status: response.status, data, sent, received, age: header('Age'), retry: header('Retry-After') * 1000 };
  } finally {
    clearTimeout(timer);
  }
}

function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Shows an element with its text, or hides it when there is none.
function show(id, text) {
  const element = $(id);
  put(element, text || '');
  element.hidden = !text;
}

// Wires the switch of languages. paint writes all texts of the page.
function languages(paint) {
  const apply = () => {
    document.documentElement.lang = lang === 'zh' ? 'zh-CN' : 'en';
    const other = $('lang');
    put(other, t('other_language'));
    other.lang = lang === 'zh' ? 'en' : 'zh-CN';
    paint();
  };
  $('lang').addEventListener('click', () => {
    lang = lang === 'zh' ? 'en' : 'zh';
    store.set('lang', lang);
    apply();
  });
  apply();
}

// Pictures differ a little from activity to activity, in their tint.
const tint = (id) => String((Number(id) * 67 + 324) % 360);
