package rocketqueue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"

	"seckill/queue"
)

const (
	batchMax     = 256
	batchBytes   = 512 << 10 // A message beyond it travels alone; brokers take 4 MiB unless told otherwise.
	busyTries    = 10
	busyWait     = 100 * time.Millisecond
	propertyRoom = 16 << 10 // Of the 32 KiB that a message's properties may have.
)

// send returns nil when every message is stored. Messages of one queue go one batch after
// the other, queues side by side.
func (c *cluster) send(ctx context.Context, msgs []queue.Message) error {
	r, err := c.route(ctx)
	if err != nil {
		return err
	}
	if len(r.writable) == 0 {
		return fmt.Errorf("topic %s cannot be written any more", c.topic)
	}
	parts := map[messageQueue][]*primitive.Message{}
	for _, m := range msgs {
		msg, err := encode(c.topic, m)
		if err != nil {
			return err
		}
		to := r.writable[choose(cmp.Or(m.Key, m.ID), len(r.writable))]
		parts[to] = append(parts[to], msg)
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	for to, part := range parts {
		all.Go(func() {
			if failed := c.sendPart(ctx, r.masters[to.broker], to, part); failed != nil {
				mu.Lock()
				defer mu.Unlock()
				err = errors.Join(err, fmt.Errorf("to queue %s/%d: %w", to.broker, to.id, failed))
			}
		})
	}
	all.Wait()
	if err != nil {
		c.doubtRoute() // Something may have moved.
	}
	return err
}

// choose maps a key to one of n queues, always the same.
func choose(key string, n int) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key))
	return int(h.Sum32() % uint32(n)) //nolint:gosec // A topic has few queues.
}

// encode puts id and key where RocketMQ's own tools look for them.
func encode(topic string, m queue.Message) (*primitive.Message, error) {
	const separators = "\x01\x02"
	if strings.ContainsAny(m.ID, separators) || strings.ContainsAny(m.Key, separators) || len(m.ID)+len(m.Key) > propertyRoom {
		return nil, fmt.Errorf("message %.100q: id and key have to do without the bytes 1 and 2, in %d bytes", m.ID, propertyRoom)
	}
	return primitive.NewMessage(topic, m.Body).WithKeys([]string{m.ID}).WithShardingKey(m.Key), nil
}

func (c *cluster) sendPart(ctx context.Context, addr string, to messageQueue, msgs []*primitive.Message) error {
	for len(msgs) > 0 {
		n, size := 1, len(msgs[0].Body)
		for n < min(len(msgs), batchMax) && size+len(msgs[n].Body) <= batchBytes {
			size += len(msgs[n].Body)
			n++
		}
		if err := c.sendBatch(ctx, addr, to, msgs[:n]); err != nil {
			return err
		}
		msgs = msgs[n:]
	}
	return nil
}

// sendBatch takes nothing but the full success for an answer: a message that is stored, but
// not as safely as the broker's settings ask for, is published again. It sends a batch even
// of one, because alone a message without a body makes the broker fail.
func (c *cluster) sendBatch(ctx context.Context, addr string, to messageQueue, msgs []*primitive.Message) error {
	var body []byte
	for _, m := range msgs {
		body = append(body, m.Marshal()...)
	}
	for try := 1; ; try++ {
		f, err := c.call(ctx, addr, askSendBatch, map[string]string{
			"a": producerGroup, "b": c.topic, "c": defaultTopic, "d": "4", "e": strconv.Itoa(to.id), "f": "0",
			"g": strconv.FormatInt(time.Now().UnixMilli(), 10), "h": "0", "i": "", "j": "0", "k": "false", "m": "true", "n": to.broker,
		}, body)
		if err == nil {
			err = f.expect(saidOK)
		}
		// A busy broker has not stored it, and wants to be asked again after a while.
		if !wasRefused(err, saidBusy) || try == busyTries {
			return err
		}
		pause(ctx, busyWait)
	}
}
