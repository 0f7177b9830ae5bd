package api

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seckill"
	"seckill/stock"
)

const testTicket = "1-2-0123456789abcdefghjk"

// stream is a stream of events, as a browser reads it.
type stream struct {
	t   *testing.T
	res *http.Response
	r   *bufio.Reader
}

func (w *world) stream(ticket string, headers ...string) stream {
	w.t.Helper()
	req, err := http.NewRequest("GET", "http://shop/v1/tickets/"+ticket+"/events", nil)
	must(w.t, err)
	req.Header.Set("X-User-Id", "ann")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	res, err := w.client.Do(req)
	must(w.t, err)
	w.t.Cleanup(func() { res.Body.Close() })
	return stream{w.t, res, bufio.NewReader(res.Body)}
}

// next reads up to the next data, and what came before it.
func (s stream) next() (data, before string) {
	s.t.Helper()
	for {
		line, err := s.r.ReadString('\n')
		if err != nil {
			s.t.Fatalf("after %q: %v", before, err)
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			return strings.TrimSpace(data), before
		}
		before += line
	}
}

// The present state comes at once, each change when it happens, and the stream ends after a final one.
func TestAStreamOfEvents(t *testing.T) {
	w := open(t)
	var ahead atomic.Int64
	ahead.Store(12)
	w.setOutcome(func(buyer, ticket string) (seckill.Outcome, error) {
		switch {
		case buyer != "ann" || ticket != testTicket:
			return seckill.Outcome{}, seckill.ErrNotFound
		case ahead.Load() < 0:
			return seckill.Outcome{Progress: seckill.Confirmed, Order: &seckill.Order{ID: "5", Ticket: ticket, Buyer: buyer, State: seckill.AwaitingPayment, Quantity: 1}}, nil
		}
		return seckill.Outcome{Progress: seckill.Queued, Ahead: ahead.Load()}, nil
	})
	s := w.stream(testTicket)
	if h := s.res.Header; s.res.StatusCode != 200 || !strings.HasPrefix(h.Get("Content-Type"), "text/event-stream") || h.Get("X-Accel-Buffering") != "no" || h.Get("Cache-Control") != "no-store" {
		t.Fatalf("got %d %v", s.res.StatusCode, h)
	}
	data, before := s.next()
	if !strings.Contains(data, `"ticket":"`+testTicket+`","state":"queued","ahead":12`) || !strings.Contains(before, "retry: ") || !strings.Contains(before, "id: queued-12\n") {
		t.Fatalf("got %q before %q", data, before)
	}
	ahead.Store(3) // Nobody says so: it is looked up.
	if data, _ := s.next(); !strings.Contains(data, `"ahead":3`) {
		t.Fatalf("got %q", data)
	}
	ahead.Store(-1)
	w.Notify(stock.Event{Kind: stock.EventSettled, Run: seckill.RunID{Activity: 1, Run: 2}, Ticket: testTicket, Buyer: "ann"})
	data, before = s.next()
	if !strings.Contains(data, `"state":"confirmed","order":{"id":"5","activity_id"`) || !strings.Contains(before, "id: confirmed\n") {
		t.Fatalf("got %q before %q", data, before)
	}
	rest, err := io.ReadAll(s.r)
	if err != nil || strings.TrimSpace(string(rest)) != "" {
		t.Errorf("then %q, %v", rest, err)
	}
	again := w.do("GET", "/v1/tickets/"+testTicket+"/events", "", "X-User-Id: ann", "Last-Event-ID: confirmed")
	if again.status != 204 || again.body != "" {
		t.Errorf("coming back after the end: %d %q", again.status, again.body)
	}
	until(t, "the stream counted off", func() bool { return !w.hub.full() && w.count() == 0 })
}

func (w *world) count() int {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	return w.hub.count + len(w.hub.waiting)
}

// A client that comes back in the middle gets the present state at once, like everybody.
func TestAStreamIsResumed(t *testing.T) {
	w := open(t)
	w.setOutcome(func(string, string) (seckill.Outcome, error) {
		return seckill.Outcome{Progress: seckill.Failed, Reason: seckill.SoldOut}, nil
	})
	data, _ := w.stream(testTicket, "Last-Event-ID: queued-12").next()
	if !strings.Contains(data, `"state":"failed","reason":"sold_out"`) {
		t.Errorf("got %q", data)
	}
	if head := w.do("HEAD", "/v1/tickets/"+testTicket+"/events", "", "X-User-Id: ann"); head.status != 200 || head.body != "" {
		t.Errorf("HEAD: %d %q", head.status, head.body)
	}
}

