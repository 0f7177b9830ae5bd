// What this browser prefers: language and theme. Remembered, and asked of the browser at first.

import { reactive, watchEffect } from 'vue';

const KEY = 'seckill-console';
const dark = matchMedia('(prefers-color-scheme: dark)');

function remembered() {
  try {
    return JSON.parse(localStorage.getItem(KEY)) || {};
  } catch {
    return {}; // Storage may be forbidden; then nothing is remembered.
  }
}

const kept = remembered();
export const prefs = reactive({
  lang: ['zh', 'en'].includes(kept.lang) ? kept.lang : ((navigator.languages || [navigator.language]).find((l) => /^(zh|en)\b/i.test(l)) || 'en').slice(0, 2).toLowerCase(),
  theme: ['light', 'dark', 'auto'].includes(kept.theme) ? kept.theme : 'auto',
  systemDark: dark.matches,
  get dark() { return this.theme === 'auto' ? this.systemDark : this.theme === 'dark'; },
});

dark.addEventListener('change', () => { prefs.systemDark = dark.matches; });

watchEffect(() => {
  document.documentElement.lang = prefs.lang === 'zh' ? 'zh-CN' : 'en';
  document.documentElement.classList.toggle('dark', prefs.dark);
});

export function prefer(changes) {
  Object.assign(prefs, changes);
  try {
    localStorage.setItem(KEY, JSON.stringify({ lang: prefs.lang, theme: prefs.theme }));
  } catch { /* See above. */ }
}
