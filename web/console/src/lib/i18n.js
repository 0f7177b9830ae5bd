// Words in the language that is preferred. A key that has no words is shown as it is.

import en from '../text/en.js';
import zh from '../text/zh.js';
import { prefs } from './prefs.js';

const texts = { en, zh };

export const has = (key) => key in texts[prefs.lang];

export function t(key, params = {}) {
  const text = texts[prefs.lang][key] ?? key;
  return text.replace(/\{(\w+)\}/g, (whole, name) => params[name] ?? whole);
}

// word is for values of the API: one that is not known yet is shown as it comes.
export const word = (group, value) => (has(`${group}.${value}`) ? t(`${group}.${value}`) : String(value ?? '–'));
