package auth

import (
	"net/netip"
	"strings"
	"testing"
)

func TestWhereARequestCameFrom(t *testing.T) {
	ps, err := ParseProxies("10.0.0.0/8", "192.0.2.1", "2001:db8::/32")
	must(t, err)
	for _, c := range []struct{ peer, xff, forwarded, want string }{
		{"198.51.100.9", "1.2.3.4", "for=1.2.3.4", "198.51.100.9"}, // Not a proxy: it may say what it likes.
		{"10.0.0.1", "", "", "10.0.0.1"},
		{"10.0.0.1", "203.0.113.5", "", "203.0.113.5"},
		{"::ffff:10.0.0.1", "203.0.113.5", "", "203.0.113.5"},
		{"10.0.0.1", "6.6.6.6, 203.0.113.5", "", "203.0.113.5"}, // The left one was made up by the client.
		{"10.0.0.1", "6.6.6.6, 203.0.113.5, 10.2.2.2,192.0.2.1", "", "203.0.113.5"},
		{"10.0.0.1", "10.3.3.3, 10.2.2.2", "", "10.3.3.3"},
		{"10.0.0.1", "203.0.113.5, junk", "", "10.0.0.1"},
		{"10.0.0.1", "junk, 10.2.2.2", "", "10.2.2.2"},
		{"10.0.0.1", "203.0.113.5:4711", "", "203.0.113.5"},
		{"10.0.0.1", "[2001:db9::1]:4711", "", "2001:db9::1"},
		{"10.0.0.1", "[2001:db9::1]", "", "2001:db9::1"},
		{"10.0.0.1", "2001:db9::1", "", "2001:db9::1"},
		{"10.0.0.1", "fe80::1%eth0", "", "fe80::1"},
		{"10.0.0.1", "::ffff:203.0.113.5", "", "203.0.113.5"},
		{"10.0.0.1", ",", "", "10.0.0.1"},
		{"10.0.0.1", "", "for=203.0.113.5", "203.0.113.5"},
		{"10.0.0.1", "", `For="[2001:db9::1]:4711";proto=https;by=10.0.0.1`, "2001:db9::1"},
		{"10.0.0.1", "", `for=6.6.6.6, proto=http;for=203.0.113.5, for="10.2.2.2:80"`, "203.0.113.5"},
		{"10.0.0.1", "", `for="a,b", for=10.2.2.2`, "10.2.2.2"},
		{"10.0.0.1", "", `for=unknown`, "10.0.0.1"},
		{"10.0.0.1", "", `for=_hidden, for=10.2.2.2`, "10.2.2.2"},
		{"10.0.0.1", "203.0.113.5", "for=6.6.6.6", "203.0.113.5"}, // Both: X-Forwarded-For counts.
		{"10.0.0.1", "junk", "for=6.6.6.6", "10.0.0.1"},
		{"10.0.0.1", `"6.6.6.6, 203.0.113.5`, "", "203.0.113.5"},
		{"10.0.0.1", `6.6.6.6", 203.0.113.5`, "", "203.0.113.5"},
		{"10.0.0.1", `6.6.6.6 203.0.113.5`, "", "10.0.0.1"},
		{"10.0.0.1", "[203.0.113.5]", "", "10.0.0.1"},
		{"10.0.0.1", "[2001:db9::1", "", "10.0.0.1"},
		{"10.0.0.1", "[2001:db9::1]4711", "", "10.0.0.1"},
		{"10.0.0.1", "203.0.113.5:", "", "10.0.0.1"},
		{"10.0.0.1", "203.0.113.5:x;y", "", "10.0.0.1"},
		{"10.0.0.1", "203.0.113.5:123456", "", "10.0.0.1"},
		{"10.0.0.1", "", `for=6.6.6.6;host="x";for=203.0.113.5`, "10.0.0.1"},
		{"10.0.0.1", "", `for="203.0.113.5:_port7"`, "203.0.113.5"},
		{"10.0.0.1", "", `host="a;for=6.6.6.6;b=";for=203.0.113.5`, "203.0.113.5"},
		{"10.0.0.1", "", `for=203.0.113.5;host="a, for=6.6.6.6"`, "203.0.113.5"},
		{"10.0.0.1", "", `for=203.0.113.5;host="a\", for=6.6.6.6, \""`, "203.0.113.5"},
		{"10.0.0.1", "", `for=6.6.6.6, for=203.0.113.5;host="a\\"`, "203.0.113.5"},
		{"10.0.0.1", "", `for=6.6.6.6;x=", for=203.0.113.5`, "203.0.113.5"},
		{"10.0.0.1", "", `for="2001:db9::1"`, "2001:db9::1"},
		{"10.0.0.1", "", `by=203.0.113.5, proto=https`, "10.0.0.1"},
		{"10.0.0.1", strings.Repeat("10.9.9.9,", 1000) + "10.1.1.1", "", "10.9.9.9"},
	} {
		if got := ps.Client(netip.MustParseAddr(c.peer), c.xff, c.forwarded); got.String() != c.want {
			t.Errorf("%+.80v: got %s", c, got)
		}
	}
	if got := (Proxies)(nil).Client(netip.MustParseAddr("10.0.0.1"), "1.2.3.4", ""); got.String() != "10.0.0.1" {
		t.Errorf("without proxies: got %s", got)
	}
}

