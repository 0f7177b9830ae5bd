// Package tracetest is a collector of traces for tests: it takes what the program exports over
// the wire, and shows it in plain values. It stores nothing and forwards nothing. The tests of
// tracing, of the whole program and of its processes use it.
package tracetest

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Span is one span as it arrived.
type Span struct {
	Place
	Parent     string // Id of the parent's span; "" for the first of a trace.
	Name       string
	Kind       string // In small letters: server, internal, producer, consumer.
	Begin, End time.Time
	About      map[string]any
	Links      []Place
	Failure    string // "" if it did not fail.
	Process    map[string]any
}

// Place is where a span is, in hexadecimal digits.
type Place struct{ Trace, ID string }

// Collector takes spans until the test ends.
type Collector struct {
	URL string

	mu    sync.Mutex
	paths []string
	spans []Span
	away  bool
}

// New starts a collector.
func New(tb testing.TB) *Collector {
	tb.Helper()
	c := &Collector{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var request collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &request)
		}
		if err != nil {
			tb.Errorf("the collector cannot read what it got: %v", err)
			return
		}
		if !c.take(r.URL.Path, &request) {
			http.Error(w, "away", http.StatusForbidden) // Which is not tried again.
			return
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	tb.Cleanup(server.Close)
	c.URL = server.URL
	return c
}

// Away has it refuse what comes, or take it again.
func (c *Collector) Away(away bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.away = away
}

// Spans are those that arrived so far.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Span(nil), c.spans...)
}

// Of are the spans of one trace, by their names.
func (c *Collector) Of(traceID string) map[string][]Span {
	named := map[string][]Span{}
	for _, s := range c.Spans() {
		if s.Trace == traceID {
			named[s.Name] = append(named[s.Name], s)
		}
	}
	return named
}

// Paths are those that were asked for.
func (c *Collector) Paths() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.paths...)
}

func (c *Collector) take(path string, request *collector.ExportTraceServiceRequest) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paths = append(c.paths, path)
	if c.away {
		return false
	}
	for _, of := range request.GetResourceSpans() {
		for _, scope := range of.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				c.spans = append(c.spans, plain(of.GetResource(), s))
			}
		}
	}
	return true
}

func plain(of *resource.Resource, s *trace.Span) Span {
	p := Span{
		Place: place(s.GetTraceId(), s.GetSpanId()), Parent: hex.EncodeToString(s.GetParentSpanId()), Name: s.GetName(), Kind: kinds[s.GetKind()],
		Begin: moment(s.GetStartTimeUnixNano()), End: moment(s.GetEndTimeUnixNano()), About: values(s.GetAttributes()), Process: values(of.GetAttributes()),
	}
	if s.GetStatus().GetCode() == trace.Status_STATUS_CODE_ERROR {
		p.Failure = s.GetStatus().GetMessage()
	}
	for _, l := range s.GetLinks() {
		p.Links = append(p.Links, place(l.GetTraceId(), l.GetSpanId()))
	}
	return p
}

func place(trace, span []byte) Place {
	return Place{hex.EncodeToString(trace), hex.EncodeToString(span)}
}

func moment(ns uint64) time.Time { return time.Unix(0, int64(ns)) }

var kinds = map[trace.Span_SpanKind]string{
	trace.Span_SPAN_KIND_SERVER: "server", trace.Span_SPAN_KIND_INTERNAL: "internal",
	trace.Span_SPAN_KIND_PRODUCER: "producer", trace.Span_SPAN_KIND_CONSUMER: "consumer",
}

func values(list []*common.KeyValue) map[string]any {
	m := map[string]any{}
	for _, kv := range list {
		switch v := kv.GetValue().GetValue().(type) {
		case *common.AnyValue_StringValue:
			m[kv.GetKey()] = v.StringValue
		case *common.AnyValue_IntValue:
			m[kv.GetKey()] = v.IntValue
		case *common.AnyValue_DoubleValue:
			m[kv.GetKey()] = v.DoubleValue
		case *common.AnyValue_BoolValue:
			m[kv.GetKey()] = v.BoolValue
		}
	}
	return m
}
