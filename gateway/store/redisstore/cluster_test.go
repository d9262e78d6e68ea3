package redisstore

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"authgate/gateway/store/redisstore/redistest"
)

// startCluster starts three masters and a replica of the first.
func startCluster(t *testing.T) (masters []*redistest.Server, replica *redistest.Server) {
	t.Helper()
	var nodes []*redistest.Server
	var buses []string
	for range 4 {
		_, bus, _ := net.SplitHostPort(freeAddress(t))
		nodes = append(nodes, startServer(t, "--cluster-enabled", "yes", "--cluster-port", bus,
			"--cluster-node-timeout", "1000", "--repl-diskless-sync-delay", "0"))
		buses = append(buses, bus)
	}
	for i, slots := range []string{"0 5460", "5461 10922", "10923 16383"} {
		nodes[i].Do(t, append([]string{"CLUSTER", "ADDSLOTSRANGE"}, strings.Fields(slots)...)...)
		nodes[i].Do(t, "CLUSTER", "SET-CONFIG-EPOCH", fmt.Sprint(i+1))
	}
	for i, node := range nodes[1:] {
		host, port, _ := net.SplitHostPort(node.Address)
		nodes[0].Do(t, "CLUSTER", "MEET", host, port, buses[i+1])
	}
	id := nodes[0].Do(t, "CLUSTER", "MYID")
	eventually(t, 20*time.Second, "the replica knows its master", func() error {
		_, err := redistest.Command(nodes[3].Address, "CLUSTER", "REPLICATE", id)
		return err
	})
	for _, node := range nodes {
		eventually(t, 20*time.Second, "the cluster is complete", func() error {
			state, err := redistest.Command(node.Address, "CLUSTER", "INFO")
			slaves, _ := redistest.Command(node.Address, "CLUSTER", "REPLICAS", id)
			if !strings.Contains(state, "cluster_state:ok") || !strings.Contains(state, "cluster_known_nodes:4") || slaves != "*1" {
				return fmt.Errorf("%s %q %v", state, slaves, err)
			}
			return nil
		})
	}
	eventually(t, 20*time.Second, "the replica follows", func() error {
		if state := nodes[3].Do(t, "INFO", "replication"); !strings.Contains(state, "master_link_status:up") {
			return errors.New(state)
		}
		return nil
	})
	return nodes[:3], nodes[3]
}

// TestCluster holds the store to the contract on a Cluster, and then goes
// through the loss of a master.
func TestCluster(t *testing.T) {
	t.Parallel()
	masters, replica := startCluster(t)
	o := Options{Addresses: []string{masters[1].Address, masters[2].Address}}
	t.Run("Conformance", func(t *testing.T) { conform(t, o) })
	t.Run("OneAddress", func(t *testing.T) {
		s := openTest(t, Options{Addresses: []string{masters[2].Address}, KeyPrefix: "one:"})
		for i := range 10 { // of several shards
			put(t, s, fmt.Sprint(i), "value")
			warm(t, s, fmt.Sprint(i))
		}
	})
	t.Run("Failover", func(t *testing.T) { testClusterFailover(t, o, masters[0], replica) })
}

// testClusterFailover makes the replica the master of its shard, first while
// the old one lives, and then back by kill -9 of the new one.
func testClusterFailover(t *testing.T, o Options, master, replica *redistest.Server) {
	s, other := openTest(t, o), openTest(t, o)
	const keys = 30
	everywhere := func(do func(key string) error) error {
		errs := make([]error, keys)
		var all sync.WaitGroup
		for i := range keys {
			all.Go(func() { errs[i] = do(fmt.Sprintf("key %d", i)) })
		}
		all.Wait()
		return errors.Join(errs...)
	}
	for i, step := range []struct {
		change  func()
		becomes *redistest.Server
	}{
		{func() { replica.Do(t, "CLUSTER", "FAILOVER") }, replica},
		{func() { replica.Kill() }, master},
	} {
		before, after := fmt.Sprintf("before %d", i), fmt.Sprintf("after %d", i)
		eventually(t, 20*time.Second, "values are set", func() error {
			return everywhere(func(key string) error {
				return errors.Join(other.Put(t.Context(), key, []byte(before), time.Time{}), holds(t, s, key, before))
			})
		})
		for i := range keys {
			warm(t, s, fmt.Sprintf("key %d", i))
		}
		step.change()
		eventually(t, 20*time.Second, "the replica becomes the master", func() error {
			if role := step.becomes.Do(t, "INFO", "replication"); !strings.Contains(role, "role:master") {
				return errors.New(role)
			}
			return nil
		})
		promoted := time.Now()
		eventually(t, 20*time.Second, "the other store writes", func() error {
			return everywhere(func(key string) error { return other.Put(t.Context(), key, []byte(after), time.Time{}) })
		})
		eventually(t, defaultMaxStaleness+time.Second, "the store sees the changes", func() error {
			return everywhere(func(key string) error { return holds(t, s, key, after) })
		})
		t.Logf("step %d: changed and seen %v after the promotion", i, time.Since(promoted))
		for i := range keys {
			warm(t, s, fmt.Sprintf("key %d", i))
		}
		eventually(t, 3*time.Second, "the store is ready", func() error { return s.Ping(t.Context()) })
		if i == 0 {
			eventually(t, 20*time.Second, "the old master follows", func() error {
				if state := master.Do(t, "INFO", "replication"); !strings.Contains(state, "master_link_status:up") {
					return errors.New(state)
				}
				return nil
			})
		}
	}
}
