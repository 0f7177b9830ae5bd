package auth

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"go.uber.org/goleak"

	"seckill"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var peer = netip.MustParseAddr("192.0.2.7")

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func sign(tb testing.TB, method jwt.SigningMethod, key any, claims jwt.MapClaims, header ...string) string {
	tb.Helper()
	token := jwt.NewWithClaims(method, claims)
	for i := 0; i < len(header); i += 2 {
		token.Header[header[i]] = header[i+1]
	}
	s, err := token.SignedString(key)
	must(tb, err)
	return s
}

// refused checks that there is no buyer, and that this is a definite no.
func refused(t *testing.T, what string, buyer string, err error) {
	t.Helper()
	var ref *seckill.Refusal
	if buyer != "" || !errors.As(err, &ref) || ref.Reason != seckill.Unauthenticated {
		t.Errorf("%s: got %q, %v", what, buyer, err)
	}
}

func TestSpecs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	must(t, os.WriteFile(file, []byte("s3cret\n"), 0o600))
	proxies, err := ParseProxies("10.0.0.0/8")
	must(t, err)
	o := Options{Proxies: proxies}
	for spec, header := range map[string]string{
		"open": "X-User-Id", "header:x-shop-user": "X-Shop-User", "jwt:hs256:s3cret": "Authorization", "jwt:hs256:@" + file: "Authorization", "jwt:jwks:https://id.example/keys": "Authorization",
	} {
		a, err := New(spec, o)
		if err != nil || a.Header() != header || a.Open() != (spec == "open") {
			t.Errorf("%s: got %v, %v", spec, a, err)
		}
	}
	fromFile, err := New("jwt:hs256:@"+file, o)
	must(t, err)
	token := sign(t, jwt.SigningMethodHS256, []byte("s3cret"), jwt.MapClaims{"sub": "ann"})
	if buyer, err := fromFile.Buyer("Bearer "+token, peer); buyer != "ann" {
		t.Errorf("secret of a file: %q, %v", buyer, err)
	}
	for _, spec := range []string{"", "open:", "none", "jwt", "jwt:", "jwt:hs256", "jwt:hs256:", "jwt:hs512:hidden", "jwt:none:hidden", "jwt:hs256:@/no/such", "jwt:jwks:ftp://u:hidden@h/", "jwt:jwks:hidden", "header:", "header:a b", "headers:X"} {
		a, err := New(spec, o)
		if err == nil || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%q: got %v, %v", spec, a, err)
		}
	}
	if _, err := New("header:X-User", Options{}); err == nil {
		t.Error("an identity header without proxies is believed")
	}
}

// A whole number is a buyer's id as well as a string is.
func TestNumericSubject(t *testing.T) {
	a, err := HS256("k", Options{})
	if err != nil {
		t.Fatal(err)
	}
	token := sign(t, jwt.SigningMethodHS256, []byte("k"), jwt.MapClaims{"sub": 1234567890123})
	if buyer, err := a.Buyer("Bearer "+token, netip.Addr{}); err != nil || buyer != "1234567890123" {
		t.Errorf("got %q, %v", buyer, err)
	}
}

