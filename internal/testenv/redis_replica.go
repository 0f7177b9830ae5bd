package testenv

import (
	"fmt"
	"net"
	"testing"
)

// AddReplicas gives each master of a cluster a replica, and waits until all have all.
func (c *RedisClusterServers) AddReplicas(tb testing.TB, flags ...string) {
	tb.Helper()
	ports := FreePorts(tb, 2*len(c.Masters))
	first := c.Masters[0]
	for i := range c.Masters {
		r := newClustered(tb, ports[2*i], ports[2*i+1], flags)
		r.Start(tb)
		host, port, _ := net.SplitHostPort(r.Addr)
		_, bus, _ := net.SplitHostPort(ports[2*i+1])
		first.Must(tb, "CLUSTER", "MEET", host, port, bus)
		c.Replicas = append(c.Replicas, r)
	}
	c.Await(tb)
	for i, r := range c.Replicas {
		r.Must(tb, "CLUSTER", "REPLICATE", c.Masters[i].Must(tb, "CLUSTER", "MYID").(string))
	}
	for i, r := range c.Replicas {
		awaitReplica(tb, c.Masters[i], r)
	}
}

// CutOff has a replica hear nothing more of its master from now on, however much there is, until
// it is resumed. It then has what it had, unless the master still lives.
func CutOff(tb testing.TB, master, replica *RedisServer) {
	tb.Helper()
	replica.Pause()
	// What is sent to a process that sleeps it would read when it wakes.
	master.Must(tb, "CLIENT", "KILL", "TYPE", "replica")
}

// AwaitMaster waits until a replica has taken over.
func (r *RedisServer) AwaitMaster(tb testing.TB) {
	tb.Helper()
	err := r.proc.await(func() error {
		info, err := r.Do("INFO", "replication")
		if role := infoField(info, "role"); err == nil && role != "master" {
			err = fmt.Errorf("it is a %s", role)
		}
		return err
	})
	if err != nil {
		tb.Fatalf("the replica at %s did not take over: %v\n%s", r.Addr, err, r.proc.said())
	}
}

// awaitReplica waits until a replica has all that its master has. WAIT would not do: it counts
// what its own connection has written.
func awaitReplica(tb testing.TB, master, replica *RedisServer) {
	tb.Helper()
	err := replica.proc.await(func() error {
		info, err := master.Do("INFO", "replication")
		if err != nil {
			return err
		}
		own, err := replica.Do("INFO", "replication")
		if err != nil {
			return err
		}
		has, all := infoField(own, "slave_repl_offset"), infoField(info, "master_repl_offset")
		if infoField(own, "master_link_status") != "up" || has != all {
			return fmt.Errorf("the replica is at %s of %s", has, all)
		}
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
}
