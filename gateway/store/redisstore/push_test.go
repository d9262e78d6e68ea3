package redisstore

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"authgate/gateway/store"
)

// TestPushes: a store whose cache holds a key learns of each change by a push.
// It confirms contact too seldom to learn of one in another way.
func TestPushes(t *testing.T) {
	t.Parallel()
	redis := startServer(t)
	a := openTest(t, Options{Addresses: []string{redis.Address}})
	b := openTest(t, Options{Addresses: []string{redis.Address}, MaxStaleness: 24 * time.Hour})
	for i := range 1000 {
		want := fmt.Sprintf("value %d", i)
		warm(t, b, "key")
		put(t, a, "key", want)
		eventually(t, want+" is seen", func() error { return holds(t, b, "key", want) })
	}
}

// TestEveryChangeIsPushed makes each kind of change on one store to a key
// that another one has in its cache, and that comes to the store from outside.
func TestEveryChangeIsPushed(t *testing.T) {
	t.Parallel()
	redis := startServer(t)
	a, b := openTest(t, Options{Addresses: []string{redis.Address}}), openTest(t, Options{Addresses: []string{redis.Address}})
	const none = ""
	for name, test := range map[string]struct {
		before string
		change func() error
		after  string
	}{
		"put":    {"old", func() error { return a.Put(t.Context(), "put", []byte("new"), time.Time{}) }, "new"},
		"create": {none, func() error { return a.Put(t.Context(), "create", []byte("new"), time.Time{}) }, "new"},
		"swap":   {"old", func() error { return a.Swap(t.Context(), "swap", []byte("old"), []byte("new"), time.Time{}) }, "new"},
		"first":  {none, func() error { return a.Swap(t.Context(), "first", nil, []byte("new"), time.Time{}) }, "new"},
		"take":   {"old", func() error { _, err := a.Take(t.Context(), "take"); return err }, none},
		"delete": {"old", func() error { return a.Delete(t.Context(), "delete") }, none},
		"dead":   {"old", func() error { return a.Put(t.Context(), "dead", nil, time.Now()) }, none},
		"flush":  {"old", func() error { redis.Do(t, "FLUSHALL"); return nil }, none},
	} {
		if test.before != none {
			put(t, a, name, test.before)
		}
		warm(t, b, name)
		if err := test.change(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		eventually(t, name+" is seen", func() error {
			value, err := b.Get(t.Context(), name)
			if string(value) != test.after || err != nil && !errors.Is(err, store.ErrNotFound) {
				return fmt.Errorf("Get = %q, %v", value, err)
			}
			return nil
		})
	}
}

// TestPrefixesAreApart gives two stores the same key under two prefixes.
func TestPrefixesAreApart(t *testing.T) {
	t.Parallel()
	redis := startServer(t)
	a := openTest(t, Options{Addresses: []string{redis.Address}, KeyPrefix: "a:"})
	b := openTest(t, Options{Addresses: []string{redis.Address}, KeyPrefix: "b:"})
	put(t, a, "key", "of a")
	wantAbsent(t, b, "key")
	put(t, b, "key", "of b")
	wantValue(t, a, "key", "of a")
	wantValue(t, b, "key", "of b")
}

// TestTrackingTableOverflows lets Redis remember far fewer keys than are read:
// it forgets some and says so, and what is read stays right.
func TestTrackingTableOverflows(t *testing.T) {
	t.Parallel()
	redis := startServer(t, "--tracking-table-max-keys", "10")
	a, b := openTest(t, Options{Addresses: []string{redis.Address}}), openTest(t, Options{Addresses: []string{redis.Address}})
	const keys = 100
	for _, value := range []string{"old", "new"} {
		for i := range keys {
			put(t, a, fmt.Sprint(i), value)
		}
		for i := range keys {
			eventually(t, "the change is seen", func() error { return holds(t, b, fmt.Sprint(i), value) })
		}
	}
	eventually(t, "Redis forgets what it cannot remember", func() error {
		cached := 0
		for i := range keys {
			if _, known, _ := b.cache.lookup(fmt.Sprint(i)); known {
				cached++
			}
		}
		if cached > 10 {
			return fmt.Errorf("%d keys are cached, and Redis remembers 10", cached)
		}
		return nil
	})
}

// TestOtherNodesStartOver lets contact be confirmed by nodes that are not the
// ones that the cache was filled from.
func TestOtherNodesStartOver(t *testing.T) {
	t.Parallel()
	redis := startServer(t)
	s := openTest(t, Options{Addresses: []string{redis.Address}})
	warm(t, s, "key")
	s.link.beating.Lock()
	was := s.link.topology
	s.link.topology = map[string]string{redis.Address: "slave"}
	s.link.beating.Unlock()
	if err := s.link.beat(t.Context(), s.link.state.Load().client); err != nil {
		t.Fatal(err)
	}
	if _, known, _ := s.cache.lookup("key"); known || was[redis.Address] != "master" {
		t.Errorf("what was read before the nodes changed is still cached; they were %q", was)
	}
}

// TestANewConnectionStartsOver before it can be used.
func TestANewConnectionStartsOver(t *testing.T) {
	t.Parallel()
	redis := startServer(t)
	s := openTest(t, Options{Addresses: []string{redis.Address}})
	warm(t, s, "key")
	conn, err := s.link.dial(t.Context(), redis.Address, &net.Dialer{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, known, _ := s.cache.lookup("key"); known {
		t.Error("what was read on another connection is still cached")
	}
}

// TestOneConnection demands that all calls share one connection: what is
// proved of one would say nothing of another.
func TestOneConnection(t *testing.T) {
	t.Parallel()
	redis := startServer(t)
	s := openTest(t, Options{Addresses: []string{redis.Address}})
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			if err := s.Put(t.Context(), fmt.Sprint(i), nil, time.Time{}); err != nil {
				t.Error(err)
			}
			if err := holds(t, s, fmt.Sprint(i), ""); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if clients := redis.Do(t, "CLIENT", "LIST"); strings.Count(clients, "name=authgate") != 1 {
		t.Errorf("the clients are\n%s", clients)
	}
}

// TestOwnWritesNeedNoPush has a value in the cache that Redis does not know
// of, so that no push takes it away.
func TestOwnWritesNeedNoPush(t *testing.T) {
	t.Parallel()
	s := openTest(t, Options{Addresses: []string{startServer(t).Address}})
	for name, test := range map[string]struct {
		write func() error
		after string
	}{
		"put":    {func() error { return s.Put(t.Context(), "put", []byte("new"), time.Time{}) }, "new"},
		"swap":   {func() error { return s.Swap(t.Context(), "swap", []byte("old"), []byte("new"), time.Time{}) }, "new"},
		"take":   {func() error { _, err := s.Take(t.Context(), "take"); return err }, ""},
		"delete": {func() error { return s.Delete(t.Context(), "delete") }, ""},
	} {
		put(t, s, name, "old")
		_, _, version := s.cache.lookup(name)
		s.cache.fill(name, entry{value: []byte("old"), expires: never}, version)
		wantValue(t, s, name, "old")
		if err := test.write(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if value, err := s.Get(t.Context(), name); string(value) != test.after || test.after != "" && err != nil {
			t.Errorf("after %s: Get = %q, %v; want %q", name, value, err, test.after)
		}
	}
}
