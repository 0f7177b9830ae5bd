package auth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/MicahParks/keyfunc/v3"
	"github.com/golang-jwt/jwt/v5"
)

// Bounds of a key set.
const (
	keysBytesMax = 1 << 20
	keysMax      = 100
)

// errNoKeys is a key set, and has no key that can be used: those of before have been withdrawn.
var errNoKeys = errors.New("the key set has no key that can be used")

// jwks verifies tokens with the public keys of a key set behind a URL. It starts without
// it, and goes on with the keys that it has while the URL cannot be reached. A key that the set has no
// longer is void as soon as the set was fetched, and with it the tokens that it has verified.
type jwks struct {
	*bearer
	url  string
	name string // The URL without its password, for the log.
	o    Options

	keys   atomic.Pointer[keySet] // Nil until the first fetch.
	wanted chan struct{}          // A token names a key that is not there.
}

type keySet struct {
	find    jwt.Keyfunc
	raw     []byte
	fetched time.Time
}

// JWKS verifies tokens with the keys of a key set (RFC 7517) behind a URL. Run fetches it.
func JWKS(rawURL string, o Options) (Authenticator, error) {
	u, err := parseKeysURL(rawURL)
	if err != nil {
		return nil, err
	}
	o = o.withDefaults()
	k := &jwks{url: u.String(), name: u.Redacted(), o: o, wanted: make(chan struct{}, 1)}
	k.bearer, err = newBearer([]string{"RS256", "ES256", "EdDSA"}, k.find, o)
	if err != nil {
		return nil, err
	}
	return k, nil
}

// find never waits: a buyer whose token names an unknown key hears "busy" until the
// key set was fetched again, and "no" if it is not there then either.
func (k *jwks) find(token *jwt.Token) (any, error) {
	set := k.keys.Load()
	if set == nil {
		return nil, errKeysUnknown
	}
	key, err := set.find(token)
	if err == nil {
		return key, nil
	}
	if k.o.Now().Sub(set.fetched) > k.o.KeysRetry {
		select {
		case k.wanted <- struct{}{}:
		default:
		}
		return nil, errKeysUnknown
	}
	return nil, err
}

// Run fetches the key set at once, then from time to time.
func (k *jwks) Run(ctx context.Context) error {
	failing := false
	for {
		err := k.fetch(ctx)
		select {
		case <-ctx.Done():
			return nil
		default:
		}
		wait := k.o.KeysRefresh
		if err != nil {
			wait = k.o.KeysRetry
		}
		if failing != (err != nil) {
			failing = err != nil
			switch {
			case errors.Is(err, errNoKeys):
				k.o.Log.Warn("the key set has no keys; no token can be verified", "url", k.name)
			case failing:
				k.o.Log.Warn("cannot fetch the key set; going on with the keys that are known", "url", k.name, "error", err)
			default:
				k.o.Log.Info("the key set can be fetched again", "url", k.name)
			}
		}
		if !k.pause(ctx, wait) {
			return nil
		}
	}
}

// pause waits, less if a token names an unknown key, but never so little that such
// tokens could make this server flood the issuer.
func (k *jwks) pause(ctx context.Context, wait time.Duration) bool {
	least := time.NewTimer(k.o.KeysRetry)
	defer least.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-least.C:
	}
	rest := time.NewTimer(wait - k.o.KeysRetry + rand.N(wait/10+1))
	defer rest.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-k.wanted:
	case <-rest.C:
	}
	return true
}

func (k *jwks) fetch(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, k.url, nil)
	if err != nil {
		return errors.New("make the request")
	}
	res, err := k.o.Client.Do(req)
	if err != nil {
		return fmt.Errorf("fetch: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("fetch: the answer has status %d", res.StatusCode)
	}
	raw, err := io.ReadAll(io.LimitReader(res.Body, keysBytesMax+1))
	if err != nil {
		return fmt.Errorf("fetch: %w", err)
	}
	if len(raw) > keysBytesMax {
		return fmt.Errorf("the key set has more than %d bytes", keysBytesMax)
	}
	old := k.keys.Load()
	if old != nil && bytes.Equal(old.raw, raw) {
		k.keys.Store(&keySet{old.find, raw, k.o.Now()})
		return nil
	}
	find, err := parseKeys(raw)
	if errors.Is(err, errNoKeys) {
		// Not a definite no to anybody, as it may be the issuer's slip; but withdrawn is withdrawn.
		k.keys.Store(nil)
		k.forget()
	}
	if err != nil {
		return err
	}
	k.keys.Store(&keySet{find, raw, k.o.Now()})
	k.forget()
	return nil
}

// parseKeys leaves out keys that cannot be used, and shared secrets, which have no place in a
// set of public keys.
func parseKeys(raw []byte) (jwt.Keyfunc, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(raw, &set); err != nil {
		return nil, errors.New("the answer is not a key set in JSON")
	}
	if set.Keys == nil {
		return nil, errors.New("the answer has no list of keys")
	}
	var good []json.RawMessage
	for _, key := range set.Keys[:min(len(set.Keys), keysMax)] {
		var kind struct{ Kty, Use string }
		if json.Unmarshal(key, &kind) != nil || kind.Kty == "oct" || kind.Use != "" && kind.Use != "sig" {
			continue
		}
		one := fmt.Appendf(nil, `{"keys":[%s]}`, key)
		if _, err := keyfunc.NewJWKSetJSON(one); err == nil {
			good = append(good, key)
		}
	}
	if len(good) == 0 {
		return nil, errNoKeys
	}
	all, err := json.Marshal(map[string]any{"keys": good})
	if err != nil {
		return nil, fmt.Errorf("encode the key set: %w", err)
	}
	keys, err := keyfunc.NewJWKSetJSON(all)
	if err != nil {
		return nil, fmt.Errorf("read the key set: %w", err)
	}
	return keys.Keyfunc, nil
}
