package redisstore_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"authgate/e2e/redistest"
	"authgate/gateway/store/redisstore"
	"authgate/internal/test/must"
	"authgate/internal/test/porttest"
	"authgate/internal/test/storetest"
)

// everyCall calls every method at once, and checks each one's error.
func everyCall(t testing.TB, s *redisstore.Store, check func(name string, err error)) {
	t.Helper()
	all := storetest.Calls(s, "new")
	all["Get of a warm key"] = func(ctx context.Context) error { _, err := s.Get(ctx, "key"); return err }
	var calling sync.WaitGroup
	for name, call := range all {
		calling.Go(func() { check(name, call(t.Context())) })
	}
	calling.Wait()
}

// wantNothingAnswered demands that every call returns while Redis is away, and
// fails as an outage. BenchmarkOutage measures how soon.
func wantNothingAnswered(t testing.TB, s *redisstore.Store) {
	t.Helper()
	everyCall(t, s, func(name string, err error) {
		wantOutage(t, name, err)
		if errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v, as if the caller had set a deadline", name, err)
		}
	})
}

// works returns an error unless the store reads want under key, writes, and is
// ready.
func works(t testing.TB, s *redisstore.Store, key, want string) error {
	return errors.Join(holds(t, s, key, want), s.Put(t.Context(), "new", nil, time.Time{}), s.Ping(t.Context()))
}

// TestKilledAndRestarted opens a store before there is a Redis, which is then
// killed, and started some time later with another value under a key that was
// warm.
func TestKilledAndRestarted(t *testing.T) {
	t.Parallel()
	address := porttest.Address(t)
	s := openTest(t, at(address))
	wantNothingAnswered(t, s)
	redis := redistest.Start(t, address)
	eventually(t, "the store works", func() error { return s.Put(t.Context(), "key", []byte("before"), time.Time{}) })
	warm(t, s, "key", redis)
	storetest.WantValue(t, s, "key", "before")

	redis.Kill()
	eventually(t, "a warm read fails", func() error {
		if _, err := s.Get(t.Context(), "key"); err == nil {
			return errors.New("still answered")
		}
		return nil
	})
	wantNothingAnswered(t, s)
	everyCall(t, s, func(name string, err error) { // and does not wait for an answer first
		if !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s: %v, though nothing listens", name, err)
		}
	})

	redis.Run(t)
	redis.Do(t, "SET", "key", stored("after"))
	eventually(t, "the store works again", func() error { return works(t, s, "key", "after") })
	warm(t, s, "key", redis)
}

// TestCutWhileChanged freezes Redis, or has the network cut, drop or forget the
// connection of a store, while another store changes what the first one has in its
// cache. Values from the cache are trusted for at most MaxStaleness. From the first
// answer that is not from memory on, all is new.
func TestCutWhileChanged(t *testing.T) {
	t.Parallel()
	const staleness = time.Second
	for how, cut := range map[string]func(*redistest.Server, *redistest.Proxy){
		"frozen":    func(redis *redistest.Server, _ *redistest.Proxy) { redis.Freeze(t) },
		"silent":    func(_ *redistest.Server, way *redistest.Proxy) { way.Swallow() },
		"cut":       func(_ *redistest.Server, way *redistest.Proxy) { way.Cut() },
		"forgotten": func(_ *redistest.Server, way *redistest.Proxy) { way.Forget() }, // new connections work
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			redis := startServer(t)
			way := redistest.StartProxy(t, redis.Address)
			o := at(way.Address)
			o.MaxStaleness = staleness
			s, other := openTest(t, o), openTest(t, at(redis.Address))
			storetest.Put(t, other, "key", "before")
			warm(t, s, "key", redis)
			cut(redis, way)
			after := "before"
			if how != "frozen" {
				after = "after"
				storetest.Put(t, other, "key", after)
			}
			changed := time.Now()                   // the last contact was before this, so the bound is exact
			if how == "frozen" || how == "silent" { // no error shows it
				impatient, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				if err := s.Put(impatient, "other", nil, time.Time{}); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Put: %v, want the caller's deadline", err)
				}
			}
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for ; ; <-tick.C {
				since := time.Since(changed)
				value, err := s.Get(t.Context(), "key")
				if err != nil {
					wantOutage(t, "Get", err)
				}
				if err != nil || how == "forgotten" && string(value) == after {
					break
				}
				if string(value) != "before" || since > staleness {
					t.Fatalf("read %q %v after the change", value, since)
				}
			}
			if how != "forgotten" {
				wantNothingAnswered(t, s)
			}
			redis.Signal(t, syscall.SIGCONT)
			way.Mend()
			eventually(t, "the store works again", func() error {
				if value, err := s.Get(t.Context(), "key"); err == nil && string(value) != after {
					t.Fatalf("%q after the connection is back, want %q", value, after)
				}
				return works(t, s, "key", after)
			})
			warm(t, s, "key", redis)
		})
	}
}

