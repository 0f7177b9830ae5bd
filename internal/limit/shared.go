package limit

import (
	"context"
	_ "embed"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"
)

//go:embed settle.lua
var settleScript string

// Bounds of settling.
const (
	hotShards   = 16
	batchKeys   = 128 // Keys of one call, so that no call keeps Redis for long.
	callTimeout = 250 * time.Millisecond
	awayPause   = time.Second // Between tries while Redis is away.
)

// Eval runs a script in Redis that answers with integers. All keys of a call are in one slot.
type Eval func(ctx context.Context, script string, keys, args []string) ([]int64, error)

// Run settles the limit with the other gateways that share it, until ctx ends; then it returns nil.
//
// No request waits for it. Each gateway lets through what its own table allows, and
// tells Redis from time to time (Every) what it let through of the keys that are hot; Redis adds it up
// by its own clock, and what a key is in debt with all gateways is then its debt here as well. A
// key is hot if it has made half a burst of requests here faster than a gateway's share of the
// rate (1/Gateways): whoever is slower everywhere is below the rate anyway. So a key may make some more
// requests than on one gateway before the others know of it, at most a burst for each gateway; what
// was too much up to one burst is paid back, and from then on the rate holds for all together.
//
// What it costs Redis is bounded by HotMax and Every, whoever attacks: some microseconds for a key.
//
// While Redis is away, each gateway's own limit goes on. A limit that is not shared has nothing
// to do here.
func (l *Limiter) Run(ctx context.Context, eval Eval) error {
	if l == nil || l.hot == nil {
		<-ctx.Done()
		return nil
	}
	away := false
	for {
		wait := l.o.Every
		err := l.settle(ctx, eval)
		select {
		case <-ctx.Done():
			return nil
		default:
		}
		if err != nil {
			wait = max(wait, awayPause)
		}
		if away != (err != nil) {
			away = err != nil
			if away {
				l.o.Log.Warn("cannot settle a rate limit with the other gateways; each goes on by itself", "limit", l.o.Name, "error", err)
			} else {
				l.o.Log.Info("the rate limit is settled with the other gateways again", "limit", l.o.Name)
			}
		}
		timer := time.NewTimer(wait - wait/10 + rand.N(wait/5+1))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

// settle makes one round. What a failed call was to tell is not told again: it may have been heard.
func (l *Limiter) settle(ctx context.Context, eval Eval) error {
	hot := l.hot.drain()
	for len(hot) > 0 {
		n := min(len(hot), batchKeys)
		if err := l.settleSome(ctx, eval, hot[:n]); err != nil {
			return fmt.Errorf("settle %d keys: %w", n, err)
		}
		hot = hot[n:]
	}
	return nil
}

func (l *Limiter) settleSome(ctx context.Context, eval Eval, some []heat) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	keys, args := make([]string, 0, len(some)), make([]string, 0, len(some)+2)
	args = append(args, strconv.FormatFloat(float64(l.interval)/1e3, 'f', 3, 64), strconv.FormatInt(l.debtMax/1e3, 10))
	for _, h := range some {
		keys = append(keys, fmt.Sprintf("{seckill:limit:%s}:%016x", l.o.Name, h.key))
		args = append(args, strconv.FormatUint(uint64(h.count), 10))
	}
	debts, err := eval(ctx, settleScript, keys, args)
	if err != nil {
		return err
	}
	if len(debts) != len(some) {
		return fmt.Errorf("%d answers for %d keys", len(debts), len(some))
	}
	t := l.clock(time.Now())
	for i, h := range some {
		// What was let through meanwhile is not in the answer. It is told in the next round.
		meanwhile := int64(l.hot.count(h.key)) * l.interval
		l.raise(h.key, t+min(max(0, debts[i])*1e3+meanwhile, l.debtMax))
	}
	return nil
}

// hot counts what was let through of the keys that are hot, up to so many keys. What finds no room
// is not counted: each gateway's own limit holds for it.
type hot struct {
	shards   [hotShards]hotShard
	shardMax int
}

type hotShard struct {
	mu     sync.Mutex
	counts map[uint64]uint32
	_      [48]byte // Keeps the locks of two shards out of one cache line.
}

// heat is what was let through of one key.
type heat struct {
	key   uint64
	count uint32
}

func newHot(keysMax int) *hot {
	h := &hot{shardMax: keysMax / hotShards}
	for i := range h.shards {
		h.shards[i].counts = make(map[uint64]uint32, h.shardMax)
	}
	return h
}

// shard goes by the last bits: the first choose the set.
func (h *hot) shard(key uint64) *hotShard { return &h.shards[key%hotShards] }

func (h *hot) add(key uint64) {
	s := h.shard(key)
	s.mu.Lock()
	if n, known := s.counts[key]; known || len(s.counts) < h.shardMax {
		s.counts[key] = n + 1
	}
	s.mu.Unlock()
}

func (h *hot) count(key uint64) uint32 {
	s := h.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[key]
}

func (h *hot) drain() []heat {
	var all []heat
	for i := range h.shards {
		s := &h.shards[i]
		s.mu.Lock()
		for key, count := range s.counts {
			all = append(all, heat{key, count})
		}
		clear(s.counts)
		s.mu.Unlock()
	}
	return all
}
