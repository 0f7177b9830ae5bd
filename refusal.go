package seckill

import (
	"fmt"
	"strings"
	"time"
)

// Reason is why something was refused. The order of the constants is the order
// of the gate: of several reasons, the first that holds is said.
type Reason uint8

// The reasons, with the HTTP status of each.
const (
	NoReason            Reason = iota
	InvalidRequest             // 400
	Unauthenticated            // 401
	Blocked                    // 403
	RateLimited                // 429
	NotFound                   // 404
	Paused                     // 503
	Busy                       // 503
	NotStarted                 // 403
	Ended                      // 403
	NotEligible                // 403
	ChallengeRequired          // 428
	Replayed                   // 409
	IdempotencyMismatch        // 422
	AlreadyPurchased           // 409
	SoldOut                    // 410
	TooLarge                   // 413
	Conflict                   // 409, of orders and of operators' commands: not possible in this state
	Internal                   // 500, a fault of ours
	reasonCount
)

// Reasons is the number of reasons, for arrays indexed by one.
const Reasons = int(reasonCount)

var reasons = [Reasons]struct {
	name   string
	status int
}{
	NoReason:            {"", 200},
	InvalidRequest:      {"invalid_request", 400},
	Unauthenticated:     {"unauthenticated", 401},
	Blocked:             {"blocked", 403},
	RateLimited:         {"rate_limited", 429},
	NotFound:            {"not_found", 404},
	Paused:              {"paused", 503},
	Busy:                {"busy", 503},
	NotStarted:          {"not_started", 403},
	Ended:               {"ended", 403},
	NotEligible:         {"not_eligible", 403},
	ChallengeRequired:   {"challenge_required", 428},
	Replayed:            {"replayed", 409},
	IdempotencyMismatch: {"idempotency_mismatch", 422},
	AlreadyPurchased:    {"already_purchased", 409},
	SoldOut:             {"sold_out", 410},
	TooLarge:            {"too_large", 413},
	Conflict:            {"conflict", 409},
	Internal:            {"internal", 500},
}

// String gives the code that the API uses.
func (r Reason) String() string { return reasons[r].name }

// Status is the HTTP status of the reason.
func (r Reason) Status() int { return reasons[r].status }

// ParseReason is the inverse of [Reason.String].
func ParseReason(s string) (Reason, bool) {
	for i := range reasons {
		if reasons[i].name == s {
			return Reason(i), true
		}
	}
	return NoReason, false
}

// Refusal is a definite no. It is counted, never logged. Every other error
// means "we do not know": the caller hears 503 and may ask again with the same key.
type Refusal struct {
	Reason Reason
	Fields []FieldError // What is wrong with the request, when it is invalid.
	Detail string       // One English sentence for what the reason alone does not say; "" is usual.

	Ticket     string        // The buyer's earlier one, when already purchased.
	StartsAt   time.Time     // When not started.
	RetryAfter time.Duration // When to try again; 0 lets the door choose.
}

// FieldError says what is wrong with one field, and what is accepted.
type FieldError struct {
	Field string // Its path in the body, or the name of the header or parameter.
	Rule  Rule
	Arg   string // What the rule asks for: a type, a bound, a list of values.
}

// Rule names what a field has to be.
type Rule string

// The rules.
const (
	RuleRequired Rule = "required" // Must be there.
	RuleType     Rule = "type"     // Arg: integer, string, boolean, object, time (RFC 3339).
	RuleMin      Rule = "min"      // Arg: the least number.
	RuleMax      Rule = "max"      // Arg: the greatest number.
	RuleLength   Rule = "length"   // Arg: the most bytes.
	RuleOneOf    Rule = "one_of"   // Arg: the values, comma separated.
	RuleFormat   Rule = "format"   // Arg: what it has to look like.
	RuleAfter    Rule = "after"    // Arg: the field that it has to come after.
	RuleUnknown  Rule = "unknown"  // There is no such field.
	RuleRepeated Rule = "repeated" // Given more than once.
)

// Refuse makes a refusal for a reason alone.
func Refuse(r Reason) *Refusal { return &Refusal{Reason: r} }

// Invalid makes a refusal for one field.
func Invalid(field string, rule Rule, arg string) *Refusal {
	return &Refusal{Reason: InvalidRequest, Fields: []FieldError{{field, rule, arg}}}
}

// Error lets a refusal travel as an error.
func (r *Refusal) Error() string {
	var b strings.Builder
	b.WriteString(r.Reason.String())
	for _, f := range r.Fields {
		fmt.Fprintf(&b, ": %s: %s %s", f.Field, f.Rule, f.Arg)
	}
	if r.Detail != "" {
		b.WriteString(": " + r.Detail)
	}
	return b.String()
}
