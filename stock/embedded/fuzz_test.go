package embedded

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"seckill"
)

// rowOf frames payloads, each with its length in two bytes in front, as a row whose
// checksums are right: the fuzzer could not guess them.
func rowOf(data []byte) []byte {
	b := make([]byte, headerBytes)
	entries := 0
	for len(data) >= 2 {
		n := min(int(binary.LittleEndian.Uint16(data)), len(data)-2)
		start := len(b)
		b = append(b, make([]byte, frameBytes)...)
		b = append(b, data[2:2+n]...)
		finish(b, start)
		entries++
		data = data[2+n:]
	}
	header{run1, 0, entries}.put(b)
	return b
}

// payloadsOf is the inverse.
func payloadsOf(t testing.TB, row []byte) (data []byte) {
	for rest := row[headerBytes:]; len(rest) > 0; {
		payload, after, err := readFrame(rest)
		must(t, err)
		data = binary.LittleEndian.AppendUint16(data, uint16(len(payload)))
		data = append(data, payload...)
		rest = after
	}
	return data
}

// No bytes make the decoder panic, or a run whose numbers are wrong; and what it makes
// of them comes back the same from a snapshot.
func FuzzReplay(f *testing.F) {
	e, err := Open(f.Context(), Options{})
	must(f, err)
	must(f, e.Load(f.Context(), testSpec(run1, 50, 50)))
	e.mu.Lock()
	state := encodeState(make([]byte, headerBytes), e.streams[run1].run, 1, func(b []byte) []byte { return b })
	e.mu.Unlock()
	must(f, e.Close())
	r := newRun(run1)
	p := r.newPurchase(seckill.NewTicket(run1), "ann", "key")
	p.quantity, p.slot, p.state = 2, 1, paid
	p.order = &seckill.Order{ID: "1", State: seckill.Paid, PaymentRef: "ref"}
	r.add(p)
	entries := encodeReserve(bytes.Clone(state), 2, 7, []*purchase{p})
	entries = encodeSettle(entries, 3, p, false)
	entries = encodeRestock(entries, 4, 1, 5)
	entries = encodeControl(entries, 5, r)
	entries = encodeAck(entries, 6, 2)
	f.Add(payloadsOf(f, entries))
	f.Add(payloadsOf(f, encodeDrop(entries, 7)))
	p.lsn = 1
	f.Add(payloadsOf(f, encodePurchase(bytes.Clone(state), p)))
	f.Fuzz(func(t *testing.T, data []byte) {
		rp := replay{id: run1}
		if rp.row(1<<40, rowOf(data)) != nil || rp.run == nil {
			return
		}
		r := rp.run
		var left int64
		for _, m := range r.messages {
			left += int64(m.left)
		}
		if r.available < 0 || r.queued < 0 || r.awaiting < 0 || r.paid < 0 || left > r.reservations {
			t.Fatalf("impossible: %+v", r.level())
		}
		parts := snapshot(r, rp.lsn)
		again := replay{id: run1}
		for n, part := range parts {
			must(t, again.part(n, rp.lsn, part))
		}
		if !bytes.Equal(bytes.Join(snapshot(again.run, rp.lsn), nil), bytes.Join(parts, nil)) {
			t.Fatal("the snapshot comes back as another run")
		}
	})
}

// Bytes that are no row at all are refused.
func FuzzRow(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 8 {
		b := make([]byte, r.IntN(200))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		f.Add(b)
	}
	f.Add(rowOf(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		rp := replay{id: run1}
		if err := rp.row(1, data); err == nil && rp.run != nil && rp.run.id != run1 {
			t.Fatal("a row of another run")
		}
	})
}
