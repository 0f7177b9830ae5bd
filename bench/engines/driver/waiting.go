package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	getEvents = "GET /events HTTP/1.1\r\nHost: shop\r\nAccept: text/event-stream\r\n\r\n"
	post      = "POST /v1/activities/12/purchases HTTP/1.1\r\nHost: shop\r\n" +
		"Content-Type: application/json\r\nContent-Length: 14\r\n\r\n{\"quantity\":1}"
)

// clients is how many connections can be had: asked for, but no more than the
// limit on open files allows, less a few for everything else.
func clients() int {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return *waiting
	}
	if l.Cur < l.Max {
		l.Cur = l.Max
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l)
	}
	return min(*waiting, int(l.Cur)-100)
}

// connect opens n connections, from several source addresses so that the
// ports last, and sends the request on each. Each has been answered as far as
// until when connect returns.
func connect(addr string, n int, request, until string) ([]net.Conn, error) {
	conns := make([]net.Conn, n)
	var failed atomic.Value
	var group sync.WaitGroup
	const dialers = 32
	for d := range dialers {
		group.Go(func() {
			for i := d; i < n; i += dialers {
				c, err := connectOne(addr, i, request, until)
				if err != nil {
					failed.Store(err)
					return
				}
				conns[i] = c
			}
		})
	}
	group.Wait()
	if err, ok := failed.Load().(error); ok {
		closeAll(conns)
		return nil, err
	}
	return conns, nil
}

// connectOne tries three times: on a machine that others use as well, a pause
// of some seconds can reach the server's read timeout. It says so if it does.
func connectOne(addr string, i int, request, until string) (net.Conn, error) {
	var err error
	for range 3 {
		var c net.Conn
		if c, err = tryConnect(addr, i, request, until); err == nil {
			return c, nil
		}
		fmt.Fprintln(os.Stderr, "driver: connects again:", err)
	}
	return nil, err
}

func tryConnect(addr string, i int, request, until string) (net.Conn, error) {
	dialer := net.Dialer{
		LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+i%8))},
		Timeout:   10 * time.Second,
		KeepAlive: -1,
	}
	c, err := dialer.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(c, request); err != nil {
		_ = c.Close()
		return nil, err
	}
	if err := readUntil(c, until); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

func readUntil(c net.Conn, until string) error {
	var buf [1024]byte
	n := 0
	for n < len(buf) {
		m, err := c.Read(buf[n:])
		n += m
		if bytes.Contains(buf[:n], []byte(until)) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("waiting for %q: %w after %q", until, err, buf[:n])
		}
	}
	return errors.New("an answer longer than expected")
}

func closeAll(conns []net.Conn) {
	for _, c := range conns {
		if c != nil {
			_ = c.Close()
		}
	}
}

// measureIdle is what a kept connection costs that has had its answer.
func measureIdle() error {
	n := clients()
	fmt.Printf("\nIdle kept connections, %d of them after one purchase each\n\n", n)
	fmt.Println("| server | RSS per connection, KiB |\n| --- | --- |")
	for _, s := range []subject{fasthttp, reduced, hertz, nethttp} {
		p, err := start(s)
		if err != nil {
			return err
		}
		before := p.rss()
		conns, err := connect(p.addr, n, post, "luck.")
		if err != nil {
			p.kill()
			return fmt.Errorf("%s: %w", s.name, err)
		}
		time.Sleep(time.Second)
		fmt.Printf("| %s | %.1f |\n", s.name, float64(p.rss()-before)/float64(n))
		closeAll(conns)
		p.kill()
	}
	return nil
}

// measureEvents holds the waiting clients, then fires the last event. The
// readers share the machine with the server, so the time is an upper bound.
func measureEvents() error {
	n := clients()
	fmt.Printf("\nServer-Sent Events, %d waiting clients\n\n", n)
	fmt.Println("| server | RSS per client, KiB | CPU to connect, µs | last event at half, ms | at all, ms | CPU to tell, µs | lost |")
	fmt.Println("| --- | --- | --- | --- | --- | --- | --- |")
	for _, s := range []subject{
		fasthttp.with(", body stream", "-sse", "stream"),
		fasthttp.with(", hijacked", "-sse", "hijack"),
		fasthttp.with(", hijacked and kept", "-sse", "keep"),
		reduced.with(", hijacked and kept", "-sse", "keep"),
		hertz, nethttp,
	} {
		if err := eventsOnce(s, n); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

func eventsOnce(s subject, n int) error {
	p, err := start(s)
	if err != nil {
		return err
	}
	defer p.kill()
	before := p.rss()
	cpu0, _ := p.cpu()
	conns, err := connect(p.addr, n, getEvents, "queued")
	if err != nil {
		return err
	}
	defer closeAll(conns)
	time.Sleep(time.Second)
	cpu1, _ := p.cpu()
	perClient := float64(p.rss()-before) / float64(n)

	var told, lost atomic.Int64
	var began, half, all atomic.Int64
	var group sync.WaitGroup
	for _, c := range conns {
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		group.Go(func() {
			if readUntil(c, "confirmed") != nil {
				lost.Add(1)
				return
			}
			at := time.Now().UnixNano()
			if told.Add(1) == int64(n/2) {
				half.Store(at)
			}
			for {
				last := all.Load()
				if at <= last || all.CompareAndSwap(last, at) {
					break
				}
			}
		})
	}
	time.Sleep(500 * time.Millisecond) // Let every reader reach its Read.
	began.Store(time.Now().UnixNano())
	fired := make(chan error, 1)
	go func() {
		r, err := http.Post("http://"+p.addr+"/fire", "", nil)
		if err == nil {
			_ = r.Body.Close()
		}
		fired <- err
	}()
	group.Wait()
	if err := <-fired; err != nil {
		return err
	}
	time.Sleep(300 * time.Millisecond)
	cpu2, _ := p.cpu()
	ms := func(at int64) float64 { return float64(at-began.Load()) / 1e6 }
	per := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(n) }
	fmt.Printf("| %s | %.1f | %.0f | %.0f | %.0f | %.0f | %d |\n", s.name, perClient, per(cpu1-cpu0),
		ms(half.Load()), ms(all.Load()), per(cpu2-cpu1), lost.Load())
	return nil
}
