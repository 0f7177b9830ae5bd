package admin

import (
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"seckill"
)

// described is as much of a schema in docs/openapi-admin.yaml as is compared with the code.
type described struct {
	Enum       []string
	Required   []string
	Properties map[string]yaml.Node
	AllOf      []described `yaml:"allOf"`
}

// description is as much of docs/openapi-admin.yaml as is compared with the code.
type description struct {
	Paths      map[string]map[string]yaml.Node
	Components struct{ Schemas map[string]described }
}

func readDescription(t *testing.T) (d description) {
	t.Helper()
	text, err := os.ReadFile("../../docs/openapi-admin.yaml")
	must(t, err)
	must(t, yaml.Unmarshal(text, &d))
	return d
}

// The description has every route and what it takes, and nothing that is not there.
func TestOpenAPIHasTheRoutes(t *testing.T) {
	s, _ := everything(t, newNeighbours())
	got := map[string]seckill.Role{}
	for path, operations := range readDescription(t).Paths {
		for method, node := range operations {
			if method == "parameters" {
				continue
			}
			var operation struct {
				Role string `yaml:"x-role"`
			}
			must(t, node.Decode(&operation))
			role := seckill.Role(operation.Role)
			if operation.Role == "everyone" {
				role = everyone
			}
			if path == "/" {
				path = "/{$}"
			}
			got[strings.ToUpper(method)+" "+path] = role
		}
	}
	want := map[string]seckill.Role{}
	for _, r := range s.routes() {
		want[r.pattern] = s.takes(r.pattern)
	}
	for _, pattern := range slices.Sorted(maps.Keys(got)) {
		if _, there := want[pattern]; !there {
			t.Errorf("%s is described, but there is nothing", pattern)
		}
	}
	for _, pattern := range slices.Sorted(maps.Keys(want)) {
		switch role, there := got[pattern]; {
		case !there:
			t.Errorf("%s is not described", pattern)
		case role != want[pattern]:
			t.Errorf("%s is described as taking %q, want %q", pattern, role, want[pattern])
		}
	}
}

// Every reason is listed, and beside those that buyers hear, the one that only operators do.
func TestOpenAPIHasTheReasons(t *testing.T) {
	var want []string
	for r := seckill.Reason(1); int(r) < seckill.Reasons; r++ {
		want = append(want, r.String())
	}
	want = append(want, "forbidden")
	if got := readDescription(t).Components.Schemas["Reason"].Enum; !slices.Equal(got, want) {
		t.Errorf("the description has the reasons\n%q, want\n%q", got, want)
	}
}

// What is described of an answer or a body is what the code sends or takes. Fields of an answer that are always
// there are required.
func TestOpenAPIHasTheFields(t *testing.T) {
	schemas := readDescription(t).Components.Schemas
	for name, view := range map[string]any{
		"Activity": activityView{}, "ActivityList": activityList{}, "Books": seckill.Books{}, "Comparison": comparison{}, "Finding": seckill.Finding{},
		"Audience": audienceView{}, "Switch": switchView{}, "SwitchPlan": planView{}, "SwitchList": switchList{}, "Guard": guardView{},
		"Trial": trial{}, "Effect": effect{}, "Block": blockView{}, "BlockList": blockList{}, "DeadLetter": deadView{}, "DeadLetterList": deadList{},
		"DeadLetterDone": deadDone{}, "Outcome": outcomeView{}, "Order": orderView{}, "OrderList": orderList{}, "AuditEntry": auditView{}, "AuditList": auditList{},
		"Node": nodeView{}, "NodeList": nodeList{}, "Webhook": webhookView{}, "WebhookList": webhookList{}, "Rotated": rotated{}, "WebhookTest": tested{},
		"Delivery": deliveryView{}, "DeliveryList": deliveryList{}, "Session": sessionView{}, "Account": accountView{}, "AccountList": accountList{}, "Health": healthView{},
	} {
		fields, always := jsonFields(reflect.TypeOf(view))
		same(t, name+" has the fields", slices.Sorted(maps.Keys(schemas[name].Properties)), fields)
		same(t, name+" always has", slices.Sorted(slices.Values(schemas[name].Required)), always)
	}
	for name, body := range map[string]any{"NewActivity": newActivity{}, "SwitchChange": switchChange{}, "Command": commandBody{}} {
		fields, _ := jsonFields(reflect.TypeOf(body))
		same(t, name+" has the fields", slices.Sorted(maps.Keys(schemas[name].Properties)), fields)
	}
	// An activity, and what the restock did.
	fields, _ := jsonFields(reflect.TypeFor[restocked]())
	more := schemas["Restocked"].AllOf[1].Properties
	same(t, "Restocked has the fields", slices.Sorted(maps.Keys(merged(more, schemas["Activity"].Properties))), fields)
}

// bodyOf are the schemas of bodies that the tests of fields send, by their endpoint.
var bodyOf = map[string]string{
	"activities": "NewActivity", "activities/1/restock": "Restock", "activities/1/rerun": "Rerun", "activities/1/reconcile": "Reconcile",
	"activities/1/pause": "Command", "dead-letters/1/retry": "Command", "dead-letters/1/drop": "Drop", "orders/1/paid": "Paid",
	"PUT switches/intake": "SwitchChange", "blocks": "NewBlock", "accounts": "NewAccount", "PUT accounts/ann": "AccountChange",
}

// The bodies are described as the tests of their fields know them.
func TestOpenAPIHasTheBodies(t *testing.T) {
	schemas := readDescription(t).Components.Schemas
	seen := 0
	for _, e := range endpoints {
		name, ok := bodyOf[e.path]
		if !ok {
			continue
		}
		seen++
		same(t, name+" has the fields", slices.Sorted(maps.Keys(schemas[name].Properties)), slices.Sorted(maps.Keys(e.good)))
		same(t, name+" has to have", slices.Sorted(slices.Values(schemas[name].Required)), slices.Sorted(slices.Values(e.required)))
	}
	if seen != len(bodyOf) {
		t.Errorf("%d of %d bodies were compared", seen, len(bodyOf))
	}
}

// jsonFields are the names under which a struct is sent, and those of them that are never left out.
func jsonFields(of reflect.Type) (fields, always []string) {
	for _, f := range reflect.VisibleFields(of) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || name == "" {
			continue
		}
		fields = append(fields, name)
		if options != "omitempty" {
			always = append(always, name)
		}
	}
	slices.Sort(fields)
	slices.Sort(always)
	return fields, always
}

func merged[V any](a, b map[string]V) map[string]V {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s\n%q, want\n%q", what, got, want)
	}
}
