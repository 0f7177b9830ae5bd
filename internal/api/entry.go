package api

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"

	"seckill"
	"seckill/internal/entry"
	"seckill/internal/problem"
)

// challenge answers GET /v1/activities/{id}/challenge. Who does not say who he is gets a
// challenge as well: whose proof it is shows when it is handed in.
func (s *Server) challenge(c *call, id string) {
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
	token, ref := s.tryEnter(c, id)
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

func (s *Server) tryEnter(c *call, id string) (entry.Token, *seckill.Refusal) {
	if ref := c.badHeader(); ref != nil {
		return entry.Token{}, ref
	}
	proof, claimed, ref := parseEntry(c.ctx.Request.Body(), s.o.Auth.Open())
	if ref != nil {
		return entry.Token{}, ref
	}
	buyer, ref := c.buyerOr(claimed)
	if ref != nil {
		return entry.Token{}, ref
	}
	a, ref := s.atTheDoor(c, id, buyer)
	if ref != nil {
		return entry.Token{}, ref
	}
	token, _, ref := s.o.Gate.Entry.Admit(a, buyer, proof, s.gate.Challenged(a), c.now)
	return token, ref
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
	if ref := s.gate.CheckEntry(r); ref != nil {
		return nil, ref
	}
	return r.Activity, nil
}

// parseEntry reads the body of an entry, which may be empty. A proof is base64, as ALTCHA's widget makes it, or
// the object itself.
func parseEntry(body []byte, open bool) (proof, userID string, ref *seckill.Refusal) {
	if len(body) == 0 {
		return "", "", nil
	}
	var fields map[string]json.RawMessage
	decoder := json.NewDecoder(bytes.NewReader(body))
	if err := decoder.Decode(&fields); err != nil || fields == nil || decoder.More() {
		return "", "", brokenBody
	}
	for name, value := range fields {
		switch {
		case name == "proof":
			if proof, ref = readProof(value); ref != nil {
				return "", "", ref
			}
		case name == "user_id" && open:
			s, seen := scanner{b: value}, false
			if userID, ref = s.userID(name, &seen); ref != nil {
				return "", "", ref
			}
		default:
			return "", "", unknownField(name)
		}
	}
	return proof, userID, nil
}

func readProof(value json.RawMessage) (string, *seckill.Refusal) {
	text := strings.TrimSpace(string(value))
	switch {
	case text == "null":
		return "", nil
	case strings.HasPrefix(text, "{"):
		text = base64.StdEncoding.EncodeToString([]byte(text))
	case json.Unmarshal(value, &text) != nil:
		return "", seckill.Invalid("proof", seckill.RuleType, "string")
	}
	if len(text) > entry.ProofBytesMax {
		return "", seckill.Invalid("proof", seckill.RuleLength, strconv.Itoa(entry.ProofBytesMax))
	}
	return text, nil
}
