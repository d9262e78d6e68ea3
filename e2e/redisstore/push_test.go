package redisstore_test

import (
	"fmt"
	"testing"
	"time"

	"authgate/gateway/must"
	"authgate/gateway/store/storetest"
)

// TestEveryChangeIsPushed makes each kind of change on one store to a key that
// another one has in its cache, and one past both stores. The other one confirms
// contact too seldom to learn of them in another way.
func TestEveryChangeIsPushed(t *testing.T) {
	t.Parallel()
	redis := startServer(t)
	a, slow := openTest(t, at(redis.Address)), at(redis.Address)
	slow.MaxStaleness = 24 * time.Hour
	b := openTest(t, slow)
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
		for range 5 {
			must.Do(t, a.Delete(t.Context(), name))
			if test.before != none {
				storetest.Put(t, a, name, test.before)
			}
			eventually(t, "the value is seen", func() error { return holds(t, b, name, test.before) })
			warm(t, b, name, redis)
			must.Do(t, test.change())
			eventually(t, name+" is seen", func() error { return holds(t, b, name, test.after) })
		}
	}
}

// TestTrackingTableOverflows lets Redis remember far fewer keys than are read: it
// pushes those that it forgets, and what is read stays right.
func TestTrackingTableOverflows(t *testing.T) {
	t.Parallel()
	redis := startServer(t, "--tracking-table-max-keys", "10")
	a, b := openTest(t, at(redis.Address)), openTest(t, at(redis.Address))
	const keys = 100
	for i := range 2 * keys { // the second time all have changed
		key, value := fmt.Sprint(i%keys), fmt.Sprint(i)
		storetest.Put(t, a, key, value)
		eventually(t, "the change is seen", func() error { return holds(t, b, key, value) })
	}
	eventually(t, "the store forgets what Redis has forgotten", func() error {
		reads := 0
		for i := range keys {
			reads += asked(t, b, fmt.Sprint(i), redis)
		}
		if reads < keys-20 {
			return fmt.Errorf("%d of %d keys were cached, and Redis remembers 10", keys-reads, keys)
		}
		return nil
	})
}
