package rate

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/store"
	"authgate/internal/test/must"
)

var (
	alice = UserKey("local:alice")
	here  = ClientKey(netip.MustParseAddr("192.0.2.1"))
	there = ClientKey(netip.MustParseAddr("192.0.2.2"))
)

// passed sends n requests of key one after the other and returns how many go on.
func passed(t testing.TB, l *Limiter, key Key, n int) (count int) {
	t.Helper()
	for range n {
		err := l.Take(t.Context(), key)
		if err == nil {
			count++
		} else if !errors.As(err, new(*LimitedError)) {
			t.Fatal(err)
		}
	}
	return count
}

// A client can choose among the addresses of its /64 prefix, which count as one.
func TestClientKey(t *testing.T) {
	t.Parallel()
	key := func(address string) Key { return ClientKey(netip.MustParseAddr(address)) }
	for _, same := range [][2]string{
		{"2001:db8::1", "2001:db8::ffff:1:2:3"}, {"::ffff:192.0.2.1", "192.0.2.1"}, {"fe80::1%eth0", "fe80::2%eth1"},
	} {
		if key(same[0]) != key(same[1]) {
			t.Errorf("%s and %s are two clients", same[0], same[1])
		}
	}
	for _, other := range [][2]string{{"2001:db8::1", "2001:db8:0:1::1"}, {"192.0.2.1", "192.0.2.2"}} {
		if key(other[0]) == key(other[1]) {
			t.Errorf("%s and %s are one client", other[0], other[1])
		}
	}
}

// Each key has the limit in each window, which begins with its first request.
func TestWindow(t *testing.T) {
	t.Parallel()
	for name, shared := range map[string]bool{"alone": false, "shared": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := New("route", Limit{Requests: 10, Per: time.Minute}, time.Now, nil)
				if shared {
					l = newInstance(t, newQuotas(), 10)
				}
				for _, key := range []Key{here, there, alice} {
					if got := passed(t, l, key, 25); got != 10 {
						t.Errorf("%v: %d of 25 requests go on, want 10", key, got)
					}
				}
				time.Sleep(40 * time.Second)
				var limited *LimitedError
				if err := l.Take(t.Context(), here); !errors.As(err, &limited) ||
					limited.RetryAfter != 20*time.Second || limited.First {
					t.Errorf("beyond the limit: %+v, want a second refusal with 20 s left", err)
				}
				time.Sleep(20*time.Second - time.Nanosecond)
				if got := passed(t, l, here, 1); got != 0 {
					t.Error("the window ends early")
				}
				time.Sleep(time.Nanosecond)
				if got := passed(t, l, here, 10); got != 10 {
					t.Errorf("%d requests go on in the next window, want 10", got)
				}
				if err := l.Take(t.Context(), here); !errors.As(err, &limited) || !limited.First {
					t.Errorf("the first refusal of the next window: %+v", err)
				}
			})
		})
	}
}

// Concurrent requests cannot exceed the limit, and none is refused below it.
func TestConcurrentRequests(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]*Limiter{
		"alone":  New("route", Limit{Requests: 50, Per: time.Hour}, time.Now, nil),
		"shared": newInstance(t, newQuotas(), 50),
	} {
		if got := flood(t, []*Limiter{l}, 200); got != 50 {
			t.Errorf("%s: %d of 200 requests go on, want 50", name, got)
		}
	}
}

// One instance alone lets exactly the limit through, also if it holds more than is
// left when the store has answered late.
func TestAloneWithLateAnswers(t *testing.T) {
	t.Parallel()
	for limit := int64(24); limit < 80; limit++ {
		synctest.Test(t, func(t *testing.T) {
			q := newQuotas()
			q.wait = 10 * time.Millisecond
			l := newInstance(t, q, limit)
			got := 0
			for range 3 * limit {
				got += passed(t, l, here, 1)
				time.Sleep(3 * time.Millisecond)
			}
			if int64(got) != limit {
				t.Errorf("%d requests go on, want %d", got, limit)
			}
		})
	}
}

// It is exact too when requests come while others wait for the store.
func TestAloneWithWaitingRequests(t *testing.T) {
	t.Parallel()
	for limit := int64(2); limit < 60; limit++ {
		for wait := range 12 {
			synctest.Test(t, func(t *testing.T) {
				q := newQuotas()
				q.wait = time.Duration(wait) * time.Millisecond
				l := newInstance(t, q, limit)
				var got atomic.Int64
				var clients sync.WaitGroup
				for i := range 4 {
					clients.Go(func() {
						for range limit {
							got.Add(int64(passed(t, l, here, 1)))
							time.Sleep(time.Duration(1+i) * 700 * time.Microsecond)
						}
					})
				}
				clients.Wait()
				if got.Load() != limit {
					t.Errorf("%d requests go on, want %d; the store takes %v", got.Load(), limit, q.wait)
				}
			})
		}
	}
}

// flood sends n concurrent requests to each Limiter and returns how many go on.
func flood(t testing.TB, limiters []*Limiter, n int) int {
	var count atomic.Int64
	var group sync.WaitGroup
	for i := range n * len(limiters) {
		group.Go(func() {
			if limiters[i%len(limiters)].Take(t.Context(), here) == nil {
				count.Add(1)
			}
		})
	}
	group.Wait()
	return int(count.Load())
}

