package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"seckill/internal/testenv"
	"seckill/internal/tracing"
	"seckill/internal/tracing/tracetest"
)

const (
	routeOfPurchase = "POST /v1/activities/{id}/purchases"
	// The id of every buyer of this test begins so, to be found where it must not be.
	privateBuyer = "private-person-"
)

// One trace from the click to the order, across a gateway, Kafka and a worker, for each purchase of a sale with
// troubles; and what the processes wrote in their logs meanwhile.
func TestTracesAndLogs(t *testing.T) {
	t.Parallel()
	collector := tracetest.New(t)
	kafka := testenv.Kafka(t)
	redis := testenv.Redis(t, testenv.RedisAOF...)
	way := testenv.Proxy(t, redis.Addr)
	g := growOn(t, "redis://"+way.Addr, "--queue", "kafka://"+kafka.Addr+"/orders", "--reserve-timeout", "1s",
		"--otlp-endpoint", collector.URL, "--trace-sample", "1", "--log-format", "json")

	activity := g.opened(60, `,"sub_stocks":4`)
	tickets := map[string]string{}
	for i := range 30 {
		buyer := fmt.Sprint(privateBuyer, i)
		a, err := g.buy(activity, buyer, "", 1)
		must(t, err)
		tickets[buyer] = a.str("ticket")
	}
	for buyer, ticket := range tickets {
		if a := g.final(buyer, ticket); a.str("state") != "confirmed" {
			t.Fatalf("ticket %s: %s", ticket, a.body)
		}
		wholeTrace(t, g, collector, ticket)
	}
	t.Run("a caller's trace", func(t *testing.T) { callersTrace(t, g, collector, activity) })
	t.Run("logs", func(t *testing.T) {
		trouble(t, g, way, activity)
		logsAreInOrder(t, g)
	})
}

// wholeTrace wants the spans of a purchase that became an order, joined as they have to be.
func wholeTrace(t *testing.T, g *grown, c *tracetest.Collector, ticket string) {
	t.Helper()
	at := tracing.Of(ticket)
	var spans map[string][]tracetest.Span
	await(t, "the spans of ticket "+ticket, func() bool {
		spans = c.Of(at.TraceID().String())
		return len(spans[routeOfPurchase]) > 0 && len(spans["reserve"]) > 0 && len(spans["relay.publish"]) > 0 && len(spans["order.write"]) > 0
	})
	if len(spans[routeOfPurchase]) != 1 || len(spans["reserve"]) != 1 {
		t.Fatalf("ticket %s has the spans %+v", ticket, spans)
	}
	server, reserve := spans[routeOfPurchase][0], spans["reserve"][0]
	if server.Parent != "" || reserve.Parent != server.ID || reserve.ID != at.SpanID().String() || reserve.Process["service.instance.id"] != server.Process["service.instance.id"] {
		t.Errorf("the door's spans are not joined: %+v, %+v", server, reserve)
	}
	written := 0
	// Both may come more than once, since messages do.
	for _, s := range append(spans["relay.publish"], spans["order.write"]...) {
		if s.Parent != reserve.ID || s.Process["service.instance.id"] == server.Process["service.instance.id"] || s.Process["service.name"] != "seckill" || s.Failure != "" {
			t.Errorf("a worker's span is not joined to the door's: %+v, %+v", s, reserve)
		}
		if s.About["seckill.new"] == true {
			written++
			if id := g.maria.SQL(t, fmt.Sprintf("SELECT id FROM %s.seckill_order WHERE ticket = '%s'", g.schema, ticket)); s.About["seckill.order"] != strings.TrimSpace(id) {
				t.Errorf("the trace says order %v, the database %s", s.About["seckill.order"], id)
			}
		}
	}
	if written != 1 {
		t.Errorf("ticket %s: %d spans wrote the order, want one", ticket, written)
	}
}

