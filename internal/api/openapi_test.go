package api

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"seckill"
	"seckill/internal/page"
	"seckill/internal/problem"
)

// description is as much of docs/openapi-public.yaml as is compared with the code.
type description struct {
	Paths      map[string]map[string]yaml.Node
	Components struct {
		Responses map[string]struct {
			Content map[string]struct {
				Examples map[string]struct{ Value map[string]any }
			}
		}
		Schemas map[string]described
	}
}

type described struct {
	Enum       []string
	Required   []string
	Properties map[string]yaml.Node
}

func readDescription(t *testing.T) (d description) {
	t.Helper()
	text, err := os.ReadFile("../../docs/openapi-public.yaml")
	must(t, err)
	must(t, yaml.Unmarshal(text, &d))
	return d
}

// fully is a door that has everything that a door can have.
func fully(t *testing.T) *Server {
	t.Helper()
	return open(t, withDoor(t), func(o *Options) {
		o.SimulatePayment = true
		o.Page = func(path string) (page.Asset, bool) { return page.Asset{}, path == "/" || path == "/a/1" }
	}).Server
}

// methods are those that a route answers, but for HEAD and OPTIONS.
func (r *route) methods() (list []string) {
	if r.get != nil {
		list = append(list, "get")
	}
	if r.post != nil {
		list = append(list, "post")
	}
	return list
}

// declaredRoutes counts the routes in route.go.
func declaredRoutes(t *testing.T) (n int) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "route.go", nil, 0)
	must(t, err)
	ast.Inspect(file, func(node ast.Node) bool {
		if v, ok := node.(*ast.ValueSpec); ok && strings.HasPrefix(v.Names[0].Name, "route") {
			n += len(v.Names)
		}
		return true
	})
	return n
}

// The description has every route with its methods, and nothing that is not there.
func TestOpenAPIHasTheRoutes(t *testing.T) {
	s, d := fully(t), readDescription(t)
	found := map[*route]bool{}
	for path, operations := range d.Paths {
		real := strings.NewReplacer("{id}", "1", "{ticket}", "1-1-0123456789abcdefghjk").Replace(path)
		r, _ := s.find(real)
		if r == nil {
			t.Errorf("%s is described, but there is nothing", path)
			continue
		}
		found[r] = true
		got := slices.DeleteFunc(slices.Sorted(maps.Keys(operations)), func(key string) bool { return key == "parameters" })
		if want := r.methods(); !slices.Equal(got, want) {
			t.Errorf("%s is described with %q, want %q", path, got, want)
		}
	}
	if want := declaredRoutes(t); len(found) != want || want == 0 {
		t.Errorf("%d of the %d routes of route.go are described", len(found), want)
	}
}

// Every reason is listed, in the order in which the gate says them, and has an example that is what the
// server answers.
func TestOpenAPIHasTheReasons(t *testing.T) {
	d := readDescription(t)
	var names []string
	for r := seckill.Reason(1); int(r) < seckill.Reasons; r++ {
		names = append(names, r.String())
	}
	if got := d.Components.Schemas["Reason"].Enum; !slices.Equal(got, names) {
		t.Errorf("the description has the reasons\n%q, want\n%q", got, names)
	}
	shown := map[string]bool{}
	for name, response := range d.Components.Responses {
		for example, e := range response.Content[problem.ContentType].Examples {
			reason, _ := seckill.ParseReason(e.Value["reason"].(string))
			shown[reason.String()] = true
			var want map[string]any
			must(t, json.Unmarshal(problem.Encode(seckill.Refuse(reason), problem.EN), &want))
			for _, key := range []string{"type", "title", "reason"} {
				if e.Value[key] != want[key] {
					t.Errorf("%s, example %s: %s is %v, want %v", name, example, key, e.Value[key], want[key])
				}
			}
			if e.Value["status"] != reason.Status() {
				t.Errorf("%s, example %s: the status is %v, want %d", name, example, e.Value["status"], reason.Status())
			}
			if e.Value["errors"] == nil && e.Value["msg"] != want["msg"] {
				t.Errorf("%s, example %s: the message is %q, want %q", name, example, e.Value["msg"], want["msg"])
			}
		}
	}
	for _, name := range names {
		if !shown[name] {
			t.Errorf("no answer is described that says %s", name)
		}
	}
}

// What is described of an activity, an order, an outcome, a refusal is what is sent.
func TestOpenAPIHasTheFields(t *testing.T) {
	s, d := fully(t), readDescription(t)
	order := seckill.Order{ID: "7", State: seckill.AwaitingPayment}
	refusal := &seckill.Refusal{
		Reason: seckill.InvalidRequest, Fields: []seckill.FieldError{{Field: "x", Rule: seckill.RuleMin, Arg: "1"}},
		Detail: "x", Ticket: "x", StartsAt: time.Now(),
	}
	for name, answers := range map[string][][]byte{
		"Activity": {s.appendActivity(nil, &seckill.Activity{ID: 1}, time.Now())},
		"Order":    {appendOrder(nil, &order)},
		"Outcome": {
			appendOutcome(nil, "x", &seckill.Outcome{Progress: seckill.Queued}),
			appendOutcome(nil, "x", &seckill.Outcome{Progress: seckill.Confirmed, Order: &order}),
			appendOutcome(nil, "x", &seckill.Outcome{Progress: seckill.Failed, Reason: seckill.SoldOut}),
		},
		"Problem": {problem.Encode(refusal, problem.EN), problem.Encode(seckill.Refuse(seckill.Busy), problem.EN)},
	} {
		sent, always := map[string]bool{}, map[string]int{}
		for _, text := range answers {
			var fields map[string]any
			must(t, json.Unmarshal(text, &fields))
			for key := range fields {
				sent[key] = true
				always[key]++
			}
		}
		maps.DeleteFunc(always, func(_ string, n int) bool { return n < len(answers) })
		schema := d.Components.Schemas[name]
		same(t, name+" has the fields", slices.Sorted(maps.Keys(schema.Properties)), slices.Sorted(maps.Keys(sent)))
		same(t, name+" always has", slices.Sorted(slices.Values(schema.Required)), slices.Sorted(maps.Keys(always)))
	}
}

// A body takes what the description says, and nothing else.
func TestOpenAPIHasTheBodies(t *testing.T) {
	d := readDescription(t)
	values := map[string]string{"quantity": "1", "entry_token": `"x"`, "user_id": `"u"`, "proof": `"x"`, "payment_ref": `"x"`, "activity_id": "1"}
	for name, parse := range map[string]func([]byte) *seckill.Refusal{
		"Purchase":       func(b []byte) *seckill.Refusal { _, ref := parseWish(b, true); return ref },
		"Entry":          func(b []byte) *seckill.Refusal { _, _, ref := parseEntry(b, true); return ref },
		"Payment":        func(b []byte) *seckill.Refusal { _, ref := parsePayment(b); return ref },
		"ArticleRequest": func(b []byte) *seckill.Refusal { _, ref := parseArticle(b); return ref },
	} {
		for field, value := range values {
			ref := parse([]byte(`{"` + field + `":` + value + `}`))
			unknown := ref != nil && ref.Fields[0].Rule == seckill.RuleUnknown
			if _, there := d.Components.Schemas[name].Properties[field]; there == unknown {
				t.Errorf("%s is described with %s: %v, but the server knows it: %v", name, field, there, !unknown)
			}
		}
	}
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s\n%q, want\n%q", what, got, want)
	}
}
