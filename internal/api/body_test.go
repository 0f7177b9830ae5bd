package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"seckill"
)

// Nothing that is a wish costs memory to read.
func TestReadingAWishAllocatesNothing(t *testing.T) {
	body := []byte(` {"quantity": 3, "entry_token":"abc.def" , "user_id":"550e8400-e29b-41d4-a716-446655440000"}`)
	if n := testing.AllocsPerRun(100, func() {
		if _, ref := parseWish(body, true); ref != nil {
			t.Fatal(ref)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestWishesThatAreGood(t *testing.T) {
	for body, want := range map[string]wish{
		"":                                     {quantity: 1},
		"{}":                                   {quantity: 1},
		" { } \r\n\t":                          {quantity: 1},
		`{"quantity":1000000}`:                 {quantity: 1000000},
		`{"\u0071uantity":2}`:                  {quantity: 2},
		`{"quantity":5,"user_id":"a b"}`:       {quantity: 5, userID: "a b"},
		`{"user_id":12345678901234567890}`:     {quantity: 1, userID: "12345678901234567890"},
		`{"user_id":"\u0041","quantity":2}`:    {quantity: 2, userID: "A"},
		`{"entry_token":"x.y","quantity" : 1}`: {quantity: 1, entryToken: "x.y"},
	} {
		if got, ref := parseWish([]byte(body), true); ref != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", body, got, ref, want)
		}
	}
}

// strict is what a wish is, written with encoding/json: the oracle of the scanner.
func strict(body []byte, open bool) (w wish, ok bool) {
	w.quantity = 1
	if len(body) == 0 {
		return w, true
	}
	if !utf8.Valid(body) {
		return w, false
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return w, false
	}
	seen := map[string]bool{}
	for d.More() {
		name, err := d.Token()
		if err != nil || seen[name.(string)] {
			return w, false
		}
		seen[name.(string)] = true
		value, err := d.Token()
		if err != nil {
			return w, false
		}
		switch text, isText := value.(string); {
		case name == "quantity":
			n, isNumber := value.(json.Number)
			i, err := strconv.Atoi(string(n))
			if !isNumber || err != nil || i < 1 || i > seckill.QuantityMax || strings.ContainsAny(string(n), "-+.eE") {
				return w, false
			}
			w.quantity = i
		case name == "entry_token" && isText && text != "" && len(text) <= entryTokenBytesMax && printable(text):
			w.entryToken = text
		case name == "user_id" && open:
			if n, isNumber := value.(json.Number); isNumber && n != "0" && !strings.ContainsAny(string(n), "-+.eE") {
				text = string(n)
			}
			if !seckill.ValidBuyer(text) {
				return w, false
			}
			w.userID = text
		default:
			return w, false
		}
	}
	if _, err := d.Token(); err != nil {
		return w, false
	}
	_, err := d.Token()
	return w, err == io.EOF
}

var wishSeeds = []string{
	"", " ", "{}", "{} x", "{}{}", "[]", "null", "1", `"quantity"`, "{", "}", `{"quantity"`, `{"quantity":`, `{"quantity":1`, `{"quantity":1,}`, `{,}`,
	`{"quantity":null}`, `{"quantity":"1"}`, `{"quantity":1.0}`, `{"quantity":1e2}`, `{"quantity":-1}`, `{"quantity":0}`, `{"quantity":01}`, `{"quantity":+1}`,
	`{"quantity":-0}`, `{"quantity":.5}`, `{"quantity":1000001}`, `{"quantity":99999999999999999999}`, `{"quantity":true}`, `{"quantity":{}}`, `{"quantity":[1]}`,
	`{"quantity":1,"quantity":2}`, `{"Quantity":1}`, `{"quantity ":1}`, `{"entry_token":""}`, `{"entry_token":null}`, `{"entry_token":"中"}`, `{"entry_token":"\ud800"}`,
	`{"entry_token":"a\nb"}`, "{\"entry_token\":\"a\nb\"}", "{\"entry_token\":\"\xff\"}", `{"entry_token":"a\"b"}`, `{"entry_token":"\x"}`, `{"entry_token":"\u00"}`,
	`{"user_id":7}`, `{"user_id":0}`, `{"user_id":"7"}`, `{"user_id":7.5}`, `{"user_id":""}`, `{"user_id":1e3}`, `{"x":1}`, `{"":1}`, `{"quantity":1} `, "\ufeff{}",
	strings.Repeat(`{"quantity":`, 1000), strings.Repeat("[", 10000), `{"quantity":1x}`, `{"quantity":1"entry_token":"a"}`, `{"quantity":-}`, `{"quantity":1.}`, `{"quantity":1e}`,
}

// The scanner takes what encoding/json would take under the same rules, and nothing else; what it
// refuses, it refuses by name.
func FuzzWish(f *testing.F) {
	for _, s := range wishSeeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, open := range []bool{true, false} {
			got, ref := parseWish(body, open)
			want, ok := strict(body, open)
			if ok != (ref == nil) || ok && got != want {
				t.Fatalf("%q: got %+v and %v; encoding/json says %+v, %v", body, got, ref, want, ok)
			}
			if ref != nil && (ref.Reason != seckill.InvalidRequest || len(ref.Fields) != 1 || ref.Fields[0].Rule == "") {
				t.Fatalf("%q: refused with %+v", body, ref)
			}
		}
	})
}

func FuzzArticle(f *testing.F) {
	for _, s := range append(wishSeeds, `{"activity_id":1,"user_id":2}`, `{"activity_id":"1","user_id":"x"}`, `{"user_id":2}`, `{"activity_id":9223372036854775808,"user_id":2}`) {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		a, ref := parseArticle(body)
		if ref != nil {
			if ref.Reason != seckill.InvalidRequest || len(ref.Fields) != 1 {
				t.Fatalf("%q: refused with %+v", body, ref)
			}
			return
		}
		var std struct {
			ActivityID int64 `json:"activity_id"`
			UserID     any   `json:"user_id"`
		}
		d := json.NewDecoder(bytes.NewReader(body))
		d.UseNumber()
		d.DisallowUnknownFields()
		if err := d.Decode(&std); err != nil || std.ActivityID != a.activityID || fmt.Sprint(std.UserID) != a.userID || a.activityID < 1 {
			t.Fatalf("%q: got %+v; encoding/json says %+v, %v", body, a, std, err)
		}
	})
}

// Whatever is in a path: nothing breaks, and only what can be a ticket or an id passes.
func FuzzPath(f *testing.F) {
	for _, s := range []string{"1-1-0123456789abcdefghjk", "", "-", "--", "1-1-", "0", "1", "99999999999999999999", "-1", "1-1-0123456789abcdefgh\x00k", "a/../b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if run, ok := seckill.TicketRun(s); ok && (run.Activity < 1 || run.Run < 1) {
			t.Fatalf("ticket %q is of %+v", s, run)
		}
		if id, there, ref := parseActivityID(s); ref == nil && there && (id < 1 || strings.TrimLeft(s, "0") != strconv.FormatInt(id, 10)) {
			t.Fatalf("activity %q is %d", s, id)
		}
		if isOrderID(s) {
			if n, err := strconv.ParseInt(s, 10, 64); err != nil || n < 1 {
				t.Fatalf("%q is no order id", s)
			}
		}
	})
}
