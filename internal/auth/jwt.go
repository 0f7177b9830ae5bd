package auth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/golang-jwt/jwt/v5"
	"github.com/maypok86/otter/v2"

	"seckill"
)

// TokenBytesMax bounds a token.
const TokenBytesMax = 4096

// entryBytes is about what the cache needs beside a token and its buyer.
const entryBytes = 160

// errKeysUnknown is not a no: the keys that could tell are not there.
var errKeysUnknown = errors.New("the keys that verify tokens are not known yet")

// bearer verifies JWTs, and remembers those that were good, so that a buyer who
// keeps clicking costs one verification.
type bearer struct {
	parser    *jwt.Parser
	validator *jwt.Validator
	keys      jwt.Keyfunc
	now       func() time.Time
	headers   headers
	// good holds verified tokens whole: a hash of them could be made to collide.
	good *otter.Cache[string, verified]
	// generation is raised when the keys have changed: what was verified with older ones counts no more.
	generation atomic.Uint64
}

type verified struct {
	buyer      string
	until      int64 // Unix seconds, leeway included.
	generation uint64
}

func newBearer(algorithms []string, keys jwt.Keyfunc, o Options) (*bearer, error) {
	good, err := otter.New(&otter.Options[string, verified]{
		MaximumWeight: uint64(o.CacheBytes),
		Weigher:       func(token string, v verified) uint32 { return uint32(len(token) + len(v.buyer) + entryBytes) },
	})
	if err != nil {
		return nil, fmt.Errorf("make the token cache: %w", err)
	}
	if slices.Contains(o.Audiences, "") {
		return nil, errors.New("an audience must not be empty")
	}
	rules := []jwt.ParserOption{jwt.WithValidMethods(algorithms), jwt.WithLeeway(Leeway), jwt.WithTimeFunc(o.Now)}
	if o.Issuer != "" {
		rules = append(rules, jwt.WithIssuer(o.Issuer))
	}
	if len(o.Audiences) > 0 {
		rules = append(rules, jwt.WithAudience(o.Audiences...))
	}
	return &bearer{parser: jwt.NewParser(rules...), validator: jwt.NewValidator(rules...), keys: uncritical(keys), now: o.Now, good: good}, nil
}

// uncritical has no key for tokens that ask for extensions which must be understood (RFC 7515, 4.1.11): none
// is understood here.
func uncritical(keys jwt.Keyfunc) jwt.Keyfunc {
	return func(token *jwt.Token) (any, error) {
		if _, critical := token.Header["crit"]; critical {
			return nil, errors.New("the token needs extensions")
		}
		return keys(token)
	}
}

// HS256 verifies tokens that were signed with a shared secret.
func HS256(secret string, o Options) (Authenticator, error) {
	if secret == "" {
		return nil, errors.New("the JWT secret is empty")
	}
	key := []byte(secret)
	b, err := newBearer([]string{jwt.SigningMethodHS256.Alg()}, func(*jwt.Token) (any, error) { return key, nil }, o.withDefaults())
	if err != nil {
		return nil, err
	}
	return b, nil
}

func (b *bearer) Header() string { return "Authorization" }
func (b *bearer) Open() bool     { return false }

func (b *bearer) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (b *bearer) Buyer(value string, _ netip.Addr) (string, error) {
	if value == "" {
		return "", errMissing
	}
	token, ok := bearerToken(value)
	if !ok {
		return "", errNotBearer
	}
	if v, ok := b.good.GetIfPresent(token); ok && b.now().Unix() < v.until && v.generation == b.generation.Load() {
		return v.buyer, nil
	}
	return b.verify(token)
}

func bearerToken(value string) (string, bool) {
	const scheme = "bearer "
	if len(value) <= len(scheme) {
		return "", false
	}
	for i := range len(scheme) {
		if value[i]|0x20 != scheme[i] {
			return "", false
		}
	}
	value = value[len(scheme):]
	for value != "" && value[0] == ' ' {
		value = value[1:]
	}
	return value, value != "" && len(value) <= TokenBytesMax
}

func (b *bearer) verify(view string) (string, error) {
	// The view may be of a buffer that is used again; what is kept must not be.
	token := string([]byte(view))
	// Before the keys are looked at: if they change meanwhile, what comes of them is not remembered for good.
	generation := b.generation.Load()
	var claims claims
	err := b.parse(token, &claims)
	switch {
	case err == nil:
	case errors.Is(err, errKeysUnknown):
		return "", errKeysUnknown
	case errors.Is(err, jwt.ErrTokenExpired):
		return "", errExpired
	case errors.Is(err, jwt.ErrTokenNotValidYet):
		return "", errNotYet
	case errors.Is(err, jwt.ErrTokenInvalidIssuer):
		return "", errIssuer
	case errors.Is(err, jwt.ErrTokenInvalidAudience):
		return "", errAudience
	default:
		return "", errBadToken
	}
	if !seckill.ValidBuyer(string(claims.Subject)) {
		return "", errNoSubject
	}
	v := verified{buyer: string(claims.Subject), until: math.MaxInt64, generation: generation}
	if claims.ExpiresAt.NumericDate != nil {
		v.until = claims.ExpiresAt.Add(Leeway).Unix()
	}
	b.good.Set(token, v)
	return v.buyer, nil
}

