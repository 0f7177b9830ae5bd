// The admin API, as the console calls it.

import { reactive } from 'vue';
import { t } from './i18n.js';
import { prefs } from './prefs.js';

const ranks = { viewer: 1, operator: 2, admin: 3 };

// Who is logged in. name is '' when nobody is; asked says whether the server has been asked, ended
// who was logged in until the server did not know it any more.
export const session = reactive({ name: '', role: '', csrf: '', asked: false, ended: '' });

// can tells whether whoever is logged in may do what takes a role.
export const can = (role) => (ranks[session.role] || 0) >= ranks[role];

// ApiError is a no of the server, or its silence (status 0).
export class ApiError extends Error {
  constructor(status, problem = {}) {
    super(problem.msg || (status ? t('error.status', { status }) : t('error.offline')));
    this.status = status;
    this.reason = problem.reason || '';
    this.detail = problem.detail || '';
    this.fields = problem.errors || [];
  }
}

const TIMEOUT = 20000;

function headers(method, type) {
  const h = { Accept: 'application/json', 'Accept-Language': prefs.lang };
  if (type) h['Content-Type'] = type;
  if (method !== 'GET' && session.csrf) h['X-CSRF-Token'] = session.csrf;
  return h;
}

function lost(ended = true) {
  if (session.name) Object.assign(session, { name: '', role: '', csrf: '', ended: ended ? session.name : '' });
}

// api asks for /admin/v1/PATH. What it throws is an ApiError.
export async function api(method, path, body) {
  let answer;
  try {
    answer = await fetch('/admin/v1/' + path, {
      method, headers: headers(method, body === undefined ? '' : 'application/json'), credentials: 'same-origin', cache: 'no-store',
      body: body === undefined ? undefined : JSON.stringify(body), signal: AbortSignal.timeout(TIMEOUT),
    });
  } catch {
    throw new ApiError(0);
  }
  const data = await answer.json().catch(() => null);
  if (answer.ok) return data;
  if (answer.status === 401 && path !== 'session') lost();
  throw new ApiError(answer.status, data || {});
}

export const get = (path) => api('GET', path);
export const post = (path, body) => api('POST', path, body ?? {});
export const put = (path, body) => api('PUT', path, body);
export const del = (path, body) => api('DELETE', path, body);

// query makes "?a=1&b=2" of what is not empty.
export function query(params) {
  const q = new URLSearchParams(Object.entries(params).filter(([, v]) => v !== '' && v !== null && v !== undefined)).toString();
  return q && '?' + q;
}

// upload sends a file, and says how far it is (0 to 1). fetch cannot tell that.
export function upload(path, file, type, progress) {
  return new Promise((done, fail) => {
    const x = new XMLHttpRequest();
    x.open('PUT', '/admin/v1/' + path);
    for (const [name, value] of Object.entries(headers('PUT', type))) x.setRequestHeader(name, value);
    x.responseType = 'json';
    x.upload.onprogress = (e) => e.lengthComputable && progress(e.loaded / e.total);
    x.onerror = () => fail(new ApiError(0));
    x.onload = () => {
      if (x.status === 401) lost();
      if (x.status >= 200 && x.status < 300) done(x.response);
      else fail(new ApiError(x.status, x.response || {}));
    };
    x.send(file);
  });
}

function entered(data) {
  Object.assign(session, { name: data.name, role: data.role, csrf: data.csrf || '', asked: true, ended: '' });
}

// resume asks whether there is a session already.
export async function resume() {
  try {
    entered(await get('session'));
  } catch (e) {
    session.asked = e.status !== 0;
    if (e.status === 401 || e.status === 404) lost();
    return e.status === 401 || e.status === 404 ? null : e;
  }
  return null;
}

export async function login(credentials) {
  entered(await api('POST', 'session', credentials));
}

export async function logout() {
  await del('session').catch((e) => { if (e.status === 0) throw e; });
  lost(false);
}