// A token counts if it was signed with the secret, by the one algorithm, and is in its time.
func TestTokensOfASharedSecret(t *testing.T) {
	key := []byte("a-shared-secret")
	now := time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)
	a, err := HS256(string(key), Options{Now: func() time.Time { return now }})
	must(t, err)
	at := func(d time.Duration) int64 { return now.Add(d).Unix() }
	for name, claims := range map[string]jwt.MapClaims{
		"plain": {"sub": "ann"}, "in time": {"sub": "ann", "exp": at(time.Hour), "nbf": at(-time.Hour), "iat": at(-time.Hour)},
		"just expired": {"sub": "ann", "exp": at(-4 * time.Second)}, "almost valid": {"sub": "ann", "nbf": at(4 * time.Second)},
	} {
		for range 2 { // Verified, and remembered.
			if buyer, err := a.Buyer("bearer  "+sign(t, jwt.SigningMethodHS256, key, claims), peer); buyer != "ann" {
				t.Errorf("%s: got %q, %v", name, buyer, err)
			}
		}
	}
	for name, token := range map[string]string{
		"expired":       sign(t, jwt.SigningMethodHS256, key, jwt.MapClaims{"sub": "ann", "exp": at(-6 * time.Second)}),
		"not yet":       sign(t, jwt.SigningMethodHS256, key, jwt.MapClaims{"sub": "ann", "nbf": at(6 * time.Second)}),
		"other secret":  sign(t, jwt.SigningMethodHS256, []byte("other"), jwt.MapClaims{"sub": "ann"}),
		"other method":  sign(t, jwt.SigningMethodHS512, key, jwt.MapClaims{"sub": "ann"}),
		"no signature":  sign(t, jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, jwt.MapClaims{"sub": "ann"}),
		"no subject":    sign(t, jwt.SigningMethodHS256, key, jwt.MapClaims{"exp": at(time.Hour)}),
		"empty subject": sign(t, jwt.SigningMethodHS256, key, jwt.MapClaims{"sub": ""}),
		"long subject":  sign(t, jwt.SigningMethodHS256, key, jwt.MapClaims{"sub": strings.Repeat("x", 65)}),
		"odd subject":   sign(t, jwt.SigningMethodHS256, key, jwt.MapClaims{"sub": "张三"}),
		"fraction":      sign(t, jwt.SigningMethodHS256, key, jwt.MapClaims{"sub": 7.5}),
		"list":          sign(t, jwt.SigningMethodHS256, key, jwt.MapClaims{"sub": []string{"ann"}}),
		"odd exp":       sign(t, jwt.SigningMethodHS256, key, jwt.MapClaims{"sub": "ann", "exp": "soon"}),
		"too long":      sign(t, jwt.SigningMethodHS256, key, jwt.MapClaims{"sub": "ann", "x": strings.Repeat("x", TokenBytesMax)}),
		"garbage":       "x.y.z", "empty": "", "dots": "..",
	} {
		buyer, err := a.Buyer("Bearer "+token, peer)
		refused(t, name, buyer, err)
	}
	for _, value := range []string{"", "Bearer", "Bearer ", "Basic YTpi", sign(t, jwt.SigningMethodHS256, key, jwt.MapClaims{"sub": "ann"})} {
		buyer, err := a.Buyer(value, peer)
		refused(t, value, buyer, err)
	}
}

// A remembered token is void when its time is over; one that was refused was not remembered.
func TestRememberedTokensExpire(t *testing.T) {
	now := time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC)
	a, err := HS256("k", Options{Now: func() time.Time { return now }})
	must(t, err)
	value := "Bearer " + sign(t, jwt.SigningMethodHS256, []byte("k"), jwt.MapClaims{"sub": "ann", "exp": now.Add(time.Minute).Unix()})
	now = now.Add(time.Minute + 4*time.Second)
	if buyer, err := a.Buyer(value, peer); buyer != "ann" {
		t.Fatalf("got %q, %v", buyer, err)
	}
	now = now.Add(2 * time.Second)
	buyer, err := a.Buyer(value, peer)
	refused(t, "later", buyer, err)
}

