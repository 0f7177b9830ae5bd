package main

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"
)

// What passes is the burst at once and then the rate, however large the pieces are, and a pause saves up no more than a burst.
func TestBucketKeepsItsRate(t *testing.T) {
	b := bucket{rate: 10_000}
	now := time.Now()
	if wait := b.take(now, 80); wait > 0 {
		t.Errorf("a burst of %v waits %v", throttleBurst, wait)
	}
	if wait := b.take(now, 1000); wait != 100*time.Millisecond {
		t.Errorf("1000 bytes at 10 KB/s wait %v, want 100ms", wait)
	}
	if wait := b.take(now.Add(time.Hour), 180); wait != 10*time.Millisecond {
		t.Errorf("after a pause 180 bytes wait %v, want 10ms: 80 of them are the burst", wait)
	}
}

// The proxy changes nothing, and takes as long as its rate says.
func TestThrottlePassesEverything(t *testing.T) {
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	go func() {
		c, err := echo.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = io.Copy(c, c)
	}()
	p, err := openThrottle(echo.Addr().String(), 100_000)
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	c, err := net.Dial("tcp", p.address())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	sent := bytes.Repeat([]byte("seckill "), 1250)
	begin := time.Now()
	go func() { _, _ = c.Write(sent) }()
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("got other bytes than were sent, %v", err)
	}
	if took := time.Since(begin); took < 90*time.Millisecond {
		t.Errorf("10 KB took %v at 100 KB/s", took)
	}
}
