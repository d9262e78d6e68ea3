package auth

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/people/accounts"
	"authgate/gateway/people/password"
	"authgate/internal/test/clocktest"
	"authgate/internal/test/must"
	"authgate/internal/test/passwordtest"
)

// stepwise makes h check one password at a time, in steps. Each step lets the check
// finish that runs, and waits until all others have nothing to do.
func stepwise(h *hasher) (step func()) {
	turn := make(chan struct{})
	h.compute = func(hash password.Hash, plain string) bool {
		<-turn
		return hash.Verify(plain)
	}
	return func() {
		turn <- struct{}{}
		synctest.Wait()
	}
}

// Clients that guess cannot lock out a user who has signed in from their address: checks
// of known pairs of account and address have places of their own, and every second turn.
func TestKnownPairsHavePlacesOfTheirOwn(t *testing.T) {
	t.Parallel()
	people := newAccounts(
		accounts.Account{Username: "alice", Hash: passwordtest.Argon2id("wonderland")},
		accounts.Account{Username: "bob", Hash: passwordtest.Argon2id("builder")},
	)
	for _, method := range []string{"Check", "CheckFresh"} {
		synctest.Test(t, func(t *testing.T) {
			f := newVerifierFixture()
			f.hasher = newHasher(1)
			check := f.methods()[method]
			must.Get(check(people, "alice", "wonderland", nthAddr(0)))(t)
			f.clock.Advance(testTTL) // the password is not remembered any more
			step := stepwise(f.hasher)
			var guesses, users sync.WaitGroup
			var mu sync.Mutex
			var failed []error
			guess := func(name string, client int) {
				_, err := check(people, name, "guess", nthAddr(client))
				mu.Lock()
				defer mu.Unlock()
				failed = append(failed, err)
			}
			for i := range 300 {
				guesses.Go(func() { guess(fmt.Sprint("name-", i), 1+i) })
			}
			time.Sleep(busyPause)
			synctest.Wait()
			refused := 300 - 1 - maxHashQueue
			if len(failed) != refused || !errors.Is(errors.Join(failed...), ErrBusy) {
				t.Fatalf("%d guesses are refused, want %d that find no place", len(failed), refused)
			}
			wantError[accounts.Account](t, ErrBusy)(check(people, "bob", "builder", nthAddr(0))) // not this account
			wantError[accounts.Account](t, ErrBusy)(check(people, "alice", "wonderland", nthAddr(999)))
			var done []string
			for _, user := range []string{"first", "second"} {
				users.Go(func() {
					if account, err := check(people, "alice", "wonderland", nthAddr(0)); err != nil || account == nil {
						t.Errorf("%s, the %s user: %+v, %v, want the account", method, user, account, err)
					}
					mu.Lock()
					defer mu.Unlock()
					done = append(done, user)
				})
				synctest.Wait()
			}
			want := map[string][]int{"Check": {0, 2, 2}, "CheckFresh": {0, 1, 1, 2}}[method] // one hash for equal checks
			var got []int
			for range want {
				step()
				got = append(got, len(done))
			}
			if !slices.Equal(got, want) || len(failed) != refused+2 {
				t.Errorf("%s: after each step %v users are done, want %v; %d guesses, want %d",
					method, got, want, len(failed), refused+2)
			}
			for range maxHashQueue - 1 {
				step()
			}
			guesses.Wait()
			users.Wait()
		})
	}
}

