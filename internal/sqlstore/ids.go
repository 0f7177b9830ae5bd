package sqlstore

import (
	"math/rand/v2"
	"sync"
	"time"
)

// idMaker makes ids of 63 bits that rise with time: milliseconds since 2000, ten bits
// that are this process's own by chance, and ten that count. Two processes with
// the same bits collide on a primary key sooner or later, and then draw new ones.
type idMaker struct {
	now func() time.Time

	mu      sync.Mutex
	process int64
	ms      int64
	count   int64
}

const (
	idProcessBits = 10
	idCountBits   = 10
)

// The year 2000 is where testing/synctest begins; 43 bits of milliseconds last 278 years.
var idEpoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()

func newIDMaker(now func() time.Time) *idMaker {
	m := &idMaker{now: now}
	m.redraw()
	return m
}

// redraw takes other bits for this process.
func (m *idMaker) redraw() {
	m.mu.Lock()
	m.process = rand.Int64N(1 << idProcessBits)
	m.mu.Unlock()
}

// next runs ahead of the clock when a millisecond is used up, and does not go back with it.
func (m *idMaker) next() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count++
	if ms := m.now().UnixMilli() - idEpoch; ms > m.ms {
		m.ms, m.count = ms, 0
	} else if m.count == 1<<idCountBits {
		m.ms, m.count = m.ms+1, 0
	}
	return m.ms<<(idProcessBits+idCountBits) | m.process<<idCountBits | m.count
}