// The stock being away for a while ends no stream; a ticket that it has lost does.
func TestAStreamOutlivesAnOutage(t *testing.T) {
	w := open(t)
	w.setOutcome(func(string, string) (seckill.Outcome, error) { return seckill.Outcome{Ahead: 1}, nil })
	s := w.stream(testTicket)
	s.next()
	var looked atomic.Int64
	w.setOutcome(func(string, string) (seckill.Outcome, error) {
		looked.Add(1)
		return seckill.Outcome{}, fmt.Errorf("away")
	})
	until(t, "looked while away", func() bool { return looked.Load() > 0 })
	w.setOutcome(func(string, string) (seckill.Outcome, error) { return seckill.Outcome{}, seckill.ErrNotFound })
	if data, _ := s.next(); !strings.Contains(data, `"state":"failed","reason":"not_found"`) {
		t.Errorf("got %q", data)
	}
}

// More streams than there may be hear "busy".
func TestTooManyStreams(t *testing.T) {
	w := open(t, func(o *Options) { o.StreamsMax = 2 })
	w.setOutcome(func(string, string) (seckill.Outcome, error) { return seckill.Outcome{Ahead: 1}, nil })
	for range 2 {
		w.stream(testTicket).next()
	}
	w.do("GET", "/v1/tickets/"+testTicket+"/events", "", "X-User-Id: ann").refused(t, "third", 503, "busy")
}

// When the door shuts, waiting buyers are told when to come back, and let go.
func TestShutdownSendsStreamsAway(t *testing.T) {
	w := open(t)
	w.setOutcome(func(string, string) (seckill.Outcome, error) { return seckill.Outcome{Ahead: 1}, nil })
	s := w.stream(testTicket)
	s.next()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	must(t, w.Shutdown(ctx))
	rest, err := io.ReadAll(s.r)
	if err != nil || !strings.Contains(string(rest), "retry: ") {
		t.Errorf("got %q, %v", rest, err)
	}
}

// A caller who does not read holds up nobody, and is let go.
func TestADeafStreamHoldsUpNobody(t *testing.T) {
	w := open(t) // In memory a pipe holds nothing: a write waits until it is read.
	var ahead atomic.Int64
	w.setOutcome(func(string, string) (seckill.Outcome, error) { return seckill.Outcome{Ahead: ahead.Add(1)}, nil })
	deaf, err := w.dial()
	must(t, err)
	defer deaf.Close()
	fmt.Fprintf(deaf, "GET /v1/tickets/%s/events HTTP/1.1\r\nHost: x\r\nX-User-Id: ann\r\n\r\n", testTicket)
	until(t, "the deaf one waiting", func() bool { return w.count() == 2 })
	s := w.stream(testTicket)
	for range 3 {
		w.hub.wake(testTicket)
		s.next()
	}
}

// What changes just while a client joins is not missed, though nobody says so again.
func TestNothingIsMissedWhileJoining(t *testing.T) {
	w := open(t)
	var looked atomic.Int64
	w.setOutcome(func(string, string) (seckill.Outcome, error) {
		if looked.Add(1) == 1 {
			return seckill.Outcome{Ahead: 1 << 40}, nil // The next look is due in 15 s.
		}
		return seckill.Outcome{Progress: seckill.Confirmed}, nil
	})
	begin := time.Now()
	s := w.stream(testTicket)
	s.next()
	if data, _ := s.next(); !strings.Contains(data, "confirmed") || time.Since(begin) > 8*time.Second {
		t.Errorf("got %q after %v", data, time.Since(begin))
	}
}

// Many who wait hear of it at once.
func TestManyStreamsHearAtOnce(t *testing.T) {
	const many = 300
	w := openTCP(t)
	var final atomic.Bool
	w.setOutcome(func(string, string) (seckill.Outcome, error) {
		if final.Load() {
			return seckill.Outcome{Progress: seckill.Confirmed}, nil
		}
		return seckill.Outcome{Ahead: 90_000}, nil
	})
	var ready, heard sync.WaitGroup
	for i := range many {
		ticket := fmt.Sprintf("1-2-%020d", i)
		ready.Add(1)
		heard.Go(func() {
			s := w.stream(ticket)
			s.next()
			ready.Done()
			if data, _ := s.next(); !strings.Contains(data, "confirmed") {
				t.Errorf("%s heard %q", ticket, data)
			}
		})
	}
	ready.Wait()
	final.Store(true)
	begin := time.Now()
	for i := range many {
		w.Notify(stock.Event{Kind: stock.EventSettled, Ticket: fmt.Sprintf("1-2-%020d", i)})
	}
	heard.Wait()
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}
