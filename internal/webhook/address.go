package webhook

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"seckill"
)

// urlBytesMax bounds an address.
const urlBytesMax = 2048

// notPublic are networks beyond those that [netip.Addr] knows by name: none of them is the address of
// a receiver somewhere in the Internet.
var notPublic = prefixes(
	"0.0.0.0/8",        // This network.
	"100.64.0.0/10",    // Carriers' NAT; a cloud's metadata.
	"168.63.129.16/32", // A cloud's metadata at a public address.
	"192.0.0.0/24",     // Protocol assignments; a cloud's metadata.
	"192.0.2.0/24",     // Documentation.
	"192.88.99.0/24",   // 6to4 relays.
	"198.18.0.0/15",    // Benchmarks.
	"198.51.100.0/24",  // Documentation.
	"203.0.113.0/24",   // Documentation.
	"240.0.0.0/4",      // Reserved, and broadcast.

	"2001::/23",     // Protocol assignments, Teredo among them: an IPv4 address inside.
	"2001:db8::/32", // Documentation.
	"2002::/16",     // 6to4: an IPv4 address inside.
	"3fff::/20",     // Documentation.
)

// globalIPv6 is all of IPv6 that is given to anybody. What translates to IPv4, is local to a link or
// a site, or is multicast lies outside.
var globalIPv6 = netip.MustParsePrefix("2000::/3")

func prefixes(texts ...string) (list []netip.Prefix) {
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

// public tells whether an address may be that of a receiver.
func public(a netip.Addr) bool {
	if a = a.Unmap(); a.Zone() != "" || !a.IsGlobalUnicast() || a.IsPrivate() {
		return false
	}
	if a.Is6() && !globalIPv6.Contains(a) {
		return false
	}
	for _, p := range notPublic {
		if p.Contains(a) {
			return false
		}
	}
	return true
}

// parseURL reads the address of a receiver, without looking a name up.
func parseURL(text string, allowPrivate bool) (u *url.URL, wrong []seckill.FieldError) {
	say := func(rule seckill.Rule, arg string) []seckill.FieldError {
		return []seckill.FieldError{{Field: "url", Rule: rule, Arg: arg}}
	}
	scheme := "https://"
	if allowPrivate {
		scheme = "http:// or https://"
	}
	switch {
	case text == "":
		return nil, say(seckill.RuleRequired, "")
	case len(text) > urlBytesMax:
		return nil, say(seckill.RuleLength, strconv.Itoa(urlBytesMax))
	}
	for i := range len(text) {
		if text[i] <= ' ' || text[i] > '~' {
			return nil, say(seckill.RuleFormat, "printable ASCII without spaces")
		}
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Opaque != "" || u.Host == "":
		return nil, say(seckill.RuleFormat, "an address that begins with "+scheme)
	case u.Scheme != "https" && (u.Scheme != "http" || !allowPrivate):
		return nil, say(seckill.RuleFormat, "an address that begins with "+scheme)
	case u.User != nil:
		return nil, say(seckill.RuleFormat, "no user or password; requests are signed")
	case u.Fragment != "" || strings.HasSuffix(text, "#"):
		return nil, say(seckill.RuleFormat, "no fragment")
	}
	if port := u.Port(); port != "" || strings.HasSuffix(u.Host, ":") {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, say(seckill.RuleFormat, "a port from 1 to 65535")
		}
	}
	host := strings.TrimSuffix(u.Hostname(), ".")
	if a, err := netip.ParseAddr(host); err == nil {
		if !allowPrivate && !public(a) {
			return nil, say(seckill.RuleFormat, "a public address")
		}
		return u, nil
	}
	if !hostName(host) {
		return nil, say(seckill.RuleFormat, "the name or address of a host")
	}
	return u, nil
}

// hostName tells whether a name is one, and not a number that some resolvers take for an IPv4
// address: 2130706433, 0x7f.1, 0177.0.0.1.
func hostName(name string) bool {
	if name == "" || len(name) > 253 {
		return false
	}
	last := ""
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 {
			return false
		}
		for i := range len(label) {
			c := label[i] | 0x20
			if (c < 'a' || c > 'z') && (label[i] < '0' || label[i] > '9') && label[i] != '-' && label[i] != '_' {
				return false
			}
		}
		last = strings.ToLower(label)
	}
	if strings.Trim(last, "0123456789") == "" {
		return false
	}
	hex, isHex := strings.CutPrefix(last, "0x")
	return !isHex || strings.Trim(hex, "0123456789abcdef") != ""
}
