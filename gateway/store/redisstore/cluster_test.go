package redisstore

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
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
		eventually(t, "values are set", func() error {
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
		eventually(t, "the other store writes", func() error {
			return everywhere(func(key string) error { return other.Put(t.Context(), key, []byte(after), time.Time{}) })
		})
		eventually(t, "the store sees the changes", func() error {
			return everywhere(func(key string) error { return holds(t, s, key, after) })
		})
		t.Logf("step %d: changed and seen %v after the promotion", i, time.Since(promoted))
		for i := range keys {
			warm(t, s, fmt.Sprintf("key %d", i))
		}
		eventually(t, "the store is ready", func() error { return s.Ping(t.Context()) })
		if i == 0 {
			master.Follows(t)
		}
	}
}

// TestClusterSlotMoves: a slot begins to move, and another one has moved, while
// a store has an absent key of it in its cache. The node that had the slot
// never tells of what is created elsewhere.
func TestClusterSlotMoves(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, func() string { return freeAddress(t) })
	o := Options{Addresses: []string{c.Masters[1].Address}}
	s, other := openTest(t, o), openTest(t, o)
	for slot, change := range map[string]func(key string){
		"{begins}": func(key string) { c.Shift(t, key) },
		"{moved}":  func(key string) { c.Shift(t, key)() },
	} {
		absent, present := slot+"absent", slot+"present"
		eventually(t, "a value is set", func() error {
			return other.Put(t.Context(), present, []byte("before"), time.Time{})
		})
		warm(t, s, absent)
		warm(t, s, present)
		change(present)
		changed := time.Now()
		for _, key := range []string{absent, present} {
			eventually(t, "the other store writes", func() error {
				return other.Put(t.Context(), key, []byte("after"), time.Time{})
			})
		}
		eventually(t, slot+": the store sees the changes", func() error {
			return errors.Join(holds(t, s, absent, "after"), holds(t, s, present, "after"))
		})
		t.Logf("%s: seen after %v", slot, time.Since(changed))
		warm(t, s, absent)
	}
}

// TestClusterWithoutAReplica: while nodes wait for a replica that is frozen, and
// then killed, nothing is missing but trust in what is cached.
func TestClusterWithoutAReplica(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, func() string { return freeAddress(t) }, "--cluster-node-timeout", "15000")
	s := openTest(t, Options{Addresses: []string{c.Masters[1].Address}})
	for i := range 30 { // of all shards: a replica that has replicated nothing is not made known
		put(t, s, fmt.Sprint(i), "value")
	}
	eventually(t, "the store knows the replica", func() error {
		if !s.link.isReplica(c.Replica.Address) {
			return errors.New("not yet")
		}
		return nil
	})
	for _, how := range []string{"frozen", "killed"} {
		if how == "frozen" {
			c.Replica.Signal(t, syscall.SIGSTOP)
		} else {
			c.Replica.Kill()
		}
		eventually(t, how+": the store misses it", func() error {
			if err := s.link.beat(t.Context(), s.link.state.Load().client); err != nil {
				return nil
			}
			return errors.New("all nodes answer")
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
