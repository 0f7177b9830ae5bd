package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"seckill"
)

// Problem is the server's no: an answer in the form of RFC 9457, or whatever else came
// with a status of 300 and above.
type Problem struct {
	Status int          `json:"status"`
	Reason string       `json:"reason"` // A code of [seckill.Reason]; "" if a proxy answered.
	Title  string       `json:"title"`
	Msg    string       `json:"msg"` // For people, in the language that was asked for.
	Detail string       `json:"detail"`
	Errors []FieldError `json:"errors"` // When the request is invalid.

	Ticket   string    `json:"ticket"`    // The earlier one, when already purchased.
	StartsAt time.Time `json:"starts_at"` // When not started.

	RetryAfter time.Duration `json:"-"` // When to ask again; 0 if the server did not say.
}

// FieldError says what is wrong with one field of the request.
type FieldError struct {
	Field    string `json:"field"`
	Rule     string `json:"rule"`
	Expected string `json:"expected"`
	Msg      string `json:"msg"`
}

// Error is one line.
func (p *Problem) Error() string {
	text := p.Msg
	if text == "" {
		text = p.Title
	}
	var parts []string
	for _, f := range p.Errors {
		said := f.Msg
		if said == "" {
			said = strings.TrimSpace(f.Rule + " " + f.Expected)
		}
		parts = append(parts, f.Field+": "+said)
	}
	if len(parts) > 0 {
		text = strings.Join(parts, "; ")
	}
	if p.Detail != "" {
		text += " (" + p.Detail + ")"
	}
	switch {
	case p.Reason == "":
		return fmt.Sprintf("HTTP status %d: %s", p.Status, text)
	case text == "":
		return p.Reason
	}
	return p.Reason + ": " + text
}

// Is tells whether err is the server's no for a reason.
func Is(err error, reason seckill.Reason) bool {
	var p *Problem
	return errors.As(err, &p) && p.Reason == reason.String()
}

func problemOf(resp *http.Response, body []byte) *Problem {
	p := &Problem{}
	if err := json.Unmarshal(body, p); err != nil || p.Reason == "" {
		*p = Problem{Title: http.StatusText(resp.StatusCode)}
	}
	p.Status = resp.StatusCode
	if n, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && n > 0 {
		p.RetryAfter = time.Duration(min(n, 24*3600)) * time.Second
	}
	return p
}
