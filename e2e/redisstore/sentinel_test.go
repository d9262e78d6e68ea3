package redisstore_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"authgate/e2e/redistest"
	"authgate/gateway/store/redisstore"
)

// TestSentinelFailover makes the master a replica while it lives, and then
// kills its successor: after each the store goes on with the new master, and
// reads nothing that was true of the old one only.
func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	servers := redistest.StartWatched(t, func() string { return freeAddress(t) }, "", "")
	first, second, watch := servers.Master, servers.Replica, servers.Sentinels[0]
	o := redisstore.Options{Addresses: servers.Addresses(), SentinelMaster: redistest.MasterName}
	s, other := openTest(t, o), openTest(t, o)

	steps := []struct {
		change  func()
		becomes *redistest.Server
	}{
		{func() { watch.Do(t, "SENTINEL", "FAILOVER", redistest.MasterName) }, second},
		{func() { second.Kill() }, first},
	}
	for i, step := range steps {
		before, after := fmt.Sprintf("before %d", i), fmt.Sprintf("after %d", i)
		eventually(t, "a value is set", func() error {
			return errors.Join(other.Put(t.Context(), "key", []byte(before), time.Time{}), holds(t, s, "key", before))
		})
		warm(t, s, "key", first, second)
		step.change()
		step.becomes.Leads(t)
		eventually(t, "the other store writes", func() error {
			err := other.Put(t.Context(), "key", []byte(after), time.Time{})
			if value, _ := step.becomes.Try("GET", "key"); err == nil && value != stored(after) {
				return errors.New("written to the old master")
			}
			return err
		})
		eventually(t, "the store sees the change", func() error { return holds(t, s, "key", after) })
		eventually(t, "the store is ready", func() error { return s.Ping(t.Context()) })
		if i == 0 { // the old master has to follow before it can be promoted again
			first.Follows(t)
		}
	}
}

// TestSentinelPassword: the Sentinels have a password and a user of their own,
// and Redis has another password; neither of them is any good at the other.
func TestSentinelPassword(t *testing.T) {
	t.Parallel()
	const password, sentinelPassword = "that of redis", "that of the sentinels"
	servers := redistest.StartWatched(t, func() string { return freeAddress(t) }, password, sentinelPassword)
	for _, s := range servers.Sentinels {
		s.Do(t, "ACL", "SETUSER", "watcher", "on", ">another", "&*", "+@all")
	}
	o := redisstore.Options{
		Addresses: servers.Addresses(), SentinelMaster: redistest.MasterName,
		Password: password, SentinelPassword: sentinelPassword,
	}
	for name, test := range map[string]struct {
		change func(*redisstore.Options)
		works  bool
	}{
		"both":              {func(*redisstore.Options) {}, true},
		"user":              {func(o *redisstore.Options) { o.SentinelUsername, o.SentinelPassword = "watcher", "another" }, true},
		"another user":      {func(o *redisstore.Options) { o.SentinelUsername = "watcher" }, false},
		"none for those":    {func(o *redisstore.Options) { o.SentinelPassword = "" }, false},
		"that of redis":     {func(o *redisstore.Options) { o.SentinelPassword = password }, false},
		"none for redis":    {func(o *redisstore.Options) { o.Password = "" }, false},
		"that of Sentinels": {func(o *redisstore.Options) { o.Password = sentinelPassword }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := o
			o.KeyPrefix = name
			test.change(&o)
			s := openTest(t, o)
			if !test.works {
				wantNothingAnswered(t, s)
				return
			}
			put(t, s, "key", "value")
			warm(t, s, "key", servers.Master)
			wantValue(t, s, "key", "value")
		})
	}
}
