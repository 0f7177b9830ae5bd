// The page's own SHA-256 against Node's.

import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { runInNewContext } from 'node:vm';

const source = readFileSync(new URL('../../internal/page/assets/proof.js', import.meta.url), 'utf8');
const { sha256, hexOf } = runInNewContext(source + '\n({ sha256, hexOf })');

// Lengths about the ends of one block and of two, where padding goes wrong.
test('every length up to three blocks', () => {
  for (let length = 0; length < 200; length++) {
    const text = randomBytes(length).toString('hex').slice(0, length);
    assert.equal(hexOf(sha256(text)), createHash('sha256').update(text).digest('hex'), `length ${length}`);
  }
});
