package queuetest_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"seckill/queue"
	"seckill/queue/memqueue"
	"seckill/queue/queuetest"
)

// A queue that confirms what it does not have while its broker is away fails the suite; one
// that says so, and loses what it had not confirmed, passes.
func TestFaultSuiteCatchesFalseConfirmations(t *testing.T) {
	for fault, wantPass := range map[string]bool{"none": true, "confirms what it loses": false} {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHurtQueue$", "-test.timeout=120s")
		child.Env = append(os.Environ(), faultVariable+"="+fault, queuetest.PatienceVariable+"=12s")
		out, err := child.CombinedOutput()
		if passed := err == nil; passed != wantPass || !passed && !strings.Contains(string(out), "--- FAIL") {
			t.Errorf("fault %q: passed %v, want %v\n%s", fault, passed, wantPass, out)
		}
	}
}

// TestHurtQueue is the child of the test above.
func TestHurtQueue(t *testing.T) {
	fault := os.Getenv(faultVariable)
	if fault == "" {
		return
	}
	queuetest.RunFaults(t, func(t *testing.T) queuetest.Faulty {
		h := &hurt{Queue: memqueue.New(), lies: fault != "none"}
		t.Cleanup(func() { _ = h.Close() })
		return queuetest.Faulty{
			Open: func(*testing.T) queue.Queue { return h },
			Kill: func(*testing.T) { h.away.Store(true) }, Start: func(*testing.T) { h.away.Store(false) },
		}
	})
}

// hurt is a queue whose broker may be away.
type hurt struct {
	queue.Queue
	away atomic.Bool
	lies bool
}

func (h *hurt) Publish(ctx context.Context, msgs ...queue.Message) error {
	if !h.away.Load() {
		return h.Queue.Publish(ctx, msgs...)
	}
	if h.lies {
		return nil
	}
	return errors.New("the broker is away")
}
