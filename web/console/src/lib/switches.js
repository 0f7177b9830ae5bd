// What can be switched, and the questions that are asked before.

import { put } from './api.js';
import { ask } from './ask.js';
import { number } from './format.js';
import { has, t, word } from './i18n.js';
import { mark } from './live.js';

export const show = (value, name) => (typeof value === 'boolean' ? t(value ? 'on' : 'off') : name === 'admission_percent' ? number(value) + ' %' : String(value));

// buyers says what buyers will see.
export const buyers = (name, value) => {
  const key = `switch.${name}.${typeof value === 'boolean' ? (value ? 'on' : 'off') : name === 'admission_percent' && value >= 100 ? 'all' : 'set'}`;
  return has(key) ? t(key, { value }) : '';
};

// figures says in this language what a dry run found; what only the server can say is said as it says it.
function figures(effect, own) {
  if (!effect || typeof effect === 'string') return effect;
  if (effect.refused_per_second > 0) return t('switch.refused', { n: number(effect.purchases_per_second), refused: number(effect.refused_per_second) });
  return own ? '' : effect.says;
}

// change asks before it switches. to is the new value; without it, it is asked for.
export function change(s, { to, later = false } = {}) {
  const bool = typeof s.value === 'boolean';
  const value = to ?? (bool ? !s.value : s.value);
  const fixed = bool && !later;
  const bad = { intake: !value, consumers: !value, admission_percent: value < 100 }[s.name];
  const verb = `switch.${s.name}.verb.${value}`;
  const path = 'switches/' + encodeURIComponent(s.name);
  const body = (v) => ({ value: fixed ? value : v.value, reason: v.reason || '', ...(later && v.at ? { at: new Date(v.at).toISOString() } : {}) });
  return ask({
    title: fixed && has(verb) ? t(verb) : fixed ? t(`switch.do.${value ? 'on' : 'off'}`, { name: word('switch', s.name) }) : t(later ? 'switch.do.later' : 'switch.do.set', { name: word('switch', s.name) }),
    confirm: later ? t('switch.schedule') : fixed && has(verb) ? t(verb) : t('switch.change'),
    tone: bad && fixed ? 'danger' : 'primary',
    fields: [
      ...(fixed ? [] : [bool ? { name: 'value', kind: 'bool', label: t('on'), value } : { name: 'value', kind: s.name === 'admission_percent' ? 'percent' : 'int', label: word('switch', s.name), unit: s.name === 'admission_percent' ? '%' : '', value }]),
      ...(later ? [{ name: 'at', kind: 'time', label: t('switch.at'), value: new Date(Date.now() + 600e3), required: true }] : []),
    ],
    // A dry run knows the figures of the moment.
    effect: async (v) => {
      const own = buyers(s.name, body(v).value);
      const dry = await put(path, { ...body(v), reason: v.reason || t('switch.dry'), dry_run: true }).catch(() => null);
      return [own, figures(dry?.effect, own)].filter(Boolean).join('\n');
    },
    run: async (v) => {
      const answer = await put(path, body(v));
      if (!later) mark('switch', s.name, Date.now(), String(body(v).value));
      return answer ?? true;
    },
    done: (_, v) => (later ? t('switch.scheduled') : t('switch.done', { name: word('switch', s.name), value: show(body(v).value, s.name) })),
  });
}

