package redisstore

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"authgate/gateway/store/redisstore/redistest"
)

// TestCluster holds the store to the contract on a Cluster, and then goes
// through the loss of a master.
func TestCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, func() string { return freeAddress(t) })
	o := Options{Addresses: []string{c.Masters[1].Address, c.Masters[2].Address}}
	t.Run("Conformance", func(t *testing.T) { conform(t, o) })
	t.Run("OneAddress", func(t *testing.T) {
		s := openTest(t, Options{Addresses: []string{c.Masters[2].Address}, KeyPrefix: "one:"})
		for i := range 10 { // of several shards
			put(t, s, fmt.Sprint(i), "value")
			warm(t, s, fmt.Sprint(i))
		}
	})
	t.Run("Failover", func(t *testing.T) { testClusterFailover(t, o, c.Masters[0], c.Replica) })
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
		step.becomes.Leads(t)
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
			master.Follows(t)
		}
	}
}