// parse reads a token's claims, and tells what is wrong with them. To read the JSON of its header is a good part of that, and
// all tokens of an issuer have the same: so a header that good tokens had is not read again.
func (b *bearer) parse(token string, c *claims) error {
	end, last := strings.IndexByte(token, '.'), strings.LastIndexByte(token, '.')
	known := b.headers.find(token[:max(end, 0)])
	if known == nil {
		t, err := b.parser.ParseWithClaims(token, c, b.keys)
		if err == nil {
			b.headers.add(token[:end], t)
		}
		return err //nolint:wrapcheck // The caller looks at what it is.
	}
	if end == last {
		return jwt.ErrTokenMalformed
	}
	signature, err := b.parser.DecodeSegment(token[last+1:])
	if err != nil {
		return jwt.ErrTokenMalformed
	}
	key, err := b.keys(known)
	if err != nil {
		return err
	}
	if !verifies(known.Method, token[:last], signature, key) {
		return jwt.ErrTokenSignatureInvalid
	}
	raw, err := b.parser.DecodeSegment(token[end+1 : last])
	if err != nil || json.Unmarshal(raw, c) != nil {
		return jwt.ErrTokenMalformed
	}
	return b.validator.Validate(c) //nolint:wrapcheck // The caller looks at what it is.
}

// verifies tries the key, or each of a set: a token need not say which one is its own.
func verifies(m jwt.SigningMethod, text string, signature []byte, key any) bool {
	set, ok := key.(jwt.VerificationKeySet)
	if !ok {
		return m.Verify(text, signature, key) == nil
	}
	return slices.ContainsFunc(set.Keys, func(k jwt.VerificationKey) bool { return m.Verify(text, signature, k) == nil })
}

// headersMax is how many headers are known at once: each key has one, or a few.
const headersMax = 64

// headers are those of tokens that were good, as they were written, with what the parser made of them.
type headers struct {
	mu    sync.RWMutex
	known map[string]*jwt.Token
}

func (h *headers) find(written string) *jwt.Token {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.known[written]
}

// add keeps of a token what its header says.
func (h *headers) add(written string, t *jwt.Token) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.known == nil || len(h.known) >= headersMax {
		h.known = map[string]*jwt.Token{}
	}
	h.known[strings.Clone(written)] = &jwt.Token{Header: t.Header, Method: t.Method}
}

// claims are those that count here; a token may say anything else in any form.
type claims struct {
	Subject   subject `json:"sub"`
	Issuer    word    `json:"iss"`
	Audience  words   `json:"aud"`
	ExpiresAt instant `json:"exp"`
	NotBefore instant `json:"nbf"`
}

// instant is a time, or nil.
type instant struct{ *jwt.NumericDate }

// UnmarshalJSON implements [json.Unmarshaler]. Whole seconds, as nearly all are, take no detour.
func (i *instant) UnmarshalJSON(b []byte) error {
	if n, err := strconv.ParseInt(string(b), 10, 64); err == nil && n == int64(float64(n)) {
		i.NumericDate = jwt.NewNumericDate(time.Unix(n, 0))
		return nil
	}
	if string(b) == "null" {
		i.NumericDate = nil
		return nil
	}
	i.NumericDate = new(jwt.NumericDate)
	return i.NumericDate.UnmarshalJSON(b)
}

// subject is a string, as RFC 7519 says, or a whole number, as many shops have it.
type subject string

// UnmarshalJSON implements [json.Unmarshaler].
func (s *subject) UnmarshalJSON(b []byte) error {
	if text, ok := plain(b); ok {
		*s = subject(text)
		return nil
	}
	if _, err := strconv.ParseInt(string(b), 10, 64); err == nil {
		*s = subject(b)
		return nil
	}
	return json.Unmarshal(b, (*string)(s)) //nolint:wrapcheck // The parser looks at what it is.
}

// plain is a JSON string that says what it is without further ado, as nearly all do.
func plain(b []byte) (string, bool) {
	last := len(b) - 1
	if last < 1 || b[0] != '"' || b[last] != '"' || bytes.IndexByte(b, '\\') >= 0 || !utf8.Valid(b) {
		return "", false
	}
	return string(b[1:last]), true
}

// word is a string, and words one or a list of them. What is neither is as if it was not there: it
// is read only if the options ask for it, and then it is not what they ask for.
type (
	word  string
	words []word
)

// UnmarshalJSON implements [json.Unmarshaler].
func (w *word) UnmarshalJSON(b []byte) error {
	if text, ok := plain(b); ok {
		*w = word(text)
		return nil
	}
	if json.Unmarshal(b, (*string)(w)) != nil {
		*w = ""
	}
	return nil
}

// UnmarshalJSON implements [json.Unmarshaler].
func (w *words) UnmarshalJSON(b []byte) error {
	if json.Unmarshal(b, (*[]word)(w)) != nil {
		*w = make(words, 1)
		return (*w)[0].UnmarshalJSON(b)
	}
	return nil
}

// impossible stands for a claim that is not there, or is not what it should be: the parser's
// errors tell those apart, and nobody else has to. It is no UTF-8, so no token can say it.
const impossible = "\xff"

func (c *claims) GetExpirationTime() (*jwt.NumericDate, error) { return c.ExpiresAt.NumericDate, nil }
func (c *claims) GetNotBefore() (*jwt.NumericDate, error)      { return c.NotBefore.NumericDate, nil }
func (c *claims) GetSubject() (string, error)                  { return string(c.Subject), nil }
func (c *claims) GetIssuedAt() (*jwt.NumericDate, error)       { return nil, nil } //nolint:nilnil // The parser asks so.

func (c *claims) GetIssuer() (string, error) {
	if c.Issuer == "" {
		return impossible, nil
	}
	return string(c.Issuer), nil
}

func (c *claims) GetAudience() (jwt.ClaimStrings, error) {
	all := jwt.ClaimStrings{impossible}
	for _, w := range c.Audience {
		all = append(all, string(w))
	}
	return all, nil
}

// forget is called after the keys have changed: a token of a key that is gone is void, also one that is being
// verified with that key just now, and would be remembered after all others were forgotten.
func (b *bearer) forget() {
	b.generation.Add(1)
	b.good.InvalidateAll()
}