// With an issuer and audiences asked for, tokens of others are refused; without, tokens may say what they like.
func TestIssuersAndAudiences(t *testing.T) {
	const us, shop = "https://id.example", "shop"
	strict, err := HS256("k", Options{Issuer: us, Audiences: []string{shop, "seckill"}})
	must(t, err)
	lax, err := HS256("k", Options{})
	must(t, err)
	for name, c := range map[string]struct {
		iss, aud any
		detail   string
	}{
		"right":              {us, shop, ""},
		"one of several":     {us, []any{"other", "seckill"}, ""},
		"beside nonsense":    {us, []any{1, shop, nil}, ""},
		"no issuer":          {nil, shop, errIssuer.Detail},
		"an empty issuer":    {"", shop, errIssuer.Detail},
		"another issuer":     {us + "/", shop, errIssuer.Detail},
		"a list of issuers":  {[]string{us}, shop, errIssuer.Detail},
		"no audience":        {us, nil, errAudience.Detail},
		"an empty audience":  {us, "", errAudience.Detail},
		"an empty list":      {us, []string{}, errAudience.Detail},
		"another audience":   {us, "shops", errAudience.Detail},
		"an odd audience":    {us, map[string]any{"shop": shop}, errAudience.Detail},
		"an audience number": {us, 7, errAudience.Detail},
	} {
		claims := jwt.MapClaims{"sub": "ann"}
		if c.iss != nil {
			claims["iss"] = c.iss
		}
		if c.aud != nil {
			claims["aud"] = c.aud
		}
		value := "Bearer " + sign(t, jwt.SigningMethodHS256, []byte("k"), claims)
		if buyer, err := lax.Buyer(value, peer); buyer != "ann" {
			t.Errorf("%s, nothing asked for: got %q, %v", name, buyer, err)
		}
		for range 2 { // Also when it is asked again.
			buyer, err := strict.Buyer(value, peer)
			var ref *seckill.Refusal
			switch {
			case c.detail == "" && buyer != "ann":
				t.Errorf("%s: got %q, %v", name, buyer, err)
			case c.detail != "" && (!errors.As(err, &ref) || ref.Detail != c.detail):
				t.Errorf("%s: got %q, %v", name, buyer, err)
			}
		}
	}
	if _, err := HS256("k", Options{Audiences: []string{""}}); err == nil {
		t.Error("an empty audience is accepted")
	}
}

