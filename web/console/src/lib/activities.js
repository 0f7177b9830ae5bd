// What can be done about an activity, and the questions that are asked before.

import { can, post } from './api.js';
import { ask } from './ask.js';
import { money, number, span, time, zone } from './format.js';
import { t, word } from './i18n.js';

const at = (v) => (v ? `${time(v)} (${zone})` : '–');
const moment = (v) => (v ? new Date(v).toISOString() : '');

// possible says which commands make sense in a state. The server has the last word.
export function possible(a) {
  if (!can('operator')) return [];
  return {
    scheduled: ['preload', 'pause', 'restock', 'close'], ready: ['pause', 'restock', 'close'], open: ['pause', 'restock', 'close'],
    paused: ['resume', 'restock', 'close'], sold_out: ['restock', 'pause', 'close'], ended: ['rerun'],
  }[a.state] || [];
}

export const dangerous = (command) => command === 'close';

const facts = (a) => [[t('activity.name'), `${a.name} · #${a.id}`], [t('activity.state'), word('state', a.state)], [t('books.available'), `${number(a.books?.available ?? a.remaining)} / ${number(a.total)}`]];
const window = (v) => [[t('activity.lasts'), v.starts_at && v.ends_at ? span((new Date(v.ends_at) - new Date(v.starts_at)) / 1000) : '–'], [t('activity.starts_at'), at(v.starts_at)], [t('activity.ends_at'), at(v.ends_at)]];

export function command(a, name) {
  const path = `activities/${a.id}/${name}`;
  const plain = { title: t('do.' + name), effect: t(`do.${name}.effect`), facts: facts(a), tone: dangerous(name) ? 'danger' : 'primary', done: t(`do.${name}.done`, { name: a.name }) };
  if (name === 'restock') {
    const available = a.books?.available ?? a.remaining;
    return ask({
      ...plain, facts: (v) => [...facts(a), [t('do.restock.then'), number(available + (v.quantity || 0))]],
      fields: [{ name: 'quantity', kind: 'int', label: t('do.restock.quantity'), help: t('do.restock.help', { n: number(available) }), value: 10, required: true }],
      run: (v) => post(path, { quantity: v.quantity, reason: v.reason }),
      done: (r) => t(r.pending ? 'do.restock.pending' : 'do.restock.done', { n: number(r.restocked), name: a.name }),
    });
  }
  if (name === 'rerun') {
    const start = new Date(Math.ceil((Date.now() + 300e3) / 60e3) * 60e3);
    const length = Math.max(60e3, new Date(a.ends_at) - new Date(a.starts_at));
    return ask({
      ...plain, facts: (v) => [[t('activity.name'), `${a.name} · #${a.id}`], [t('activity.run'), number(a.run + 1)], ...window(v)],
      fields: [
        { name: 'stock', kind: 'int', min: 0, label: t('activity.stock'), value: a.total, required: true },
        { name: 'starts_at', kind: 'time', label: t('activity.starts_at'), value: start, required: true },
        { name: 'ends_at', kind: 'time', label: t('activity.ends_at'), value: new Date(+start + length), required: true },
      ],
      run: (v) => post(path, { stock: v.stock, starts_at: moment(v.starts_at), ends_at: moment(v.ends_at), reason: v.reason }),
    });
  }
  return ask({ ...plain, run: (v) => post(path, { reason: v.reason }) });
}

export function create() {
  const start = new Date(Math.ceil((Date.now() + 600e3) / 60e3) * 60e3);
  return ask({
    title: t('activities.create'), reason: 'optional',
    effect: (v) => (v.starts_at && new Date(v.starts_at) <= Date.now() ? t('create.at_once') : ''),
    fields: [
      { name: 'name', label: t('activity.name'), value: '', required: true, wide: true, maxlength: 200 },
      { name: 'description', kind: 'area', rows: 1, label: t('activity.description'), value: '', wide: true },
      { name: 'stock', kind: 'int', min: 0, label: t('activity.stock'), unit: t('units'), value: 100, required: true },
      { name: 'price_cents', kind: 'money', label: t('activity.price'), value: 100 },
      { name: 'starts_at', kind: 'time', label: t('activity.starts_at'), value: start, required: true },
      { name: 'ends_at', kind: 'time', label: t('activity.ends_at'), value: new Date(+start + 3600e3), required: true },
      { name: 'limit_per_user', kind: 'int', min: 1, label: t('activity.limit'), unit: t('units'), value: 1 },
      { name: 'payment_window_seconds', kind: 'int', min: 1, label: t('activity.payment_window'), unit: t('seconds'), value: 900 },
      { name: 'preload_before_seconds', kind: 'int', min: 0, label: t('activity.preload_before'), unit: t('seconds'), value: 300 },
      { name: 'sub_stocks', kind: 'int', min: 1, label: t('activity.sub_stocks'), help: t('activity.sub_stocks.help'), value: 1 },
      { name: 'audience', kind: 'select', label: t('activity.audience'), help: t('activity.audience.help'), value: 'everyone', options: ['everyone', 'listed'].map((value) => ({ value, label: t('audience.' + value) })) },
      { name: 'challenge', kind: 'bool', label: t('activity.challenge'), help: t('activity.challenge.help'), value: false },
      { name: 'entry_token', kind: 'bool', label: t('activity.entry_token'), help: t('activity.entry_token.help'), value: false },
    ],
    facts: (v) => [[t('create.sells'), `${number(v.stock)} × ${money(v.price_cents)}`], ...window(v)],
    run: (v) => {
      const { reason, ...rest } = v;
      return post('activities', { ...rest, starts_at: moment(v.starts_at), ends_at: moment(v.ends_at), ...(reason ? { reason } : {}) });
    },
    done: (a) => t('create.done', { name: a.name, id: a.id }),
  });
}

