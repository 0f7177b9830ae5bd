package queuetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"seckill/queue"
)

// benchmarkBody has the size of a message that carries a hundred reservations.
const benchmarkBody = 12 << 10

// benchmarkReservations is how many reservations such a message stands for.
const benchmarkReservations = 100

// Benchmark measures the way through a queue: messages of a hundred reservations are
// published by one goroutine, twenty in a call, while another receives and acknowledges
// them. It reports reservations per second, so that drivers compare.
func Benchmark(b *testing.B, q queue.Queue) {
	ctx, cancel := context.WithTimeout(b.Context(), 5*time.Minute)
	defer cancel()
	sub, err := q.Subscribe(ctx)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = sub.Close() }()
	body := make([]byte, benchmarkBody)
	failed := make(chan error, 1)
	b.ResetTimer()
	go func() { failed <- publishMany(ctx, q, b.N, body) }()
	for got := 0; got < b.N; {
		ds, err := sub.Receive(ctx, 50)
		if err == nil {
			err = sub.Ack(ctx, ds...)
		}
		if err != nil {
			b.Fatal(err)
		}
		got += len(ds)
	}
	b.StopTimer()
	if err := <-failed; err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N*benchmarkReservations)/b.Elapsed().Seconds(), "reservations/s")
}

func publishMany(ctx context.Context, q queue.Queue, n int, body []byte) error {
	const each = 20
	for i := 0; i < n; i += each {
		msgs := make([]queue.Message, min(each, n-i))
		for j := range msgs {
			id := fmt.Sprint(i + j)
			msgs[j] = queue.Message{ID: id, Key: id, Body: body}
		}
		if err := q.Publish(ctx, msgs...); err != nil {
			return fmt.Errorf("publish: %w", err)
		}
	}
	return nil
}