// Whether a token's header was seen before changes nothing about what the token says.
func TestKnownHeaders(t *testing.T) {
	key := []byte("k")
	now := time.Unix(1_800_000_000, 0)
	o := Options{Now: func() time.Time { return now }, Issuer: "https://id.example", Audiences: []string{"shop"}}
	written := func(claims string) string {
		text := b64([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + b64([]byte(claims))
		sum, err := jwt.SigningMethodHS256.Sign(text, key)
		must(t, err)
		return text + "." + b64(sum)
	}
	good := written(`{"sub":"ann","iss":"https://id.example","aud":"shop"}`)
	parts := strings.Split(good, ".")
	tokens := []string{
		good, good[:len(good)-1], good + "A", parts[0], parts[0] + ".", parts[0] + "." + parts[1], parts[0] + "..", parts[0] + "." + parts[1] + ".",
		parts[0] + "." + parts[1] + "." + parts[1] + "." + parts[2], parts[0] + ".." + parts[2], parts[0] + ".!." + parts[2], parts[0] + "." + parts[1] + ".!",
		parts[0] + "." + b64([]byte(`{"sub":"bob","iss":"https://id.example","aud":"shop"}`)) + "." + parts[2], "." + parts[1] + "." + parts[2], "", ".", "..",
	}
	rest := `,"iss":"https://id.example","aud":["shop","other"]`
	for _, claims := range []string{
		`{"sub":"ann"` + rest + `}`, `{"sub":42` + rest + `}`, `{"sub":"a\u006en"` + rest + `}`, `{"sub":"a\"n"` + rest + `}`, "{\"sub\":\"a\xffn\"" + rest + "}", `{"sub":null` + rest + `}`,
		`{"sub":"ann","iss":"https:\/\/id.example","aud":"shop"}`, `{"sub":"ann","iss":["https://id.example"],"aud":"shop"}`, `{"sub":"ann","aud":"shop"}`,
		`{"sub":"ann","iss":"https://id.example","aud":[1,"shop"]}`, `{"sub":"ann","iss":"https://id.example","aud":"shops"}`, `{"sub":"ann","iss":"https://id.example"}`,
		`{"sub":"ann","exp":1800000000` + rest + `}`, `{"sub":"ann","exp":1799999994` + rest + `}`, `{"sub":"ann","exp":1799999999.5` + rest + `}`, `{"sub":"ann","exp":1.8e9` + rest + `}`,
		`{"sub":"ann","exp":null` + rest + `}`, `{"sub":"ann","exp":1,"exp":null` + rest + `}`, `{"sub":"ann","exp":"1800000000"` + rest + `}`, `{"sub":"ann","exp":0` + rest + `}`, `{"sub":"ann","exp":-1` + rest + `}`, `{"sub":"ann","exp":99999999999999999999` + rest + `}`,
		`{"sub":"ann","exp":9223372036854775807` + rest + `}`, `{"sub":"ann","exp":{}` + rest + `}`, `{"sub":"ann","nbf":1800000006` + rest + `}`, `{"sub":"ann","nbf":1800000005` + rest + `}`, `{"sub":"ann","nbf":true` + rest + `}`,
		`null`, `[]`, `{`, `{}`, `"ann"`, ``,
	} {
		tokens = append(tokens, written(claims))
	}
	accepted := 0
	for _, token := range tokens {
		said := map[string]bool{}
		for _, knows := range []bool{false, true} {
			a, err := HS256(string(key), o)
			must(t, err)
			if knows {
				_, err := a.Buyer("Bearer "+good, peer)
				must(t, err)
				a.(*bearer).forget()
			}
			buyer, err := a.Buyer("Bearer "+token, peer)
			if again, _ := a.Buyer("Bearer "+token, peer); again != buyer {
				t.Errorf("%q: %q, then %q", token, buyer, again)
			}
			if buyer != "" {
				accepted++
			}
			said[fmt.Sprint(buyer, err)] = true
		}
		if len(said) != 1 {
			t.Errorf("%q: %v", token, said)
		}
	}
	if want := 2 * 14; accepted != want {
		t.Errorf("%d were accepted, want %d", accepted, want)
	}
}

// No more headers are remembered than keys have, whatever good tokens say there.
func TestKnownHeadersAreBounded(t *testing.T) {
	a, err := HS256("k", Options{})
	must(t, err)
	for i := range 10 * headersMax {
		if _, err := a.Buyer("Bearer "+sign(t, jwt.SigningMethodHS256, []byte("k"), jwt.MapClaims{"sub": "ann"}, "kid", fmt.Sprint(i)), peer); err != nil {
			t.Fatal(err)
		}
		if n := len(a.(*bearer).headers.known); n == 0 || n > headersMax {
			t.Fatalf("%d are known", n)
		}
	}
}

// A token that asks for extensions which must be understood is refused, as none is.
func TestCriticalExtensionsAreRefused(t *testing.T) {
	a, err := HS256("k", Options{})
	must(t, err)
	token := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"sub": "ann"})
	token.Header["crit"] = []string{"b64"}
	s, err := token.SignedString([]byte("k"))
	must(t, err)
	buyer, err := a.Buyer("Bearer "+s, peer)
	refused(t, "crit", buyer, err)
}

// What was refused is not remembered: tokens that are no good take no memory.
func TestRefusedTokensAreNotRemembered(t *testing.T) {
	a, err := HS256("k", Options{})
	must(t, err)
	for i := range 1000 {
		buyer, err := a.Buyer("Bearer "+sign(t, jwt.SigningMethodHS256, []byte("other"), jwt.MapClaims{"sub": "ann", "jti": i}), peer)
		refused(t, "forged", buyer, err)
	}
	if n := a.(*bearer).good.EstimatedSize(); n != 0 {
		t.Errorf("%d are remembered", n)
	}
}

