package redisstore_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"authgate/gateway/store"
)

// TestPushes: a store whose cache holds a key learns of each change by a push.
// It confirms contact too seldom to learn of one in another way.
func TestPushes(t *testing.T) {
	t.Parallel()
	redis := startServer(t)
	a, slow := openTest(t, onServer(redis)), onServer(redis)
	slow.MaxStaleness = 24 * time.Hour
	b := openTest(t, slow)
	for i := range 200 {
		want := fmt.Sprintf("value %d", i)
		warm(t, b, "key", redis)
		put(t, a, "key", want)
		eventually(t, want+" is seen", func() error { return holds(t, b, "key", want) })
	}
}

// TestEveryChangeIsPushed makes each kind of change on one store to a key
// that another one has in its cache, and one past both stores.
func TestEveryChangeIsPushed(t *testing.T) {
	t.Parallel()
	redis := startServer(t)
	a, b := openTest(t, onServer(redis)), openTest(t, onServer(redis))
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
		warm(t, b, name, redis)
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

// TestTrackingTableOverflows lets Redis remember far fewer keys than are read:
// it pushes those that it forgets, and what is read stays right.
func TestTrackingTableOverflows(t *testing.T) {
	t.Parallel()
	redis := startServer(t, "--tracking-table-max-keys", "10")
	a, b := openTest(t, onServer(redis)), openTest(t, onServer(redis))
	const keys = 100
	for _, value := range []string{"old", "new"} {
		for i := range keys {
			put(t, a, fmt.Sprint(i), value)
		}
		for i := range keys {
			eventually(t, "the change is seen", func() error { return holds(t, b, fmt.Sprint(i), value) })
		}
	}
	eventually(t, "the store forgets what Redis has forgotten", func() error {
		before := calls(t, "get", redis)
		for i := range keys {
			wantValue(t, b, fmt.Sprint(i), "new")
		}
		if reads := calls(t, "get", redis) - before; reads < keys-20 {
			return fmt.Errorf("%d of %d keys were cached, and Redis remembers 10", keys-reads, keys)
		}
		return nil
	})
}
