package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Watch follows a ticket by Server-Sent Events until it is final, and returns it. notify is
// told of each state, the present one first; nil is fine. A stream that breaks is taken
// up again where it was; ctx bounds it all.
func (b *Buyer) Watch(ctx context.Context, ticket string, notify func(Ticket)) (Ticket, error) {
	w := watch{b: b, ticket: ticket, notify: notify, wait: 500 * time.Millisecond}
	for failures := 0; ; {
		before := w.events
		err := w.stream(ctx)
		if err == nil && w.last.Final() {
			return w.last, nil
		}
		if ctx.Err() != nil {
			return w.last, ctx.Err()
		}
		if failures++; w.events > before {
			failures = 0
		}
		if err != nil && (!unclear(err) || failures >= b.c.AttemptsMax) {
			return w.last, err
		}
		t := time.NewTimer(w.wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return w.last, ctx.Err()
		case <-t.C:
		}
	}
}

type watch struct {
	b      *Buyer
	ticket string
	notify func(Ticket)
	last   Ticket
	lastID string
	events int
	wait   time.Duration // Before the stream is taken up again; the server may change it.
}

// stream reads one connection's events.
func (w *watch) stream(ctx context.Context) error {
	k := call{method: http.MethodGet, path: "/v1/tickets/" + url.PathEscape(w.ticket) + "/events", header: http.Header{"Accept": {"text/event-stream"}}}
	if w.lastID != "" {
		k.header["Last-Event-ID"] = []string{w.lastID}
	}
	resp, err := w.b.c.send(ctx, k)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, bodyBytesMax)) // The status alone says enough.
		return problemOf(resp, body)
	}
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind != "text/event-stream" {
		return &MalformedError{k.method + " " + k.path, errors.New("it is no stream of events")}
	}
	return w.read(resp.Body)
}

func (w *watch) read(r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	var data []string
	id := w.lastID // It counts once its event is complete.
	for lines.Scan() {
		line := lines.Text()
		if line == "" {
			w.lastID = id
			if err := w.event(strings.Join(data, "\n")); err != nil || w.last.Final() {
				return err
			}
			data = nil
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "data":
			data = append(data, value)
		case "id":
			id = value
		case "retry":
			if ms, err := strconv.Atoi(value); err == nil && ms >= 0 {
				w.wait = min(time.Duration(ms)*time.Millisecond, pauseMax)
			}
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read the events of ticket: %w", err)
	}
	return nil
}

func (w *watch) event(data string) error {
	if data == "" {
		return nil // A comment or a retry, to keep the stream alive.
	}
	var t Ticket
	if err := json.Unmarshal([]byte(data), &t); err != nil {
		return &MalformedError{"the stream of a ticket", err}
	}
	if t.State == "" {
		return nil // An event of another kind.
	}
	w.events++
	w.last = t
	if w.notify != nil {
		w.notify(t)
	}
	return nil
}
