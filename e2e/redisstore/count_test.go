package redisstore_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"authgate/gateway/clocktest"
	"authgate/gateway/must"
	"authgate/gateway/store"
	"authgate/gateway/store/redisstore"
	"authgate/gateway/store/storetest"
)

// TestCount counts what two instances change, in every way in which an entry can come,
// change and go.
func TestCount(t *testing.T) {
	t.Parallel()
	server, clock := startServer(t), clocktest.New()
	open := func() *redisstore.Store {
		o := at(server.Address)
		o.Now, o.Counted, o.KeyPrefix = clock.Now, []string{"session:"}, "count:" // a prefix that looks like the counter's own
		return openTest(t, o)
	}
	a, b := open(), open()
	count := func(when string, want int) {
		t.Helper()
		eventually(t, fmt.Sprintf("%d sessions %s", want, when), func() error {
			for _, s := range []*redisstore.Store{a, b} {
				if got, err := s.Count(t.Context(), "session:"); err != nil || got != want {
					return fmt.Errorf("%d, %w", got, err)
				}
			}
			return nil
		})
	}
	count("at first", 0)
	minute := clock.Now().Truncate(time.Minute).Add(time.Minute)
	storetest.Put(t, a, "session:1", "v", minute.Add(time.Minute))
	storetest.Put(t, b, "session:2", "v", minute.Add(time.Minute))
	storetest.Put(t, b, "session:3", "v", minute.Add(time.Hour))
	storetest.Put(t, b, "login:1", "v", minute.Add(time.Hour))
	count("of two instances", 3)
	storetest.Put(t, b, "session:1", "v", minute.Add(time.Hour))
	must.Do(t, a.Swap(t.Context(), "session:3", []byte("v"), []byte("w"), minute.Add(time.Minute)))
	wantConflict := a.Swap(t.Context(), "session:3", nil, []byte("w"), minute.Add(time.Minute))
	if !errors.Is(wantConflict, store.ErrConflict) {
		t.Errorf("Swap of an entry that exists: %v", wantConflict)
	}
	must.Do(t, a.Swap(t.Context(), "session:4", nil, []byte("v"), time.Time{}))
	count("overwritten and swapped", 4)
	clock.Advance(minute.Add(time.Minute).Sub(clock.Now()))
	count("after two have expired", 2)
	must.Do(t, b.Delete(t.Context(), "session:2")) // which has expired
	must.Do(t, b.Delete(t.Context(), "session:none"))
	storetest.Put(t, b, "session:3", "v", minute.Add(time.Hour))
	count("after one is born again", 3)
	must.Get(b.Take(t.Context(), "session:4"))(t)
	must.Do(t, a.Delete(t.Context(), "session:1"))
	must.Do(t, a.Delete(t.Context(), "session:1"))
	must.Do(t, a.Swap(t.Context(), "session:3", []byte("v"), nil, time.Unix(1, 0)))
	count("after all have ended", 0)
	if fields := server.Do(t, "HLEN", "count:count:session:"); fields != ":1" && fields != ":2" {
		t.Errorf("the counter has %s fields, want none that is over", fields)
	}
	if _, err := a.Count(t.Context(), "login:"); !errors.Is(err, store.ErrNotCounted) {
		t.Errorf("Count of a kind that is not counted: %v", err)
	}
}

// TestCountReports proves that a count costs one command per second, not one per write,
// that Close reports the rest, and what is lost when an instance is killed: a session
// whose beginning was not reported does not hide others for longer than it would live.
func TestCountReports(t *testing.T) {
	t.Parallel()
	server, clock := startServer(t), clocktest.New()
	o := at(server.Address)
	o.Now, o.Counted = clock.Now, []string{"session:"}
	s := must.Get(redisstore.Open(t.Context(), o))(t)
	const writes = 1000
	start := time.Now()
	for i := range writes {
		storetest.Put(t, s, fmt.Sprint("session:", i), "v", clock.Now().Add(time.Hour))
	}
	must.Do(t, s.Close())
	seconds := int(time.Since(start)/time.Second) + 2
	if n := calls(t, "hincrby", server); n < 1 || n > seconds {
		t.Errorf("%d writes in %d seconds have been reported %d times", writes, seconds, n)
	}
	other := openTest(t, o)
	if got, err := other.Count(t.Context(), "session:"); err != nil || got != writes {
		t.Errorf("after the end of an instance: %d, %v; want %d", got, err, writes)
	}
	// As if another instance had begun a session and had been killed.
	server.Do(t, "DEL", "count:session:")
	must.Do(t, other.Delete(t.Context(), "session:1"))
	storetest.Put(t, other, "session:new", "v", clock.Now().Add(2*time.Hour))
	if got, err := other.Count(t.Context(), "session:"); err != nil || got != 1 {
		t.Errorf("with a lost report: %d, %v; want 1", got, err)
	}
	server.Kill()
	if _, err := other.Count(t.Context(), "session:"); err == nil || strings.Contains(err.Error(), store.ErrNotCounted.Error()) {
		t.Errorf("without Redis: %v, want an error", err)
	}
}
