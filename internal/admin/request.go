package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"seckill"
	"seckill/internal/strictjson"
)

// commandBody is the body of commands that need none. Its field may stand in every body.
type commandBody struct {
	Reason *string `json:"reason"`
}

// body reads the request's body into dst, and tells what is wrong with it. Where no field
// has to be given, no body need be.
func body(r *http.Request, dst any, optional bool) error {
	text, err := io.ReadAll(r.Body) // Bounded by Server.api.
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return seckill.Refuse(seckill.TooLarge)
	case err != nil:
		return seckill.Invalid(strictjson.Body, seckill.RuleFormat, "complete")
	}
	if optional && len(bytes.TrimSpace(text)) == 0 {
		text = []byte("{}")
	}
	if refusal := strictjson.Decode(text, dst); refusal != nil {
		return refusal
	}
	return nil
}

// merge adds to what is wrong with a body's form what is wrong with its values, without
// saying two things of one field.
func merge(err error, more []seckill.FieldError) error {
	var refusal *seckill.Refusal
	if !errors.As(err, &refusal) {
		refusal = &seckill.Refusal{Reason: seckill.InvalidRequest}
	} else if refusal.Reason != seckill.InvalidRequest || len(refusal.Fields) == 1 && refusal.Fields[0].Field == strictjson.Body {
		return err // No field could be told from another.
	}
	said := map[string]bool{}
	for _, f := range refusal.Fields {
		said[f.Field] = true
	}
	for _, f := range more {
		if !said[f.Field] {
			said[f.Field] = true
			refusal.Fields = append(refusal.Fields, f)
		}
	}
	if len(refusal.Fields) == 0 {
		return nil
	}
	return refusal
}

// actor is who asks, from where, and why: the body's reason, or the header's.
func actor(r *http.Request, reason *string) (seckill.Actor, []seckill.FieldError) {
	by := seckill.Actor{Who: callerOf(r).name, From: clientAddress(r)}
	given := r.Header.Values("X-Reason")
	field := "X-Reason"
	switch {
	case len(given) > 1:
		return by, []seckill.FieldError{{Field: field, Rule: seckill.RuleRepeated}}
	case reason != nil:
		field, by.Reason = "reason", *reason
	case len(given) == 1:
		by.Reason = given[0]
	}
	if len(by.Reason) > reasonBytesMax {
		return by, []seckill.FieldError{{Field: field, Rule: seckill.RuleLength, Arg: strconv.Itoa(reasonBytesMax)}}
	}
	if !utf8.ValidString(by.Reason) || strings.ContainsFunc(by.Reason, unicode.IsControl) {
		return by, []seckill.FieldError{{Field: field, Rule: seckill.RuleFormat, Arg: "text without control characters"}}
	}
	return by, nil
}

// pathID reads the {id} of a path. What cannot be an id names nothing.
func pathID(r *http.Request) (int64, error) {
	text := r.PathValue("id")
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 1 || strconv.FormatInt(id, 10) != text {
		return 0, seckill.ErrNotFound
	}
	return id, nil
}

// paging reads how many are asked for, and after which; cursor is 0 if from the start.
func paging(r *http.Request) (limit int, cursor int64, err error) {
	query := r.URL.Query()
	var wrong []seckill.FieldError
	number := func(name string, otherwise, most int64) int64 {
		values, ok := query[name]
		switch {
		case !ok:
			return otherwise
		case len(values) > 1:
			wrong = append(wrong, seckill.FieldError{Field: name, Rule: seckill.RuleRepeated})
			return otherwise
		}
		n, err := strconv.ParseInt(values[0], 10, 64)
		switch {
		case errors.Is(err, strconv.ErrRange) && n > 0, err == nil && n > most:
			wrong = append(wrong, seckill.FieldError{Field: name, Rule: seckill.RuleMax, Arg: strconv.FormatInt(most, 10)})
		case err != nil && !errors.Is(err, strconv.ErrRange):
			wrong = append(wrong, seckill.FieldError{Field: name, Rule: seckill.RuleType, Arg: "integer"})
		case n < 1:
			wrong = append(wrong, seckill.FieldError{Field: name, Rule: seckill.RuleMin, Arg: "1"})
		}
		return n
	}
	limit = int(number("limit", pageDefault, pageMax))
	cursor = number("cursor", 0, 1<<63-1)
	return limit, cursor, merge(nil, wrong)
}

// nextCursor is what to ask for after a page; "" if it was the last. One more than limit was asked for.
func nextCursor[T any](list []T, limit int, id func(T) int64) ([]T, string) {
	if len(list) <= limit {
		return list, ""
	}
	list = list[:limit]
	return list, strconv.FormatInt(id(list[limit-1]), 10)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // Views are strings, numbers and times.
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // A caller that has gone cannot be told.
}
