package tidy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// direction says what a package may import of ours. "." is the root package.
type direction struct {
	pkg    string
	may    []string
	mayNot []string // Taken out of may.
	tests  bool     // It is imported by tests only, and may import "testing".
}

// directions is the whole rule of direction. The first row that fits a package
// counts, and a package that no row fits fails. Stages stand side by side: what
// one needs of a neighbour it declares as a small interface of its own. Metrics
// have one home, telemetry, which stages may know.
var directions = []direction{
	// The words, and the contracts that outsiders may use without the rest.
	{pkg: "."},
	{pkg: "queue", may: []string{"."}},
	{pkg: "queue/queuetest", may: []string{".", "queue"}, tests: true},
	{pkg: "queue/*", may: []string{".", "queue"}},
	{pkg: "stock", may: []string{".", "queue"}},
	{pkg: "stock/stocktest", may: []string{".", "stock", "queue"}, tests: true},
	{pkg: "stock/*", may: []string{".", "stock", "queue"}},
	{pkg: "client", may: []string{"."}},

	// The stages, in the order of a purchase.
	// The door owns its gate: the one stage that another sees.
	{pkg: "internal/api", may: []string{".", "stock", "internal/gate", "internal/entry", "internal/problem", "internal/auth", "internal/telemetry", "internal/tracing", "internal/page", "internal/strictjson"}},
	{pkg: "internal/gate", may: []string{".", "stock", "internal/entry", "internal/limit"}},
	{pkg: "internal/reserve", may: []string{".", "stock", "internal/telemetry", "internal/tracing"}},
	{pkg: "internal/relay", may: []string{".", "queue", "internal/tracing"}},
	{pkg: "internal/order", may: []string{".", "stock", "queue", "internal/telemetry", "internal/tracing"}},
	{pkg: "internal/reconcile", may: []string{".", "stock", "internal/telemetry"}},
	{pkg: "internal/activity", may: []string{".", "stock", "internal/telemetry"}},
	{pkg: "internal/webhook", may: []string{".", "internal/telemetry"}},
	{pkg: "internal/admin", may: []string{".", "stock", "internal/plan", "internal/problem", "internal/telemetry", "internal/strictjson"}},

	// The database serves the contracts that the stages declare.
	{pkg: "internal/sqlstore", may: []string{".", "internal/entry", "internal/control", "internal/control", "internal/order", "internal/activity", "internal/admin", "internal/reconcile", "internal/webhook"}},

	// Help for all, that knows nobody.
	{pkg: "internal/entry", may: []string{"."}},
	{pkg: "internal/limit", may: []string{"."}},
	{pkg: "internal/intake", may: []string{"."}},
	{pkg: "internal/control", may: []string{".", "internal/telemetry"}},
	{pkg: "internal/console"},
	{pkg: "internal/account", may: []string{"."}},
	{pkg: "internal/live", may: []string{".", "stock", "internal/telemetry"}},
	{pkg: "internal/control", may: []string{".", "internal/telemetry"}},
	{pkg: "internal/auth", may: []string{"."}},
	{pkg: "internal/problem", may: []string{"."}},
	{pkg: "internal/config", may: []string{"."}},
	{pkg: "internal/plan", may: []string{"."}},
	{pkg: "internal/telemetry", may: []string{"."}},
	{pkg: "internal/tracing", may: []string{"."}},
	{pkg: "internal/tracing/tracetest", tests: true},
	{pkg: "internal/page", may: []string{"."}},
	{pkg: "internal/strictjson", may: []string{"."}},

	// The program.
	{pkg: "internal/bench", may: []string{".", "client"}},
	{pkg: "internal/app", may: []string{"..."}, mayNot: []string{"internal/cli", "cmd/..."}},
	{pkg: "internal/cli", may: []string{".", "client", "internal/app", "internal/config", "internal/bench", "internal/plan"}},
	{pkg: "cmd/seckill", may: []string{"internal/cli"}},
	// It measures the program, and puts parts of it together in another way to compare.
	{pkg: "bench/goals", may: []string{".", "client", "stock", "internal/api", "internal/auth", "internal/bench", "internal/reserve", "internal/telemetry"}},

	// Tests.
	{pkg: "internal/testenv", may: []string{"."}, tests: true},
	{pkg: "internal/e2e", may: []string{"..."}, mayNot: []string{"cmd/..."}, tests: true},
	{pkg: "internal/tidy", tests: true},
}

