// A list of the API: loaded, loaded on by cursor, asked for again while it is looked at.

import { onUnmounted, reactive } from 'vue';
import { get, query } from './api.js';

const PAGE = 100;

// useList loads PATH; key is the array's name, params a function of what else to ask for.
export function useList(path, key, { params = () => ({}), every = 0, paged = true, now = true } = {}) {
  const list = reactive({ rows: [], cursor: '', loading: false, loaded: false, error: null });
  let turn = 0;

  async function load(more) {
    const mine = ++turn;
    list.loading = true;
    try {
      const data = await get(path + query({ ...params(), ...(paged ? { limit: PAGE } : {}), cursor: more ? list.cursor : '' }));
      if (mine !== turn) return;
      list.rows = more ? [...list.rows, ...data[key]] : data[key];
      list.cursor = data.cursor || '';
      list.data = data;
      list.error = null;
      list.loaded = true;
    } catch (e) {
      if (mine === turn) list.error = e;
    }
    if (mine === turn) list.loading = false;
  }

  list.reload = () => load(false);
  list.more = () => load(true);
  if (every) {
    // Who has loaded on reads; the rows must not be taken away below the eyes.
    const timer = setInterval(() => { if (!document.hidden && list.rows.length <= PAGE && !list.loading) load(false); }, every);
    onUnmounted(() => clearInterval(timer));
  }
  if (now) load(false);
  return list;
}
