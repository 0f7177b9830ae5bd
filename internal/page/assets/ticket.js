// A purchase from the first click to the end of its order: what is kept of it,
// and how the page hears of its progress.

// A record is kept for each activity, run and buyer:
//   key, at, quantity          of the attempt, from before it is sent
//   ticket, state, reason      of its ticket, once there is one
//   ahead, first               places in front, now and at first
//   order                      once it is confirmed
// It is kept before the request is sent, so that a reload in the middle repeats
// the same attempt instead of making a second one.
const records = {
  name(activity, run) {
    return 'ticket.' + activity + '.' + run + '.' + (store.get('token') ? '' : buyer());
  },
  get(activity, run) {
    try {
      const record = JSON.parse(store.get(this.name(activity, run)));
      return record && record.key ? record : null;
    } catch {
      return null;
    }
  },
  set(activity, run, record) {
    if (record) store.set(this.name(activity, run), JSON.stringify(record));
    else store.drop(this.name(activity, run));
  },
};

const final = (state) => state === 'confirmed' || state === 'failed';

// follow hears of a ticket until it is final, the signal is given, or the server
// does not know it. It listens to the stream of events, and when that does not
// come through or breaks, asks as often as the server advises. heard is called
// with each answer, and with null when there is none.
async function follow(ticket, heard, signal) {
  const path = '/v1/tickets/' + encodeURIComponent(ticket);
  let wait = 2000;
  let lastId = '';
  let cuts = 0;
  const take = (data) => {
    wait = data.poll_after_ms || wait;
    heard(data);
    return final(data.state);
  };
  while (!signal.aborted) {
    // Browsers open few connections to one host: a page that nobody looks at
    // leaves them to others. After many cuts it is no use trying each time.
    if (!document.hidden && (cuts < 4 || cuts % 8 === 0)) {
      const stream = await listen(path + '/events', lastId, take, signal);
      lastId = stream.lastId;
      if (stream.done || signal.aborted) return;
      cuts = stream.heard ? 1 : cuts + 1;
    } else {
      cuts++;
    }
    try {
      const answer = await call('GET', path);
      if (answer.ok) {
        if (take(answer.data)) return;
      } else if (answer.status === 404 || answer.status === 410) {
        heard({ state: 'unknown' });
        return;
      } else {
        wait = Math.max(wait, answer.retry);
        heard(answer.status < 429 ? { state: 'refused', answer } : null);
      }
    } catch {
      heard(null);
    }
    await sleep(later(Math.min(Math.max(wait, 250), 60000)), signal);
  }
}

// listen reads one stream of Server-Sent Events. EventSource cannot say who the
// buyer is, so the stream is fetched. A stream that is silent for long is taken
// for cut: some proxies hold events back.
async function listen(path, lastId, take, signal) {
  const result = { done: false, heard: false, lastId };
  const abort = new AbortController();
  const stop = () => abort.abort();
  signal.addEventListener('abort', stop);
  document.addEventListener('visibilitychange', stop);
  let silence = setTimeout(stop, 5000);
  try {
    const headers = { Accept: 'text/event-stream', ...identity() };
    if (lastId) headers['Last-Event-ID'] = lastId;
    const response = await fetch(path, { headers, cache: 'no-store', signal: abort.signal });
    if (!response.ok || !/event-stream/.test(response.headers.get('Content-Type') || '')) return result;
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = ''; ;) {
      const { value, done } = await reader.read();
      if (done) return result;
      clearTimeout(silence);
      silence = setTimeout(stop, 45000);
      const events = (rest + value.replace(/\r/g, '')).split('\n\n');
      rest = events.pop();
      for (const event of events) {
        const data = [];
        for (const line of event.split('\n')) {
          const [, name, text] = /^(\w+): ?(.*)$/.exec(line) || [];
          if (name === 'data') data.push(text);
          if (name === 'id') result.lastId = text;
        }
        if (!data.length) continue;
        result.heard = true;
        if (take(JSON.parse(data.join('\n')))) {
          result.done = true;
          return result;
        }
      }
    }
  } catch {
    return result;
  } finally {
    clearTimeout(silence);
    signal.removeEventListener('abort', stop);
    document.removeEventListener('visibilitychange', stop);
    abort.abort();
  }
}

// Expected wait, from how fast the place in the queue fell of late.
const pace = {
  seen: [],
  add(ahead) {
    const now = performance.now();
    this.seen = this.seen.filter((s) => now - s.at < 30000 && s.ahead >= ahead);
    this.seen.push({ at: now, ahead });
  },
  // Half to double of the plain estimate says honestly how little is known.
  range() {
    const [first, last] = [this.seen[0], this.seen.at(-1)];
    if (!first || last.at - first.at < 1500 || last.ahead >= first.ahead) return null;
    const wait = last.ahead * (last.at - first.at) / (first.ahead - last.ahead);
    return [wait * 0.7, wait * 1.5];
  },
};