// The cache keeps its own copy of a token: the buffer that it came in is used again.
func TestRememberedTokensAreCopies(t *testing.T) {
	a, err := HS256("k", Options{})
	must(t, err)
	ann := []byte("Bearer " + sign(t, jwt.SigningMethodHS256, []byte("k"), jwt.MapClaims{"sub": "ann"}))
	bob := []byte("Bearer " + sign(t, jwt.SigningMethodHS256, []byte("k"), jwt.MapClaims{"sub": "bob"}))
	buffer := make([]byte, len(ann))
	copy(buffer, ann)
	if _, err := a.Buyer(viewOf(buffer), peer); err != nil {
		t.Fatal(err)
	}
	clear(buffer)
	if _, kept := a.(*bearer).good.GetIfPresent(string(ann[len("Bearer "):])); !kept {
		t.Fatal("the token is not remembered by what it was")
	}
	for range 3 {
		for want, value := range map[string][]byte{"ann": ann, "bob": bob} {
			copy(buffer, value)
			if buyer, err := a.Buyer(viewOf(buffer[:len(value)]), peer); buyer != want {
				t.Fatalf("got %q, %v, want %s", buyer, err, want)
			}
		}
	}
}

// What the cache takes is bounded, however many tokens there are.
func TestTheTokenCacheIsBounded(t *testing.T) {
	a, err := HS256("k", Options{CacheBytes: 1 << 20})
	must(t, err)
	for i := range 20_000 {
		claims := jwt.MapClaims{"sub": "ann", "jti": i}
		if _, err := a.Buyer("Bearer "+sign(t, jwt.SigningMethodHS256, []byte("k"), claims), peer); err != nil {
			t.Fatal(err)
		}
	}
	good := a.(*bearer).good
	good.CleanUp()
	if size := good.WeightedSize(); size > 1<<20 || good.EstimatedSize() < 100 {
		t.Errorf("%d bytes in %d entries", size, good.EstimatedSize())
	}
}

// The header of a gateway is believed if it comes from that gateway, and from nobody else.
func TestIdentityHeader(t *testing.T) {
	proxies, err := ParseProxies("10.0.0.0/8")
	must(t, err)
	a, err := Header("X-User", Options{Proxies: proxies})
	must(t, err)
	gateway := netip.MustParseAddr("::ffff:10.1.2.3")
	if buyer, err := a.Buyer("ann", gateway); buyer != "ann" {
		t.Errorf("got %q, %v", buyer, err)
	}
	buyer, err := a.Buyer("ann", peer)
	refused(t, "from elsewhere", buyer, err)
	buyer, err = a.Buyer("", gateway)
	refused(t, "nothing", buyer, err)
	var ref *seckill.Refusal
	if _, err := a.Buyer("张三", gateway); !errors.As(err, &ref) || ref.Reason != seckill.InvalidRequest || ref.Fields[0].Field != "X-User" {
		t.Errorf("got %v", err)
	}
}

// A buyer who keeps clicking costs one verification, and no memory.
func TestKnownTokensAllocateNothing(t *testing.T) {
	a, value := known(t)
	if n := testing.AllocsPerRun(1000, func() {
		if buyer, err := a.Buyer(value, peer); buyer == "" {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func known(tb testing.TB) (a Authenticator, value string) {
	tb.Helper()
	a, err := HS256("k", Options{})
	must(tb, err)
	claims := jwt.MapClaims{"sub": "550e8400-e29b-41d4-a716-446655440000", "exp": time.Now().Add(time.Hour).Unix(), "iss": "https://id.example"}
	return a, "Bearer " + sign(tb, jwt.SigningMethodHS256, []byte("k"), claims)
}

func BenchmarkKnownToken(b *testing.B) {
	a, value := known(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := a.Buyer(value, peer); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkNewToken(b *testing.B) {
	a, value := known(b)
	for b.Loop() {
		a.(*bearer).forget()
		if _, err := a.Buyer(value, peer); err != nil {
			b.Fatal(err)
		}
	}
}

// Run of what needs no care ends with its context.
func TestRunEnds(t *testing.T) {
	hs, err := HS256("k", Options{})
	must(t, err)
	for _, a := range []Authenticator{Open(), hs} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		must(t, a.Run(ctx))
	}
}
