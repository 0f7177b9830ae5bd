package control

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"seckill"
)

// Each kind of block has one form, and what cannot be one is refused by the field's name.
func TestBlocksHaveOneForm(t *testing.T) {
	long := strings.Repeat("x", 129)
	for _, c := range []struct{ kind, value, want string }{
		{"ip", "192.0.2.7", "192.0.2.7"}, {"ip", "::ffff:192.0.2.7", "192.0.2.7"}, {"ip", "2001:DB8:0:0::7", "2001:db8::7"}, {"ip", "::FFFF:c000:0207", "192.0.2.7"},
		{"ip", "", "value required"}, {"ip", "192.0.2", "value format"}, {"ip", "192.0.2.07", "value format"}, {"ip", "fe80::1%eth0", "value format"},
		{"ip", "192.0.2.7/32", "value format"}, {"ip", " 192.0.2.7", "value format"}, {"ip", "host", "value format"},
		{"cidr", "192.0.2.7/24", "192.0.2.0/24"}, {"cidr", "2001:db8::7/32", "2001:db8::/32"}, {"cidr", "::ffff:10.1.2.3/104", "10.0.0.0/8"},
		{"cidr", "192.0.2.7/32", "192.0.2.7/32"}, {"cidr", "0.0.0.0/1", "0.0.0.0/1"}, {"cidr", "0.0.0.0/0", "value format"}, {"cidr", "::/0", "value format"},
		{"cidr", "::ffff:0.0.0.0/96", "value format"}, {"cidr", "192.0.2.7", "value format"}, {"cidr", "192.0.2.7/33", "value format"}, {"cidr", "192.0.2.7/024", "value format"},
		{"user", "ann ", "ann "}, {"user", "", "value required"}, {"user", long[:64], long[:64]}, {"user", long[:65], "value format"}, {"user", "安", "value format"}, {"user", "a\n", "value format"},
		{"device", long[:128], long[:128]}, {"device", long, "value format"}, {"device", "\x7f", "value format"},
		{"host", "x", "kind one_of"}, {"", "x", "kind one_of"}, {"IP", "192.0.2.7", "kind one_of"},
	} {
		got, wrong := Canonical(seckill.BlockKind(c.kind), c.value)
		if len(wrong) > 0 {
			got = wrong[0].Field + " " + string(wrong[0].Rule)
		}
		if got != c.want {
			t.Errorf("%s %q: got %q, want %q", c.kind, c.value, got, c.want)
		}
		if len(wrong) == 0 {
			if again, wrong := Canonical(seckill.BlockKind(c.kind), got); again != got || wrong != nil {
				t.Errorf("%s %q: its form %q has the form %q", c.kind, c.value, got, again)
			}
		}
	}
}

// Whatever comes and goes, in steps small and large: a buyer is blocked exactly if a block that is
// not over holds for the address, a network around it, the user or the device; and what was
// read before does not change.
func TestBlocksAreExact(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	synctest.Test(t, func(t *testing.T) {
		addr := func() netip.Addr {
			if rnd.IntN(3) == 0 {
				return netip.MustParseAddr(fmt.Sprintf("2001:db8::%x", rnd.IntN(3000)))
			}
			return netip.AddrFrom4([4]byte{10, 0, byte(rnd.IntN(12)), byte(rnd.IntN(256))})
		}
		model := map[key]*Block{}
		s := &blocks{}
		holds := func(b *Block) bool { return b != nil && (b.Until.IsZero() || time.Now().Before(b.Until)) }
		var older *blocks // And what it said.
		said := map[key]*Block{}
		for step := range 150 {
			changes := someChanges(rnd, addr, int64(step))
			maps.Copy(model, changes)
			s = s.with(changes)
			if step%50 == 49 {
				if swept := s.withoutOver(time.Now()); swept != nil {
					s = swept
				}
			}
			<-time.After(time.Second)
			for range 40 {
				ip, user, device := addr(), fmt.Sprint(rnd.IntN(3000)), fmt.Sprint(rnd.IntN(3000))
				want := holds(model[key{seckill.BlockIP, ip.String()}]) || holds(model[key{seckill.BlockUser, user}]) || holds(model[key{seckill.BlockDevice, device}])
				for bits := range ip.BitLen() + 1 {
					want = want || holds(model[key{seckill.BlockCIDR, netip.PrefixFrom(ip, bits).Masked().String()}])
				}
				if got := s.find(ip, user, device); (got != nil) != want {
					t.Fatalf("step %d: %v, %s, %s: got %+v, want blocked %v", step, ip, user, device, got, want)
				}
			}
			if older != nil {
				for k, b := range said {
					if older.get(k) != b {
						t.Fatalf("step %d: an older state has changed", step)
					}
				}
			}
			if step%3 == 0 {
				older = s
				clear(said)
				for k := range model {
					said[k] = s.get(k)
				}
			}
		}
		there := map[seckill.BlockKind]int{}
		for k, b := range model {
			if b != nil && !b.over(time.Now()) {
				there[k.kind]++
			}
		}
		if s = s.withoutOver(time.Now()); s != nil {
			for kind, n := range s.counts() {
				if n != there[kind] {
					t.Errorf("%s: got %d, want %d", kind, n, there[kind])
				}
			}
		}
	})
}

