package entry

import "seckill"

// Verdict is what is found of a token or a proof.
type Verdict uint8

// The verdicts.
const (
	Good Verdict = iota
	Missing
	Malformed
	UnknownKey
	BadSignature
	WrongNumber // The proof does not solve its challenge.
	OtherActivity
	OtherRun
	OtherBuyer
	NotYet // From a clock that is too far ahead.
	Expired
	NotProved // It cost no proof, and now there has to be one.
	TooSoon   // After the entry.
	Used
	verdictCount
)

var verdicts = [verdictCount]struct {
	name    string
	refusal *seckill.Refusal // Must not be changed.
}{
	Good:          {"good", nil},
	Missing:       {"missing", challenge("")},
	Malformed:     {"malformed", challenge("This is no token or proof of this server.")},
	UnknownKey:    {"unknown_key", challenge("The token or proof was not signed by this server, or long ago.")},
	BadSignature:  {"bad_signature", challenge("The token or proof was not signed by this server.")},
	WrongNumber:   {"wrong_number", challenge("The proof does not solve its challenge.")},
	OtherActivity: {"other_activity", challenge("The token or proof is for another activity.")},
	OtherRun:      {"other_run", challenge("The token or proof is for another run.")},
	OtherBuyer:    {"other_buyer", challenge("The token or proof is for another buyer.")},
	NotYet:        {"not_yet", challenge("The token or proof is not valid yet.")},
	Expired:       {"expired", challenge("The token or proof has expired.")},
	NotProved:     {"not_proved", challenge("A proof of work is needed now.")},
	TooSoon:       {"too_soon", &seckill.Refusal{Reason: seckill.RateLimited, Detail: "The purchase came too soon after the entry."}},
	Used:          {"used", &seckill.Refusal{Reason: seckill.Replayed}},
}

func challenge(detail string) *seckill.Refusal {
	return &seckill.Refusal{Reason: seckill.ChallengeRequired, Detail: detail}
}

// String names the verdict, for metrics.
func (v Verdict) String() string { return verdicts[v].name }

// Refusal is what the buyer hears: nil if good. It must not be changed.
func (v Verdict) Refusal() *seckill.Refusal { return verdicts[v].refusal }
