package control

import (
	"maps"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/gaissmai/bart"

	"seckill"
)

// Block is an active block as a node knows it. Its reason is in the database.
type Block struct {
	ID    int64 // 0 while the database does not know of it yet.
	Kind  seckill.BlockKind
	Until time.Time // Zero if it does not end by itself.

	value     string
	automatic bool
}

func (b *Block) over(now time.Time) bool { return !b.Until.IsZero() && !now.Before(b.Until) }

// covers tells whether an automatic block until a moment would change nothing.
func (b *Block) covers(until, now time.Time) bool {
	return !b.over(now) && (!b.automatic || b.Until.IsZero() || !b.Until.Before(until))
}

// layers is a map that is never changed: a change makes a new one, and copies but what was
// changed since the last great copy.
type layers[K comparable] struct {
	base map[K]*Block
	top  map[K]*Block // Goes before base; nil says that it is not there.
	n    int
}

// topMin is how much a top may hold before it is worth a copy of the base.
const topMin = 1024

func (l *layers[K]) get(key K) *Block {
	if l.n == 0 {
		return nil
	}
	if b, ok := l.top[key]; ok {
		return b
	}
	return l.base[key]
}

func (l *layers[K]) all(each func(K, *Block)) {
	for k, b := range l.base {
		if _, changed := l.top[k]; !changed {
			each(k, b)
		}
	}
	for k, b := range l.top {
		if b != nil {
			each(k, b)
		}
	}
}

// with returns the map with changes; nil takes away.
func (l layers[K]) with(changes map[K]*Block) layers[K] {
	if len(changes) == 0 {
		return l
	}
	next := layers[K]{base: l.base, top: maps.Clone(l.top), n: l.n}
	if next.top == nil {
		next.top = make(map[K]*Block, len(changes))
	}
	for k, b := range changes {
		had := next.top[k] != nil
		if _, changed := next.top[k]; !changed {
			had = l.base[k] != nil
		}
		switch {
		case had && b == nil:
			next.n--
		case !had && b != nil:
			next.n++
		}
		next.top[k] = b
	}
	if len(next.top) <= topMin || len(next.top) <= len(l.base)/8 {
		return next
	}
	merged := make(map[K]*Block, next.n)
	next.all(func(k K, b *Block) { merged[k] = b })
	return layers[K]{base: merged, n: len(merged)}
}

// blocks is all active blocks. It is never changed.
type blocks struct {
	addrs   layers[netip.Addr]
	nets    *bart.Table[*Block] // Nil when there is none.
	users   layers[string]
	devices layers[string]
}

// find returns the first block that holds for a buyer. Only one that ends by itself asks for the time.
func (s *blocks) find(ip netip.Addr, user, device string) *Block {
	if b := s.addrs.get(ip); b != nil && active(b) {
		return b
	}
	if s.nets != nil && ip.IsValid() {
		if b := s.findNet(ip); b != nil {
			return b
		}
	}
	if b := s.users.get(user); b != nil && active(b) {
		return b
	}
	if b := s.devices.get(device); b != nil && active(b) {
		return b
	}
	return nil
}

func active(b *Block) bool { return b.Until.IsZero() || time.Now().Before(b.Until) }

// findNet looks at the wider networks only if the narrowest is over.
func (s *blocks) findNet(ip netip.Addr) *Block {
	b, ok := s.nets.Lookup(ip)
	if !ok {
		return nil
	}
	if active(b) {
		return b
	}
	for _, b := range s.nets.Supernets(netip.PrefixFrom(ip, ip.BitLen())) {
		if active(b) {
			return b
		}
	}
	return nil
}

// counts returns how many there are of each kind.
func (s *blocks) counts() map[seckill.BlockKind]int {
	nets := 0
	if s.nets != nil {
		nets = s.nets.Size()
	}
	return map[seckill.BlockKind]int{
		seckill.BlockIP: s.addrs.n, seckill.BlockCIDR: nets, seckill.BlockUser: s.users.n, seckill.BlockDevice: s.devices.n,
	}
}

// key is what a block is looked up by.
type key struct {
	kind  seckill.BlockKind
	value string
}

