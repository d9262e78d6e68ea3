package redisstore_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"authgate/e2e/redistest"
	"authgate/gateway/store/redisstore"
)

// TestCluster runs the suite on a Cluster, as a user with the rights in the package
// comment, and then fails over.
func TestCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, func() string { return freeAddress(t) }, rightsOf(t, "gate", "~store*")...)
	o := redisstore.Options{Addresses: []string{c.Masters[1].Address, c.Masters[2].Address}}
	t.Run("Conformance", func(t *testing.T) {
		least := o
		least.Username, least.Password = "gate", "right-password"
		conform(t, least)
	})
	t.Run("OneAddress", func(t *testing.T) {
		s := openTest(t, redisstore.Options{Addresses: []string{c.Masters[2].Address}, KeyPrefix: "one:"})
		for i := range 10 { // of several shards
			put(t, s, fmt.Sprint(i), "value")
			warm(t, s, fmt.Sprint(i), c.Masters...)
		}
	})
	t.Run("Failover", func(t *testing.T) { testClusterFailover(t, o, c) })
}

// testClusterFailover makes the replica the master of its shard, first while
// the old one lives, and then back by kill -9 of the new one.
func testClusterFailover(t *testing.T, o redisstore.Options, c *redistest.Cluster) {
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
	allWarm := func(servers []*redistest.Server) {
		for i := range keys {
			warm(t, s, fmt.Sprintf("key %d", i), servers...)
		}
	}
	everyNode := slices.Concat(c.Masters, []*redistest.Server{c.Replica})
	for i, step := range []struct {
		change  func()
		becomes *redistest.Server
		alive   []*redistest.Server
	}{
		{func() { c.Replica.Do(t, "CLUSTER", "FAILOVER") }, c.Replica, everyNode},
		{func() { c.Replica.Kill() }, c.Masters[0], c.Masters},
	} {
		before, after := fmt.Sprintf("before %d", i), fmt.Sprintf("after %d", i)
		eventually(t, "values are set", func() error {
			return everywhere(func(key string) error {
				return errors.Join(other.Put(t.Context(), key, []byte(before), time.Time{}), holds(t, s, key, before))
			})
		})
		allWarm(everyNode)
		step.change()
		step.becomes.Leads(t)
		eventually(t, "the other store writes", func() error {
			return everywhere(func(key string) error { return other.Put(t.Context(), key, []byte(after), time.Time{}) })
		})
		eventually(t, "the store sees the changes", func() error {
			return everywhere(func(key string) error { return holds(t, s, key, after) })
		})
		allWarm(step.alive)
		eventually(t, "the store is ready", func() error { return s.Ping(t.Context()) })
		if i == 0 {
			c.Masters[0].Follows(t)
		}
	}
}

// TestClusterSlotMoves: a slot begins to move, and another one has moved, while
// the store has an absent key of it in its cache. The node that had the slot
// never pushes what is created elsewhere.
func TestClusterSlotMoves(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, func() string { return freeAddress(t) })
	o := redisstore.Options{Addresses: []string{c.Masters[1].Address}}
	s, other := openTest(t, o), openTest(t, o)
	for slot, change := range map[string]func(key string){
		"{begins}": func(key string) { c.Shift(t, key) },
		"{moved}":  func(key string) { c.Shift(t, key)() },
	} {
		absent, present := slot+"absent", slot+"present"
		eventually(t, "a value is set", func() error {
			return other.Put(t.Context(), present, []byte("before"), time.Time{})
		})
		warm(t, s, absent, c.Masters...)
		warm(t, s, present, c.Masters...)
		change(present)
		for _, key := range []string{absent, present} {
			eventually(t, "the other store writes", func() error {
				return other.Put(t.Context(), key, []byte("after"), time.Time{})
			})
		}
		eventually(t, slot+": the store sees the changes", func() error {
			return errors.Join(holds(t, s, absent, "after"), holds(t, s, present, "after"))
		})
		warm(t, s, absent, c.Masters...)
	}
}

// TestClusterWithoutAReplica: while nodes wait for a replica that is frozen, and
// then killed, the store does not trust its cache, and serves all the same.
func TestClusterWithoutAReplica(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, func() string { return freeAddress(t) }, "--cluster-node-timeout", "15000")
	s := openTest(t, redisstore.Options{Addresses: []string{c.Masters[1].Address}})
	for i := range 30 { // of all shards: a replica that has replicated nothing is not announced
		put(t, s, fmt.Sprint(i), "value")
	}
	eventually(t, "the store knows the role of the replica", func() error {
		// The second question is sent after the first answer was read.
		if n := calls(t, "cluster|nodes", c.Replica); n < 2 {
			return fmt.Errorf("the replica was asked %d times", n)
		}
		return nil
	})
	warm(t, s, "0", c.Masters...)
	for _, how := range []string{"frozen", "killed"} {
		if how == "frozen" {
			c.Replica.Signal(t, syscall.SIGSTOP)
		} else {
			c.Replica.Kill()
		}
		eventually(t, how+": the store asks Redis", func() error {
			if asked(t, s, "0", c.Masters...) == 0 {
				return errors.New("the cache is trusted")
			}
			return nil
		})
		if err := s.Ping(t.Context()); err != nil {
			t.Errorf("%s: Ping: %v", how, err)
		}
		put(t, s, "key", how)
		wantValue(t, s, "key", how)
	}
	c.Masters[1].Kill()
	if err := s.Ping(t.Context()); err == nil {
		t.Error("Ping without a master succeeds")
	}
}
