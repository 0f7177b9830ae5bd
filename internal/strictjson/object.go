package strictjson

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"unicode/utf8"

	"seckill"
)

// field is a field of a struct, by its name in JSON.
type field struct {
	index    int
	name     string
	optional bool
}

// fieldsOf reads the tags of a struct. It is done anew for each body: request structs
// are small, and none of them is on the way of a rush.
func fieldsOf(typ reflect.Type) []field {
	var fields []field
	for i := range typ.NumField() {
		f := typ.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" {
			continue
		}
		if name == "" {
			panic("strictjson: " + typ.String() + "." + f.Name + " has no name in JSON")
		}
		fields = append(fields, field{i, name, f.Type.Kind() == reflect.Pointer || strings.Contains(options, "omitempty")})
	}
	return fields
}

func (d *decoder) object(path string, raw []byte, target reflect.Value) {
	if raw[0] != '{' {
		d.refuse(path, seckill.RuleType, "object")
		return
	}
	fields := fieldsOf(target.Type())
	given := map[string]bool{}
	members(raw, func(name string, value []byte) (more bool) {
		at := join(path, name)
		if repeated, ok := given[name]; ok {
			if !repeated {
				d.refuse(at, seckill.RuleRepeated, "")
			}
			given[name] = true
			return !d.full()
		}
		given[name] = false
		for _, f := range fields {
			if f.name == name {
				d.value(at, value, target.Field(f.index))
				return !d.full()
			}
		}
		d.refuse(at, seckill.RuleUnknown, "")
		return !d.full()
	})
	for _, f := range fields {
		if _, ok := given[f.name]; !ok && !f.optional {
			d.refuse(join(path, f.name), seckill.RuleRequired, "")
		}
	}
}

// membersMax is how many members of an object are looked at. No request has as many
// fields, so that beyond it enough is wrong already.
const membersMax = 1000

// members calls each for the members of an object, in their order, repeated ones included,
// which encoding/json has no other way to show.
func members(raw []byte, each func(name string, value []byte) (more bool)) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	token := func() json.Token {
		t, err := decoder.Token()
		if err != nil {
			panic(err) // The JSON is well-formed.
		}
		return t
	}
	token()
	for n := 0; n < membersMax && decoder.More(); n++ {
		name, ok := token().(string)
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil || !ok {
			panic("strictjson: a member of well-formed JSON has no name or value")
		}
		if !each(name, value) {
			return
		}
	}
}

// join makes the path of a member. A name that the caller made up is cut, so that the
// answer is not as long as the request.
func join(path, name string) string {
	if len(name) > pathMax {
		cut := pathMax
		for !utf8.RuneStart(name[cut]) {
			cut--
		}
		name = name[:cut] + "…"
	}
	if path == "" {
		return name
	}
	return path + "." + name
}