// get returns the block of a kind and a canonical value, whether it is over or not.
func (s *blocks) get(k key) *Block {
	switch k.kind {
	case seckill.BlockIP:
		if ip, err := netip.ParseAddr(k.value); err == nil {
			return s.addrs.get(ip)
		}
	case seckill.BlockCIDR:
		if p, err := netip.ParsePrefix(k.value); err == nil && s.nets != nil {
			b, _ := s.nets.Get(p)
			return b
		}
	case seckill.BlockUser:
		return s.users.get(k.value)
	case seckill.BlockDevice:
		return s.devices.get(k.value)
	}
	return nil
}

// with returns the blocks with changes; nil takes away. What the database holds in a form that
// this program does not know is left out.
func (s *blocks) with(changes map[key]*Block) *blocks {
	addrs, users, devices := map[netip.Addr]*Block{}, map[string]*Block{}, map[string]*Block{}
	nets := s.nets
	fresh := nets == nil || nets.Size() == 0 // Nobody reads it yet.
	if fresh {
		nets = &bart.Table[*Block]{}
	}
	for k, b := range changes {
		switch k.kind {
		case seckill.BlockIP:
			if ip, err := netip.ParseAddr(k.value); err == nil {
				addrs[ip] = b
			}
		case seckill.BlockCIDR:
			p, err := netip.ParsePrefix(k.value)
			switch {
			case err != nil:
			case fresh && b != nil:
				nets.Insert(p, b)
			case b != nil:
				nets = nets.InsertPersist(p, b)
			case !fresh:
				nets = nets.DeletePersist(p)
			}
		case seckill.BlockUser:
			users[k.value] = b
		case seckill.BlockDevice:
			devices[k.value] = b
		}
	}
	if nets.Size() == 0 {
		nets = nil
	}
	return &blocks{addrs: s.addrs.with(addrs), nets: nets, users: s.users.with(users), devices: s.devices.with(devices)}
}

// withoutOver leaves out the blocks that are over; nil if there are none.
func (s *blocks) withoutOver(now time.Time) *blocks {
	changes := map[key]*Block{}
	note := func(b *Block) {
		if b.over(now) {
			changes[key{b.Kind, b.value}] = nil
		}
	}
	s.addrs.all(func(_ netip.Addr, b *Block) { note(b) })
	s.users.all(func(_ string, b *Block) { note(b) })
	s.devices.all(func(_ string, b *Block) { note(b) })
	if s.nets != nil {
		for _, b := range s.nets.All() {
			note(b)
		}
	}
	if len(changes) == 0 {
		return nil
	}
	return s.with(changes)
}

// Canonical checks what a block looks at, and returns it in the one form that is stored and
// compared: an address without its IPv4-mapped form, a network without the bits
// that it does not look at.
func Canonical(kind seckill.BlockKind, value string) (string, []seckill.FieldError) {
	wrong := func(rule seckill.Rule, arg string) (string, []seckill.FieldError) {
		return "", []seckill.FieldError{{Field: "value", Rule: rule, Arg: arg}}
	}
	if value == "" {
		return wrong(seckill.RuleRequired, "")
	}
	switch kind {
	case seckill.BlockIP:
		ip, err := netip.ParseAddr(value)
		if err != nil || ip.Zone() != "" {
			return wrong(seckill.RuleFormat, "an address such as 192.0.2.7 or 2001:db8::7")
		}
		return ip.Unmap().String(), nil
	case seckill.BlockCIDR:
		p, err := netip.ParsePrefix(value)
		if err != nil {
			return wrong(seckill.RuleFormat, "a network such as 192.0.2.0/24 or 2001:db8::/48")
		}
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		if p.Bits() == 0 {
			return wrong(seckill.RuleFormat, "a network, not every address there is: the switch intake is for that")
		}
		return p.Masked().String(), nil
	case seckill.BlockUser:
		if !seckill.ValidBuyer(value) {
			return wrong(seckill.RuleFormat, "1 to "+strconv.Itoa(seckill.BuyerBytesMax)+" bytes of printable ASCII")
		}
		return value, nil
	case seckill.BlockDevice:
		if !seckill.ValidDevice(value) {
			return wrong(seckill.RuleFormat, "1 to "+strconv.Itoa(seckill.DeviceBytesMax)+" bytes of printable ASCII")
		}
		return value, nil
	}
	var kinds strings.Builder
	for _, k := range seckill.BlockKinds() {
		kinds.WriteString(", " + string(k))
	}
	return "", []seckill.FieldError{{Field: "kind", Rule: seckill.RuleOneOf, Arg: kinds.String()[2:]}}
}
