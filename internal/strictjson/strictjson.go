// Package strictjson reads the body of a request into a struct, and takes nothing that it
// does not understand: no unknown, repeated or mistyped field, no null where a value
// has to be. It says everything that is wrong at once, so that a caller need not find
// out one field at a time.
//
// It is not a general decoder: it knows the kinds of fields that requests of this
// program have. Both HTTP doors use it. What it accepts, encoding/json reads the same.
package strictjson

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"seckill"
)

// Bounds.
const (
	depthMax  = 16 // Levels of nesting.
	fieldsMax = 64 // Field errors in one answer.
	pathMax   = 64 // Bytes of an unknown field's name that are repeated to the caller.
)

// Body is the path of the body as a whole in a field error.
const Body = "body"

// Decode reads a JSON object into the struct that dst points to. Fields of dst need a
// json tag; a pointer, or "omitempty" in the tag, makes one optional, and null for a
// pointer is as if it were not there. A nil answer means that all of dst is set; otherwise
// those fields of dst are that the answer does not name.
//
// Fields may be strings, booleans, integers, floats, [time.Time], [json.RawMessage], structs, and
// slices of and pointers to those. Another kind is a mistake of the program, and panics.
func Decode(body []byte, dst any) *seckill.Refusal {
	target := reflect.ValueOf(dst)
	if target.Kind() != reflect.Pointer || target.Elem().Kind() != reflect.Struct {
		panic("strictjson: dst is not a pointer to a struct")
	}
	if refusal := wellFormed(body); refusal != nil {
		return refusal
	}
	var d decoder
	d.object("", bytes.TrimSpace(body), target.Elem())
	if len(d.wrong) == 0 {
		return nil
	}
	return &seckill.Refusal{Reason: seckill.InvalidRequest, Fields: d.wrong}
}

// wellFormed checks what has to hold before any field can be told from another.
func wellFormed(body []byte) *seckill.Refusal {
	switch {
	case !utf8.Valid(body):
		return seckill.Invalid(Body, seckill.RuleFormat, "UTF-8")
	case len(bytes.TrimSpace(body)) == 0:
		return seckill.Invalid(Body, seckill.RuleRequired, "")
	case depth(body) > depthMax:
		return seckill.Invalid(Body, seckill.RuleFormat, "JSON of at most "+strconv.Itoa(depthMax)+" levels")
	case !json.Valid(body):
		return seckill.Invalid(Body, seckill.RuleFormat, "JSON")
	case loneSurrogate(body):
		return seckill.Invalid(Body, seckill.RuleFormat, "UTF-8")
	}
	return nil
}

// depth counts the deepest nesting. It has to be right for well-formed JSON only.
func depth(body []byte) int {
	level, deepest, quoted := 0, 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			level++
			deepest = max(deepest, level)
		case c == '}' || c == ']':
			level--
		}
	}
	return deepest
}

// loneSurrogate finds a \u escape that is half a character. encoding/json would put
// U+FFFD in its place, and so change what the caller said.
func loneSurrogate(body []byte) bool {
	for {
		i := bytes.IndexByte(body, '\\')
		if i < 0 {
			return false
		}
		body = body[i+1:]
		if body[0] != 'u' {
			body = body[1:]
			continue
		}
		first := hex4(body[1:5])
		body = body[5:]
		switch {
		case first < 0xd800 || first > 0xdfff:
		case first > 0xdbff || len(body) < 6 || body[0] != '\\' || body[1] != 'u':
			return true
		default:
			if second := hex4(body[2:6]); second < 0xdc00 || second > 0xdfff {
				return true
			}
			body = body[6:]
		}
	}
}

func hex4(b []byte) uint64 {
	n, err := strconv.ParseUint(string(b), 16, 16)
	if err != nil {
		panic(err) // The JSON is well-formed.
	}
	return n
}

type decoder struct{ wrong []seckill.FieldError }

// full says that no more can be told, and so there is no use in looking.
func (d *decoder) full() bool { return len(d.wrong) == fieldsMax }

func (d *decoder) refuse(path string, rule seckill.Rule, arg string) {
	if d.full() {
		return
	}
	if path == "" {
		path = Body
	}
	d.wrong = append(d.wrong, seckill.FieldError{Field: path, Rule: rule, Arg: arg})
}