// vendor says which packages may import what others wrote. It holds for tests
// too: a driver must be deletable in one commit.
type vendor struct {
	what string
	paths,
	only []string
}

var vendors = []vendor{
	{"a SQL driver", []string{
		"github.com/go-sql-driver/mysql", "modernc.org/sqlite", "github.com/mattn/go-sqlite3", "github.com/ncruces/go-sqlite3",
	}, []string{"internal/sqlstore", "stock/embedded", "internal/testenv", "internal/e2e"}},
	{"a Redis client", []string{
		"github.com/redis/rueidis", "github.com/redis/go-redis", "github.com/gomodule/redigo", "github.com/alicebob/miniredis",
	}, []string{"stock/redisstock", "queue/redis*", "internal/testenv", "internal/e2e"}},
	{"a Kafka client", []string{
		"github.com/twmb/franz-go", "github.com/IBM/sarama", "github.com/segmentio/kafka-go",
	}, []string{"queue/kafka*", "internal/testenv", "internal/e2e"}},
	{"a RabbitMQ client", []string{
		"github.com/rabbitmq",
	}, []string{"queue/rabbit*", "queue/amqp*", "internal/testenv", "internal/e2e"}},
	{"a RocketMQ client", []string{
		"github.com/apache/rocketmq-client-go", "github.com/apache/rocketmq-clients",
	}, []string{"queue/rocket*", "internal/testenv", "internal/e2e"}},
	{"OpenTelemetry", []string{
		"go.opentelemetry.io",
	}, []string{"internal/tracing", "internal/tracing/tracetest"}},
	{"fasthttp", []string{
		"github.com/valyala/fasthttp",
	}, []string{"internal/api", "internal/app", "internal/bench", "client", "bench/goals"}},
	{"an assertion library", []string{
		"github.com/stretchr/testify",
	}, nil},
}

func TestImportsPointOneWay(t *testing.T) {
	holds(t, wrongImports(repository(t), directions))
}

// Code for tests must not reach the binary, whichever way.
func TestTestCodeStaysInTests(t *testing.T) {
	holds(t, testCodeInProduct(repository(t), directions))
}

func TestVendorsStayInTheirDrivers(t *testing.T) {
	holds(t, wrongVendors(repository(t), vendors))
}

func TestEachRuleHasItsPackage(t *testing.T) {
	if missing := rowsWithoutPackage(repository(t), directions); underConstruction {
		t.Logf("not built yet: %q", missing)
	} else {
		holds(t, missing)
	}
}

func ruleFor(rules []direction, pkg string) (direction, bool) {
	i := slices.IndexFunc(rules, func(d direction) bool { return matches(d.pkg, pkg) })
	if i < 0 {
		return direction{}, false
	}
	return rules[i], true
}

