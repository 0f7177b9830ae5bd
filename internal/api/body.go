package api

import (
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"seckill"
)

// fieldBytesMax bounds how much of a field's name is said back.
const fieldBytesMax = 64

// Bounds of strings.
const (
	entryTokenBytesMax = 2048
	paymentRefBytesMax = 64
)

// wish is the body of a purchase. Its strings may be views of the body.
type wish struct {
	quantity   int
	entryToken string
	userID     string // Only where callers are believed.
}

// parseWish reads the body of a purchase; an empty one wants one unit. It allocates
// nothing unless it refuses or a string has escapes.
func parseWish(body []byte, open bool) (wish, *seckill.Refusal) {
	w := wish{quantity: 1}
	if len(body) == 0 {
		return w, nil
	}
	s := scanner{b: body}
	var seen [3]bool
	for field, more := s.field(); more; field, more = s.field() {
		var ref *seckill.Refusal
		switch {
		case field == "quantity":
			var n int64
			n, ref = s.integer(field, &seen[0], 1, seckill.QuantityMax)
			w.quantity = int(n)
		case field == "entry_token":
			w.entryToken, ref = s.ascii(field, &seen[1], entryTokenBytesMax)
		case field == "user_id" && open:
			w.userID, ref = s.userID(field, &seen[2])
		default:
			ref = unknownField(field)
		}
		if ref != nil {
			return w, ref
		}
	}
	return w, s.end()
}

// article is the body of the article's endpoint.
type article struct {
	activityID int64
	userID     string
}

func parseArticle(body []byte) (article, *seckill.Refusal) {
	var a article
	s := scanner{b: body}
	var hasActivity, hasUser bool
	for field, more := s.field(); more; field, more = s.field() {
		var ref *seckill.Refusal
		switch field {
		case "activity_id":
			a.activityID, ref = s.integer(field, &hasActivity, 1, 1<<63-1)
		case "user_id":
			a.userID, ref = s.userID(field, &hasUser)
		default:
			ref = unknownField(field)
		}
		if ref != nil {
			return a, ref
		}
	}
	ref := s.end()
	switch {
	case ref != nil:
	case !hasActivity:
		ref = seckill.Invalid("activity_id", seckill.RuleRequired, "")
	case !hasUser:
		ref = seckill.Invalid("user_id", seckill.RuleRequired, "")
	}
	return a, ref
}

// parsePayment reads the body of a payment, which may be empty.
func parsePayment(body []byte) (payment string, ref *seckill.Refusal) {
	if len(body) == 0 {
		return "", nil
	}
	s, seen := scanner{b: body}, false
	for field, more := s.field(); more; field, more = s.field() {
		if field == "payment_ref" {
			payment, ref = s.ascii(field, &seen, paymentRefBytesMax)
		} else {
			ref = unknownField(field)
		}
		if ref != nil {
			return "", ref
		}
	}
	return payment, s.end()
}

// parseNothing reads a body that has nothing to say: none, or an empty object.
func parseNothing(body []byte) *seckill.Refusal {
	if len(body) == 0 {
		return nil
	}
	s := scanner{b: body}
	if field, more := s.field(); more {
		return unknownField(field)
	}
	return s.end()
}

func repeated(field string) *seckill.Refusal {
	return seckill.Invalid(field, seckill.RuleRepeated, "")
}

func unknownField(field string) *seckill.Refusal {
	if len(field) > fieldBytesMax {
		field = field[:fieldBytesMax] + "…"
	}
	return seckill.Invalid(string([]byte(field)), seckill.RuleUnknown, "")
}

// brokenBody is said of what is not one JSON object. It must not be changed.
var brokenBody = seckill.Invalid("body", seckill.RuleFormat, "one JSON object in UTF-8")

// scanner reads one JSON object, field by field. It is as strict as the grammar, and
// knows no nesting: no value here is an object or a list.
type scanner struct {
	b    []byte
	i    int
	last byte // The sign that a field has to follow: none, '{' or ','.
	done bool // The object is whole, and nothing comes after it.
}

// field reads up to a field's value. After false, end tells whether all was well.
func (s *scanner) field() (name string, more bool) {
	s.space()
	switch {
	case s.last == 0 && s.take('{'):
		s.last = '{'
		s.space()
		if s.take('}') {
			return "", s.finish()
		}
	case s.last != 0 && s.take(','):
		s.last = ','
		s.space()
	case s.last != 0 && s.take('}'):
		return "", s.finish()
	default:
		return "", false
	}
	name, ok := s.text()
	s.space()
	if !ok || !s.take(':') {
		return "", false
	}
	s.space()
	return name, true
}

