package acme

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/store"
)

// instancesOn are two instances on one store, within a bubble.
func instancesOn(t *testing.T, shared store.Store) (a, b *Storage) {
	t.Helper()
	a, b = NewStorage(shared, newBox(t, "a"), time.Now), NewStorage(shared, newBox(t, "a"), time.Now)
	t.Cleanup(func() { kill(a); kill(b) })
	return a, b
}

// kill makes an instance renew no lease any more, as one that is killed.
func kill(s *Storage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, held := range s.held {
		held.stopRenewal()
	}
}

func lock(t *testing.T, s *Storage, name string) {
	t.Helper()
	if err := s.Lock(t.Context(), name); err != nil {
		t.Fatalf("Lock: %v", err)
	}
}

func unlock(t *testing.T, s *Storage, name string) {
	t.Helper()
	if err := s.Unlock(t.Context(), name); err != nil {
		t.Fatalf("Unlock: %v", err)
	}
}

func wantTry(t *testing.T, s *Storage, name string, want bool) {
	t.Helper()
	if got, err := s.TryLock(t.Context(), name); err != nil || got != want {
		t.Fatalf("TryLock = %t, %v; want %t", got, err, want)
	}
}

func renew(t *testing.T, s *Storage, name string) {
	t.Helper()
	if err := s.RenewLockLease(t.Context(), name, time.Hour); err != nil {
		t.Fatalf("RenewLockLease: %v", err)
	}
}

// One holds a lock at a time, of two instances and of many goroutines in each.
func TestLockExcludes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := instancesOn(t, newMemory(t))
		inside, entered := false, 0 // the race detector watches them
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				s := []*Storage{a, b}[i%2]
				if err := s.Lock(t.Context(), "name"); err != nil {
					t.Error(err)
					return
				}
				if inside {
					t.Error("two are inside")
				}
				inside = true
				time.Sleep(5 * time.Second)
				inside = false
				entered++
				if err := s.Unlock(t.Context(), "name"); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if entered != 20 {
			t.Errorf("%d were inside, want 20", entered)
		}
	})
}

func TestLockWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := instancesOn(t, newMemory(t))
		lock(t, a, "name")
		wantTry(t, b, "name", false)
		wantTry(t, a, "name", false) // not for itself either
		wantTry(t, b, "another", true)
		start := time.Now()
		time.AfterFunc(90*time.Second, func() { unlock(t, a, "name") })
		lock(t, b, "name")
		if waited := time.Since(start); waited < 90*time.Second || waited > 90*time.Second+lockPoll {
			t.Errorf("waited %v", waited)
		}
		wantTry(t, a, "name", false)
		unlock(t, b, "name")
		wantTry(t, a, "name", true)
	})
}

// The wait for a lock ends with its context, without the lock.
func TestLockGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := instancesOn(t, newMemory(t))
		lock(t, a, "name")
		ctx, cancel := context.WithTimeout(t.Context(), 10500*time.Millisecond)
		defer cancel()
		start := time.Now()
		if err := b.Lock(ctx, "name"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Lock: %v", err)
		}
		if waited := time.Since(start); waited != 10500*time.Millisecond {
			t.Errorf("waited %v", waited)
		}
		unlock(t, a, "name")
		if err := b.Lock(ctx, "name"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Lock of a free one, with a context that has ended: %v", err)
		}
		wantTry(t, a, "name", true)
	})
}

// A lock is kept for as long as an attempt takes, however short its lease is.
func TestLockIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		spy := newSpy(t)
		a, b := instancesOn(t, spy)
		lock(t, a, "name")
		time.Sleep(time.Second)
		for range 13 {
			time.Sleep(time.Minute)
			wantTry(t, b, "name", false)
		}
		spy.fail(func(int, string, string) bool { return true })
		time.Sleep(leaseEvery) // one renewal fails, and the next one is in time
		spy.fail(nil)
		time.Sleep(lease)
		wantTry(t, b, "name", false)
		unlock(t, a, "name")
		wantTry(t, b, "name", true)
		start := time.Now()
		lock(t, a, "name") // b's attempt never ends
		if waited := time.Since(start); waited < attemptTime || waited > attemptTime+lease+lockPoll {
			t.Errorf("waited %v", waited)
		}
	})
}