// ours returns the folder of one of our packages.
func ours(importPath string) (pkg string, ok bool) {
	if importPath == module {
		return ".", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

// wrongImports leaves tests aside: they may put together what they like.
func wrongImports(tr *tree, rules []direction) (complaints []string) {
	for _, pkg := range tr.packages() {
		if _, ok := ruleFor(rules, pkg); !ok {
			complaints = append(complaints, fmt.Sprintf("%s has no row in the table of directions", pkg))
		}
	}
	for _, s := range tr.sources {
		rule, ok := ruleFor(rules, s.pkg)
		if s.test || !ok {
			continue
		}
		for _, p := range s.imports() {
			pkg, isOurs := ours(p)
			if isOurs && (!anyMatches(rule.may, pkg) || anyMatches(rule.mayNot, pkg)) {
				complaints = append(complaints, fmt.Sprintf("%s must not import %s", s.path, pkg))
			}
		}
	}
	return complaints
}

func testCodeInProduct(tr *tree, rules []direction) (complaints []string) {
	for _, s := range tr.sources {
		rule, _ := ruleFor(rules, s.pkg)
		if s.test || rule.tests {
			continue
		}
		for _, p := range s.imports() {
			pkg, isOurs := ours(p)
			target, known := ruleFor(rules, pkg)
			if p == "testing" || strings.HasPrefix(p, "testing/") || isOurs && known && target.tests {
				complaints = append(complaints, fmt.Sprintf("%s must not import %s: that is for tests", s.path, p))
			}
		}
	}
	return complaints
}

func wrongVendors(tr *tree, vendors []vendor) (complaints []string) {
	for _, s := range tr.sources {
		for _, p := range s.imports() {
			for _, v := range vendors {
				theirs := slices.ContainsFunc(v.paths, func(base string) bool { return p == base || strings.HasPrefix(p, base+"/") })
				if theirs && !anyMatches(v.only, s.pkg) {
					complaints = append(complaints, fmt.Sprintf("%s must not import %s, %s; allowed in %q", s.path, p, v.what, v.only))
				}
			}
		}
	}
	return complaints
}

func rowsWithoutPackage(tr *tree, rules []direction) (missing []string) {
	for _, rule := range rules {
		fits := func(pkg string) bool {
			found, _ := ruleFor(rules, pkg)
			return found.pkg == rule.pkg
		}
		if !slices.ContainsFunc(tr.packages(), fits) {
			missing = append(missing, fmt.Sprintf("the row for %s fits no package", rule.pkg))
		}
	}
	return missing
}

func TestImportRulesCatch(t *testing.T) {
	in := func(files map[string]string) *tree { return madeUp(t, files) }

	catches(t, wrongImports(in(map[string]string{
		"internal/gate/gate.go": `package gate; import "seckill/queue"`,
	}), directions), "internal/gate/gate.go must not import queue")
	catches(t, wrongImports(in(map[string]string{
		"seckill.go": `package seckill; import _ "seckill/queue"`,
	}), directions), "seckill.go must not import queue")
	catches(t, wrongImports(in(map[string]string{
		"internal/app/app.go": `package app; import ("seckill/stock/redisstock"; "seckill/internal/cli")`,
	}), directions), "internal/app/app.go must not import internal/cli")
	catches(t, wrongImports(in(map[string]string{
		"stock/embedded/embedded.go": `package embedded; import ("seckill/stock"; "seckill/stock/redisstock")`,
	}), directions), "must not import stock/redisstock")
	catches(t, wrongImports(in(map[string]string{
		"helpers/helpers.go": `package helpers`,
	}), directions), "helpers has no row")

	catches(t, testCodeInProduct(in(map[string]string{
		"internal/app/app.go": `package app; import "seckill/stock/stocktest"`,
	}), directions), "that is for tests")
	catches(t, testCodeInProduct(in(map[string]string{
		"stock/stock.go": `package stock; import "testing"`,
	}), directions), "that is for tests")
	holds(t, testCodeInProduct(in(map[string]string{
		"stock/stocktest/suite.go":    `package stocktest; import "testing"`,
		"internal/relay/move_test.go": `package relay; import ("testing"; "seckill/internal/testenv")`,
	}), directions))

	catches(t, wrongVendors(in(map[string]string{
		"internal/order/x_test.go": `package order; import _ "github.com/go-sql-driver/mysql"`,
	}), vendors), "a SQL driver")
	catches(t, wrongVendors(in(map[string]string{
		"internal/gate/gate.go":     `package gate; import "github.com/redis/rueidis"`,
		"queue/redisstream/move.go": `package redisstream; import "github.com/redis/rueidis/rueidiscompat"`,
	}), vendors), "a Redis client")
	catches(t, wrongVendors(in(map[string]string{
		"internal/admin/admin.go": `package admin; import "github.com/valyala/fasthttp"`,
	}), vendors), "fasthttp")

	rows := []direction{{pkg: "."}, {pkg: "stock/*"}}
	catches(t, rowsWithoutPackage(in(map[string]string{"a.go": "package seckill"}), rows), "the row for stock/*")
}
