package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"authgate/gateway/store"
	"authgate/gateway/store/redisstore/redistest"
)

// callLimit is the time within which every call must return.
const callLimit = 2 * time.Second

// refusedLimit is the same where nobody listens.
const refusedLimit = time.Second

// calls calls every method at once, and returns each one's error and the
// longest time that any of them took.
func calls(t testing.TB, s *Store) (map[string]error, time.Duration) {
	t.Helper()
	var mu sync.Mutex
	errs := make(map[string]error)
	var slowest time.Duration
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
			start := time.Now()
			err := call(t.Context())
			mu.Lock()
			defer mu.Unlock()
			errs[name], slowest = err, max(slowest, time.Since(start))
		})
	}
	all.Wait()
	return errs, slowest
}

// wantNothingAnswered demands that every call fails in time and as an outage.
func wantNothingAnswered(t testing.TB, s *Store) {
	t.Helper()
	errs, slowest := calls(t, s)
	for name, err := range errs {
		wantOutage(t, name, err)
		if errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, as if the caller had set a deadline", name, err)
		}
	}
	if slowest > callLimit {
		t.Errorf("a call took %v, want at most %v", slowest, callLimit)
	}
}

// TestKilledAndRestarted is kill -9 and a start some time later, with another
// value under a key that was warm.
func TestKilledAndRestarted(t *testing.T) {
	t.Parallel()
	redis := startServer(t)
	s := openTest(t, Options{Addresses: []string{redis.Address}})
	put(t, s, "warm", "before")
	warm(t, s, "warm")
	wantValue(t, s, "warm", "before")

	redis.Kill()
	eventually(t, time.Second, "a warm read fails", func() error {
		if _, err := s.Get(t.Context(), "warm"); err == nil {
			return errors.New("still answered")
		}
		return nil
	})
	wantNothingAnswered(t, s)
	if _, slowest := calls(t, s); slowest > refusedLimit {
		t.Errorf("a call took %v, though nobody listens", slowest)
	}

	redis.Run(t)
	redis.Do(t, "SET", "warm", encode([]byte("after"), never))
	eventually(t, 3*time.Second, "reads and writes work again", func() error {
		return errors.Join(holds(t, s, "warm", "after"), s.Put(t.Context(), "new", nil, time.Time{}), s.Ping(t.Context()))
	})
	warm(t, s, "warm")
}

// TestOpenBeforeRedis opens a store while there is no Redis.
func TestOpenBeforeRedis(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	s := openTest(t, Options{Addresses: []string{address}})
	wantNothingAnswered(t, s)
	redistest.Start(t, address)
	eventually(t, 3*time.Second, "the store works", func() error { return s.Put(t.Context(), "key", nil, time.Time{}) })
	warm(t, s, "key")
}

// TestFrozen stops the server as SIGSTOP does: its connections stay up, and
// nothing comes on them.
func TestFrozen(t *testing.T) {
	t.Parallel()
	redis := startServer(t)
	const staleness = time.Second
	s := openTest(t, Options{Addresses: []string{redis.Address}, MaxStaleness: staleness})
	put(t, s, "warm", "value")
	warm(t, s, "warm")

	redis.Signal(t, syscall.SIGSTOP)
	frozen := time.Now()
	var last time.Time // when a warm read was answered last
	for ; ; time.Sleep(time.Millisecond) {
		start := time.Now()
		_, err := s.Get(t.Context(), "warm")
		if err != nil {
			wantOutage(t, "Get", err)
			if took := time.Since(start); took > callLimit {
				t.Errorf("a read took %v", took)
			}
			break
		}
		last = start
	}
	const delivery = 20 * time.Millisecond // of the signal, after which the server is frozen indeed
	if trusted := last.Sub(frozen); trusted > staleness+delivery || trusted < 0 {
		t.Errorf("the cache was trusted for %v after the server froze, want up to %v", trusted, staleness)
	}
	wantNothingAnswered(t, s)

	redis.Signal(t, syscall.SIGCONT)
	eventually(t, 3*time.Second, "reads and writes work again", func() error {
		return errors.Join(holds(t, s, "warm", "value"), s.Put(t.Context(), "new", nil, time.Time{}), s.Ping(t.Context()))
	})
	warm(t, s, "warm")
}

