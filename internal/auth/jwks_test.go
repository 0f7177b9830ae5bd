package auth

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/golang-jwt/jwt/v5"

	"seckill"
)

func viewOf(b []byte) string { return unsafe.String(&b[0], len(b)) }

// issuer is an issuer's key set, behind a URL.
type issuer struct {
	*httptest.Server
	mu     sync.Mutex
	body   string
	status int
	asked  atomic.Int64
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{status: 200}
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		i.asked.Add(1)
		i.mu.Lock()
		defer i.mu.Unlock()
		w.WriteHeader(i.status)
		fmt.Fprint(w, i.body)
	}))
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) say(status int, keys ...map[string]any) {
	body, _ := json.Marshal(map[string]any{"keys": keys})
	i.mu.Lock()
	defer i.mu.Unlock()
	i.status, i.body = status, string(body)
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func rsaKey(t *testing.T, kid string) (*rsa.PrivateKey, map[string]any) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	return key, map[string]any{"kty": "RSA", "kid": kid, "alg": "RS256", "use": "sig", "n": b64(key.N.Bytes()), "e": b64(big.NewInt(int64(key.E)).Bytes())}
}

// watch runs an authenticator until the test ends.
func watch(t *testing.T, a Authenticator) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	t.Cleanup(func() { cancel(); must(t, <-done) })
}

func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for !holds() {
		select {
		case <-deadline:
			t.Fatalf("%s: not after 10 s", what)
		case <-time.After(time.Millisecond):
		}
	}
}

// Tokens of the three algorithms count, those of any other do not, whatever key they claim.
func TestTokensOfAKeySet(t *testing.T) {
	i := newIssuer(t)
	rsaPrivate, rsaPublic := rsaKey(t, "r")
	ecPrivate, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	edPublic, edPrivate, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	ecPoint, err := ecPrivate.PublicKey.Bytes()
	must(t, err)
	i.say(200, rsaPublic,
		map[string]any{"kty": "EC", "kid": "e", "crv": "P-256", "x": b64(ecPoint[1:33]), "y": b64(ecPoint[33:])},
		map[string]any{"kty": "OKP", "kid": "d", "crv": "Ed25519", "x": b64(edPublic)},
		map[string]any{"kty": "oct", "kid": "s", "alg": "HS256", "k": b64([]byte("secret"))},
		map[string]any{"kty": "XYZ", "kid": "x"}, map[string]any{"kty": "RSA", "kid": "broken", "n": "!"})
	a, err := New("jwt:jwks:"+i.URL, Options{})
	must(t, err)
	watch(t, a)
	until(t, "the keys", func() bool { return a.(*jwks).keys.Load() != nil })

	claims := jwt.MapClaims{"sub": "ann", "exp": time.Now().Add(time.Hour).Unix()}
	for _, buyer := range []string{"ann", "bob"} { // The second one's header is known.
		claims["sub"] = buyer
		for name, token := range map[string]string{
			"RS256": sign(t, jwt.SigningMethodRS256, rsaPrivate, claims, "kid", "r"),
			"ES256": sign(t, jwt.SigningMethodES256, ecPrivate, claims, "kid", "e"),
			"EdDSA": sign(t, jwt.SigningMethodEdDSA, crypto.Signer(edPrivate), claims, "kid", "d"),
			"no id": sign(t, jwt.SigningMethodES256, ecPrivate, claims),
		} {
			if got, err := a.Buyer("Bearer "+token, peer); got != buyer {
				t.Errorf("%s, %s: got %q, %v", name, buyer, got, err)
			}
		}
	}
	foreign, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	for name, token := range map[string]string{
		"RS512":                sign(t, jwt.SigningMethodRS512, rsaPrivate, claims, "kid", "r"),
		"none":                 sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, claims, "kid", "r"),
		"HS of public key":     sign(t, jwt.SigningMethodHS256, rsaPrivate.N.Bytes(), claims, "kid", "r"),
		"HS of the set":        sign(t, jwt.SigningMethodHS256, []byte("secret"), claims, "kid", "s"),
		"key of another kind":  sign(t, jwt.SigningMethodES256, ecPrivate, claims, "kid", "r"),
		"key of nobody":        sign(t, jwt.SigningMethodES256, foreign, claims, "kid", "e"),
		"key of nobody, no id": sign(t, jwt.SigningMethodES256, foreign, claims),
		"unknown id":           sign(t, jwt.SigningMethodRS256, rsaPrivate, claims, "kid", "nobody"),
		"expired":              sign(t, jwt.SigningMethodRS256, rsaPrivate, jwt.MapClaims{"sub": "ann", "exp": 1}, "kid", "r"),
	} {
		buyer, err := a.Buyer("Bearer "+token, peer)
		refused(t, name, buyer, err)
	}
}

