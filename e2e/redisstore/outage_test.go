package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"authgate/e2e/redistest"
	"authgate/gateway/store"
	"authgate/gateway/store/redisstore"
)

// everyCall calls every method at once, and returns each one's error.
func everyCall(t testing.TB, s *redisstore.Store) map[string]error {
	t.Helper()
	var mu sync.Mutex
	errs := make(map[string]error)
	var all sync.WaitGroup
	for name, call := range map[string]func(context.Context) error{
		"Get":       func(ctx context.Context) error { _, err := s.Get(ctx, "warm"); return err },
		"Get other": func(ctx context.Context) error { _, err := s.Get(ctx, "cold"); return err },
		"Put":       func(ctx context.Context) error { return s.Put(ctx, "new", nil, time.Time{}) },
		"Swap":      func(ctx context.Context) error { return s.Swap(ctx, "new", nil, nil, time.Time{}) },
		"Take":      func(ctx context.Context) error { _, err := s.Take(ctx, "new"); return err },
		"Delete":    func(ctx context.Context) error { return s.Delete(ctx, "new") },
		"Ping":      s.Ping,
	} {
		all.Go(func() {
			err := call(t.Context())
			mu.Lock()
			defer mu.Unlock()
			errs[name] = err
		})
	}
	all.Wait()
	return errs
}

// wantNothingAnswered demands that every call returns while Redis is away, and
// fails as an outage. BenchmarkOutage measures how soon.
func wantNothingAnswered(t testing.TB, s *redisstore.Store) {
	t.Helper()
	for name, err := range everyCall(t, s) {
		wantOutage(t, name, err)
		if errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, as if the caller had set a deadline", name, err)
		}
	}
}

// TestKilledAndRestarted is kill -9 and a start some time later, with another
// value under a key that was warm.
func TestKilledAndRestarted(t *testing.T) {
	t.Parallel()
	redis := startServer(t)
	s := openTest(t, onServer(redis))
	put(t, s, "warm", "before")
	warm(t, s, "warm", redis)
	wantValue(t, s, "warm", "before")

	redis.Kill()
	eventually(t, "a warm read fails", func() error {
		if _, err := s.Get(t.Context(), "warm"); err == nil {
			return errors.New("still answered")
		}
		return nil
	})
	wantNothingAnswered(t, s)
	for name, err := range everyCall(t, s) { // and does not wait for an answer first
		if !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s: %v, though nothing listens", name, err)
		}
	}

	redis.Run(t)
	redis.Do(t, "SET", "warm", stored("after"))
	eventually(t, "reads and writes work again", func() error {
		return errors.Join(holds(t, s, "warm", "after"), s.Put(t.Context(), "new", nil, time.Time{}), s.Ping(t.Context()))
	})
	warm(t, s, "warm", redis)
}

// TestOpenBeforeRedis opens a store while there is no Redis.
func TestOpenBeforeRedis(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	s := openTest(t, redisstore.Options{Addresses: []string{address}})
	wantNothingAnswered(t, s)
	redis := redistest.Start(t, address)
	eventually(t, "the store works", func() error { return s.Put(t.Context(), "key", nil, time.Time{}) })
	warm(t, s, "key", redis)
}

// TestFrozen stops the server as SIGSTOP does: its connections stay up, and
// nothing comes on them.
func TestFrozen(t *testing.T) {
	t.Parallel()
	redis := startServer(t)
	const staleness = time.Second
	s := openTest(t, redisstore.Options{Addresses: []string{redis.Address}, MaxStaleness: staleness})
	put(t, s, "warm", "value")
	warm(t, s, "warm", redis)

	redis.Freeze(t)
	frozen := time.Now()
	last := frozen // when a warm read was answered last
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for ; ; <-tick.C {
		start := time.Now()
		_, err := s.Get(t.Context(), "warm")
		if err != nil {
			wantOutage(t, "Get", err)
			break
		}
		last = start
	}
	// The last contact was before the server froze, so the bound is exact.
	if trusted := last.Sub(frozen); trusted > staleness {
		t.Errorf("the cache was trusted for %v after the server froze, want up to %v", trusted, staleness)
	}
	wantNothingAnswered(t, s)

	redis.Signal(t, syscall.SIGCONT)
	eventually(t, "reads and writes work again", func() error {
		return errors.Join(holds(t, s, "warm", "value"), s.Put(t.Context(), "new", nil, time.Time{}), s.Ping(t.Context()))
	})
	warm(t, s, "warm", redis)
}

