package client_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"seckill"
	"seckill/client"
)

func stream(body string) answer {
	return answer{status: 200, body: body, header: map[string]string{"Content-Type": "text/event-stream; charset=utf-8"}}
}

// A stream that ends early is taken up where it was, and the last state is returned.
func TestWatchResumes(t *testing.T) {
	s := serve(t,
		stream("retry: 1\n\n: still here\n\nid: 5\nevent: state\ndata: {\"ticket\":\"t\",\ndata: \"state\":\"queued\",\"ahead\":3}\n\nid: 6\nda"),
		answer{},
		stream("id: 7\ndata:{\"ticket\":\"t\",\"state\":\"confirmed\",\"order\":{\"id\":\"9\"}}\n\ndata: {\"state\":\"queued\"}\n\n"))
	var seen []string
	got, err := buyer(t, s, client.Options{}).Watch(t.Context(), "t", func(k client.Ticket) { seen = append(seen, k.State) })
	if err != nil || got.State != "confirmed" || got.Order == nil || got.Order.ID != "9" {
		t.Fatalf("got %+v and %v", got, err)
	}
	if want := []string{"queued", "confirmed"}; !slices.Equal(seen, want) {
		t.Errorf("got %q, want %q", seen, want)
	}
	asked := s.requests()
	if len(asked) != 3 || asked[0].line != "GET /v1/tickets/t/events" || asked[0].header.Get("Last-Event-ID") != "" || asked[2].header.Get("Last-Event-ID") != "5" {
		t.Errorf("got %+v, want the third request to resume after event 5", asked)
	}
}

// A no ends the watch, and so does an answer that is no stream.
func TestWatchEndsWithANo(t *testing.T) {
	s := serve(t, answer{status: 404, body: `{"status":404,"reason":"not_found"}`})
	if _, err := buyer(t, s, client.Options{}).Watch(t.Context(), "t", nil); !client.Is(err, seckill.NotFound) || len(s.requests()) != 1 {
		t.Errorf("got %v after %d requests, want not found after 1", err, len(s.requests()))
	}
	s = serve(t, answer{status: 200, body: "{}"})
	var malformed *client.MalformedError
	if _, err := buyer(t, s, client.Options{}).Watch(t.Context(), "t", nil); !errors.As(err, &malformed) {
		t.Errorf("got %v, want a malformed answer", err)
	}
}

// A server that only fails is given up, and the context ends it at any time.
func TestWatchIsBounded(t *testing.T) {
	s := serve(t, answer{status: 503, body: `{"reason":"busy"}`})
	if _, err := buyer(t, s, client.Options{AttemptsMax: 1}).Watch(t.Context(), "t", nil); !client.Is(err, seckill.Busy) {
		t.Errorf("got %v, want busy", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	s = serve(t, stream("retry: 60000\n\n"))
	if _, err := buyer(t, s, client.Options{}).Watch(ctx, "t", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the deadline", err)
	}
}
