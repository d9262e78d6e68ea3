package auth

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// The throttle as the Verifier uses it.

func TestThrottledEvenIfRightAndRemembered(t *testing.T) {
	t.Parallel()
	accounts := newAccounts(t, Account{Username: "alice", PasswordHash: cheapArgon2id("wonderland")})
	for name, c := range map[string]struct {
		username string
		client   netip.Addr
	}{
		"account": {"alice", nthAddr(1)},
		"address": {"bob", nthAddr(2)},
		"pair":    {"alice", nthAddr(2)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newVerifierFixture()
			if _, err := f.Check(t.Context(), "basic", accounts, "alice", "wonderland", nthAddr(0)); err != nil {
				t.Fatal(err)
			}
			for range testLimit {
				if _, err := f.CheckFresh(t.Context(), accounts, c.username, "wrong", c.client); !errors.Is(err, ErrRejected) {
					t.Fatal(err)
				}
			}
			f.takeCosts()
			for method, check := range f.methods() {
				if account, err := check(accounts, "alice", "wonderland", nthAddr(2)); account != nil || !isThrottled(err) {
					t.Errorf("%s: got %+v, %v, want to be throttled", method, account, err)
				}
			}
			if got := f.takeCosts(); len(got) != 0 {
				t.Errorf("computed %q while throttled", got)
			}
			f.clock.advance(time.Hour)
			for method, check := range f.methods() {
				if _, err := check(accounts, "alice", "wonderland", nthAddr(2)); err != nil {
					t.Errorf("%s: got %v after the window", method, err)
				}
			}
		})
	}
}

func TestSuccessDoesNotResetFailures(t *testing.T) {
	t.Parallel()
	f := newVerifierFixture()
	accounts := newAccounts(t, Account{Username: "alice", PasswordHash: cheapArgon2id("wonderland")})
	for i := range testLimit {
		for method, check := range f.methods() {
			if _, err := check(accounts, "alice", "wonderland", nthAddr(0)); err != nil {
				t.Fatalf("%s after %d failures: %v", method, i, err)
			}
		}
		if _, err := f.Check(t.Context(), "basic", accounts, "alice", "wrong", nthAddr(0)); !errors.Is(err, ErrRejected) {
			t.Fatalf("failure %d: %v", i, err)
		}
	}
	if _, err := f.Check(t.Context(), "basic", accounts, "alice", "wonderland", nthAddr(0)); !isThrottled(err) {
		t.Errorf("got %v, want to be throttled", err)
	}
}

// outcomes runs check n times at once and counts how they ended.
func outcomes(n int, check func(i int) (*Account, error)) (good, rejected, throttled, other int64) {
	var counts [4]atomic.Int64
	var start, wg sync.WaitGroup
	start.Add(1)
	for i := range n {
		wg.Go(func() {
			start.Wait()
			account, err := check(i)
			switch {
			case err == nil && account != nil:
				counts[0].Add(1)
			case account == nil && errors.Is(err, ErrRejected):
				counts[1].Add(1)
			case account == nil && isThrottled(err):
				counts[2].Add(1)
			default:
				counts[3].Add(1)
			}
		})
	}
	start.Done()
	wg.Wait()
	return counts[0].Load(), counts[1].Load(), counts[2].Load(), counts[3].Load()
}

