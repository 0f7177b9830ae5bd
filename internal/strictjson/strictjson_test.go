package strictjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"seckill"
)

// order is a request with every kind of field.
type order struct {
	Name   string          `json:"name"`
	Count  int64           `json:"count"`
	Small  int8            `json:"small,omitempty"`
	Size   uint16          `json:"size,omitempty"`
	Ratio  float64         `json:"ratio,omitempty"`
	Open   bool            `json:"open"`
	At     time.Time       `json:"at"`
	Note   *string         `json:"note"`
	Max    *int            `json:"max"`
	Until  *time.Time      `json:"until"`
	Any    json.RawMessage `json:"any,omitempty"`
	Place  *place          `json:"place"`
	Tags   []string        `json:"tags,omitempty"`
	Places []place         `json:"places,omitempty"`
	Unread int             `json:"-"`
}

type place struct {
	City string `json:"city"`
	Zip  *int   `json:"zip"`
}

const good = `{"name":"x","count":1,"open":true,"at":"2026-11-11T00:00:00Z"}`

// with replaces or adds one field of the good request.
func with(field, value string) string {
	var o map[string]json.RawMessage
	if err := json.Unmarshal([]byte(good), &o); err != nil {
		panic(err)
	}
	delete(o, field)
	parts := []string{}
	for name, v := range o {
		parts = append(parts, fmt.Sprintf("%q:%s", name, v))
	}
	if value != "" {
		parts = append(parts, fmt.Sprintf("%q:%s", field, value))
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// What is right is read, in each form that JSON has for it.
func TestReadsWhatIsRight(t *testing.T) {
	var o order
	text := ` { "name" : "\u4e2d\ud83d\ude00\"" , "count":-9223372036854775808, "small":-128,"size":65535,"ratio":-1.5e3,
		"open":false,"at":"2026-11-11T00:00:00.5+08:00","note":null,"max":7,"any":{"a":[1,null]},
		"place":{"city":"杭州"},"tags":["a",""],"places":[{"city":"b","zip":1}]} ` + "\r\n"
	if refusal := Decode([]byte(text), &o); refusal != nil {
		t.Fatal(refusal)
	}
	seven, one := 7, 1
	want := order{
		Name: "中😀\"", Count: -9223372036854775808, Small: -128, Size: 65535, Ratio: -1500, Max: &seven,
		At: o.At, Any: json.RawMessage(`{"a":[1,null]}`), Place: &place{City: "杭州"}, Tags: []string{"a", ""},
		Places: []place{{"b", &one}},
	}
	if !reflect.DeepEqual(o, want) || !o.At.Equal(time.Date(2026, 11, 10, 16, 0, 0, 500e6, time.UTC)) {
		t.Errorf("got %+v\nwant %+v", o, want)
	}
}

// wrongs is each way in which one field, or the body, can be wrong.
var wrongs = []struct {
	body string
	want seckill.FieldError
}{
	{with("name", ""), seckill.FieldError{Field: "name", Rule: seckill.RuleRequired}},
	{with("name", "null"), seckill.FieldError{Field: "name", Rule: seckill.RuleType, Arg: "string"}},
	{with("name", "1"), seckill.FieldError{Field: "name", Rule: seckill.RuleType, Arg: "string"}},
	{with("name", "{}"), seckill.FieldError{Field: "name", Rule: seckill.RuleType, Arg: "string"}},
	{with("count", ""), seckill.FieldError{Field: "count", Rule: seckill.RuleRequired}},
	{with("count", "null"), seckill.FieldError{Field: "count", Rule: seckill.RuleType, Arg: "integer"}},
	{with("count", `"1"`), seckill.FieldError{Field: "count", Rule: seckill.RuleType, Arg: "integer"}},
	{with("count", "1.0"), seckill.FieldError{Field: "count", Rule: seckill.RuleType, Arg: "integer"}},
	{with("count", "1e3"), seckill.FieldError{Field: "count", Rule: seckill.RuleType, Arg: "integer"}},
	{with("count", "true"), seckill.FieldError{Field: "count", Rule: seckill.RuleType, Arg: "integer"}},
	{with("count", "[1]"), seckill.FieldError{Field: "count", Rule: seckill.RuleType, Arg: "integer"}},
	{with("count", "9223372036854775808"), seckill.FieldError{Field: "count", Rule: seckill.RuleMax, Arg: "9223372036854775807"}},
	{with("count", "-9223372036854775809"), seckill.FieldError{Field: "count", Rule: seckill.RuleMin, Arg: "-9223372036854775808"}},
	{with("small", "128"), seckill.FieldError{Field: "small", Rule: seckill.RuleMax, Arg: "127"}},
	{with("small", "-129"), seckill.FieldError{Field: "small", Rule: seckill.RuleMin, Arg: "-128"}},
	{with("size", "-1"), seckill.FieldError{Field: "size", Rule: seckill.RuleMin, Arg: "0"}},
	{with("size", "65536"), seckill.FieldError{Field: "size", Rule: seckill.RuleMax, Arg: "65535"}},
	{with("ratio", `"1"`), seckill.FieldError{Field: "ratio", Rule: seckill.RuleType, Arg: "number"}},
	{with("ratio", "1e999"), seckill.FieldError{Field: "ratio", Rule: seckill.RuleType, Arg: "number"}},
	{with("open", `"true"`), seckill.FieldError{Field: "open", Rule: seckill.RuleType, Arg: "boolean"}},
	{with("open", "0"), seckill.FieldError{Field: "open", Rule: seckill.RuleType, Arg: "boolean"}},
	{with("at", `"2026-11-11"`), seckill.FieldError{Field: "at", Rule: seckill.RuleType, Arg: "time"}},
	{with("at", `"2026-02-30T00:00:00Z"`), seckill.FieldError{Field: "at", Rule: seckill.RuleType, Arg: "time"}},
	{with("at", "1762790400"), seckill.FieldError{Field: "at", Rule: seckill.RuleType, Arg: "time"}},
	{with("at", "null"), seckill.FieldError{Field: "at", Rule: seckill.RuleType, Arg: "time"}},
	{with("note", "1"), seckill.FieldError{Field: "note", Rule: seckill.RuleType, Arg: "string"}},
	{with("max", "1.5"), seckill.FieldError{Field: "max", Rule: seckill.RuleType, Arg: "integer"}},
	{with("until", `""`), seckill.FieldError{Field: "until", Rule: seckill.RuleType, Arg: "time"}},
	{with("place", `"x"`), seckill.FieldError{Field: "place", Rule: seckill.RuleType, Arg: "object"}},
	{with("place", `{}`), seckill.FieldError{Field: "place.city", Rule: seckill.RuleRequired}},
	{with("place", `{"city":"x","street":1}`), seckill.FieldError{Field: "place.street", Rule: seckill.RuleUnknown}},
	{with("tags", `"a"`), seckill.FieldError{Field: "tags", Rule: seckill.RuleType, Arg: "array"}},
	{with("tags", `["a",1]`), seckill.FieldError{Field: "tags[1]", Rule: seckill.RuleType, Arg: "string"}},
	{with("places", `[{"city":"a"},{"city":"b","zip":"1"}]`), seckill.FieldError{Field: "places[1].zip", Rule: seckill.RuleType, Arg: "integer"}},
	{with("x", "1"), seckill.FieldError{Field: "x", Rule: seckill.RuleUnknown}},
	{with("Name", `"x"`), seckill.FieldError{Field: "Name", Rule: seckill.RuleUnknown}},
	{with("hidden", "1"), seckill.FieldError{Field: "hidden", Rule: seckill.RuleUnknown}},
	{with("Unread", "1"), seckill.FieldError{Field: "Unread", Rule: seckill.RuleUnknown}},
	{with(strings.Repeat("é", 60), "1"), seckill.FieldError{Field: strings.Repeat("é", 32) + "…", Rule: seckill.RuleUnknown}},
	{strings.Replace(good, "{", `{"name":"y","name":"z",`, 1), seckill.FieldError{Field: "name", Rule: seckill.RuleRepeated}},
	{strings.Replace(good, "{", `{"n\u0061me":"y",`, 1), seckill.FieldError{Field: "name", Rule: seckill.RuleRepeated}},
	{``, seckill.FieldError{Field: Body, Rule: seckill.RuleRequired}},
	{" \n", seckill.FieldError{Field: Body, Rule: seckill.RuleRequired}},
	{`[]`, seckill.FieldError{Field: Body, Rule: seckill.RuleType, Arg: "object"}},
	{`null`, seckill.FieldError{Field: Body, Rule: seckill.RuleType, Arg: "object"}},
	{`"x"`, seckill.FieldError{Field: Body, Rule: seckill.RuleType, Arg: "object"}},
	{good[:len(good)-1], seckill.FieldError{Field: Body, Rule: seckill.RuleFormat, Arg: "JSON"}},
	{good + "{}", seckill.FieldError{Field: Body, Rule: seckill.RuleFormat, Arg: "JSON"}},
	{good + ",", seckill.FieldError{Field: Body, Rule: seckill.RuleFormat, Arg: "JSON"}},
	{"\ufeff" + good, seckill.FieldError{Field: Body, Rule: seckill.RuleFormat, Arg: "JSON"}},
	{`{'name':1}`, seckill.FieldError{Field: Body, Rule: seckill.RuleFormat, Arg: "JSON"}},
	{with("count", "01"), seckill.FieldError{Field: Body, Rule: seckill.RuleFormat, Arg: "JSON"}},
	{with("count", "NaN"), seckill.FieldError{Field: Body, Rule: seckill.RuleFormat, Arg: "JSON"}},
	{with("name", "\"\xff\""), seckill.FieldError{Field: Body, Rule: seckill.RuleFormat, Arg: "UTF-8"}},
	{with("name", `"\ud800"`), seckill.FieldError{Field: Body, Rule: seckill.RuleFormat, Arg: "UTF-8"}},
	{with("name", `"\ud800\u0041"`), seckill.FieldError{Field: Body, Rule: seckill.RuleFormat, Arg: "UTF-8"}},
	{with("name", `"\udc00"`), seckill.FieldError{Field: Body, Rule: seckill.RuleFormat, Arg: "UTF-8"}},
	{with("any", strings.Repeat("[", 16)+strings.Repeat("]", 16)), seckill.FieldError{Field: Body, Rule: seckill.RuleFormat, Arg: "JSON of at most 16 levels"}},
	{strings.Repeat("[", 1<<20), seckill.FieldError{Field: Body, Rule: seckill.RuleFormat, Arg: "JSON of at most 16 levels"}},
}

// Each way in which one field can be wrong is refused, with its path and what is accepted.
func TestRefusesWhatIsWrong(t *testing.T) {
	for _, c := range wrongs {
		var o order
		refusal := Decode([]byte(c.body), &o)
		if refusal == nil || refusal.Reason != seckill.InvalidRequest || !slices.Equal(refusal.Fields, []seckill.FieldError{c.want}) {
			t.Errorf("%.100s:\ngot  %+v\nwant %+v", c.body, refusal, c.want)
		}
	}
}

// A caller hears of all mistakes at once, each once, up to a bound.
func TestSaysEverythingAtOnce(t *testing.T) {
	var o order
	refusal := Decode([]byte(`{"name":1,"name":2,"name":3,"count":"x","open":1,"place":{"zip":1.5},"what":0}`), &o)
	var got []string
	for _, f := range refusal.Fields {
		got = append(got, f.Field+" "+string(f.Rule))
	}
	want := []string{
		"name type", "name repeated", "count type", "open type", "place.zip type", "place.city required", "what unknown", "at required",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}

	var many bytes.Buffer
	many.WriteString(`{"a0":0`)
	for i := range 10_000 {
		fmt.Fprintf(&many, `,"b%d":0`, i)
	}
	many.WriteString("}")
	if got := len(Decode(many.Bytes(), &o).Fields); got != fieldsMax {
		t.Errorf("got %d field errors, want %d", got, fieldsMax)
	}
}

// What is not wrong is set all the same, so that its value can be checked as well.
func TestSetsWhatIsNotNamed(t *testing.T) {
	var o order
	if Decode([]byte(with("count", `"x"`)), &o) == nil || o.Name != "x" || !o.Open || o.At.IsZero() {
		t.Errorf("got %+v, want all but count", o)
	}
}

// A struct that cannot be a request is a mistake of the program, not the caller's.
func TestPanicsOnMistakesOfTheProgram(t *testing.T) {
	for name, dst := range map[string]any{
		"not a pointer": order{},
		"not a struct":  new(int),
		"no tag":        &struct{ A int }{},
		"a map": &struct {
			A map[string]int `json:"a"`
		}{},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			Decode([]byte(`{"a":{}}`), dst)
		}()
	}
}

// Whatever is accepted encoding/json reads the same, and whatever encoding/json refuses is refused.
func FuzzAgreesWithEncodingJSON(f *testing.F) {
	for _, seed := range []string{
		good, with("name", `"\ud83d\ude00"`), with("place", `{"city":"x","zip":1}`), with("tags", `["a"]`), with("any", "[1]"),
		with("count", "-0"), with("ratio", "1e3"), with("until", `"0000-01-01T00:00:00Z"`), `{"name":1}`, `{`, ``, "[", with("at", `"2026-06-30T23:59:60Z"`),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var got, want order
		refusal := Decode(body, &got)
		decoder := json.NewDecoder(bytes.NewReader(body))
		decoder.DisallowUnknownFields()
		err := decoder.Decode(&want)
		if refusal == nil && (err != nil || !reflect.DeepEqual(got, want)) {
			t.Fatalf("%q: got %+v, encoding/json %+v, %v", body, got, want, err)
		}
		if refusal != nil && (len(refusal.Fields) == 0 || len(refusal.Fields) > fieldsMax) {
			t.Fatalf("%q: %d field errors", body, len(refusal.Fields))
		}
		if refusal != nil {
			return
		}
		again, err := json.Marshal(got)
		if err != nil {
			t.Fatal(err)
		}
		var second order
		if refusal := Decode(again, &second); refusal != nil {
			t.Fatalf("%q, written again as %q, is refused: %v", body, again, refusal)
		}
	})
}