// writeMany writes more at once than the queue of a connection holds.
func writeMany(t testing.TB, s *redisstore.Store, check func(error)) {
	var all sync.WaitGroup
	for range 1500 {
		all.Go(func() { check(s.Put(t.Context(), "key", nil, time.Time{})) })
	}
	all.Wait()
}

// TestFrozenUnderLoad has more calls under way than the connection's queue holds:
// those that wait for room have a deadline too.
func TestFrozenUnderLoad(t *testing.T) {
	redis := startServer(t)
	s := openTest(t, at(redis.Address))
	storetest.Put(t, s, "key", "value")
	redis.Freeze(t)
	writeMany(t, s, func(err error) {
		if err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want one that Redis does not answer", err)
		}
	})
	redis.Signal(t, syscall.SIGCONT)
	eventually(t, "the store works again", func() error { return s.Ping(t.Context()) })
}

// TestLostAnswers: Redis carries out a write, and the connection ends before its
// answer has arrived. If the store repeated the write, it would find the result of
// the first, and report a conflict.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	redis := startServer(t)
	way := redistest.StartProxy(t, redis.Address)
	s, other := openTest(t, at(way.Address)), openTest(t, at(redis.Address))
	must.Do(t, other.Swap(t.Context(), "script", nil, nil, time.Time{})) // the script is known from now on
	for name, test := range map[string]struct {
		before string
		write  func() error
		after  string
	}{
		"take": {"old", func() error { _, err := s.Take(t.Context(), "take"); return err }, none},
		"swap": {"old", func() error {
			return s.Swap(t.Context(), "swap", []byte("old"), []byte("new"), time.Time{})
		}, "new"},
		"create": {none, func() error { return s.Swap(t.Context(), "create", nil, []byte("new"), time.Time{}) }, "new"},
	} {
		if test.before != none {
			storetest.Put(t, other, name, test.before)
		}
		eventually(t, "the store works", func() error { return s.Ping(t.Context()) })
		way.Mute()
		result := make(chan error, 1)
		go func() { result <- test.write() }()
		eventually(t, name+" happens", func() error { return holds(t, other, name, test.after) })
		way.Mend() // which ends the connection
		wantOutage(t, name+", whose answer was lost", <-result)
	}
}

// TestPingFindsRefusals asks a Redis that answers but takes no writes.
func TestPingFindsRefusals(t *testing.T) {
	t.Parallel()
	redis := startServer(t)
	s := openTest(t, at(redis.Address))
	for _, test := range []struct{ want, refuse, relent string }{
		{"OOM", "CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"},
		{"READONLY", "REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"},
		{"NOREPLICAS", "CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0"},
	} {
		redis.Do(t, strings.Fields(test.refuse)...)
		if err := s.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: Ping: %v, want %s", test.refuse, err, test.want)
		}
		redis.Do(t, strings.Fields(test.relent)...)
		must.Do(t, s.Ping(t.Context()))
	}
}

// How soon a call returns while Redis is away, and the store works when it is back.
// docs/scaling.md promises it for a machine that is not overloaded.
const (
	callLimit = 2 * time.Second
	backLimit = 3 * time.Second
)

// BenchmarkOutage measures how soon calls return while Redis is frozen, also
// when more are under way than the connection's queue holds, and while it is
// gone; and how soon the store works when Redis is back.
func BenchmarkOutage(b *testing.B) {
	redis := startServer(b)
	s := openTest(b, at(redis.Address))
	storetest.Put(b, s, "key", "value")
	limited := func(metric string, limit time.Duration, do func()) {
		began := time.Now()
		do()
		took := time.Since(began)
		b.ReportMetric(float64(took.Milliseconds()), metric)
		if took > limit {
			b.Errorf("%s: %v, want at most %v", metric, took, limit)
		}
	}
	back := func() { eventually(b, "the store works", func() error { return works(b, s, "new", "") }) }
	for b.Loop() {
		redis.Freeze(b)
		limited("frozen-ms", callLimit, func() { everyCall(b, s, func(string, error) {}) })
		limited("frozen-queue-ms", callLimit, func() { writeMany(b, s, func(error) {}) })
		redis.Signal(b, syscall.SIGCONT)
		limited("thawed-ms", backLimit, back)
		redis.Kill()
		limited("gone-ms", callLimit, func() { everyCall(b, s, func(string, error) {}) })
		redis.Run(b)
		limited("back-ms", backLimit, back)
	}
}
