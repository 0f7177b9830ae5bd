// Numbers, times and money, for people.

import { t } from './i18n.js';
import { prefs } from './prefs.js';

const locale = () => (prefs.lang === 'zh' ? 'zh-CN' : 'en-GB');
const known = (n) => n !== null && n !== undefined && !Number.isNaN(n);

export const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC';

export const number = (n, digits = 0) => (known(n) ? new Intl.NumberFormat(locale(), { maximumFractionDigits: digits }).format(n) : '–');

export const money = (cents) => (known(cents) ? '¥' + new Intl.NumberFormat(locale(), { minimumFractionDigits: 2 }).format(cents / 100) : '–');

// millis keeps three figures, in the unit that suits.
export function millis(ms) {
  if (!known(ms)) return '–';
  if (ms >= 10000) return number(ms / 1000, 0) + ' s';
  if (ms >= 1000) return number(ms / 1000, 2) + ' s';
  return number(ms, ms < 10 ? 2 : ms < 100 ? 1 : 0) + ' ms';
}

export function time(value, { seconds = true, day = true } = {}) {
  if (!value) return '–';
  const d = new Date(value);
  if (Number.isNaN(+d)) return String(value);
  const two = (n) => String(n).padStart(2, '0');
  const date = `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}`;
  const clock = `${two(d.getHours())}:${two(d.getMinutes())}${seconds ? ':' + two(d.getSeconds()) : ''}`;
  return day ? `${date} ${clock}` : clock;
}

export const utc = (value) => (value ? new Date(value).toISOString().replace('T', ' ').replace(/\.\d+Z$/, 'Z') : '');

// span says how long something is: 4 s, 3 min, 2 h 5 min, 3 d.
export function span(seconds) {
  if (!known(seconds)) return '–';
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return t('span.s', { n: s });
  if (s < 3600) return s < 600 && s % 60 ? t('span.min_s', { m: Math.floor(s / 60), s: s % 60 }) : t('span.min', { n: Math.round(s / 60) });
  if (s < 86400) {
    const m = Math.round((s % 3600) / 60);
    return m ? t('span.h_min', { h: Math.floor(s / 3600), m }) : t('span.h', { n: s / 3600 | 0 });
  }
  return t('span.d', { n: Math.round(s / 86400) });
}

export const ago = (value, now = Date.now()) => (value ? t('span.ago', { span: span((now - new Date(value)) / 1000) }) : '–');