// A Limiter does not grow without bound.
func TestMemory(t *testing.T) {
	t.Parallel()
	l := New("route", Limit{Requests: 1, Per: time.Hour}, time.Now, nil)
	for i := range maxClients + 100 {
		must.Do(t, l.Take(t.Context(), UserKey(fmt.Sprint(i))))
	}
	if got := l.counts.Len(); got != maxClients {
		t.Errorf("%d clients are remembered, want %d", got, maxClients)
	}
	if passed(t, l, UserKey("100"), 1) != 0 {
		t.Error("a client that was seen lately is forgotten")
	}
}

// A request below the limit allocates nothing.
func TestAllocations(t *testing.T) {
	l := New("route", Limit{Requests: 1 << 40, Per: time.Hour}, time.Now, nil)
	if n := testing.AllocsPerRun(100, func() { must.Do(t, l.Take(t.Context(), here)) }); n > 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

// quotas is a store.Quotas in memory. Its windows never end early.
type quotas struct {
	mu    sync.Mutex
	keys  map[string]*window
	draws int
	err   error
	wait  time.Duration // of each draw
}

type window struct {
	name       string
	used, held int64
	ends       time.Time
}

func newQuotas() *quotas { return &quotas{keys: map[string]*window{}} }

// Draw implements store.Quotas.
func (q *quotas) Draw(_ context.Context, key string, quota store.Quota, d store.Draw) (store.Drawn, error) {
	if q.wait > 0 {
		time.Sleep(q.wait)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.draws++
	if q.err != nil {
		return store.Drawn{}, q.err
	}
	w := q.keys[key]
	if now := time.Now(); w == nil || !now.Before(w.ends) {
		w = &window{name: fmt.Sprint(q.draws), ends: now.Add(quota.Window)}
		q.keys[key] = w
	}
	kept := int64(0)
	if d.Window == w.name {
		w.used, w.held = w.used+d.Held, w.held-d.Held
		kept = d.Keep
	}
	taken := max(0, min(d.Take, quota.Limit-w.used-kept))
	w.used += taken
	held := max(0, min(d.Hold, quota.Spare-w.held, quota.Limit-w.used))
	w.held += held
	return store.Drawn{Window: w.name, Left: time.Until(w.ends), Used: w.used, Taken: taken, Held: held}, nil
}

// newInstance returns the Limiter of one of several instances.
func newInstance(t testing.TB, q store.Quotas, requests int64) *Limiter {
	shared := NewShared(q)
	t.Cleanup(shared.Close)
	return New("route", Limit{Requests: requests, Per: time.Minute}, time.Now, shared)
}

// However many instances share a count, at least the limit goes on, and at most a
// third more.
func TestInstances(t *testing.T) {
	t.Parallel()
	for _, instances := range []int{2, 3, 10} {
		for _, limit := range []int64{1, 2, 3, 7, 30, 100} {
			t.Run(fmt.Sprint(instances, " instances, limit ", limit), func(t *testing.T) {
				t.Parallel()
				q := newQuotas()
				var all []*Limiter
				for range instances {
					all = append(all, newInstance(t, q, limit))
				}
				// One takes something in advance, and the others are busy.
				got := passed(t, all[0], here, 1) + flood(t, all[1:], int(2*limit)) + flood(t, all, int(2*limit))
				if most := limit + limit/3; int64(got) < limit || int64(got) > most {
					t.Errorf("%d requests go on, want %d to %d", got, limit, most)
				}
			})
		}
	}
}

// Most requests do not wait for the store, and only few draws are made.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQuotas()
		q.wait = 10 * time.Millisecond
		l := newInstance(t, q, 1200)
		began, waited := time.Now(), 0
		for range 400 {
			before := time.Now()
			must.Do(t, l.Take(t.Context(), here))
			if time.Since(before) > 0 {
				waited++
			}
			time.Sleep(time.Millisecond)
		}
		if waited != 1 {
			t.Errorf("%d of 400 requests wait for the store, want the first alone, in %v", waited, time.Since(began))
		}
		synctest.Wait()
		if q.draws > 20 {
			t.Errorf("%d draws for 400 requests", q.draws)
		}
		if got := passed(t, l, here, 1500); got != 800 {
			t.Errorf("%d further requests go on, want the rest of the limit", got)
		}
	})
}

// When the store does not answer, no request goes on that it has not allowed
// before.
func TestOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQuotas()
		l := newInstance(t, q, 30)
		must.Do(t, l.Take(t.Context(), here))
		q.err = errors.New("redis is on fire")
		good := 0
		var err error
		for err == nil {
			if err = l.Take(t.Context(), here); err == nil {
				good++
			}
		}
		if !errors.Is(err, q.err) || good > 10 {
			t.Errorf("%d requests go on, then %v", good, err)
		}
		if err := l.Take(t.Context(), there); !errors.Is(err, q.err) {
			t.Errorf("a new client: %v", err)
		}
		q.err = nil
		if got := passed(t, l, here, 40); got+good+1 != 30 {
			t.Errorf("%d requests go on after the outage and %d before, want 30 in all", got, good+1)
		}
	})
}

// A client that leaves does not end the draw that others wait for, and does not
// wait itself.
func TestClientLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQuotas()
		q.wait = time.Second
		l := newInstance(t, q, 30)
		first := make(chan error, 1)
		go func() { first <- l.Take(t.Context(), here) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := l.Take(ctx, here); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the client that left: %v", err)
		}
		must.Do(t, <-first)
	})
}

func TestText(t *testing.T) {
	t.Parallel()
	l := New("route", Limit{Requests: 1, Per: time.Second}, time.Now, nil)
	must.Do(t, l.Take(t.Context(), here))
	if err := l.Take(t.Context(), here); err == nil || !strings.Contains(err.Error(), "more than 1 requests in 1s") {
		t.Errorf("%v", err)
	}
}
