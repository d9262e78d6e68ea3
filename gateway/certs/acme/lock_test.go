package acme

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// twoInstances runs a test in a bubble, on two instances that share a store.
func twoInstances(t *testing.T, test func(t *testing.T, spy *spyStore, a, b *storage)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		spy := newSpy(t)
		test(t, spy, newStorage(t, spy, "a"), newStorage(t, spy, "a"))
	})
}

// kill makes an instance renew no lease any more, as one that is killed.
func kill(s *storage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, held := range s.held {
		held.stopRenewal()
	}
}

// lock locks after a wait between least and most.
func lock(t *testing.T, s *storage, name string, least, most time.Duration) {
	t.Helper()
	start := time.Now()
	err := s.Lock(t.Context(), name)
	if waited := time.Since(start); err != nil || waited < least || waited > most {
		t.Fatalf("Lock: %v after %v, want %v to %v", err, waited, least, most)
	}
}

func unlock(t *testing.T, s *storage, name string) {
	t.Helper()
	wantOK(t, "Unlock", s.Unlock(t.Context(), name))
}

func wantTry(t *testing.T, s *storage, name string, want bool) {
	t.Helper()
	if got, err := s.TryLock(t.Context(), name); err != nil || got != want {
		t.Fatalf("TryLock = %t, %v; want %t", got, err, want)
	}
}

// One instance holds a lock, which is apart from files. The wait for it ends with the
// context, without the lock.
func TestLockWaits(t *testing.T) {
	twoInstances(t, func(t *testing.T, _ *spyStore, a, b *storage) {
		lock(t, a, "name", 0, 0)
		wantListed(t, "locked", b, []string{}...)
		put(t, b, "name", "content")
		remove(t, b, "name")
		wantTry(t, b, "name", false)
		wantTry(t, a, "name", false) // not for itself either
		wantTry(t, b, "another", true)
		time.AfterFunc(90*time.Second, func() { unlock(t, a, "name") })
		lock(t, b, "name", 90*time.Second, 90*time.Second+lockPoll)
		wantTry(t, a, "name", false)

		ctx, cancel := context.WithTimeout(t.Context(), 10500*time.Millisecond)
		defer cancel()
		start := time.Now()
		waitErr := a.Lock(ctx, "name")
		unlock(t, b, "name")
		freeErr := a.Lock(ctx, "name") // its context has ended
		if waited := time.Since(start); !errors.Is(waitErr, ctx.Err()) || !errors.Is(freeErr, ctx.Err()) ||
			waited != 10500*time.Millisecond {
			t.Errorf("Lock: %v, %v after %v, want %v", waitErr, freeErr, waited, ctx.Err())
		}
		wantTry(t, a, "name", true)
	})
}

// A lock is kept for as long as an attempt takes, however short its lease is.
func TestLockIsKept(t *testing.T) {
	twoInstances(t, func(t *testing.T, spy *spyStore, a, b *storage) {
		lock(t, a, "name", 0, 0)
		time.Sleep(time.Second)
		for range 13 {
			time.Sleep(time.Minute)
			wantTry(t, b, "name", false)
		}
		spy.fail(always)
		time.Sleep(leaseEvery) // one renewal fails, and the next one is in time
		spy.fail(nil)
		time.Sleep(lease)
		wantTry(t, b, "name", false)
		unlock(t, a, "name")
		wantTry(t, b, "name", true)
		lock(t, a, "name", attemptTime, attemptTime+lease+lockPoll) // b's attempt never ends
	})
}

// An instance that was killed keeps the others waiting for its lease, and may
// not touch the lock of the next one if it was only frozen.
func TestLockOfTheDead(t *testing.T) {
	twoInstances(t, func(t *testing.T, _ *spyStore, a, b *storage) {
		lock(t, a, "name", 0, 0)
		time.Sleep(5*time.Minute + time.Second)
		kill(a)
		lock(t, b, "name", lease-leaseEvery, lease+lockPoll)
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
	twoInstances(t, func(t *testing.T, _ *spyStore, a, b *storage) {
		renew := func() {
			t.Helper()
			wantOK(t, "RenewLockLease", a.RenewLockLease(t.Context(), "name", time.Hour))
		}
		lock(t, a, "name", 0, 0)
		for range 5 { // attempts, of which none is long
			time.Sleep(attemptTime - time.Second)
			wantTry(t, b, "name", false)
			renew()
		}
		time.Sleep(attemptTime + lease - leaseEvery - 1)
		wantTry(t, b, "name", false) // whatever it was asked for
		time.Sleep(leaseEvery + 1)
		renew() // no instance has taken it
		wantTry(t, b, "name", false)
		time.Sleep(attemptTime + lease)
		wantTry(t, b, "name", true)
		if err := a.RenewLockLease(t.Context(), "name", time.Hour); err == nil ||
			!strings.Contains(err.Error(), "another instance holds it") {
			t.Errorf("renewing what another instance holds: %v", err)
		}
		kill(b)
		time.Sleep(lease - 1)
		wantTry(t, a, "name", false) // the other one's lease is as it was
		time.Sleep(time.Nanosecond)
		wantTry(t, a, "name", true)
		for what, err := range map[string]error{
			"RenewLockLease": b.RenewLockLease(t.Context(), "never", time.Hour), "Unlock": b.Unlock(t.Context(), "never"),
		} {
			if !errors.Is(err, errNotHeld) {
				t.Errorf("%s of what was never locked: %v", what, err)
			}
		}
	})
}

// If the store does not answer, a lock is neither free nor released. A lock that
// could not be released is free when its lease has expired.
func TestLockWithoutStore(t *testing.T) {
	twoInstances(t, func(t *testing.T, spy *spyStore, a, b *storage) {
		lock(t, a, "held", 0, 0)
		lock(t, a, "lost", 0, 0)
		spy.fail(always)
		_, tryErr := b.TryLock(t.Context(), "name")
		for what, err := range map[string]error{
			"TryLock":         tryErr,
			"Lock":            b.Lock(t.Context(), "name"),
			"RenewLockLease":  a.RenewLockLease(t.Context(), "held", time.Hour),
			"Unlock":          a.Unlock(t.Context(), "held"),
			"Unlock for good": a.Unlock(t.Context(), "lost"),
		} {
			if !errors.Is(err, errDown) {
				t.Errorf("%s: %v, want %v", what, err, errDown)
			}
		}
		spy.fail(nil)
		wantTry(t, b, "held", false)
		unlock(t, a, "held") // it still knows the lock
		wantTry(t, b, "held", true)
		time.Sleep(lease)
		wantTry(t, b, "lost", true)
	})
}

// An instance that ends waits for its own locks, and for no longer than told.
func TestLockWait(t *testing.T) {
	twoInstances(t, func(t *testing.T, _ *spyStore, a, b *storage) {
		lock(t, b, "of another", 0, 0)
		began := time.Now()
		a.wait(t.Context())
		for i, name := range []string{"one", "two"} {
			lock(t, a, name, 0, 0)
			time.AfterFunc(time.Duration(1+i)*time.Second, func() { unlock(t, a, name) })
		}
		a.wait(t.Context())
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("waited for %v", took)
		}
		lock(t, a, "one", 0, 0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		a.wait(ctx)
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("after %v it waits no more", took)
		}
	})
}