// TestFrozenUnderLoad has more calls under way than the connection's queue
// holds: those that wait for room keep their deadline too. As many goroutines
// that only wait for a timer tell how much of the time is the machine's.
func TestFrozenUnderLoad(t *testing.T) {
	redis := startServer(t)
	s := openTest(t, Options{Addresses: []string{redis.Address}})
	put(t, s, "key", "value")
	redis.Signal(t, syscall.SIGSTOP)
	const writes = 1500
	var took, late [writes]time.Duration
	var all sync.WaitGroup
	for i := range writes {
		all.Go(func() {
			start := time.Now()
			err := s.Put(t.Context(), fmt.Sprintf("key %d", i), nil, time.Time{})
			took[i] = time.Since(start)
			if err == nil || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %v, want one that Redis does not answer", err)
			}
		})
		all.Go(func() {
			start := time.Now()
			<-time.After(callTimeout)
			late[i] = time.Since(start) - callTimeout
		})
	}
	all.Wait()
	slowest, latest := slices.Max(took[:]), slices.Max(late[:])
	t.Logf("the slowest write took %v; a timer was up to %v late", slowest, latest)
	if slowest-latest > callLimit {
		t.Errorf("a write took %v, and the machine %v of that", slowest, latest)
	}
	redis.Signal(t, syscall.SIGCONT)
	eventually(t, 3*time.Second, "the store works again", func() error { return s.Ping(t.Context()) })
}

// TestCutWhileChanged cuts the connection of one store while another one
// changes and removes what the first has in its cache, and creates what the
// first knows to be absent.
func TestCutWhileChanged(t *testing.T) {
	t.Parallel()
	redis := startServer(t)
	way := redistest.StartProxy(t, redis.Address)
	s, other := openTest(t, Options{Addresses: []string{way.Address}}), openTest(t, Options{Addresses: []string{redis.Address}})
	for round := range 5 {
		before, after := fmt.Sprintf("before %d", round), fmt.Sprintf("after %d", round)
		put(t, other, "changed", before)
		put(t, other, "removed", before)
		if err := other.Delete(t.Context(), "created"); err != nil {
			t.Fatal(err)
		}
		eventually(t, 3*time.Second, "the way is open", func() error { return holds(t, s, "changed", before) })
		for _, key := range []string{"changed", "removed", "created"} {
			warm(t, s, key)
		}

		way.Cut()
		put(t, other, "changed", after)
		put(t, other, "created", after)
		if err := other.Delete(t.Context(), "removed"); err != nil {
			t.Fatal(err)
		}
		way.Mend()
		// From the first answer that is not from memory on, all is new.
		eventually(t, 3*time.Second, "the store sees the change", func() error { return holds(t, s, "changed", after) })
		wantValue(t, s, "created", after)
		wantAbsent(t, s, "removed")
	}
}

// TestSilentCut loses what is sent without ending the connection: nobody is
// told, and the cache is trusted no longer than it may be.
func TestSilentCut(t *testing.T) {
	t.Parallel()
	redis := startServer(t)
	way := redistest.StartProxy(t, redis.Address)
	const staleness = time.Second
	s := openTest(t, Options{Addresses: []string{way.Address}, MaxStaleness: staleness})
	other := openTest(t, Options{Addresses: []string{redis.Address}})
	put(t, other, "key", "before")
	warm(t, s, "key")

	way.Swallow()
	put(t, other, "key", "after")
	changed := time.Now()
	for ; ; time.Sleep(time.Millisecond) {
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
	eventually(t, 3*time.Second, "the store sees the change", func() error {
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
	s := openTest(t, Options{Addresses: []string{redis.Address}})
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
	s := openTest(t, Options{Addresses: []string{redis.Address}})
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