func TestParallelGuessesDoNotPassTheLimit(t *testing.T) {
	t.Parallel()
	const guesses = 200
	accounts := newAccounts(t, Account{Username: "alice", PasswordHash: cheapArgon2id("wonderland")})
	for _, c := range []struct {
		name     string
		password func(i int) string
		client   func(i int) netip.Addr
		username func(i int) string
	}{
		{
			"on an account", func(i int) string { return fmt.Sprint("guess-", i) }, nthAddr,
			func(int) string { return "alice" },
		},
		{
			"from an address", func(i int) string { return fmt.Sprint("guess-", i) },
			func(int) netip.Addr { return nthAddr(0) }, func(i int) string { return fmt.Sprint("user-", i) },
		},
		{
			"the same guess", func(int) string { return "guess" }, nthAddr,
			func(int) string { return "alice" },
		},
		{
			"on an unknown account", func(i int) string { return fmt.Sprint("guess-", i) }, nthAddr,
			func(int) string { return "nobody" },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, method := range []string{"Check", "CheckFresh"} {
				f := newVerifierFixture()
				check := f.methods()[method]
				good, rejected, throttled, other := outcomes(guesses, func(i int) (*Account, error) {
					return check(accounts, c.username(i), c.password(i), c.client(i))
				})
				if good != 0 || rejected != testLimit || throttled != guesses-testLimit || other != 0 {
					t.Errorf("%s: %d good, %d rejected, %d throttled, %d other; want %d rejected and the rest throttled",
						method, good, rejected, throttled, other, testLimit)
				}
				if got := f.hasher.Computed(); got < 1 || got > testLimit {
					t.Errorf("%s: computed %d, want 1 to %d", method, got, testLimit)
				}
			}
		})
	}
}

// Many people behind one address, many requests with one credential: the right
// password is never refused for being asked at the same time.
func TestParallelSuccessIsNotThrottled(t *testing.T) {
	t.Parallel()
	const parallel = 200
	accounts := newAccounts(t, Account{Username: "alice", PasswordHash: cheapArgon2id("wonderland")})
	for method, want := range map[string]uint64{"Check": 1, "CheckFresh": parallel} {
		f := newVerifierFixture()
		check := f.methods()[method]
		good, rejected, throttled, other := outcomes(parallel, func(int) (*Account, error) {
			return check(accounts, "alice", "wonderland", nthAddr(0))
		})
		if good != parallel {
			t.Errorf("%s: %d good, %d rejected, %d throttled, %d other; want all good", method, good, rejected, throttled, other)
		}
		if got := f.hasher.Computed(); got != want {
			t.Errorf("%s: computed %d, want %d", method, got, want)
		}
	}
}

func TestWaitingForTheThrottleEndsWithTheContext(t *testing.T) {
	t.Parallel()
	accounts := newAccounts(t, Account{Username: "alice", PasswordHash: cheapArgon2id("wonderland")})
	synctest.Test(t, func(t *testing.T) {
		f := newVerifierFixture()
		release, _ := blocking(f.hasher)
		var wg sync.WaitGroup
		for range testLimit {
			wg.Go(func() { _, _ = f.CheckFresh(t.Context(), accounts, "alice", "wrong", nthAddr(0)) })
		}
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		wg.Go(func() {
			if _, err := f.CheckFresh(ctx, accounts, "alice", "wonderland", nthAddr(0)); !errors.Is(err, ErrBusy) {
				t.Errorf("got %v, want ErrBusy", err)
			}
		})
		synctest.Wait()
		cancel()
		synctest.Wait()
		if got := f.waiting.Load(); got != 0 {
			t.Errorf("%d are waiting, want none", got)
		}
		close(release)
		wg.Wait()
	})
}

func TestWaitingForTheThrottleIsBounded(t *testing.T) {
	t.Parallel()
	accounts := newAccounts(t, Account{Username: "alice", PasswordHash: cheapArgon2id("wonderland")})
	synctest.Test(t, func(t *testing.T) {
		f := newVerifierFixture()
		release, _ := blocking(f.hasher)
		var wg sync.WaitGroup
		for range testLimit + maxThrottleQueue {
			wg.Go(func() {
				_, err := f.CheckFresh(t.Context(), accounts, "alice", "wrong", nthAddr(0))
				if !errors.Is(err, ErrRejected) && !isThrottled(err) {
					t.Errorf("got %v, want ErrRejected or to be throttled", err)
				}
			})
		}
		synctest.Wait()
		if _, err := f.CheckFresh(t.Context(), accounts, "alice", "wrong", nthAddr(0)); !errors.Is(err, ErrBusy) {
			t.Errorf("one too many: got %v, want ErrBusy", err)
		}
		close(release)
		wg.Wait()
		if got := f.hasher.Computed(); got != testLimit {
			t.Errorf("computed %d, want %d", got, testLimit)
		}
	})
}
