package redisstore_test

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"authgate/e2e/redistest"
	"authgate/gateway/store/redisstore"
	"authgate/internal/test/must"
	"authgate/internal/test/porttest"
	"authgate/internal/test/storetest"
)

// failOver makes the replica the master while the old one lives, and then back by
// kill -9 of the replica: after each the store goes on with the new master, and
// reads nothing that was true of the old one only. arrived checks that the new
// master has a value of key 0.
func failOver(t *testing.T, o redisstore.Options, keys int, servers []*redistest.Server,
	master, replica *redistest.Server, promote func(), arrived func(becomes *redistest.Server, value string) error) {
	t.Helper()
	s, other := openTest(t, o), openTest(t, o)
	all := func(do func(key string) error) error {
		var each errgroup.Group
		for i := range keys {
			each.Go(func() error { return do(fmt.Sprintf("key %d", i)) })
		}
		return each.Wait()
	}
	writes := func(value string) error {
		return all(func(key string) error { return other.Put(t.Context(), key, []byte(value), time.Time{}) })
	}
	sees := func(value string) error { return all(func(key string) error { return holds(t, s, key, value) }) }
	warmAll := func() {
		for i := range keys {
			warm(t, s, fmt.Sprintf("key %d", i), servers...)
		}
	}
	for i, becomes := range []*redistest.Server{replica, master} {
		before, after := fmt.Sprintf("before %d", i), fmt.Sprintf("after %d", i)
		eventually(t, "values are set", func() error { return errors.Join(writes(before), sees(before)) })
		warmAll()
		if i == 0 {
			promote()
		} else {
			replica.Kill()
			servers = slices.DeleteFunc(slices.Clone(servers), func(one *redistest.Server) bool { return one == replica })
		}
		becomes.Leads(t)
		eventually(t, "the other store writes", func() error { return errors.Join(writes(after), arrived(becomes, after)) })
		eventually(t, "the store sees the changes", func() error { return sees(after) })
		warmAll()
		eventually(t, "the store is ready", func() error { return s.Ping(t.Context()) })
		if i == 0 { // the old master has to follow before it can be promoted again
			master.Follows(t)
		}
	}
}

func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	w := redistest.StartWatched(t, func() string { return porttest.Address(t) }, "", "")
	o := at(w.Addresses()...)
	o.SentinelMaster = redistest.MasterName
	failOver(t, o, 1, []*redistest.Server{w.Master, w.Replica}, w.Master, w.Replica,
		func() { w.Sentinels[0].Do(t, "SENTINEL", "FAILOVER", redistest.MasterName) },
		func(becomes *redistest.Server, value string) error {
			if got, err := becomes.Try("GET", "key 0"); err != nil || got != stored(value) {
				return fmt.Errorf("written to the old master: %q, %w", got, err)
			}
			return nil
		})
}

// TestSentinelPassword: the Sentinels have a password and a user of their own, and
// Redis has another password; neither of them is any good at the other.
func TestSentinelPassword(t *testing.T) {
	t.Parallel()
	const password, sentinelPassword = "that of redis", "that of the sentinels"
	servers := redistest.StartWatched(t, func() string { return porttest.Address(t) }, password, sentinelPassword)
	for _, s := range servers.Sentinels {
		s.Do(t, "ACL", "SETUSER", "watcher", "on", ">another", "&*", "+@all")
	}
	for name, test := range map[string]struct {
		password, sentinelUser, sentinelPassword string
		works                                    bool
	}{
		"both":              {password, "", sentinelPassword, true},
		"user":              {password, "watcher", "another", true},
		"another user":      {password, "watcher", sentinelPassword, false},
		"that of redis":     {password, "", password, false},
		"that of Sentinels": {sentinelPassword, "", sentinelPassword, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := at(servers.Addresses()...)
			o.SentinelMaster, o.Password = redistest.MasterName, test.password
			o.SentinelUsername, o.SentinelPassword = test.sentinelUser, test.sentinelPassword
			s := openTest(t, o)
			if !test.works {
				wantNothingAnswered(t, s)
				return
			}
			storetest.Put(t, s, "key", "value")
			warm(t, s, "key", servers.Master)
		})
	}
}

// TestCluster runs the suite on a Cluster, as a user with the rights in the package
// comment, and then fails over.
func TestCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, func() string { return porttest.Address(t) }, rightsOf(t, "gate", "~store*")...)
	t.Run("Conformance", func(t *testing.T) {
		least := at(c.Masters[1].Address, c.Masters[2].Address)
		least.Username, least.Password = "gate", "right-password"
		conform(t, least)
	})
	t.Run("Failover", func(t *testing.T) {
		failOver(t, at(c.Masters[2].Address), 30, slices.Concat(c.Masters, []*redistest.Server{c.Replica}),
			c.Masters[0], c.Replica, func() { c.Replica.Do(t, "CLUSTER", "FAILOVER") },
			func(*redistest.Server, string) error { return nil }) // nodes redirect writes
	})
}

// TestClusterSlotMoves: a slot begins to move, and another one has moved, while the
// store has an absent key of it in its cache. The node that had the slot never
// pushes what is created elsewhere.
func TestClusterSlotMoves(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, func() string { return porttest.Address(t) })
	s, other := openTest(t, at(c.Masters[1].Address)), openTest(t, at(c.Masters[1].Address))
	for slot, change := range map[string]func(key string){
		"{begins}": func(key string) { c.Shift(t, key) },
		"{moved}":  func(key string) { c.Shift(t, key)() },
	} {
		absent, present := slot+"absent", slot+"present"
		writes := func(key, value string) {
			t.Helper()
			eventually(t, "the other store writes", func() error {
				return other.Put(t.Context(), key, []byte(value), time.Time{})
			})
		}
		writes(present, "before")
		warm(t, s, absent, c.Masters...)
		warm(t, s, present, c.Masters...)
		change(present)
		writes(absent, "after")
		writes(present, "after")
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
	c := redistest.StartCluster(t, func() string { return porttest.Address(t) }, "--cluster-node-timeout", "15000")
	s := openTest(t, at(c.Masters[1].Address))
	for i := range 30 { // of all shards: a replica that has replicated nothing is not announced
		storetest.Put(t, s, fmt.Sprint(i), "value")
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
		must.Do(t, s.Ping(t.Context()))
		storetest.Put(t, s, "key", how)
		storetest.WantValue(t, s, "key", how)
	}
	c.Masters[1].Kill()
	if err := s.Ping(t.Context()); err == nil {
		t.Error("Ping without a master succeeds")
	}
}