// An instance that was killed keeps the others waiting for its lease, and may
// not touch the lock of the next one if it was only frozen.
func TestLockOfTheDead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := instancesOn(t, newMemory(t))
		lock(t, a, "name")
		time.Sleep(5*time.Minute + time.Second)
		kill(a)
		start := time.Now()
		lock(t, b, "name")
		if waited := time.Since(start); waited < lease-leaseEvery || waited > lease+lockPoll {
			t.Errorf("waited %v, want the lease of %v", waited, lease)
		}
		unlock(t, a, "name") // it has none any more, which is no error
		wantTry(t, a, "name", false)
		unlock(t, b, "name")
		if err := b.Unlock(t.Context(), "name"); !errors.Is(err, errNotHeld) {
			t.Errorf("Unlock again: %v", err)
		}
		wantTry(t, a, "name", true)
	})
}

func TestRenewLockLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := instancesOn(t, newMemory(t))
		lock(t, a, "name")
		for range 5 { // attempts, of which none is long
			time.Sleep(attemptTime - time.Second)
			wantTry(t, b, "name", false)
			renew(t, a, "name")
		}
		time.Sleep(attemptTime + lease - leaseEvery - 1)
		wantTry(t, b, "name", false) // whatever it was asked for
		time.Sleep(leaseEvery + 1)
		renew(t, a, "name") // no instance has taken it
		wantTry(t, b, "name", false)
		time.Sleep(attemptTime + lease)
		wantTry(t, b, "name", true)
		err := a.RenewLockLease(t.Context(), "name", time.Hour)
		if err == nil || !strings.Contains(err.Error(), "another instance holds it") {
			t.Errorf("renewing what another instance holds: %v", err)
		}
		kill(b)
		time.Sleep(lease - 1)
		wantTry(t, a, "name", false) // the other one's lease is as it was
		time.Sleep(time.Nanosecond)
		wantTry(t, a, "name", true)
		if err := b.RenewLockLease(t.Context(), "never", time.Hour); !errors.Is(err, errNotHeld) {
			t.Errorf("renewing what was never locked: %v", err)
		}
		if err := b.Unlock(t.Context(), "never"); !errors.Is(err, errNotHeld) {
			t.Errorf("unlocking what was never locked: %v", err)
		}
	})
}

// If the store does not answer, a lock is neither free nor released. A lock that
// could not be released is free when its lease has expired.
func TestLockWithoutStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		spy := newSpy(t)
		a, b := instancesOn(t, spy)
		lock(t, a, "held")
		spy.fail(func(int, string, string) bool { return true })
		_, tryErr := b.TryLock(t.Context(), "name")
		for what, err := range map[string]error{
			"TryLock": tryErr, "Lock": b.Lock(t.Context(), "name"),
			"RenewLockLease": a.RenewLockLease(t.Context(), "held", time.Hour), "Unlock": a.Unlock(t.Context(), "held"),
		} {
			if !errors.Is(err, errDown) {
				t.Errorf("%s: %v", what, err)
			}
		}
		spy.fail(nil)
		wantTry(t, b, "held", false)
		unlock(t, a, "held") // it still knows the lock
		wantTry(t, b, "held", true)
		unlock(t, b, "held")

		lock(t, a, "lost")
		spy.fail(func(int, string, string) bool { return true })
		if err := a.Unlock(t.Context(), "lost"); !errors.Is(err, errDown) {
			t.Errorf("Unlock: %v", err)
		}
		spy.fail(nil)
		time.Sleep(lease)
		wantTry(t, b, "lost", true)
	})
}

// Locks are apart from files, and hold nothing of them.
func TestLocksAreNoFiles(t *testing.T) {
	t.Parallel()
	a, b := instancesOn(t, newMemory(t))
	lock(t, a, "name")
	wantNone(t, b, "name")
	put(t, b, "name", "content")
	remove(t, b, "name")
	wantTry(t, b, "name", false)
	if _, err := a.List(t.Context(), "", true); err == nil {
		t.Error("a lock is listed")
	}
}

// An instance that ends waits for its own locks, and for no longer than told.
func TestLockWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := instancesOn(t, newMemory(t))
		lock(t, b, "of another")
		began := time.Now()
		a.wait(t.Context())
		lock(t, a, "one")
		lock(t, a, "two")
		for i, name := range []string{"one", "two"} {
			time.AfterFunc(time.Duration(1+i)*time.Second, func() { unlock(t, a, name) })
		}
		a.wait(t.Context())
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("waited for %v", took)
		}
		lock(t, a, "one")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		a.wait(ctx)
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("after %v it waits no more", took)
		}
	})
}
