package memqueue_test

import (
	"testing"

	"seckill/queue"
	"seckill/queue/memqueue"
	"seckill/queue/queuetest"
)

func TestConformance(t *testing.T) {
	queuetest.Run(t, func(t *testing.T) queuetest.Open {
		q := memqueue.New()
		t.Cleanup(func() { q.Close() })
		return func(t *testing.T) queue.Queue { return q }
	})
}
