package tidy

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// The descriptions of the two listeners. Their routes, reasons and fields are compared with the code where that
// is: in internal/api and internal/admin.
var descriptions = []string{"docs/openapi-public.yaml", "docs/openapi-admin.yaml"}

var httpMethods = []string{"get", "put", "post", "delete", "patch", "head", "options"}

// Every description can be followed by tools and read by people: no reference leads nowhere, nothing is described
// that nobody uses, each operation has a name of its own, and each answer a schema.
func TestDescriptionsAreWhole(t *testing.T) {
	for _, name := range descriptions {
		text, err := os.ReadFile("../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		var doc map[string]any
		if err := yaml.Unmarshal(text, &doc); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, c := range checkDescription(doc) {
			t.Errorf("%s: %s", name, c)
		}
	}
}

// checkDescription says what is wrong with an OpenAPI document.
func checkDescription(doc map[string]any) (complaints []string) {
	no := func(format string, args ...any) { complaints = append(complaints, fmt.Sprintf(format, args...)) }
	if v, _ := doc["openapi"].(string); !strings.HasPrefix(v, "3.1.") {
		no("it is OpenAPI %q, want 3.1", v)
	}
	used := map[string]bool{}
	walk(doc, "", func(at string, m map[string]any) {
		ref, ok := m["$ref"].(string)
		if !ok {
			return
		}
		used[ref] = true
		if follow(doc, m) == nil {
			no("%s: %s leads nowhere", at, ref)
		}
	})
	for kind, all := range object(doc["components"]) {
		for name := range object(all) {
			if kind != "securitySchemes" && !used["#/components/"+kind+"/"+name] && !onlyNamed[kind+"/"+name] {
				no("nothing uses components/%s/%s", kind, name)
			}
		}
	}
	operations := map[string]bool{}
	for path, item := range object(doc["paths"]) {
		for method, op := range object(item) {
			if !slices.Contains(httpMethods, method) {
				continue
			}
			at, op := strings.ToUpper(method)+" "+path, object(op)
			id, _ := op["operationId"].(string)
			if id == "" || operations[id] {
				no("%s: its operationId is %q", at, id)
			}
			operations[id] = true
			complaints = append(complaints, checkOperation(doc, at, path, object(item), op)...)
		}
	}
	walk(doc, "", func(at string, m map[string]any) {
		complaints = append(complaints, checkExamples(doc, at, m)...)
		for key, value := range m {
			// Text with a comma that is not in quotes becomes a key.
			if value == nil && !strings.Contains(at, "/example") {
				no("%s/%s is nothing", at, key)
			}
		}
	})
	return complaints
}

// onlyNamed are components to which no reference can lead: what is in a stream, and what may come from anywhere.
var onlyNamed = map[string]bool{"schemas/Live": true, "responses/InternalError": true, "schemas/Outcome": true}

func checkOperation(doc map[string]any, at, path string, item, op map[string]any) (complaints []string) {
	no := func(format string, args ...any) {
		complaints = append(complaints, at+": "+fmt.Sprintf(format, args...))
	}
	if op["summary"] == nil || op["tags"] == nil {
		no("it has no summary, or no tag")
	}
	inPath := 0
	for _, p := range slices.Concat(list(item["parameters"]), list(op["parameters"])) {
		p := follow(doc, object(p))
		if p["in"] == "path" {
			inPath++
			if !strings.Contains(path, "{"+fmt.Sprint(p["name"])+"}") {
				no("its path has no {%v}", p["name"])
			}
		}
		if p["schema"] == nil {
			no("the parameter %v has no schema", p["name"])
		}
	}
	if want := strings.Count(path, "{"); inPath != want {
		no("%d parameters of its path are described, want %d", inPath, want)
	}
	good := false
	for status, answer := range object(op["responses"]) {
		answer := follow(doc, object(answer))
		good = good || status[0] == '2'
		if answer["description"] == nil {
			no("%s has no description", status)
		}
		if len(object(answer["content"])) == 0 && status != "204" && status != "304" {
			no("%s has nothing in it", status)
		}
		for kind, content := range object(answer["content"]) {
			if object(content)["schema"] == nil {
				no("%s has no schema for %s", status, kind)
			}
			if status[0] >= '4' && kind == "application/problem+json" && object(content)["examples"] == nil {
				no("%s has no example", status)
			}
		}
		if headers := object(answer["headers"]); (status == "429" || status == "503" && len(headers) > 0) && headers["Retry-After"] == nil {
			no("%s has no Retry-After", status)
		}
	}
	if !good {
		no("nothing says what it answers when all is well")
	}
	return complaints
}

// checkExamples compares the examples beside a schema with it.
func checkExamples(doc map[string]any, at string, m map[string]any) (complaints []string) {
	schema, ok := m["schema"].(map[string]any)
	if !ok {
		return nil
	}
	examples := map[string]any{}
	if e, ok := m["example"]; ok {
		examples["example"] = e
	}
	for name, e := range object(m["examples"]) {
		examples[name] = object(e)["value"]
	}
	for name, value := range examples {
		for _, c := range fits(doc, schema, value) {
			complaints = append(complaints, at+"/"+name+c)
		}
	}
	return complaints
}

// fits says where a value is not as its schema wants it. It knows the words that the descriptions use, but for formats.
func fits(doc, schema map[string]any, v any) (complaints []string) {
	schema = follow(doc, schema)
	for _, part := range list(schema["allOf"]) {
		complaints = append(complaints, fits(doc, object(part), v)...)
	}
	if choices := list(schema["oneOf"]); len(choices) > 0 {
		n := 0
		for _, c := range choices {
			if len(fits(doc, object(c), v)) == 0 {
				n++
			}
		}
		if n != 1 {
			complaints = append(complaints, fmt.Sprintf(" fits %d of %d schemas", n, len(choices)))
		}
	}
	if enum := list(schema["enum"]); len(enum) > 0 && !slices.Contains(enum, v) {
		complaints = append(complaints, fmt.Sprintf(" is %v, which is none of %v", v, enum))
	}
	if kinds := schema["type"]; kinds != nil {
		names := list(kinds)
		if one, ok := kinds.(string); ok {
			names = []any{one}
		}
		if !slices.ContainsFunc(names, func(name any) bool { return isA(name.(string), v) }) {
			return append(complaints, fmt.Sprintf(" is %T, want %v", v, kinds))
		}
	}
	for i, e := range list(v) {
		for _, c := range fits(doc, object(schema["items"]), e) {
			complaints = append(complaints, fmt.Sprintf("[%d]%s", i, c))
		}
	}
	fields, isObject := v.(map[string]any)
	if !isObject || schema["properties"] == nil {
		return complaints
	}
	properties := object(schema["properties"])
	for _, name := range list(schema["required"]) {
		if _, ok := fields[name.(string)]; !ok {
			complaints = append(complaints, fmt.Sprintf(" has no %v", name))
		}
	}
	for name, value := range fields {
		if properties[name] == nil {
			complaints = append(complaints, " has "+name+", which is not described")
			continue
		}
		for _, c := range fits(doc, object(properties[name]), value) {
			complaints = append(complaints, "."+name+c)
		}
	}
	return complaints
}

func isA(kind string, v any) bool {
	switch v.(type) {
	case nil:
		return kind == "null"
	case string:
		return kind == "string"
	case bool:
		return kind == "boolean"
	case int:
		return kind == "integer" || kind == "number"
	case float64:
		return kind == "number"
	case []any:
		return kind == "array"
	}
	return kind == "object"
}

// walk visits each object of a document.
func walk(v any, at string, visit func(at string, m map[string]any)) {
	switch v := v.(type) {
	case map[string]any:
		visit(at, v)
		for name, e := range v {
			walk(e, at+"/"+name, visit)
		}
	case []any:
		for i, e := range v {
			walk(e, fmt.Sprintf("%s/%d", at, i), visit)
		}
	}
}

// follow is what an object refers to, itself if it does not refer; nil if it leads nowhere.
func follow(doc, m map[string]any) map[string]any {
	ref, ok := m["$ref"].(string)
	if !ok {
		return m
	}
	rest, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return nil
	}
	found := doc
	for part := range strings.SplitSeq(rest, "/") {
		if found, ok = found[part].(map[string]any); !ok {
			return nil
		}
	}
	return found
}

