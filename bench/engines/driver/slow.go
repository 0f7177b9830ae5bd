package main

import (
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

const (
	slowClients = 200
	slowRounds  = 2
	slowWatch   = 8 * time.Second
)

// measureSlow lets 200 clients send one byte of a header every second beside
// wrk, and looks whether the others suffer and when the slow ones are cut.
// The servers' read timeout is 5 s.
func measureSlow() error {
	fmt.Printf("\n%d clients that send one byte of a header a second\n\n", slowClients)
	fmt.Println("| server | p99 without, ms | p99 with, ms | ratio | cut within 8 s | first cut, s | last cut, s |")
	fmt.Println("| --- | --- | --- | --- | --- | --- | --- |")
	subjects := []subject{nginx, fasthttp, hertz, nethttp}
	seen := make([]slowness, len(subjects))
	for range slowRounds {
		for i, s := range subjects {
			if err := slowOnce(s, &seen[i]); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
	}
	for i, s := range subjects {
		cuts := seen[i].cuts
		if len(cuts) == 0 {
			cuts = []float64{0}
		}
		fmt.Printf("| %s | %.1f | %.1f | %.2f | %d of %d | %.1f | %.1f |\n", s.name, median(seen[i].without),
			median(seen[i].with), median(seen[i].ratio), len(seen[i].cuts), slowRounds*slowClients,
			slices.Min(cuts), slices.Max(cuts))
	}
	return nil
}

// slowness is what was seen of one server: p99 in ms, cuts in seconds.
type slowness struct{ without, with, ratio, cuts []float64 }

func slowOnce(s subject, seen *slowness) error {
	p, err := start(s)
	if err != nil {
		return err
	}
	defer p.kill()
	without, err := wrk(p.addr, 4*time.Second)
	if err != nil {
		return err
	}
	cuts := make(chan time.Duration, slowClients)
	var group sync.WaitGroup
	for range slowClients {
		group.Go(func() {
			if at, cut := trickle(p.addr); cut {
				cuts <- at
			}
		})
	}
	time.Sleep(500 * time.Millisecond)
	with, err := wrk(p.addr, 4*time.Second)
	group.Wait()
	close(cuts)
	if err != nil {
		return err
	}
	if with.requests == 0 || with.errors != "" {
		fmt.Printf("%s beside slow clients: %d requests, errors %q\n", s.name, with.requests, with.errors)
	}
	for at := range cuts {
		seen.cuts = append(seen.cuts, at.Seconds())
	}
	seen.without = append(seen.without, without.p99.Seconds()*1000)
	seen.with = append(seen.with, with.p99.Seconds()*1000)
	seen.ratio = append(seen.ratio, with.p99.Seconds()/without.p99.Seconds())
	return nil
}

// trickle reports when the server ended the connection, if it did.
func trickle(addr string) (time.Duration, bool) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return 0, true
	}
	defer c.Close()
	began := time.Now()
	_, _ = io.WriteString(c, "POST /v1/activities/12/purchases HTTP/1.1\r\nX-Slow: ")
	for time.Since(began) < slowWatch {
		if _, err := c.Write([]byte("a")); err != nil {
			return time.Since(began), true
		}
		_ = c.SetReadDeadline(time.Now().Add(time.Second))
		// Whatever the server says to an unfinished header, it is leaving.
		var b [256]byte
		_, err := c.Read(b[:])
		if e, ok := err.(net.Error); !ok || !e.Timeout() {
			return time.Since(began), true
		}
	}
	return 0, false
}
