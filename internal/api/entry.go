package api

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"strconv"

	"github.com/valyala/fasthttp"

	"seckill"
	"seckill/internal/entry"
	"seckill/internal/problem"
	"seckill/internal/telemetry"
)

// challenge answers GET /v1/activities/{id}/challenge. Who does not say who he is gets a
// challenge as well: whose proof it is shows when it is handed in.
func (s *Server) challenge(c *call, id string) {
	if ref := c.badHeader(); ref != nil {
		c.refuse(ref)
		return
	}
	buyer := ""
	if c.hasIdentity {
		var ref *seckill.Refusal
		if buyer, ref = c.buyer(); ref != nil {
			c.refuse(ref)
			return
		}
	}
	a, ref := s.atTheDoor(c, id, buyer)
	if ref != nil {
		c.refuse(ref)
		return
	}
	ch, ref := s.o.Gate.Entry.Challenge(a, buyer, 0, c.now)
	if ref != nil {
		c.refuse(ref)
		return
	}
	c.scratch = ch.AppendJSON(c.scratch[:0])
	c.json(fasthttp.StatusOK, c.scratch)
}

// enter answers POST /v1/activities/{id}/entry.
func (s *Server) enter(c *call, id string) {
	token, verdict, ref := s.tryEnter(c, id)
	s.o.Metrics.Entries.WithLabelValues(entryOutcome(verdict, ref)).Inc()
	if ref != nil {
		c.refuse(ref)
		return
	}
	b := append(c.scratch[:0], `{"entry_token":`...)
	b = problem.AppendString(b, token.Text)
	b = append(b, `,"expires_at":`...)
	b = appendTime(b, token.ExpiresAt)
	c.scratch = append(b, '}')
	c.json(fasthttp.StatusOK, c.scratch)
}

// entryOutcome is what the metrics call the end of an entry. A refusal for the proof says no more to the buyer than
// that he needs one; operators have to tell scripts from slow phones.
func entryOutcome(verdict entry.Verdict, ref *seckill.Refusal) string {
	switch {
	case ref == nil:
		return telemetry.Issued
	case verdict != entry.Good:
		return "proof_" + verdict.String()
	}
	return ref.Reason.String()
}

// tryEnter gives the verdict on the proof as well: Good where none was looked at.
func (s *Server) tryEnter(c *call, id string) (entry.Token, entry.Verdict, *seckill.Refusal) {
	no := func(ref *seckill.Refusal) (entry.Token, entry.Verdict, *seckill.Refusal) {
		return entry.Token{}, entry.Good, ref
	}
	if ref := c.badHeader(); ref != nil {
		return no(ref)
	}
	proof, claimed, ref := parseEntry(c.ctx.Request.Body(), s.o.Auth.Open())
	if ref != nil {
		return no(ref)
	}
	buyer, ref := c.buyerOr(claimed)
	if ref != nil {
		return no(ref)
	}
	a, ref := s.atTheDoor(c, id, buyer)
	if ref != nil {
		return no(ref)
	}
	return s.o.Gate.Entry.Admit(a, buyer, proof, s.gate.Challenged(a), c.now)
}

// atTheDoor finds the activity that somebody wants to enter, unless he is to stay outside.
func (s *Server) atTheDoor(c *call, id, buyer string) (*seckill.Activity, *seckill.Refusal) {
	n, there, ref := parseActivityID(id)
	if ref != nil {
		return nil, ref
	}
	r := &c.want
	r.Activity = nil
	if a, ok := s.o.Activities.Activity(n); there && ok {
		r.Activity = a
	}
	r.Buyer, r.Addr, r.Device, r.Now = buyer, c.client(), c.device, c.now
	ref = s.gate.CheckEntry(r)
	c.tellLimits(ref)
	if ref != nil {
		return nil, ref
	}
	return r.Activity, nil
}

// parseEntry reads the body of an entry, which may be empty. A proof is base64, as ALTCHA's widget makes it, or
// the object itself; null and "" are none.
func parseEntry(body []byte, open bool) (proof, userID string, ref *seckill.Refusal) {
	if len(body) == 0 {
		return "", "", nil
	}
	s := scanner{b: body}
	var seen [2]bool
	for field, more := s.field(); more; field, more = s.field() {
		switch {
		case field == "proof":
			proof, ref = s.proof(field, &seen[0])
		case field == "user_id" && open:
			userID, ref = s.userID(field, &seen[1])
		default:
			ref = unknownField(field)
		}
		if ref != nil {
			return "", "", ref
		}
	}
	if ref := s.end(); ref != nil {
		return "", "", ref
	}
	return proof, userID, nil
}

// proof reads a proof and returns it in base64.
func (s *scanner) proof(field string, seen *bool) (string, *seckill.Refusal) {
	rest := s.b[s.i:]
	switch {
	case *seen:
		return "", repeated(field)
	case bytes.HasPrefix(rest, []byte("null")):
		*seen = true
		s.i += len("null")
		return "", nil
	case bytes.HasPrefix(rest, []byte(`""`)):
		*seen = true
		s.i += len(`""`)
		return "", nil
	case !bytes.HasPrefix(rest, []byte("{")):
		return s.ascii(field, seen, entry.ProofBytesMax)
	}
	*seen = true
	// The one nested value that a body may have. It is read by the standard library, and no further than it may be long.
	var object json.RawMessage
	err := json.NewDecoder(io.LimitReader(bytes.NewReader(rest), entry.ProofBytesMax)).Decode(&object)
	switch {
	case err != nil && len(rest) >= entry.ProofBytesMax,
		base64.StdEncoding.EncodedLen(len(object)) > entry.ProofBytesMax:
		return "", seckill.Invalid(field, seckill.RuleLength, strconv.Itoa(entry.ProofBytesMax))
	case err != nil:
		return "", brokenBody
	}
	s.i += len(object)
	return base64.StdEncoding.EncodeToString(object), nil
}