// Without keys nobody hears "no": it is not known. They come as soon as the issuer is there, go on when
// it is away, and follow it when it changes them; a token of a key that is gone is void, also if it is remembered.
func TestKeysAreFetchedKeptAndChanged(t *testing.T) {
	i := newIssuer(t)
	i.say(503)
	a, err := New("jwt:jwks:"+i.URL, Options{KeysRefresh: time.Second, KeysRetry: 100 * time.Millisecond})
	must(t, err)
	old, oldPublic := rsaKey(t, "old")
	value := "Bearer " + sign(t, jwt.SigningMethodRS256, old, jwt.MapClaims{"sub": "ann"}, "kid", "old")
	var ref *seckill.Refusal
	if buyer, err := a.Buyer(value, peer); buyer != "" || err == nil || errors.As(err, &ref) {
		t.Fatalf("without keys: %q, %v", buyer, err)
	}
	watch(t, a)
	until(t, "a failed fetch", func() bool { return i.asked.Load() > 0 })
	i.say(200, oldPublic)
	until(t, "the first keys", func() bool { buyer, _ := a.Buyer(value, peer); return buyer == "ann" })

	i.say(500)
	asked := i.asked.Load()
	until(t, "fetches that fail", func() bool { return i.asked.Load() > asked+2 })
	if buyer, err := a.Buyer(value, peer); buyer != "ann" {
		t.Errorf("while the issuer is away: %q, %v", buyer, err)
	}

	next, nextPublic := rsaKey(t, "next")
	i.say(200, nextPublic)
	fresh := "Bearer " + sign(t, jwt.SigningMethodRS256, next, jwt.MapClaims{"sub": "bob"}, "kid", "next")
	until(t, "the next key", func() bool { buyer, _ := a.Buyer(fresh, peer); return buyer == "bob" })
	until(t, "the old key gone", func() bool {
		buyer, err := a.Buyer(value, peer)
		return buyer == "" && errors.As(err, &ref)
	})
}

// A token that is being verified while its key is withdrawn is let in once, and is not remembered: the cache is empty of
// it though it was put there after the others were forgotten.
func TestAWithdrawnKeyIsNotRemembered(t *testing.T) {
	i := newIssuer(t)
	old, oldPublic := rsaKey(t, "old")
	_, nextPublic := rsaKey(t, "next")
	i.say(200, oldPublic)
	a, err := New("jwt:jwks:"+i.URL, Options{})
	must(t, err)
	k := a.(*jwks)
	must(t, k.fetch(t.Context()))
	find := k.bearer.keys
	k.bearer.keys = func(token *jwt.Token) (any, error) {
		key, err := find(token)
		if err == nil {
			i.say(200, nextPublic)
			must(t, k.fetch(t.Context()))
		}
		return key, err
	}
	value := "Bearer " + sign(t, jwt.SigningMethodRS256, old, jwt.MapClaims{"sub": "ann"}, "kid", "old")
	if buyer, err := a.Buyer(value, peer); buyer != "ann" || err != nil {
		t.Fatalf("while the key changes: %q, %v", buyer, err)
	}
	buyer, err := a.Buyer(value, peer)
	refused(t, "afterwards", buyer, err)
}

// When all keys are withdrawn no token counts, also none that is remembered, and nobody hears a definite no; an
// answer that is no key set changes nothing.
func TestAllKeysAreWithdrawn(t *testing.T) {
	i := newIssuer(t)
	key, public := rsaKey(t, "k")
	i.say(200, public)
	a, err := New("jwt:jwks:"+i.URL, Options{})
	must(t, err)
	k := a.(*jwks)
	must(t, k.fetch(t.Context()))
	value := "Bearer " + sign(t, jwt.SigningMethodRS256, key, jwt.MapClaims{"sub": "ann"}, "kid", "k")
	for range 2 {
		i.mu.Lock()
		i.body = `{"error":"maintenance"}`
		i.mu.Unlock()
		if buyer, err := a.Buyer(value, peer); buyer != "ann" || err != nil {
			t.Fatalf("with the key: %q, %v", buyer, err)
		}
		if err := k.fetch(t.Context()); err == nil {
			t.Error("an answer without keys is a key set")
		}
	}
	i.mu.Lock()
	i.body = `{"keys":[]}`
	i.mu.Unlock()
	if err := k.fetch(t.Context()); !errors.Is(err, errNoKeys) {
		t.Errorf("got %v, want %v", err, errNoKeys)
	}
	if buyer, err := a.Buyer(value, peer); buyer != "" || !errors.Is(err, errKeysUnknown) {
		t.Errorf("without keys: got %q, %v, want %v", buyer, err, errKeysUnknown)
	}
}

// Tokens with made-up key ids do not make this server ask the issuer again and again.
func TestUnknownKeyIDsDoNotFloodTheIssuer(t *testing.T) {
	i := newIssuer(t)
	key, public := rsaKey(t, "k")
	i.say(200, public)
	a, err := New("jwt:jwks:"+i.URL, Options{KeysRetry: 100 * time.Millisecond})
	must(t, err)
	watch(t, a)
	until(t, "the keys", func() bool { return a.(*jwks).keys.Load() != nil })
	begin, value := time.Now(), "Bearer "+sign(t, jwt.SigningMethodRS256, key, jwt.MapClaims{"sub": "ann"}, "kid", "made-up")
	until(t, "a second fetch", func() bool { _, _ = a.Buyer(value, peer); return i.asked.Load() >= 4 })
	if took := time.Since(begin); took < 250*time.Millisecond {
		t.Errorf("three more fetches within %v", took)
	}
}

// What is no key set is refused, and what it says stays out of the error.
func TestKeySetsThatAreNone(t *testing.T) {
	for _, raw := range []string{"", "x", "null", "[]", "{}", `{"keys":[]}`, `{"keys":null}`, `{"keys":[null,1,"a",{}]}`, `{"keys":[{"kty":"oct","k":"hidden"}]}`, strings.Repeat("[", 10000)} {
		if _, err := parseKeys([]byte(raw)); err == nil || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%.40q: got %v", raw, err)
		}
	}
}

func FuzzKeys(f *testing.F) {
	f.Add([]byte(`{"keys":[{"kty":"RSA","kid":"a","n":"AQAB","e":"AQAB"},{"kty":"OKP","crv":"Ed25519","x":"AA"},{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if keys, err := parseKeys(raw); err == nil && keys == nil {
			t.Fatal("no keys and no error")
		}
	})
}
