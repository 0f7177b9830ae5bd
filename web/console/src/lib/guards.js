// What a guard says, in this language where it is simple: the server says it in English.

import { number } from './format.js';
import { has, t } from './i18n.js';

const hanging = /^a call has been under way for (\d.*)$/;
const waiting = /^(\d+) reservations wait for an order; stops at (\d+), starts again at (\d+)$/;

export function figure(g) {
  const m = waiting.exec(g.figure || '');
  return m ? t('guard.backlog.figure', { n: number(+m[1]), high: number(+m[2]), low: number(+m[3]) }) : g.figure;
}

// reasons are what it means, and then, if that says more, what the server knows of the cause.
export function reasons(g) {
  const own = has(`guard.${g.name}.why`) ? t(`guard.${g.name}.why`) : '';
  return [own, hanging.test(g.reason) ? t('guard.breaker.call', { span: hanging.exec(g.reason)[1] }) : g.name === 'backlog' ? '' : g.reason].filter(Boolean);
}