// One account does not take the places of all known pairs: with many addresses it waits
// with others.
func TestKnownPlacesOfOneAccount(t *testing.T) {
	t.Parallel()
	throttle := NewThrottle(testLimit, time.Hour, clocktest.New().Now)
	begin := func(account string, client int) *reservation {
		s := newSubject(account, nthAddr(client))
		s.version = "1"
		throttle.succeeded(s)
		r, full, err := throttle.reserve(s)
		if r == nil || full != nil || err != nil {
			t.Fatalf("got %v, %v, %v, want it to begin", r, full, err)
		}
		return r
	}
	var running []*reservation
	for i := range maxKnownPlaces {
		r := begin("mallory", i)
		if running = append(running, r); !r.known {
			t.Fatalf("check %d has no place of known pairs", i)
		}
	}
	if begin("mallory", 1000).known {
		t.Errorf("an account has more than %d places", maxKnownPlaces)
	}
	if !begin("alice", 0).known {
		t.Error("another account has none")
	}
	running[0].settle(true)
	throttle.succeeded(running[1].subject)
	running[1].settle(false)
	for i, want := range []bool{true, true, false} {
		if got := begin("mallory", 2000+i).known; got != want {
			t.Errorf("after two of its checks: %t, want %t", got, want)
		}
	}
}

// A check that gives up leaves its place, also if it has got its turn at that moment.
func TestHasherGivesBackPlaces(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			h := newHasher(1)
			step := stepwise(h)
			hash := passwordtest.Argon2id("secret")
			var wg sync.WaitGroup
			verify := func(ctx context.Context, known bool, want error) {
				wg.Go(func() {
					if ok, err := h.Verify(ctx, known, hash, "secret"); ok != (want == nil) || !errors.Is(err, want) {
						t.Errorf("got %t, %v, want %v", ok, err, want)
					}
				})
			}
			verify(t.Context(), false, nil)
			synctest.Wait()
			ctx, leave := context.WithCancel(t.Context())
			for i := range 2 * maxHashQueue {
				verify(ctx, i%2 == 0, ErrBusy)
			}
			synctest.Wait()
			leave()
			if late {
				step()
			} else {
				synctest.Wait()
			}
			for i := range maxHashQueue {
				verify(t.Context(), i%2 == 0, nil)
			}
			synctest.Wait()
			for range maxHashQueue {
				step()
			}
			if !late {
				step()
			}
			wg.Wait()
			if got := h.Computed(); got != 1+maxHashQueue {
				t.Errorf("computed %d, want %d", got, 1+maxHashQueue)
			}
		})
	}
}

// Checks wait for their turn in a queue. Those that find it full wait a second, in which a place may become free.
func TestHasherBoundsWhatRunsAndWhatWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const slots = 3
		hasher := newHasher(slots)
		release, most := blocking(hasher)
		hash := passwordtest.Argon2id("secret")
		wantTrue := func() {
			if ok, err := hasher.Verify(t.Context(), false, hash, "secret"); !ok || err != nil {
				t.Errorf("got %v, %v, want true", ok, err)
			}
		}
		var wg sync.WaitGroup
		for range slots + maxHashQueue {
			wg.Go(wantTrue)
		}
		synctest.Wait()
		wantBusy := func(after time.Duration) {
			began := time.Now()
			ok, err := hasher.Verify(t.Context(), false, hash, "secret")
			if took := time.Since(began); ok || !errors.Is(err, ErrBusy) || took != after {
				t.Errorf("one too many: got %v, %v after %v, want ErrBusy after %v", ok, err, took, after)
			}
		}
		wantBusy(busyPause)
		for range maxHashWaits - maxHashQueue {
			wg.Go(func() { wantBusy(busyPause) })
		}
		synctest.Wait()
		wantBusy(0)
		time.Sleep(busyPause)
		synctest.Wait()
		close(release)
		wg.Wait()
		if n, at := hasher.Computed(), most(); n != slots+maxHashQueue || at != slots {
			t.Errorf("%d computations, %d at once, want %d and %d", n, at, slots+maxHashQueue, slots)
		}
		wantTrue()
	})
}

// A check behind a full queue is made if its turn comes within the pause.
func TestHasherTakesLateChecks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHasher(1)
		step := stepwise(h)
		hash := passwordtest.Argon2id("secret")
		var wg sync.WaitGroup
		for range 1 + maxHashQueue + 1 {
			wg.Go(func() {
				if ok, err := h.Verify(t.Context(), false, hash, "secret"); !ok || err != nil {
					t.Errorf("got %v, %v, want true", ok, err)
				}
			})
		}
		synctest.Wait()
		for range 1 + maxHashQueue + 1 {
			step()
		}
		wg.Wait()
	})
}

func TestHasherWaitsUntilTheContextEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hasher := newHasher(1)
		release, _ := blocking(hasher)
		hash := passwordtest.Argon2id("secret")
		ctx, cancel := context.WithCancel(t.Context())
		wantBusy := func() {
			ok, err := hasher.Verify(ctx, false, hash, "secret")
			if ok || !errors.Is(err, ErrBusy) || !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, %v, want ErrBusy because of the context", ok, err)
			}
		}
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = hasher.Verify(t.Context(), false, hash, "secret") })
		synctest.Wait()
		wg.Go(wantBusy)
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(release)
		wg.Wait()
		wantBusy() // ended before
		if got := hasher.Computed(); got != 1 {
			t.Errorf("computed %d, want 1", got)
		}
	})
}

// The memory of the checks goes back once no password has been checked for a while, not between them.
func TestHasherGivesMemoryBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var given atomic.Int32
		hasher := newHasher(2)
		hasher.compute = func(password.Hash, string) bool { time.Sleep(time.Second); return true }
		hasher.giveBack = func() { given.Add(1) }
		check := func() { must.Get(hasher.Verify(t.Context(), false, password.Hash{}, ""))(t) }
		wantGiven := func(want int32) {
			t.Helper()
			synctest.Wait()
			if got := given.Load(); got != want {
				t.Errorf("memory was given back %d times, want %d", got, want)
			}
		}
		for range 3 {
			check()
			time.Sleep(hasherRests - time.Millisecond)
		}
		wantGiven(0)
		var wg sync.WaitGroup
		wg.Go(check)
		time.Sleep(time.Millisecond) // the second ends after the first
		wg.Go(check)
		wg.Wait()
		time.Sleep(hasherRests - time.Millisecond)
		wantGiven(0)
		time.Sleep(time.Millisecond)
		wantGiven(1)
		time.Sleep(10 * hasherRests)
		wantGiven(1)
	})
}

// Who wants to know of password checks hears of the first of several and of the last, also if others wait in between.
func TestHasherTellsWhetherItChecks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for slots := range 3 {
			var heard []bool
			hasher := newHasher(slots + 1)
			hasher.compute = func(password.Hash, string) bool { time.Sleep(time.Second); return true }
			hasher.checking = func(goes bool) { heard = append(heard, goes) }
			for range 2 {
				var wg sync.WaitGroup
				for range 5 {
					wg.Go(func() { must.Get(hasher.Verify(t.Context(), false, password.Hash{}, ""))(t) })
				}
				wg.Wait()
			}
			if want := []bool{true, false, true, false}; !slices.Equal(heard, want) {
				t.Errorf("with %d slots: heard %v, want %v", slots+1, heard, want)
			}
		}
	})
}

// The last check is over also if callers give up, before their turn or at that instant, and if a check panics.
func TestHasherTellsTheEndAfterFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hasher := newHasher(1)
		checking, changes := false, 0
		hasher.checking = func(goes bool) {
			if changes++; checking == goes {
				t.Errorf("change %d: heard %v again", changes, goes)
			}
			checking = goes
		}
		hasher.compute = func(_ password.Hash, plain string) bool {
			if time.Sleep(time.Second); plain == "panic" {
				panic(plain)
			}
			return true
		}
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() {
				defer func() { _ = recover() }()
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*time.Second/2)
				defer cancel()
				plain := []string{"", "panic"}[i/20]
				_, _ = hasher.Verify(ctx, i%3 == 0, password.Hash{}, plain)
			})
		}
		wg.Wait()
		if checking || changes == 0 || hasher.free != hasher.slots {
			t.Errorf("after all checks: checking %v after %d changes, %d slots are free", checking, changes, hasher.free)
		}
	})
}
