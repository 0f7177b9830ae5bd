package main

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	stopBuyers  = 200
	stopWaiting = 200
	stopSilent  = 20
	stopRepeats = 3
	stopPause   = 100 * time.Millisecond
)

// A stopping counts what callers saw while a server stopped.
type stopping struct {
	answered, cut, refused atomic.Int64
	untold                 atomic.Int64
}

// measureStop sends SIGTERM while callers buy on kept connections with short
// pauses, event streams wait, and a few connections have never said anything.
func measureStop() error {
	fmt.Printf("\nSIGTERM under traffic, %d stops each: %d buyers, %d event streams, %d silent connections\n\n",
		stopRepeats, stopBuyers, stopWaiting, stopSilent)
	fmt.Println("| server | sent but never answered, per stop | event streams without last event | time to exit, s (median, worst) |")
	fmt.Println("| --- | --- | --- | --- |")
	for _, s := range []subject{
		fasthttp, fasthttp.with(", announced", "-drain"),
		hertz, hertz.with(", announced", "-drain"),
		nethttp,
	} {
		var st stopping
		var took []float64
		worst := 0.0
		for range stopRepeats {
			d, err := stopOnce(s, &st)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			took = append(took, d.Seconds())
			worst = max(worst, d.Seconds())
		}
		fmt.Printf("| %s | %.2f | %d | %.2f, %.2f |\n", s.name,
			float64(st.cut.Load())/stopRepeats, st.untold.Load(), median(took), worst)
	}
	return nil
}

func stopOnce(s subject, st *stopping) (time.Duration, error) {
	p, err := start(s)
	if err != nil {
		return 0, err
	}
	waiters, err := connect(p.addr, stopWaiting, getEvents, "queued")
	if err != nil {
		p.kill()
		return 0, err
	}
	defer closeAll(waiters)
	var group sync.WaitGroup
	for _, c := range waiters {
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		group.Go(func() {
			if readUntil(c, "confirmed") != nil {
				st.untold.Add(1)
			}
		})
	}
	for range stopBuyers {
		group.Go(func() { buyUntilRefused(p.addr, st) })
	}
	time.Sleep(700 * time.Millisecond)
	for range stopSilent {
		c, err := net.Dial("tcp", p.addr)
		if err != nil {
			p.kill()
			return 0, err
		}
		defer c.Close()
	}
	time.Sleep(100 * time.Millisecond)
	began := time.Now()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	ended := make(chan struct{})
	go func() { _ = p.cmd.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(9 * time.Second):
		_ = p.cmd.Process.Kill()
		<-ended
	}
	took := time.Since(began)
	group.Wait()
	return took, nil
}

// buyUntilRefused buys on one kept connection with short pauses, and
// opens a new one when it is told to close. It ends when it cannot connect.
func buyUntilRefused(addr string, st *stopping) {
	for {
		c, err := net.DialTimeout("tcp", addr, 2*time.Second)
		if err != nil {
			st.refused.Add(1)
			return
		}
		r := bufio.NewReader(c)
		for keep := true; keep; {
			time.Sleep(time.Duration(rand.Int64N(int64(stopPause))))
			keep = buyOnce(c, r, st)
		}
		_ = c.Close()
	}
}

// buyOnce reports whether the connection can be used again. A caller that sees
// the other side's FIN before it sends has lost nothing, so it looks first.
func buyOnce(c net.Conn, r *bufio.Reader, st *stopping) bool {
	_ = c.SetReadDeadline(time.Now().Add(50 * time.Microsecond))
	_, err := r.Peek(1)
	if e, ok := err.(net.Error); err == nil || !ok || !e.Timeout() {
		return false
	}
	_ = c.SetDeadline(time.Now().Add(6 * time.Second))
	if _, err := io.WriteString(c, post); err != nil {
		return false
	}
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		st.cut.Add(1)
		return false
	}
	_, err = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		st.cut.Add(1)
		return false
	}
	st.answered.Add(1)
	return !resp.Close
}
