// Which page is where. Each is a part of its own. The address after # is the console's,
// so that the server need know one page only.

import { createRouter, createWebHashHistory } from 'vue-router';
import { resume, session } from './lib/api.js';

export const pages = [
  { path: '/', name: 'overview', component: () => import('./pages/Overview.vue') },
  { path: '/activities', name: 'activities', component: () => import('./pages/Activities.vue') },
  { path: '/orders', name: 'orders', component: () => import('./pages/Orders.vue') },
  { path: '/switches', name: 'switches', component: () => import('./pages/Switches.vue') },
  { path: '/dead-letters', name: 'dead', component: () => import('./pages/DeadLetters.vue') },
  { path: '/reconcile', name: 'reconcile', component: () => import('./pages/Reconcile.vue') },
  { path: '/access', name: 'access', component: () => import('./pages/Access.vue') },
  { path: '/nodes', name: 'nodes', component: () => import('./pages/Nodes.vue') },
  { path: '/webhooks', name: 'webhooks', component: () => import('./pages/Webhooks.vue') },
  { path: '/plan', name: 'plan', component: () => import('./pages/Plan.vue') },
  { path: '/audit', name: 'audit', component: () => import('./pages/Audit.vue') },
  { path: '/accounts', name: 'accounts', role: 'admin', component: () => import('./pages/Accounts.vue') },
];

const router = createRouter({
  history: createWebHashHistory(),
  routes: [
    ...pages,
    { path: '/activities/:id(\\d+)', name: 'activity', component: () => import('./pages/Activity.vue') },
    { path: '/login', name: 'login', component: () => import('./pages/Login.vue'), meta: { open: true } },
    { path: '/:rest(.*)', redirect: '/' },
  ],
  scrollBehavior: (to, from, saved) => saved || (to.path === from.path ? false : { top: 0 }),
});

router.beforeEach(async (to) => {
  if (!session.asked) await resume();
  if (!to.meta.open && !session.name) return { name: 'login', query: to.path === '/' ? {} : { to: to.fullPath } };
  if (to.name === 'login' && session.name) return '/';
  return true;
});

export default router;
