// Package auth says who a buyer is, from what a request carries, and which
// address it came from. It keeps no sessions, knows no passwords and decides nothing
// about what a buyer may do. The public door is its user.
package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"seckill"
)

// Authenticator tells buyers apart. It may be used concurrently.
type Authenticator interface {
	// Header is the name of the header that says who the buyer is, in canonical form.
	Header() string
	// Buyer reads the value of that header ("" if there is none). The string that it
	// returns may alias value. A *[seckill.Refusal] is a definite no; any other
	// error means that it cannot be told now.
	Buyer(value string, peer netip.Addr) (string, error)
	// Open tells whether callers may simply say who they are.
	Open() bool
	// Run keeps what is needed fresh, until ctx ends; then it returns nil.
	Run(ctx context.Context) error
}

// Leeway is how far the clocks of an issuer and of this server may be apart.
const Leeway = 5 * time.Second

// Options of an Authenticator. Zero fields take the defaults.
type Options struct {
	Proxies     Proxies          // Whose identity header is believed. Default nobody.
	Issuer      string           // Tokens must be of it (iss). Default any.
	Audiences   []string         // Tokens must be for one of them (aud). Default any.
	CacheBytes  int64            // What verified tokens may take in memory, 64 MiB; at least 1 MiB.
	KeysRefresh time.Duration    // How often a key set is fetched again, 5 min; at least 1 s.
	KeysRetry   time.Duration    // How soon after a failure, or for an unknown key, 5 s; at least 100 ms.
	Client      *http.Client     // Fetches key sets. Default: one with a timeout of 5 s.
	Log         *slog.Logger     // Hears of key sets that cannot be fetched. Default slog.Default.
	Now         func() time.Time // The clock. Default time.Now.
}

func (o Options) withDefaults() Options {
	if o.CacheBytes == 0 {
		o.CacheBytes = 64 << 20
	}
	o.CacheBytes = max(o.CacheBytes, 1<<20)
	if o.KeysRefresh == 0 {
		o.KeysRefresh = 5 * time.Minute
	}
	o.KeysRefresh = max(o.KeysRefresh, time.Second)
	if o.KeysRetry == 0 {
		o.KeysRetry = 5 * time.Second
	}
	o.KeysRetry = max(o.KeysRetry, 100*time.Millisecond)
	if o.Client == nil {
		o.Client = &http.Client{Timeout: 5 * time.Second}
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// errSpec is all that a wrong spec is told: it may hold a secret.
var errSpec = errors.New("want jwt:hs256:SECRET, jwt:hs256:@FILE, jwt:jwks:URL, header:NAME or open")

// New makes an Authenticator from the form that the setting has.
func New(spec string, o Options) (Authenticator, error) {
	kind, rest, _ := strings.Cut(spec, ":")
	switch kind {
	case "open":
		if spec == "open" {
			return Open(), nil
		}
	case "header":
		return Header(rest, o)
	case "jwt":
		alg, key, _ := strings.Cut(rest, ":")
		switch alg {
		case "hs256":
			if file, isFile := strings.CutPrefix(key, "@"); isFile {
				secret, err := os.ReadFile(file)
				if err != nil {
					return nil, fmt.Errorf("read the JWT secret: %w", err)
				}
				return HS256(strings.TrimRight(string(secret), "\r\n"), o)
			}
			return HS256(key, o)
		case "jwks":
			return JWKS(key, o)
		}
	}
	return nil, errSpec
}

// Open believes whatever X-User-Id says: for demos.
func Open() Authenticator { return named{header: "X-User-Id", open: true} }

// Header believes a header that a trusted proxy sets.
func Header(name string, o Options) (Authenticator, error) {
	if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" {
		return nil, errors.New("the identity header's name must be letters, digits, - and _")
	}
	if len(o.Proxies) == 0 {
		return nil, errors.New("an identity header is only believed from trusted proxies, and there are none")
	}
	return named{header: http.CanonicalHeaderKey(name), proxies: o.Proxies}, nil
}

// named believes a header.
type named struct {
	header  string
	proxies Proxies
	open    bool
}

func (n named) Header() string { return n.header }
func (n named) Open() bool     { return n.open }

func (n named) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (n named) Buyer(value string, peer netip.Addr) (string, error) {
	switch {
	case !n.open && !n.proxies.Trusts(peer):
		return "", errNotFromProxy
	case value == "":
		return "", errMissing
	case !seckill.ValidBuyer(value):
		return "", seckill.Invalid(n.header, seckill.RuleFormat, BuyerForm)
	}
	return value, nil
}

// BuyerForm is what a buyer's id looks like, for messages.
const BuyerForm = "1 to 64 printable ASCII characters"

// The refusals, made once. They must not be changed.
var (
	errMissing      = refuse("")
	errNotBearer    = refuse("The Authorization header does not hold a bearer token.")
	errBadToken     = refuse("The token is not valid.")
	errExpired      = refuse("The token has expired.")
	errNotYet       = refuse("The token is not valid yet.")
	errIssuer       = refuse("The token is of an issuer that is not accepted here.")
	errAudience     = refuse("The token is not meant for this server.")
	errNoSubject    = refuse("The token names no buyer: sub must be 1 to 64 printable ASCII characters.")
	errNotFromProxy = refuse("The request did not come through a trusted proxy.")
)

func refuse(detail string) *seckill.Refusal {
	return &seckill.Refusal{Reason: seckill.Unauthenticated, Detail: detail}
}

func parseKeysURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		// The URL itself is not said: it may hold a password.
		return nil, errors.New("the key set's address must be an http or https URL")
	}
	return u, nil
}