// someChanges makes, replaces and removes a few blocks, or many.
func someChanges(rnd *rand.Rand, addr func() netip.Addr, id int64) map[key]*Block {
	changes := map[key]*Block{}
	for range 1 + rnd.IntN([]int{5, 1000}[rnd.IntN(2)]) {
		ip := addr()
		k := []key{
			{seckill.BlockIP, ip.String()},
			{seckill.BlockCIDR, netip.PrefixFrom(ip, ip.BitLen()-rnd.IntN(16)).Masked().String()},
			{seckill.BlockUser, fmt.Sprint(rnd.IntN(3000))},
			{seckill.BlockDevice, fmt.Sprint(rnd.IntN(3000))},
		}[rnd.IntN(4)]
		b := &Block{ID: id, Kind: k.kind, value: k.value}
		switch rnd.IntN(3) {
		case 0:
			b.Until = time.Now().Add(time.Duration(rnd.IntN(20)) * time.Second)
		case 1:
			b = nil
		}
		changes[k] = b
	}
	return changes
}

// An address is compared as what it is: IPv4 in the form of IPv6 is IPv4, and a zone is of no
// account. What is not known blocks nobody.
func TestAddressesAreCompared(t *testing.T) {
	changes := map[key]*Block{}
	for _, b := range []Block{
		{Kind: seckill.BlockIP, value: "192.0.2.7"}, {Kind: seckill.BlockCIDR, value: "198.51.100.0/24"}, {Kind: seckill.BlockIP, value: "fe80::7"},
		{Kind: seckill.BlockUser, value: "ann"}, {Kind: seckill.BlockDevice, value: "ann"}, {Kind: "host", value: "x"}, {Kind: seckill.BlockIP, value: "nonsense"}, {Kind: seckill.BlockCIDR, value: "nonsense"},
	} {
		changes[key{b.Kind, b.value}] = &b
	}
	s := &Snapshot{blocks: (&blocks{}).with(changes)}
	for from, want := range map[string]bool{
		"192.0.2.7": true, "::ffff:192.0.2.7": true, "192.0.2.8": false, "198.51.100.200": true, "::ffff:198.51.100.1": true, "fe80::7%eth0": true, "fe80::8%eth0": false, "": false,
	} {
		ip, _ := netip.ParseAddr(from)
		if got := s.Blocked(ip, "", ""); (got != nil) != want {
			t.Errorf("%s: got %+v", from, got)
		}
	}
	if s.Blocked(netip.Addr{}, "ann", "") == nil || s.Blocked(netip.Addr{}, "", "ann") == nil || s.Blocked(netip.Addr{}, "Ann", "an") != nil {
		t.Error("users and devices are not compared exactly")
	}
}

// Looking a buyer up costs no memory.
func TestBlockedAllocatesNothing(t *testing.T) {
	s, buyers := manyBlocks(1000)
	n := testing.AllocsPerRun(100, func() {
		for i := range buyers {
			s.Blocked(buyers[i].ip, buyers[i].user, buyers[i].device)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

type buyer struct {
	ip           netip.Addr
	user, device string
}

func manyBlocks(n int) (*Snapshot, []buyer) {
	changes := map[key]*Block{}
	for i := range n {
		for kind, value := range map[seckill.BlockKind]string{
			seckill.BlockIP: fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255), seckill.BlockCIDR: fmt.Sprintf("2001:db8:%x:%x::/64", i>>16, i&0xffff),
			seckill.BlockUser: fmt.Sprint("user-", i), seckill.BlockDevice: fmt.Sprint("device-", i),
		} {
			changes[key{kind, value}] = &Block{Kind: kind, value: value, Until: time.Now().Add(time.Hour)}
		}
	}
	var buyers []buyer
	for i := range 1 << 12 {
		buyers = append(buyers, buyer{netip.AddrFrom4([4]byte{192, 168, byte(i >> 8), byte(i)}), fmt.Sprint("buyer-", i), fmt.Sprint("phone-", i)})
	}
	return &Snapshot{blocks: (&blocks{}).with(changes)}, buyers
}

// BenchmarkBlocked asks for buyers who are not blocked, which is the dearest answer.
func BenchmarkBlocked(b *testing.B) {
	for _, n := range []int{0, 1000, 250_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s, buyers := manyBlocks(n)
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				who := &buyers[i&(1<<12-1)]
				s.Blocked(who.ip, who.user, who.device)
				i++
			}
		})
	}
}

// BenchmarkBlockOneMore adds a block to a quarter of a million, as a refresh does.
func BenchmarkBlockOneMore(b *testing.B) {
	s, _ := manyBlocks(250_000)
	kinds := slices.Clone(seckill.BlockKinds())
	i := 0
	for b.Loop() {
		i++
		k := key{kinds[i%len(kinds)], map[seckill.BlockKind]string{seckill.BlockIP: "192.0.2.1", seckill.BlockCIDR: "192.0.2.0/24"}[kinds[i%len(kinds)]]}
		if k.value == "" {
			k.value = fmt.Sprint(i)
		}
		s.blocks = s.blocks.with(map[key]*Block{k: {Kind: k.kind, value: k.value}})
	}
}
