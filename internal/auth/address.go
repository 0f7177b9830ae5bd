package auth

import (
	"fmt"
	"net/netip"
	"strings"
)

// Proxies are the networks whose word is taken for where a request came from.
type Proxies []netip.Prefix

// ParseProxies reads networks ("10.0.0.0/8") and single addresses.
func ParseProxies(networks ...string) (Proxies, error) {
	ps := make(Proxies, 0, len(networks))
	for _, s := range networks {
		if addr, err := netip.ParseAddr(s); err == nil && addr.Zone() == "" {
			addr = addr.Unmap()
			ps = append(ps, netip.PrefixFrom(addr, addr.BitLen()))
			continue
		}
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return nil, fmt.Errorf("%q is not a network such as 10.0.0.0/8", s)
		}
		ps = append(ps, p.Masked())
	}
	return ps, nil
}

// Trusts tells whether addr is one of the proxies.
func (ps Proxies) Trusts(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	for _, p := range ps {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// hopsMax bounds how many hops are read.
const hopsMax = 32

// Client finds where a request came from: peer, unless that is a proxy; then whoever the
// proxy says it had it from, and so on from right to left. What is left of the first
// hop that is no proxy may be made up.
//
// X-Forwarded-For counts, and Forwarded (RFC 7239) only if there is none, whatever the two say: a client can
// send either, and a proxy that sets the one may pass on the other as it came. Proxies that set Forwarded
// must therefore take X-Forwarded-For out, or the caller must leave it out ("").
// Lines of the same name are joined with commas, in order.
//
// A hop that names no address ("unknown", "_hidden", nonsense) ends the walk: the client is then the proxy
// that said so.
func (ps Proxies) Client(peer netip.Addr, forwardedFor, forwarded string) netip.Addr {
	peer = peer.Unmap()
	if len(ps) == 0 || !ps.Trusts(peer) {
		return peer
	}
	list, cut, parse := forwardedFor, cutLastHop, parseHop
	if list == "" {
		list, cut, parse = forwarded, cutLastElement, parseElement
	}
	client := peer
	for range hopsMax {
		if list == "" {
			break
		}
		var hop string
		list, hop = cut(list)
		addr, ok := parse(hop)
		if !ok {
			break // Nobody can say what is beyond.
		}
		client = addr
		if !ps.Trusts(addr) {
			break
		}
	}
	return client
}

// cutLastHop takes the last hop off X-Forwarded-For, which knows no quotes.
func cutLastHop(list string) (rest, last string) {
	i := strings.LastIndexByte(list, ',')
	return list[:max(i, 0)], list[i+1:]
}

// parseHop reads "192.0.2.1", "192.0.2.1:4711", "2001:db8::1", "[2001:db8::1]" or "[2001:db8::1]:4711".
func parseHop(s string) (netip.Addr, bool) {
	s = strings.Trim(s, " \t")
	inner, bracketed := strings.CutPrefix(s, "[")
	switch i := strings.LastIndexByte(s, ':'); {
	case bracketed:
		var port string
		s, port, bracketed = strings.Cut(inner, "]")
		if !bracketed || port != "" && (port[0] != ':' || !validPort(port[1:])) {
			return netip.Addr{}, false
		}
	case i >= 0 && strings.IndexByte(s, ':') == i:
		if !validPort(s[i+1:]) {
			return netip.Addr{}, false
		}
		s = s[:i]
	}
	// The zone means something to the proxy alone.
	if i := strings.IndexByte(s, '%'); i >= 0 {
		s = s[:i]
	}
	addr, err := netip.ParseAddr(s)
	return addr.Unmap(), err == nil && addr.Is6() == (bracketed || strings.IndexByte(s, ':') >= 0)
}

// validPort allows also the made-up ports of RFC 7239.
func validPort(s string) bool {
	if s == "" {
		return false
	}
	digits := true
	for i := range len(s) {
		c := s[i]
		if c < '0' || c > '9' {
			digits = false
		}
		if (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return s[0] == '_' || digits && len(s) <= 5
}

// cutLastElement takes the last element off Forwarded. It looks for it from the right, as what is on
// the left may be made up, down to a quote that never ends. Commas in quotes are no borders.
func cutLastElement(list string) (rest, last string) {
	quoted := false
	for i := len(list) - 1; i >= 0; i-- {
		switch {
		case list[i] == '"' && !escaped(list, i):
			quoted = !quoted
		case list[i] == ',' && !quoted:
			return list[:i], list[i+1:]
		}
	}
	return "", list
}

// escaped tells whether there is an odd number of backslashes before s[i].
func escaped(s string, i int) bool {
	odd := false
	for i--; i >= 0 && s[i] == '\\'; i-- {
		odd = !odd
	}
	return odd
}

// parseElement reads the for= of an element of Forwarded, which may have one.
func parseElement(element string) (addr netip.Addr, ok bool) {
	for element != "" {
		var pair string
		pair, element = cutPair(element)
		name, value, _ := strings.Cut(pair, "=")
		if !strings.EqualFold(strings.Trim(name, " \t"), "for") {
			continue
		}
		if addr.IsValid() {
			return netip.Addr{}, false // Which of them is it?
		}
		value = strings.Trim(value, " \t")
		if len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"' {
			value = value[1 : len(value)-1]
		}
		if addr, ok = parseHop(value); !ok {
			return netip.Addr{}, false // "unknown" and made-up names are no addresses.
		}
	}
	return addr, ok
}

// cutPair takes the first pair off an element. Semicolons in quotes are no borders.
func cutPair(element string) (pair, rest string) {
	quoted := false
	for i := range len(element) {
		switch {
		case element[i] == '"' && !escaped(element, i):
			quoted = !quoted
		case element[i] == ';' && !quoted:
			return element[:i], element[i+1:]
		}
	}
	return element, ""
}
