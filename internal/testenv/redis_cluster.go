package testenv

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const redisSlots = 16384

// RedisClusterServers is a Redis Cluster of one test.
type RedisClusterServers struct {
	Masters  []*RedisServer // Slots are spread over them evenly, in this order.
	Replicas []*RedisServer // Of each master, if there are any.
}

// RedisCluster starts a cluster of masters without replicas, with the flags given.
func RedisCluster(tb testing.TB, masters int, flags ...string) *RedisClusterServers {
	tb.Helper()
	c := &RedisClusterServers{}
	ports := FreePorts(tb, 2*masters)
	for i := range masters {
		c.Masters = append(c.Masters, newClustered(tb, ports[i], ports[masters+i], flags))
	}
	for _, m := range c.Masters {
		m.Start(tb)
	}
	first := c.Masters[0]
	for i, m := range c.Masters {
		m.Must(tb, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
		m.Must(tb, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(c.slotFrom(i)), strconv.Itoa(c.slotFrom(i+1)-1))
		if i > 0 {
			host, port, _ := net.SplitHostPort(m.Addr)
			_, bus, _ := net.SplitHostPort(ports[masters+i])
			first.Must(tb, "CLUSTER", "MEET", host, port, bus)
		}
	}
	c.Await(tb)
	return c
}

// newClustered is a server of a cluster that is not started yet.
func newClustered(tb testing.TB, addr, busAddr string, flags []string) *RedisServer {
	tb.Helper()
	_, bus, _ := net.SplitHostPort(busAddr)
	return newRedis(tb, addr, append([]string{
		// The usual port of the bus, 10000 above the other, need not exist.
		"--cluster-enabled", "yes", "--cluster-port", bus, "--cluster-config-file", "nodes.conf",
		"--cluster-node-timeout", "1000", "--cluster-announce-ip", "127.0.0.1",
		"--cluster-replica-validity-factor", "0", "--cluster-allow-pubsubshard-when-down", "yes",
	}, flags...)...)
}

func (c *RedisClusterServers) slotFrom(master int) int { return master * redisSlots / len(c.Masters) }

// Await waits until each master knows all others and all slots.
func (c *RedisClusterServers) Await(tb testing.TB) {
	tb.Helper()
	for _, m := range append(slices.Clone(c.Masters), c.Replicas...) {
		err := m.proc.await(func() error {
			info, err := m.Do("CLUSTER", "INFO")
			if err != nil {
				return err
			}
			for _, want := range []string{"cluster_state:ok", fmt.Sprintf("cluster_known_nodes:%d\r", len(c.Masters)+len(c.Replicas))} {
				if s, _ := info.(string); !strings.Contains(s, want) {
					return fmt.Errorf("no %q in %q", want, info)
				}
			}
			return nil
		})
		if err != nil {
			tb.Fatalf("redis cluster: %v\n%s", err, m.proc.said())
		}
	}
}

// URL is the cluster in the product's form.
func (c *RedisClusterServers) URL() string {
	addrs := make([]string, len(c.Masters))
	for i, m := range c.Masters {
		addrs[i] = m.Addr
	}
	return "redis-cluster://" + strings.Join(addrs, ",")
}

// MasterOf is the master that a key belongs to.
func (c *RedisClusterServers) MasterOf(tb testing.TB, key string) (master *RedisServer, slot int) {
	tb.Helper()
	slot = int(c.Masters[0].Must(tb, "CLUSTER", "KEYSLOT", key).(int64))
	for _, m := range c.Masters {
		for line := range strings.Lines(m.Must(tb, "CLUSTER", "NODES").(string)) {
			if strings.Contains(line, "myself") && hasSlot(strings.Fields(line), slot) {
				return m, slot
			}
		}
	}
	tb.Fatalf("no master has slot %d", slot)
	return nil, 0
}

// hasSlot reads the slots of a line of CLUSTER NODES.
func hasSlot(fields []string, slot int) bool {
	for _, f := range fields[min(8, len(fields)):] {
		first, last, isRange := strings.Cut(f, "-")
		from, err := strconv.Atoi(first)
		to := from
		if isRange && err == nil {
			to, err = strconv.Atoi(last)
		}
		if err == nil && from <= slot && slot <= to {
			return true
		}
	}
	return false
}

// MoveSlot moves a slot from one master to another, as an operator's tool would: marked on
// both sides, key by key, then told to everybody. Between is called after each step
// while the slot is on its way.
func (c *RedisClusterServers) MoveSlot(tb testing.TB, slot int, from, to *RedisServer, between func(step string)) {
	tb.Helper()
	s := strconv.Itoa(slot)
	fromID, toID := from.Must(tb, "CLUSTER", "MYID").(string), to.Must(tb, "CLUSTER", "MYID").(string)
	to.Must(tb, "CLUSTER", "SETSLOT", s, "IMPORTING", fromID)
	from.Must(tb, "CLUSTER", "SETSLOT", s, "MIGRATING", toID)
	between("marked")
	host, port, _ := net.SplitHostPort(to.Addr)
	for {
		keys := from.Must(tb, "CLUSTER", "GETKEYSINSLOT", s, "1").([]any)
		if len(keys) == 0 {
			break
		}
		from.Must(tb, "MIGRATE", host, port, keys[0].(string), "0", "5000")
		between("moved " + keys[0].(string))
	}
	to.Must(tb, "CLUSTER", "SETSLOT", s, "NODE", toID)
	between("told the taker")
	for _, m := range c.Masters {
		if m != to {
			m.Must(tb, "CLUSTER", "SETSLOT", s, "NODE", toID)
		}
	}
}