// callersTrace goes on with a caller's own trace at the door, and links the ticket's.
func callersTrace(t *testing.T, g *grown, c *tracetest.Collector, activity int64) {
	const trace, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	a, err := g.call("POST", fmt.Sprintf("http://%s/v1/activities/%d/purchases", g.listen, activity), privateBuyer+"caller",
		map[string]string{"traceparent": "00-" + trace + "-" + parent + "-01"}, "")
	must(t, err)
	if a.status != http.StatusAccepted {
		t.Fatalf("got %d %s", a.status, a.body)
	}
	at := tracing.Of(a.str("ticket")).TraceID().String()
	var request, rest map[string][]tracetest.Span
	await(t, "both traces", func() bool {
		request, rest = c.Of(trace), c.Of(at)
		return len(request[routeOfPurchase]) == 1 && len(rest["reserve"]) == 1 && len(rest["order.write"]) > 0
	})
	server, reserve, write := request[routeOfPurchase][0], rest["reserve"][0], rest["order.write"][0]
	if server.Parent != parent || len(server.Links) != 1 || server.Links[0] != reserve.Place || len(reserve.Links) != 1 || reserve.Links[0] != server.Place || write.Parent != reserve.ID {
		t.Errorf("the traces are not joined: %+v, %+v, %+v", server, reserve, write)
	}
}

// trouble gives the processes something to write about.
func trouble(t *testing.T, g *grown, redis *testenv.ProxyServer, activity int64) {
	g.maria.SQL(t, fmt.Sprintf("ALTER TABLE %s.seckill_order ADD CONSTRAINT poison CHECK (user_id <> '%spoisoned')", g.schema, privateBuyer))
	_, err := g.buy(activity, privateBuyer+"poisoned", "", 1)
	must(t, err)
	if _, err := g.call("GET", "http://"+g.admin+"/admin/v1/activities", "", map[string]string{"Authorization": "Bearer guessed-token"}, ""); err != nil {
		t.Error(err)
	}
	await(t, "a dead letter", func() bool {
		list, _ := g.operate("GET", "/admin/v1/dead-letters", "").json["dead_letters"].([]any)
		return len(list) == 1
	})
	redis.Cut()
	unknown := 0
	await(t, "buyers to be told busy", func() bool {
		if _, err := g.buy(activity, fmt.Sprint(privateBuyer, "late-", unknown), "", 1); err != nil {
			unknown++
		}
		return unknown > 20
	})
	redis.Heal()
	await(t, "the stock to be back", func() bool {
		_, err := g.buy(activity, privateBuyer+"last", "key", 1)
		return err == nil
	})
}

// logsAreInOrder looks at each line that the processes wrote: it is JSON, its names are those of the vocabulary, and
// it names no buyer and no secret.
func logsAreInOrder(t *testing.T, g *grown) {
	page, err := os.ReadFile("../../docs/operating/logs.md")
	must(t, err)
	vocabulary := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`.*`) \\|").FindAllStringSubmatch(string(page), -1) {
		for word := range strings.SplitSeq(row[1], ", ") {
			vocabulary[strings.Trim(word, "`")] = true
		}
	}
	all := ""
	for _, s := range append(append([]*server(nil), g.nodes...), g.workers...) {
		must(t, s.cmd.Process.Signal(os.Interrupt))
		if err, ok := s.ended(20 * time.Second); !ok || err != nil {
			t.Errorf("a process that was told to stop: %v, %v", ok, err)
		}
		all += s.log.String()
	}
	for line := range strings.Lines(all) {
		var said map[string]any
		if err := json.Unmarshal([]byte(line), &said); err != nil {
			t.Errorf("no JSON: %s", line)
		}
		for name := range said {
			if !vocabulary[name] {
				t.Errorf("%q is not in the vocabulary: %s", name, line)
			}
		}
		for _, secret := range []string{privateBuyer, adminToken, "guessed-token", ":secret@", "IDENTIFIED"} {
			if strings.Contains(line, secret) {
				t.Errorf("%q is in the log: %s", secret, line)
			}
		}
	}
	for _, want := range []string{`"msg":"serving"`, `"msg":"dead letter"`, `"trace":"`, `"reason":"`, `"level":"WARN"`, `"error":"`, `"msg":"stopped"`} {
		if !strings.Contains(all, want) {
			t.Errorf("the log was not as busy as it had to be: no %s in\n%s", want, all)
		}
	}
}
