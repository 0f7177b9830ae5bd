// The proof of work of an ALTCHA challenge: find the number that, after the salt,
// has the given SHA-256. The browser's own crypto.subtle is missing on plain
// HTTP, and slower than this for many short inputs.

const K = [];
const H0 = [];
for (let n = 2; K.length < 64; n++) {
  let prime = true;
  for (let i = 2; i * i <= n; i++) if (n % i === 0) prime = false;
  if (!prime) continue;
  const root = (power) => ((n ** power % 1) * 2 ** 32) | 0;
  if (H0.length < 8) H0.push(root(1 / 2));
  K.push(root(1 / 3));
}

const schedule = new Int32Array(64);

// sha256 of ASCII text, as the hash's first eight 32-bit words.
function sha256(text) {
  const words = new Int32Array(((text.length + 8 >> 6) + 1) * 16);
  for (let i = 0; i < text.length; i++) words[i >> 2] |= text.charCodeAt(i) << (24 - i % 4 * 8);
  words[text.length >> 2] |= 0x80 << (24 - text.length % 4 * 8);
  words[words.length - 1] = text.length * 8;

  const hash = Int32Array.from(H0);
  const w = schedule;
  for (let block = 0; block < words.length; block += 16) {
    let [a, b, c, d, e, f, g, h] = hash;
    for (let i = 0; i < 64; i++) {
      if (i < 16) {
        w[i] = words[block + i];
      } else {
        const x = w[i - 15];
        const y = w[i - 2];
        const s0 = (x >>> 7 | x << 25) ^ (x >>> 18 | x << 14) ^ x >>> 3;
        const s1 = (y >>> 17 | y << 15) ^ (y >>> 19 | y << 13) ^ y >>> 10;
        w[i] = w[i - 16] + s0 + w[i - 7] + s1 | 0;
      }
      const t1 = h + ((e >>> 6 | e << 26) ^ (e >>> 11 | e << 21) ^ (e >>> 25 | e << 7)) + (e & f ^ ~e & g) + K[i] + w[i] | 0;
      const t2 = ((a >>> 2 | a << 30) ^ (a >>> 13 | a << 19) ^ (a >>> 22 | a << 10)) + (a & b ^ a & c ^ b & c) | 0;
      h = g;
      g = f;
      f = e;
      e = d + t1 | 0;
      d = c;
      c = b;
      b = a;
      a = t1 + t2 | 0;
    }
    [a, b, c, d, e, f, g, h].forEach((v, i) => { hash[i] += v; });
  }
  return hash;
}

const hexOf = (hash) => [...hash].map((v) => (v >>> 0).toString(16).padStart(8, '0')).join('');

// solve works in slices of a few milliseconds, so that the page stays alive, and
// resolves with the proof to send, or null when there is no solution.
async function solve(challenge, progress) {
  const most = challenge.maxnumber ?? challenge.maxNumber ?? 1e6;
  if ((challenge.algorithm || 'SHA-256').toUpperCase() !== 'SHA-256') return null;
  const started = performance.now();
  const first = parseInt(challenge.challenge.slice(0, 8), 16) | 0;
  for (let n = 0; n <= most;) {
    const pause = performance.now() + 12;
    while (n <= most && performance.now() < pause) {
      for (const end = Math.min(n + 64, most + 1); n < end; n++) {
        const hash = sha256(challenge.salt + n);
        if (hash[0] !== first || hexOf(hash) !== challenge.challenge) continue;
        const { algorithm, salt, signature } = challenge;
        const took = Math.round(performance.now() - started);
        return btoa(JSON.stringify({ algorithm, challenge: challenge.challenge, number: n, salt, signature, took }));
      }
    }
    progress(n / most);
    await sleep(0);
  }
  return null;
}