func TestParseProxies(t *testing.T) {
	for _, bad := range []string{"", "x", "10.0.0.0/33", "10.0.0.0/8,10.0.0.1", "fe80::1%eth0"} {
		if ps, err := ParseProxies(bad); err == nil {
			t.Errorf("%q: got %v", bad, ps)
		}
	}
}

// Finding the client allocates nothing, with proxies or without.
func TestFindingTheClientAllocatesNothing(t *testing.T) {
	ps, err := ParseProxies("10.0.0.0/8")
	must(t, err)
	proxy := netip.MustParseAddr("10.0.0.1")
	for _, c := range []struct{ xff, forwarded string }{{"6.6.6.6, 203.0.113.5:80, 10.0.0.2", ""}, {"", `for="[2001:db8::1]:80";proto=https, for=10.0.0.2`}} {
		if n := testing.AllocsPerRun(1000, func() {
			Proxies(nil).Client(proxy, c.xff, c.forwarded)
			if ps.Client(proxy, c.xff, c.forwarded) == proxy {
				t.Fatal("the proxy is the client")
			}
		}); n != 0 {
			t.Errorf("%v: %v allocations", c, n)
		}
	}
}

func BenchmarkClient(b *testing.B) {
	ps, err := ParseProxies("10.0.0.0/8", "172.16.0.0/12")
	must(b, err)
	proxy := netip.MustParseAddr("10.0.0.1")
	for b.Loop() {
		ps.Client(proxy, "198.51.100.7, 203.0.113.5", "")
	}
}

// Whatever the headers say, the client is the peer, or an address that a trusted proxy named; and
// an untrusted peer is always itself.
func FuzzClient(f *testing.F) {
	f.Add("203.0.113.5, 10.0.0.2", "")
	f.Add("", `for="[2001:db8::1]:80";by=x, for=_a`)
	f.Add("\",\"", `for="\",for=1.2.3.4`)
	ps, _ := ParseProxies("10.0.0.0/8")
	proxy, stranger := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("198.51.100.9")
	f.Fuzz(func(t *testing.T, xff, forwarded string) {
		if got := ps.Client(stranger, xff, forwarded); got != stranger {
			t.Fatalf("a stranger became %s", got)
		}
		got := ps.Client(proxy, xff, forwarded)
		if !got.IsValid() || got.Is4In6() || got.Zone() != "" {
			t.Fatalf("got %v", got)
		}
		// What a client writes in front of what a proxy adds changes nothing.
		if named := ps.Client(proxy, xff+",203.0.113.5", "for=6.6.6.6"); named.String() != "203.0.113.5" {
			t.Fatalf("%q in front: got %s", xff, named)
		}
		// Nor does what the proxy repeats of the client's request, if it quotes it.
		quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(xff)
		for _, element := range []string{`,for=203.0.113.5`, `, host="` + quoted + `";for="203.0.113.5:80"`, `,For=203.0.113.5;host="` + quoted + `"`} {
			if named := ps.Client(proxy, "", forwarded+element); named.String() != "203.0.113.5" {
				t.Fatalf("%q in front of %q: got %s", forwarded, element, named)
			}
		}
	})
}