func object(v any) map[string]any { m, _ := v.(map[string]any); return m }

func list(v any) []any { l, _ := v.([]any); return l }

// What is wrong with a description is noticed.
func TestDescriptionRulesCatch(t *testing.T) {
	const whole = `
openapi: 3.1.0
paths:
  /a/{id}:
    parameters: [{name: id, in: path, schema: {type: integer}}]
    get:
      operationId: getA
      summary: A
      tags: [a]
      responses:
        '200': {description: A, content: {application/json: {schema: {$ref: '#/components/schemas/A'}, example: {n: 1}}}}
components: {schemas: {A: {type: object, required: [n], properties: {n: {type: integer, enum: [1, 2]}}}}}
`
	for _, c := range []struct{ from, to, what string }{
		{"", "", ""},
		{"3.1.0", "3.0.3", "3.0.3"},
		{"$ref: '#/components/schemas/A'", "$ref: '#/components/schemas/B'", "leads nowhere"},
		{"{$ref: '#/components/schemas/A'}", "{type: object}", "nothing uses components/schemas/A"},
		{"operationId: getA", "deprecated: true", "operationId"},
		{"summary: A", "deprecated: true", "summary"},
		{"/a/{id}:", "/a:", "its path has no {id}"},
		{"in: path", "in: query", "0 parameters"},
		{"'200'", "'304'", "when all is well"},
		{"schema: {$ref: '#/components/schemas/A'}, ", "", "has no schema"},
		{"example: {n: 1}", "example: {n: 3}", "none of [1 2]"},
		{"example: {n: 1}", "example: {}", "has no n"},
		{"example: {n: 1}", "example: {n: 1, m: 1}", "has m"},
		{"example: {n: 1}", "example: {n: x}", "is string"},
		{"description: A,", "description: A, or B,", "or B is nothing"},
	} {
		var doc map[string]any
		if err := yaml.Unmarshal([]byte(strings.Replace(whole, c.from, c.to, 1)), &doc); err != nil {
			t.Fatal(err)
		}
		all := strings.Join(checkDescription(doc), "\n")
		if !strings.Contains(all, c.what) || c.what == "" && all != "" {
			t.Errorf("with %q instead of %q: got %q, want %q", c.to, c.from, all, c.what)
		}
	}
}
