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
// hop that is no proxy may be made up. X-Forwarded-For counts before Forwarded (RFC
// 7239): a proxy must set, or take out, the one that it is asked for. Lines of the same name
// are joined with commas, in order.
func (ps Proxies) Client(peer netip.Addr, forwardedFor, forwarded string) netip.Addr {
	peer = peer.Unmap()
	if len(ps) == 0 || !ps.Trusts(peer) {
		return peer
	}
	list, parse := forwardedFor, parseHop
	if list == "" {
		list, parse = forwarded, parseForwarded
	}
	client := peer
	for range hopsMax {
		if list == "" {
			break
		}
		var hop string
		list, hop = cutLast(list)
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

// cutLast takes the last element off a list with commas; those in quotes do not count.
func cutLast(list string) (rest, last string) {
	quoted := false
	for i := len(list) - 1; i >= 0; i-- {
		switch {
		case list[i] == '"' && (i == 0 || list[i-1] != '\\'):
			quoted = !quoted
		case list[i] == ',' && !quoted:
			return list[:i], list[i+1:]
		}
	}
	return "", list
}

// parseHop reads "192.0.2.1", "192.0.2.1:4711", "2001:db8::1" or "[2001:db8::1]:4711".
func parseHop(s string) (netip.Addr, bool) {
	s = strings.Trim(s, " \t")
	if addr, err := netip.ParseAddr(s); err == nil {
		return addr.Unmap().WithZone(""), true
	}
	if inner, ok := strings.CutPrefix(s, "["); ok {
		if inner, ok = strings.CutSuffix(inner, "]"); ok {
			addr, err := netip.ParseAddr(inner)
			return addr.Unmap().WithZone(""), err == nil
		}
	}
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return ap.Addr().Unmap().WithZone(""), true
	}
	return netip.Addr{}, false
}

// parseForwarded reads the for= of one element of Forwarded.
func parseForwarded(element string) (netip.Addr, bool) {
	for element != "" {
		var pair string
		pair, element, _ = strings.Cut(element, ";")
		name, value, _ := strings.Cut(pair, "=")
		if !strings.EqualFold(strings.Trim(name, " \t"), "for") {
			continue
		}
		value = strings.Trim(value, " \t")
		if len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"' {
			value = value[1 : len(value)-1]
		}
		return parseHop(value) // "unknown" and made-up names are no addresses.
	}
	return netip.Addr{}, false
}