// TestFrozenUnderLoad has more calls under way than the connection's queue
// holds: those that wait for room have a deadline too, so that all return while
// the server is frozen.
func TestFrozenUnderLoad(t *testing.T) {
	redis := startServer(t)
	s := openTest(t, onServer(redis))
	put(t, s, "key", "value")
	redis.Freeze(t)
	began := time.Now()
	var all sync.WaitGroup
	for i := range frozenWrites {
		all.Go(func() {
			err := s.Put(t.Context(), fmt.Sprintf("key %d", i), nil, time.Time{})
			if err == nil || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %v, want one that Redis does not answer", err)
			}
		})
	}
	all.Wait()
	t.Logf("the slowest write took %v", time.Since(began))
	redis.Signal(t, syscall.SIGCONT)
	eventually(t, "the store works again", func() error { return s.Ping(t.Context()) })
}

// frozenWrites are more than the queue of a connection holds.
const frozenWrites = 1500

// TestCutWhileChanged cuts the connection of one store while another one
// changes and removes what the first has in its cache, and creates what the
// first knows to be absent.
func TestCutWhileChanged(t *testing.T) {
	t.Parallel()
	redis := startServer(t)
	way := redistest.StartProxy(t, redis.Address)
	s, other := openTest(t, redisstore.Options{Addresses: []string{way.Address}}), openTest(t, onServer(redis))
	for round := range 5 {
		before, after := fmt.Sprintf("before %d", round), fmt.Sprintf("after %d", round)
		put(t, other, "changed", before)
		put(t, other, "removed", before)
		if err := other.Delete(t.Context(), "created"); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the way is open", func() error { return holds(t, s, "changed", before) })
		for _, key := range []string{"changed", "removed", "created"} {
			warm(t, s, key, redis)
		}

		way.Cut()
		put(t, other, "changed", after)
		put(t, other, "created", after)
		if err := other.Delete(t.Context(), "removed"); err != nil {
			t.Fatal(err)
		}
		way.Mend()
		// From the first answer that is not from memory on, all is new.
		eventually(t, "the store sees the change", func() error { return holds(t, s, "changed", after) })
		wantValue(t, s, "created", after)
		wantAbsent(t, s, "removed")
	}
}

// TestSilentCut drops what is sent without ending the connection: no error shows
// that, and the cache is not trusted for longer than MaxStaleness.
func TestSilentCut(t *testing.T) {
	t.Parallel()
	redis := startServer(t)
	way := redistest.StartProxy(t, redis.Address)
	const staleness = time.Second
	s := openTest(t, redisstore.Options{Addresses: []string{way.Address}, MaxStaleness: staleness})
	other := openTest(t, onServer(redis))
	put(t, other, "key", "before")
	warm(t, s, "key", redis)

	way.Swallow()
	put(t, other, "key", "after")
	changed := time.Now()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for ; ; <-tick.C {
		start := time.Now()
		value, err := s.Get(t.Context(), "key")
		if err != nil {
			wantOutage(t, "Get", err)
			break
		}
		if since := start.Sub(changed); string(value) != "before" || since > staleness {
			t.Fatalf("read %q %v after the change", value, since)
		}
	}
	way.Mend()
	eventually(t, "the store sees the change", func() error {
		value, err := s.Get(t.Context(), "key")
		if string(value) == "before" {
			t.Fatal("a stale value after the connection is back")
		}
		return err
	})
	wantValue(t, s, "key", "after")
}

// TestEndedContextOnTheWay gives up on a server that is frozen.
func TestEndedContextOnTheWay(t *testing.T) {
	t.Parallel()
	redis := startServer(t)
	s := openTest(t, onServer(redis))
	redis.Signal(t, syscall.SIGSTOP)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Put(ctx, "key", nil, time.Time{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Put: %v, want the caller's deadline", err)
	}
	if _, err := s.Get(ctx, "key"); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, store.ErrNotFound) {
		t.Errorf("Get: %v, want the caller's deadline", err)
	}
	redis.Signal(t, syscall.SIGCONT)
}

// TestPingFindsRefusals asks a Redis that answers but takes no writes.
func TestPingFindsRefusals(t *testing.T) {
	t.Parallel()
	redis := startServer(t)
	s := openTest(t, onServer(redis))
	for _, test := range []struct {
		refuse, relent, want string
	}{
		{"CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0", "OOM"},
		{"REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE", "READONLY"},
		{"CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0", "NOREPLICAS"},
	} {
		redis.Do(t, strings.Fields(test.refuse)...)
		if err := s.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: Ping: %v, want %s", test.refuse, err, test.want)
		}
		redis.Do(t, strings.Fields(test.relent)...)
		if err := s.Ping(t.Context()); err != nil {
			t.Errorf("%s: Ping: %v", test.relent, err)
		}
	}
}