var (
	timeType = reflect.TypeFor[time.Time]()
	rawType  = reflect.TypeFor[json.RawMessage]()
)

// value reads any JSON value into target.
func (d *decoder) value(path string, raw []byte, target reflect.Value) {
	typ := target.Type()
	switch {
	case typ == rawType:
		target.SetBytes(bytes.Clone(raw))
	case typ.Kind() == reflect.Pointer:
		if raw[0] == 'n' {
			target.SetZero()
			return
		}
		made := reflect.New(typ.Elem())
		before := len(d.wrong)
		d.value(path, raw, made.Elem())
		if len(d.wrong) == before {
			target.Set(made)
		}
	case typ == timeType:
		d.scalar(path, raw, target, '"', "time")
	case typ.Kind() == reflect.Struct:
		d.object(path, raw, target)
	case typ.Kind() == reflect.Slice:
		d.array(path, raw, target)
	default:
		d.plain(path, raw, target)
	}
}

func (d *decoder) plain(path string, raw []byte, target reflect.Value) {
	switch kind := target.Kind(); {
	case kind == reflect.String:
		d.scalar(path, raw, target, '"', "string")
	case kind == reflect.Bool:
		if raw[0] != 't' && raw[0] != 'f' {
			d.refuse(path, seckill.RuleType, "boolean")
			return
		}
		target.SetBool(raw[0] == 't')
	case target.CanInt() || target.CanUint():
		d.integer(path, raw, target)
	case target.CanFloat():
		n, err := strconv.ParseFloat(string(raw), target.Type().Bits())
		if err != nil {
			d.refuse(path, seckill.RuleType, "number")
			return
		}
		target.SetFloat(n)
	default:
		panic("strictjson: " + path + " is of a kind that requests do not have: " + target.Type().String())
	}
}

// scalar leaves the reading to encoding/json, once the value begins with the
// right character.
func (d *decoder) scalar(path string, raw []byte, target reflect.Value, first byte, name string) {
	if raw[0] != first {
		d.refuse(path, seckill.RuleType, name)
		return
	}
	made := reflect.New(target.Type())
	if json.Unmarshal(raw, made.Interface()) != nil {
		d.refuse(path, seckill.RuleType, name)
		return
	}
	target.Set(made.Elem())
}

// integer tells a number that is too large, which has a bound to name, from what is no
// integer at all. 1.0 and 1e3 are none, as in encoding/json.
func (d *decoder) integer(path string, raw []byte, target reflect.Value) {
	digits := strings.TrimPrefix(string(raw), "-")
	if strings.Trim(digits, "0123456789") != "" {
		d.refuse(path, seckill.RuleType, "integer")
		return
	}
	negative := len(digits) < len(raw)
	bits := target.Type().Bits()
	if target.CanUint() {
		n, err := strconv.ParseUint(string(raw), 10, bits)
		switch {
		case err == nil:
			target.SetUint(n)
		case negative:
			d.refuse(path, seckill.RuleMin, "0")
		default:
			d.refuse(path, seckill.RuleMax, strconv.FormatUint(1<<bits-1, 10))
		}
		return
	}
	n, err := strconv.ParseInt(string(raw), 10, bits)
	switch {
	case err == nil:
		target.SetInt(n)
	case negative:
		d.refuse(path, seckill.RuleMin, strconv.FormatInt(-1<<(bits-1), 10))
	default:
		d.refuse(path, seckill.RuleMax, strconv.FormatInt(1<<(bits-1)-1, 10))
	}
}

func (d *decoder) array(path string, raw []byte, target reflect.Value) {
	if raw[0] != '[' {
		d.refuse(path, seckill.RuleType, "array")
		return
	}
	var elements []json.RawMessage
	if err := json.Unmarshal(raw, &elements); err != nil {
		panic(err) // The JSON is well-formed.
	}
	target.Set(reflect.MakeSlice(target.Type(), len(elements), len(elements)))
	for i, element := range elements {
		if d.value(path+"["+strconv.Itoa(i)+"]", element, target.Index(i)); d.full() {
			return
		}
	}
}
