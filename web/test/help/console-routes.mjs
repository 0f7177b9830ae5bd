// What the fake of the admin API answers: [method, path, role, function of the request].

export function routes(fake, { problem, ago, books }) {
  const list = (key, name = key) => () => ({ data: { [name]: fake[key] } });
  const missing = problem(404, 'not_found', { msg: 'There is no such thing.' });
  const invalid = (...errors) => problem(400, 'invalid_request', { msg: errors.map((e) => e.msg).join(' '), errors });
  const on = (id, change) => {
    const a = fake.find('activities', id);
    if (!a) return missing;
    return change(a) || { data: a };
  };
  const command = (name, state) => ['POST', `activities/(\\d+)/${name}`, 'operator', (r, id) => on(id, (a) => {
    a.state = state;
    fake.note(r, 'activity.' + name, 'activity/' + id);
  })];
  const effects = { intake: (v) => ({ says: 'Server text.', refused_percent: v ? 0 : 100, open_activities: 1, purchases_per_second: 455, refused_per_second: v ? 0 : 455 }) };

  return [
    ['GET', 'activities', 'viewer', list('activities')],
    ['POST', 'activities', 'operator', (r) => {
      if (r.body.stock > 100000000) return invalid({ field: 'stock', rule: 'max', expected: '100000000', msg: 'stock must be at most 100000000.' });
      if (r.body.ends_at <= r.body.starts_at) return invalid({ field: 'ends_at', rule: 'after', expected: 'starts_at', msg: 'ends_at must come after starts_at.' });
      const a = { ...fake.activities[0], ...r.body, id: fake.activities.length + 1, state: 'scheduled', run: 1, total: r.body.stock, remaining: r.body.stock, created_at: ago(0), books: books(r.body.stock, r.body.stock, 0, 0, 0, 0) };
      fake.activities.push(a);
      fake.note(r, 'activity.create', 'activity/' + a.id);
      return { status: 201, data: a };
    }],
    ['GET', 'activities/(\\d+)', 'viewer', (r, id) => on(id, () => null)],
    command('preload', 'ready'), command('pause', 'paused'), command('resume', 'open'), command('close', 'ended'),
    ['POST', 'activities/(\\d+)/restock', 'operator', (r, id) => on(id, (a) => {
      const n = r.body.quantity;
      if (n === 0 || a.books.available + n < 0) return invalid({ field: 'quantity', rule: 'min', expected: String(-a.books.available), msg: `quantity must be at least ${-a.books.available}, and not 0.` });
      a.books = { ...a.books, total: a.books.total + n, available: a.books.available + n };
      a.total += n;
      fake.note(r, 'activity.restock', 'activity/' + id, { quantity: n });
      return { data: { ...a, restocked: n, pending: false } };
    })],
    ['POST', 'activities/(\\d+)/rerun', 'operator', (r, id) => on(id, (a) => {
      Object.assign(a, { run: a.run + 1, state: 'scheduled', total: r.body.stock, starts_at: r.body.starts_at, ends_at: r.body.ends_at, books: books(r.body.stock, r.body.stock, 0, 0, 0, 0) });
      fake.note(r, 'activity.rerun', 'activity/' + id);
    })],
    ['POST', 'activities/(\\d+)/reconcile', 'viewer', (r, id) => on(id, (a) => {
      if (r.body.repair && r.who.role === 'viewer') return problem(403, 'forbidden', { msg: 'Your role may not do this.' });
      const findings = fake.findings.map((f) => ({ ...f, repaired: Boolean(r.body.repair) }));
      if (r.body.repair) {
        fake.findings = [];
        fake.note(r, 'activity.reconcile', 'activity/' + id);
      }
      return { data: { balanced: !findings.length || Boolean(r.body.repair), books: a.books, findings } };
    })],
    ['GET', 'activities/(\\d+)/audience', 'viewer', (r, id) => (fake.audiences[id] ? { data: fake.audiences[id] } : missing)],
    ['PUT', 'activities/(\\d+)/audience', 'operator', (r, id) => {
      const count = new Set(r.text.split('\n').map((l) => l.trim()).filter(Boolean)).size;
      fake.audiences[id] = { count, version: (fake.audiences[id]?.version || 0) + 1, updated_at: ago(0) };
      fake.note(r, 'audience.set', 'activity/' + id, { count });
      return { data: fake.audiences[id] };
    }],

    ['GET', 'switches', 'viewer', () => ({ data: { switches: fake.switches, guards: fake.guards } })],
    ['PUT', 'switches/(\\w+)', 'operator', (r, name) => {
      const s = fake.switches.find((x) => x.name === name);
      if (!s) return missing;
      if (r.body.dry_run) return { data: { dry_run: true, effect: effects[name]?.(r.body.value) || { says: '' } } };
      if (r.body.at) {
        s.scheduled.push({ id: Date.now(), at: r.body.at, value: r.body.value, by: r.who.name, reason: r.body.reason });
      } else {
        Object.assign(s, { value: r.body.value, changed_at: ago(0), changed_by: r.who.name, reason: r.body.reason });
      }
      fake.note(r, r.body.at ? 'switch.schedule' : 'switch.set', 'switch/' + name, { value: r.body.value });
      return { data: s };
    }],
    ['DELETE', 'switches/(\\w+)/scheduled/(\\d+)', 'operator', (r, name, id) => {
      const s = fake.switches.find((x) => x.name === name);
      s.scheduled = s.scheduled.filter((x) => String(x.id) !== id);
      return { status: 204 };
    }],

    ['GET', 'dead-letters', 'viewer', list('dead', 'dead_letters')],
    ['POST', 'dead-letters/(\\d+)/retry', 'operator', (r, id) => {
      if (!fake.find('dead', id)) return missing;
      if (id === '12') return { data: { id: 12, state: 'dead', reason: 'message version 9 is newer than this program knows' } };
      fake.dead = fake.dead.filter((d) => String(d.id) !== id);
      fake.note(r, 'dead_letter.retry', 'dead_letter/' + id);
      return { data: { id: Number(id), state: 'settled', outcomes: [{ state: 'confirmed' }] } };
    }],
    ['POST', 'dead-letters/(\\d+)/drop', 'operator', (r, id) => {
      fake.dead = fake.dead.filter((d) => String(d.id) !== id);
      fake.note(r, 'dead_letter.drop', 'dead_letter/' + id, { return_stock: r.body.return_stock });
      return { data: { id: Number(id), state: 'dropped' } };
    }],

    ['GET', 'blocks', 'viewer', list('blocks')],
    ['POST', 'blocks', 'operator', (r) => {
      if (r.body.kind === 'cidr' && !r.body.value.includes('/')) return invalid({ field: 'value', rule: 'format', expected: 'a network, 203.0.113.0/24', msg: 'value must be a network, 203.0.113.0/24.' });
      const b = { id: Date.now(), until: null, ...r.body, source: 'operator', created_at: ago(0), created_by: r.who.name };
      fake.blocks.unshift(b);
      fake.note(r, 'block.add', 'block/' + b.id);
      return { status: 201, data: b };
    }],
    ['DELETE', 'blocks/(\\d+)', 'operator', (r, id) => {
      fake.blocks = fake.blocks.filter((b) => String(b.id) !== id);
      fake.note(r, 'block.remove', 'block/' + id);
      return { status: 204 };
    }],

    ['GET', 'orders', 'viewer', (r) => ({ data: { orders: fake.orders.filter((o) => o.buyer === r.query.buyer) } })],
    ['POST', 'orders/(\\w+)/paid', 'operator', (r, id) => {
      const o = fake.find('orders', id);
      if (o.state !== 'awaiting_payment') return problem(409, 'conflict', { msg: 'That is not possible in this state.' });
      Object.assign(o, { state: 'paid', payment_ref: r.body.payment_ref });
      fake.note(r, 'order.paid', 'order/' + id);
      return { data: o };
    }],

    ['GET', 'nodes', 'viewer', list('nodes')],
    ['GET', 'audit', 'viewer', (r) => {
      const from = r.query.cursor ? fake.audit.filter((e) => e.id < Number(r.query.cursor)) : fake.audit;
      const limit = Number(r.query.limit || 100);
      const page = from.slice(0, limit);
      return { data: { audit: page, ...(from.length > limit ? { cursor: String(page.at(-1).id) } : {}) } };
    }],
    ['GET', 'plan', 'viewer', (r) => {
      const n = (k) => Number(r.query[k]);
      if (!(n('participants') >= 1)) return invalid({ field: 'participants', rule: 'min', expected: '1', msg: 'participants must be at least 1.' });
      const total = n('participants') * n('clicks');
      const mean = total / Number.parseFloat(r.query.duration);
      const round = (x) => Math.floor(x + 0.5);
      return { data: { total_requests: round(total), mean_qps: round(mean), peak_qps: round(mean * n('peak_factor')), provision_qps: round(mean * n('peak_factor') * (1 + n('headroom'))), nodes: Math.max(1, round(mean * n('peak_factor') * (1 + n('headroom')) / n('node_qps'))) } };
    }],

    ['GET', 'accounts', 'admin', () => ({ data: { accounts: Object.entries(fake.people).map(([name, p]) => ({ name, role: p.role, disabled: Boolean(p.disabled), created_at: ago(90000) })) } })],
    ['POST', 'accounts', 'admin', (r) => {
      const { name, password, role } = r.body;
      if (password.length < 12) return invalid({ field: 'password', rule: 'min', expected: '12', msg: 'password must have at least 12 characters.' });
      fake.people[name] = { password, role };
      fake.note(r, 'account.create', 'account/' + name);
      return { status: 201, data: { name, role, disabled: false } };
    }],
    ['PUT', 'accounts/([^/]+)', 'admin', (r, name) => {
      const { reason, ...changes } = r.body;
      Object.assign(fake.people[name], changes);
      fake.note(r, 'account.change', 'account/' + name);
      return { data: { name, role: fake.people[name].role, disabled: Boolean(fake.people[name].disabled) } };
    }],
    ['DELETE', 'accounts/([^/]+)', 'admin', (r, name) => {
      delete fake.people[name];
      fake.note(r, 'account.remove', 'account/' + name);
      return { status: 204 };
    }],

    ['GET', 'webhooks', 'viewer', list('webhooks')],
    ['POST', 'webhooks', 'admin', (r) => {
      if (/127\.|localhost/.test(r.body.url)) return invalid({ field: 'url', rule: 'format', expected: 'a public address', msg: 'url must be a public address.' });
      const w = { id: fake.webhooks.length + 1, ...r.body, created_at: ago(0), disabled: false, secret: 'whsec_made_once' };
      fake.webhooks.push(w);
      return { status: 201, data: w };
    }],
    ['DELETE', 'webhooks/(\\d+)', 'admin', (r, id) => {
      fake.webhooks = fake.webhooks.filter((w) => String(w.id) !== id);
      return { status: 204 };
    }],
    ['POST', 'webhooks/(\\d+)/rotate', 'admin', (r, id) => ({ data: { id: Number(id), secret: 'whsec_made_anew', old_secret_until: ago(-86400) } })],
    ['POST', 'webhooks/(\\d+)/test', 'operator', () => ({ data: fake.tested })],
    ['POST', 'webhooks/(\\d+)/enable', 'operator', (r, id) => ({ data: Object.assign(fake.find('webhooks', id), { disabled: false, reason: '' }) })],
    ['GET', 'webhooks/(\\d+)/deliveries', 'viewer', list('deliveries')],
    ['POST', 'webhooks/(\\d+)/deliveries/(\\d+)/retry', 'operator', (r, hook, id) => ({ data: Object.assign(fake.find('deliveries', id), { state: 'pending', attempts: 0 }) })],
  ];
}
