package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"seckill"
	"seckill/internal/tracing"
	"seckill/internal/tracing/tracetest"
)

// In one process a purchase is one trace from the click to the order, and its last spans arrive though the
// program stops at once.
func TestAPurchaseIsTraced(t *testing.T) {
	c := tracetest.New(t)
	settings := testConfig(t)
	settings.OTLPEndpoint, settings.TraceSample = c.URL, 1
	a, err := New(t.Context(), settings, "v1", slog.New(slog.DiscardHandler))
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	now := time.Now().UTC()
	act, err := a.operator.Create(t.Context(), seckill.Activity{
		Name: "traced", Total: 1, StartsAt: now, EndsAt: now.Add(time.Hour), LimitPerUser: 1,
		SubStocks: 1, PaymentWindow: time.Hour, Audience: seckill.AudienceEveryone,
	}, operator)
	must(t, err)

	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
		fmt.Sprintf("http://%s/v1/activities/%d/purchases", a.PublicAddr(), act.ID), strings.NewReader(""))
	must(t, err)
	req.Header.Set("X-User-Id", "me")
	client := &http.Client{Timeout: 10 * time.Second}
	resp, err := client.Do(req)
	must(t, err)
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	resp.Body.Close()
	client.CloseIdleConnections()
	ticket := strings.TrimPrefix(resp.Header.Get("Location"), "/v1/tickets/")
	if resp.StatusCode != http.StatusAccepted || ticket == "" {
		t.Fatalf("buy: %d %s", resp.StatusCode, body)
	}
	m := market{App: a, t: t}
	order := m.order("me", ticket)
	stop()
	must(t, <-ended)

	at := tracing.Of(ticket)
	spans := c.Of(at.TraceID().String())
	for _, name := range []string{"POST /v1/activities/{id}/purchases", "reserve", "order.write"} {
		if len(spans[name]) != 1 {
			t.Fatalf("the trace has %v, want one %s", spans, name)
		}
	}
	server, reserve, write := spans["POST /v1/activities/{id}/purchases"][0], spans["reserve"][0], spans["order.write"][0]
	if server.Parent != "" || reserve.Parent != server.ID || reserve.ID != at.SpanID().String() || write.Parent != reserve.ID {
		t.Errorf("the spans are not one tree: %+v", spans)
	}
	if write.About["seckill.order"] != order.ID || write.About["seckill.new"] != true || reserve.About["seckill.taken"] != true ||
		server.Process["service.version"] != "v1" || server.Process["service.instance.id"] == "" {
		t.Errorf("said of it: %v, %v, %v", write.About, reserve.About, server.Process)
	}
	// The order may be under way before the door has its answer.
	if write.Begin.Before(reserve.Begin) || reserve.Begin.Before(server.Begin) || reserve.End.Before(reserve.Begin) {
		t.Errorf("the times are out of order: %+v", spans)
	}
}