func (s *scanner) finish() bool {
	s.space()
	s.done = s.i == len(s.b)
	return false
}

func (s *scanner) end() *seckill.Refusal {
	if s.done {
		return nil
	}
	return brokenBody
}

func (s *scanner) space() {
	for s.i < len(s.b) && (s.b[s.i] == ' ' || s.b[s.i] == '\t' || s.b[s.i] == '\n' || s.b[s.i] == '\r') {
		s.i++
	}
}

func (s *scanner) take(c byte) bool {
	if s.i < len(s.b) && s.b[s.i] == c {
		s.i++
		return true
	}
	return false
}

// text reads a string. It is a view, unless it has escapes.
func (s *scanner) text() (string, bool) {
	if !s.take('"') {
		return "", false
	}
	start, escaped := s.i, false
	for ; s.i < len(s.b); s.i++ {
		switch c := s.b[s.i]; {
		case c == '"':
			inner := s.b[start:s.i]
			s.i++
			if !utf8.Valid(inner) {
				return "", false
			}
			if !escaped {
				return view(inner), true
			}
			var out string
			return out, json.Unmarshal(s.b[start-1:s.i], &out) == nil
		case c == '\\':
			escaped = true
			s.i++ // Whatever comes next does not end the string.
		case c < ' ':
			return "", false
		}
	}
	return "", false
}

// number reads a number as it is written, and tells whether it is a whole one without an exponent.
func (s *scanner) number() (digits string, whole, ok bool) {
	start := s.i
	s.take('-')
	if zero := s.take('0'); zero == (s.digits() > 0) {
		return "", false, false // No digits, or more after a leading zero.
	}
	whole = true
	if s.take('.') {
		whole = false
		if s.digits() == 0 {
			return "", false, false
		}
	}
	if s.take('e') || s.take('E') {
		whole = false
		if !s.take('+') {
			s.take('-')
		}
		if s.digits() == 0 {
			return "", false, false
		}
	}
	return view(s.b[start:s.i]), whole, true
}

func (s *scanner) digits() (n int) {
	for s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9' {
		s.i++
		n++
	}
	return n
}

// wrong is said of a value that is not of the type that it has to be; where there is no
// value at all, the body is broken.
func (s *scanner) wrong(field, want string) *seckill.Refusal {
	if s.i >= len(s.b) || s.b[s.i] == ',' || s.b[s.i] == '}' {
		return brokenBody
	}
	return seckill.Invalid(field, seckill.RuleType, want)
}

// integer reads a whole number within its bounds.
func (s *scanner) integer(field string, seen *bool, least, most int64) (int64, *seckill.Refusal) {
	if *seen {
		return 0, repeated(field)
	}
	*seen = true
	at := s.i
	digits, whole, ok := s.number()
	if !ok || !whole {
		s.i = at
		return 0, s.wrong(field, "integer")
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	switch {
	case digits[0] == '-' || err == nil && n < least:
		return 0, seckill.Invalid(field, seckill.RuleMin, strconv.FormatInt(least, 10))
	case err != nil || n > most:
		return 0, seckill.Invalid(field, seckill.RuleMax, strconv.FormatInt(most, 10))
	}
	return n, nil
}

// ascii reads a string of printable ASCII.
func (s *scanner) ascii(field string, seen *bool, bytesMax int) (string, *seckill.Refusal) {
	if *seen {
		return "", repeated(field)
	}
	*seen = true
	text, ok := s.text()
	switch {
	case !ok:
		return "", s.wrong(field, "string")
	case len(text) > bytesMax:
		return "", seckill.Invalid(field, seckill.RuleLength, strconv.Itoa(bytesMax))
	case text == "" || !printable(text):
		return "", seckill.Invalid(field, seckill.RuleFormat, "printable ASCII characters")
	}
	return text, nil
}

// userID reads a buyer's id, a string or a whole number from 1.
func (s *scanner) userID(field string, seen *bool) (string, *seckill.Refusal) {
	if *seen {
		return "", repeated(field)
	}
	*seen = true
	at := s.i
	id, ok := s.text()
	if !ok {
		s.i = at
		digits, whole, ok := s.number()
		if !ok || !whole {
			s.i = at
			return "", s.wrong(field, "string or integer")
		}
		if digits[0] == '-' || digits == "0" {
			return "", seckill.Invalid(field, seckill.RuleMin, "1")
		}
		id = digits
	}
	if !seckill.ValidBuyer(id) {
		return "", seckill.Invalid(field, seckill.RuleFormat, "1 to 64 printable ASCII characters")
	}
	return id, nil
}
