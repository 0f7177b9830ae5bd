package control

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"seckill"
)

// A list holds exactly who was added, whatever the ids look like, and so does what is read back from
// its chunks.
func TestAListIsExact(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	id := func() string {
		switch rnd.IntN(3) {
		case 0:
			return fmt.Sprint(rnd.IntN(60_000))
		case 1:
			return strings.Repeat("x", 1+rnd.IntN(seckill.BuyerBytesMax))
		}
		return fmt.Sprintf("%036d", rnd.IntN(60_000))
	}
	model := map[string]bool{}
	l := newList(0, 0)
	for range 50_000 {
		buyer := id()
		if l.add(buyer) == model[buyer] {
			t.Fatalf("%q is said to be new %v", buyer, model[buyer])
		}
		model[buyer] = true
	}
	read := newList(l.n, len(l.data))
	chunks := l.chunks()
	for _, c := range chunks {
		if len(c) > chunkBytes+1+seckill.BuyerBytesMax {
			t.Errorf("a chunk of %d bytes", len(c))
		}
		if err := read.addChunk(c); err != nil {
			t.Fatal(err)
		}
	}
	if got := bytes.Join(chunks, nil); !bytes.Equal(got, l.data) || len(chunks) < 2 {
		t.Fatalf("%d chunks hold %d bytes of %d", len(chunks), len(got), len(l.data))
	}
	for _, have := range []*list{l, read} {
		if have.n != len(model) {
			t.Errorf("got %d buyers, want %d", have.n, len(model))
		}
		for buyer := range model {
			if !have.has(buyer) {
				t.Fatalf("%q is missing", buyer)
			}
		}
		for range 50_000 {
			if buyer := id() + "-"; have.has(buyer) {
				t.Fatalf("%q was never added", buyer)
			}
		}
	}
	if newList(0, 0).has("") || newList(0, 0).chunks() != nil {
		t.Error("an empty list is not empty")
	}
}

// What is not a list is not taken for one.
func TestAMangledListIsNoticed(t *testing.T) {
	good := newList(0, 0)
	good.add("ann")
	for _, chunk := range []string{"\x00", "\x04ann", "\x03an", "\x03ann\x03", "\xffann", "\x41" + strings.Repeat("x", 65), strings.Repeat("\x01a", 100)} {
		if err := newList(1, 10).addChunk([]byte(chunk)); err == nil {
			t.Errorf("%q was taken", chunk)
		}
	}
	if err := newList(1, 10).addChunk(good.data); err != nil {
		t.Error(err)
	}
}

func uuid(i int) string { return fmt.Sprintf("550e8400-e29b-41d4-a716-%012d", i) }

func million(b *testing.B, name func(int) string) *list {
	b.Helper()
	l := newList(1_000_000, 0)
	for i := range 1_000_000 {
		l.add(name(i))
	}
	return l
}

// BenchmarkListHas looks buyers up in a list of a million, half of whom are not on it.
func BenchmarkListHas(b *testing.B) {
	for name, id := range map[string]func(int) string{"uuid": uuid, "number": func(i int) string { return fmt.Sprint(10_000_000 + i) }} {
		b.Run(name, func(b *testing.B) {
			l := million(b, id)
			buyers := make([]string, 1<<16)
			for i := range buyers {
				buyers[i] = id(rand.IntN(2_000_000))
			}
			b.ReportMetric(float64(len(l.data)+4*len(l.slots))/1e6, "MB")
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				l.has(buyers[i&(1<<16-1)])
				i++
			}
		})
	}
}

// BenchmarkListRead makes a list of a million from its chunks, as a node does that starts.
func BenchmarkListRead(b *testing.B) {
	from := million(b, uuid)
	chunks := from.chunks()
	for b.Loop() {
		l := newList(from.n, len(from.data))
		for _, c := range chunks {
			if err := l.addChunk(c); err != nil {
				b.Fatal(err)
			}
		}
		runtime.KeepAlive(l)
	}
}
