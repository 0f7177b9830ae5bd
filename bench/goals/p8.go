package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// The goal: what one waiting buyer may take in memory, and how late the news may be.
const (
	goalP8Bytes = 20 << 10
	goalP8Lag   = time.Second
)

// waiter is a buyer on a stream of events.
type waiter struct {
	buyer, ticket string
	conn          net.Conn
	events        *bufio.Reader
	lag           time.Duration // From the order's commit to the news of it.
}

// p8 has buyers wait on streams of events while no orders are written, and then has the orders
// written: what the streams take in memory, and how late the news come.
func p8(ctx context.Context, s *settings) error {
	shop, err := openShop(ctx, s, filepath.Join(s.work, "p8"), "open")
	if err != nil {
		return err
	}
	defer shop.stop()
	id, err := shop.sale(ctx, "waiting", int64(s.waiting), time.Now().Add(-time.Second))
	if err != nil {
		return err
	}
	if err := shop.turn(ctx, "consumers", false); err != nil {
		return err
	}
	waiters, err := buyTickets(ctx, shop, id, s.waiting)
	if err != nil {
		return err
	}
	before, err := residentBytes(shop.pid)
	if err != nil {
		return err
	}
	if err := together(waiters, 64, func(i int, w *waiter) error { return w.open(shop.public, i) }); err != nil {
		return err
	}
	after, err := residentBytes(shop.pid)
	if err != nil {
		return err
	}
	if err := shop.turn(ctx, "consumers", true); err != nil {
		return err
	}
	if err := together(waiters, len(waiters), func(_ int, w *waiter) error { return w.await(time.Now().Add(2 * time.Minute)) }); err != nil {
		return err
	}
	lags := make([]time.Duration, len(waiters))
	for i, w := range waiters {
		lags[i] = w.lag
	}
	slices.Sort(lags)
	each := float64(after-before) / float64(len(waiters))
	at := func(q float64) time.Duration { return lags[int(q*float64(len(lags)-1))].Round(time.Millisecond) }
	fmt.Printf("P8: %d buyers wait on streams of events in one process; goals: at most %d KB each, and news within %v of the commit.\n\n", len(waiters), goalP8Bytes>>10, goalP8Lag)
	fmt.Println("| buyers | memory each, KB | news after, p50 | p99 | the last | goal |")
	fmt.Println("| --- | --- | --- | --- | --- | --- |")
	verdict := "met"
	if each > goalP8Bytes || lags[len(lags)-1] > goalP8Lag {
		verdict = "**missed**"
	}
	fmt.Printf("| %d | %.1f | %v | %v | %v | %s |\n\n", len(waiters), each/1024, at(0.5), at(0.99), at(1), verdict)
	return nil
}

// turn turns a switch.
func (s *shop) turn(ctx context.Context, name string, on bool) error {
	body := fmt.Sprintf(`{"value":%v,"reason":"measurement"}`, on)
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://"+s.admin+"/admin/v1/switches/"+name, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+adminToken)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(res.Body)
		return fmt.Errorf("turn %s: %s %s", name, res.Status, said)
	}
	return nil
}

func buyTickets(ctx context.Context, shop *shop, activity int64, n int) ([]*waiter, error) {
	waiters := make([]*waiter, n)
	for i := range waiters {
		waiters[i] = &waiter{buyer: fmt.Sprintf("waiting-%07d", i)}
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, MaxConnsPerHost: 64}}
	defer client.CloseIdleConnections()
	return waiters, together(waiters, 64, func(_ int, w *waiter) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("http://%s/v1/activities/%d/purchases", shop.public, activity), http.NoBody)
		if err != nil {
			return err
		}
		req.Header.Set("X-User-Id", w.buyer)
		res, err := client.Do(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		var a struct{ Ticket, Reason string }
		if err := json.NewDecoder(res.Body).Decode(&a); err != nil {
			return err
		}
		if a.Ticket == "" {
			return fmt.Errorf("buyer %s: %s %s", w.buyer, res.Status, a.Reason)
		}
		w.ticket = a.Ticket
		return nil
	})
}

// open joins the stream and reads the present state. Buyers come from different addresses, so that ports do not
// run out.
func (w *waiter) open(addr string, i int) (err error) {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+i%4))}, Timeout: 10 * time.Second}
	if w.conn, err = dialer.Dial("tcp", addr); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(w.conn, "GET /v1/tickets/%s/events HTTP/1.1\r\nHost: x\r\nX-User-Id: %s\r\n\r\n", w.ticket, w.buyer); err != nil {
		return err
	}
	w.events = bufio.NewReaderSize(w.conn, 1024)
	_, err = w.state("queued")
	return err
}

// state reads until the stream says a state, and returns the line.
func (w *waiter) state(want string) ([]byte, error) {
	for {
		line, err := w.events.ReadBytes('\n')
		if err != nil {
			return nil, fmt.Errorf("the stream of %s: %w", w.buyer, err)
		}
		if bytes.HasPrefix(line, []byte("data:")) && bytes.Contains(line, []byte(`"state":"`+want+`"`)) {
			return line, nil
		}
	}
}

// await reads the news of the order.
func (w *waiter) await(deadline time.Time) error {
	defer w.conn.Close()
	if err := w.conn.SetReadDeadline(deadline); err != nil {
		return err
	}
	line, err := w.state("confirmed")
	if err != nil {
		return err
	}
	heard := time.Now()
	var event struct {
		Order struct {
			CreatedAt time.Time `json:"created_at"`
		}
	}
	if err := json.Unmarshal(bytes.TrimPrefix(line, []byte("data:")), &event); err != nil || event.Order.CreatedAt.IsZero() {
		return fmt.Errorf("an event without an order: %s: %w", line, err)
	}
	w.lag = heard.Sub(event.Order.CreatedAt)
	return nil
}

// together does something for all, so many at once.
func together(waiters []*waiter, most int, do func(int, *waiter) error) error {
	var all sync.WaitGroup
	room := make(chan struct{}, most)
	errs := make([]error, len(waiters))
	for i, w := range waiters {
		room <- struct{}{}
		all.Go(func() {
			errs[i] = do(i, w)
			<-room
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return errors.New(strings.SplitN(err.Error(), "\n", 2)[0])
	}
	return nil
}

// residentBytes is the memory that a process has in use.
func residentBytes(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	var size, resident int64
	if _, err := fmt.Sscan(string(text), &size, &resident); err != nil {
		return 0, err
	}
	return resident * int64(os.Getpagesize()), nil
}
