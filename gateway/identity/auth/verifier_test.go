package auth

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/people/accounts"
	"authgate/gateway/people/password"
	"authgate/internal/test/clocktest"
	"authgate/internal/test/must"
	"authgate/internal/test/passwordtest"
	"authgate/policy"
)

const (
	testLimit = 10
	testTTL   = time.Minute
)

// verifierFixture is a Verifier with a clock set by hand. It records the cost of each
// computation.
type verifierFixture struct {
	*Verifier
	clock *clocktest.Clock
	mu    sync.Mutex
	costs []string
}

func newVerifierFixture() *verifierFixture {
	f := &verifierFixture{clock: clocktest.New()}
	f.Verifier = NewVerifier(NewThrottle(testLimit, time.Hour, f.clock.Now), 100, testTTL, f.clock.Now)
	f.hasher.compute = func(h password.Hash, plain string) bool {
		f.mu.Lock()
		f.costs = append(f.costs, h.Cost())
		f.mu.Unlock()
		return h.Verify(plain)
	}
	return f
}

// takeCosts returns the costs since the last takeCosts.
func (f *verifierFixture) takeCosts() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	costs := f.costs
	f.costs = nil
	return costs
}

// checkMethod is Check or CheckFresh with one signature.
type checkMethod func(people *accounts.Set, username, password string, client netip.Addr) (*accounts.Account, error)

func (f *verifierFixture) methods() map[string]checkMethod {
	return map[string]checkMethod{
		"Check": func(people *accounts.Set, username, password string, client netip.Addr) (*accounts.Account, error) {
			return f.Check(context.Background(), "basic", people, username, password, client)
		},
		"CheckFresh": func(people *accounts.Set, username, password string, client netip.Addr) (*accounts.Account, error) {
			account, err := f.CheckFresh(context.Background(), people, username, password, client)
			if err == nil { // a login begins
				f.SignedIn(account, client)
			}
			return account, err
		},
	}
}

func isThrottled(err error) bool {
	var throttled *ThrottledError
	return errors.As(err, &throttled) && throttled.RetryAfter > 0
}

// Every failed check costs the same work and counts as a failure.
func TestVerifierRefusals(t *testing.T) {
	t.Parallel()
	argon, bcrypt := passwordtest.Argon2id("wonderland"), passwordtest.Bcrypt(t, "builder")
	mixed := newAccounts(
		accounts.Account{Username: "alice", Hash: argon},
		accounts.Account{Username: "bob", Hash: bcrypt},
		accounts.Account{Username: "eve", Hash: argon, Disabled: true},
		accounts.Account{Username: "mallory", Hash: bcrypt, Disabled: true},
		accounts.Account{Username: "blank", Hash: passwordtest.Argon2id("")},
	)
	none := password.Unmatched().Cost()
	for _, c := range []struct {
		name               string
		accounts           *accounts.Set
		username, password string
		costs              []string
	}{
		{"wrong password, argon2id", mixed, "alice", "builder", []string{passwordtest.Argon2idCost}},
		{"wrong password, bcrypt", mixed, "bob", "wonderland", []string{passwordtest.BcryptCost}},
		{"unknown", mixed, "stranger", "wonderland", []string{passwordtest.Argon2idCost, passwordtest.BcryptCost}},
		{"disabled, argon2id", mixed, "eve", "wonderland", []string{passwordtest.Argon2idCost}},
		{"disabled, bcrypt", mixed, "mallory", "builder", []string{passwordtest.BcryptCost}},
		{"empty username", mixed, "", "wonderland", []string{passwordtest.Argon2idCost, passwordtest.BcryptCost}},
		{"empty password", mixed, "alice", "", []string{passwordtest.Argon2idCost}},
		{"empty password, hashed", mixed, "blank", "", []string{passwordtest.Argon2idCost}},
		{"long password, bcrypt", mixed, "bob", strings.Repeat("x", 73), []string{passwordtest.BcryptCost}},
		{"empty accounts", newAccounts(), "alice", "wonderland", []string{none}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newVerifierFixture()
			for name, check := range f.methods() {
				wantError[accounts.Account](t, ErrRejected)(check(c.accounts, c.username, c.password, nthAddr(0)))
				if got := f.takeCosts(); len(got) != 1 || !slices.Contains(c.costs, got[0]) {
					t.Errorf("%s: computed %q, want one of %q", name, got, c.costs)
				}
			}
			f.throttle.SetLimits(2, time.Hour) // both count for the account and for the address
			wantRetry(t, f.throttle, c.username, nthAddr(2), time.Hour)
			wantRetry(t, f.throttle, "somebody", nthAddr(0), time.Hour)
		})
	}
}

// A cached credential does not verify a similar one.
func TestCheckTellsCredentialsApart(t *testing.T) {
	t.Parallel()
	f := newVerifierFixture()
	hash := passwordtest.Argon2id("cd")
	people := newAccounts(accounts.Account{Username: "ab", Hash: hash}, accounts.Account{Username: "abc", Hash: hash})
	must.Get(f.Check(t.Context(), "basic", people, "ab", "cd", nthAddr(0)))(t)
	for _, c := range [][3]string{{"basic", "abc", "d"}, {"basic", "ab", "cd\x00"}, {"basic", "ab", "CD"},
		{"basica", "b", "cd"}} {
		wantError[accounts.Account](t, ErrRejected)(f.Check(t.Context(), c[0], people, c[1], c[2], nthAddr(0)))
	}
	f.takeCosts()
	must.Get(f.Check(t.Context(), "accounts", people, "ab", "cd", nthAddr(0)))(t)
	if got := len(f.takeCosts()); got != 1 {
		t.Errorf("another kind computed %d, want 1", got)
	}
}

func TestCredentialKeysDependOnTheVerifier(t *testing.T) {
	t.Parallel()
	a, b := newVerifierFixture(), newVerifierFixture()
	for _, password := range []string{"secret", strings.Repeat("x", 10_000)} { // more than the buffer holds
		key := a.macs.key("basic", "alice", password, "hash")
		if key != a.macs.key("basic", "alice", password, "hash") {
			t.Error("one Verifier has two keys for one credential")
		}
		if key == a.macs.key("basic", "alice", password+"x", "hash") ||
			key == b.macs.key("basic", "alice", password, "hash") {
			t.Error("two passwords or two Verifiers have one key, which could be computed elsewhere")
		}
	}
}

// A client that leaves does not make equal checks of others fail. Its own check counts.
func TestLeavingACheck(t *testing.T) {
	t.Parallel()
	people := newAccounts(accounts.Account{Username: "alice", Hash: passwordtest.Argon2id("wonderland")})
	synctest.Test(t, func(t *testing.T) {
		f := newVerifierFixture()
		release, _ := blocking(f.hasher)
		ctx, leave := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			account, err := f.Check(ctx, "basic", people, "alice", "wonderland", nthAddr(0))
			wantError[accounts.Account](t, ErrBusy)(account, err)
			wantError[accounts.Account](t, context.Canceled)(account, err)
		})
		for i := range testLimit {
			wg.Go(func() {
				wantError[accounts.Account](t, ErrBusy)(f.Check(ctx, "basic", people, "bob", fmt.Sprint("guess-", i), nthAddr(1)))
			})
		}
		synctest.Wait()
		for range 5 {
			wg.Go(func() {
				if account, err := f.Check(t.Context(), "basic", people, "alice", "wonderland", nthAddr(0)); err != nil ||
					account == nil {
					t.Errorf("who stayed: got %+v, %v, want the account", account, err)
				}
			})
		}
		synctest.Wait()
		leave()
		synctest.Wait()
		close(release)
		wg.Wait()
		synctest.Wait()
		if computed, counted := f.hasher.Computed(), f.throttle.accounts.Len(); computed != 1+testLimit || counted != 1 {
			t.Errorf("computed %d, want %d; %d accounts are counted, want that of the guesses", computed, 1+testLimit, counted)
		}
		wantRetry(t, f.throttle, "bob", nthAddr(2), time.Hour)
	})
}

func TestBusyDoesNotCountAsFailure(t *testing.T) {
	t.Parallel()
	f := newVerifierFixture()
	f.hasher.free = 0
	for range maxHashWaits {
		f.hasher.queues[0].PushBack(make(chan struct{}))
	}
	people := newAccounts(accounts.Account{Username: "alice", Hash: passwordtest.Argon2id("wonderland")})
	for range 2 * testLimit {
		for _, check := range f.methods() {
			wantError[accounts.Account](t, ErrBusy)(check(people, "alice", "wrong", nthAddr(0)))
		}
	}
	wantRetry(t, f.throttle, "alice", nthAddr(0), 0)
}

// During a reload two sets of accounts are in use. A check for one must not let an account
// of the other in.
func TestSharedComputationsDoNotShareAccounts(t *testing.T) {
	t.Parallel()
	hash := passwordtest.Argon2id("wonderland")
	enabled := newAccounts(accounts.Account{Username: "alice", Hash: hash})
	disabled := newAccounts(accounts.Account{Username: "alice", Hash: hash, Disabled: true})
	for _, order := range [][]*accounts.Set{{enabled, disabled}, {disabled, enabled}} {
		synctest.Test(t, func(t *testing.T) {
			f := newVerifierFixture()
			release, _ := blocking(f.hasher)
			var wg sync.WaitGroup
			for _, people := range order {
				wg.Go(func() {
					account, err := f.Check(t.Context(), "basic", people, "alice", "wonderland", nthAddr(0))
					if people == disabled {
						wantError[accounts.Account](t, ErrRejected)(account, err)
					} else if err != nil || account == nil {
						t.Errorf("got %+v, %v, want the account", account, err)
					}
				})
				synctest.Wait()
			}
			close(release)
			wg.Wait()
			if got := f.hasher.Computed(); got != 1 {
				t.Errorf("computed %d, want 1", got)
			}
		})
	}
}

func TestMemoryOfCredentialsIsBounded(t *testing.T) {
	t.Parallel()
	f := newVerifierFixture()
	f.hasher.compute = func(password.Hash, string) bool { return true }
	for i := range 1000 {
		username := fmt.Sprint("user-", i)
		must.Get(f.Check(t.Context(), "basic", newAccounts(accounts.Account{Username: username, Hash: scriptHashes["new"]}),
			username, "secret", nthAddr(i)))(t)
	}
	if got := f.good.Len(); got != 100 {
		t.Errorf("%d credentials are remembered, want 100", got)
	}
}

// Not parallel: it counts allocations.
func TestWarmCheckAllocatesNothing(t *testing.T) {
	f := newVerifierFixture()
	people := newAccounts(accounts.Account{Username: "service", Hash: passwordtest.Argon2id("s3rvice")})
	got := testing.AllocsPerRun(1000, func() {
		if _, err := f.Check(t.Context(), "basic", people, "service", "s3rvice", nthAddr(0)); err != nil {
			t.Fatal(err)
		}
	})
	// Under the race detector a sync.Pool drops some values.
	if got > 3 {
		t.Errorf("%v allocations, want none", got)
	}
}

// The details that clients see are fixed.
func TestDetails(t *testing.T) {
	t.Parallel()
	if DetailWrongPassword != "Invalid username or password." || DetailNotSignedIn != "Not signed in." {
		t.Errorf("the contract's details are %q and %q", DetailWrongPassword, DetailNotSignedIn)
	}
	err := error(&Rejection{Detail: "for the client", Reason: "for the operator"})
	if !errors.Is(err, ErrRejected) || errors.Is(err, ErrNoCredentials) ||
		err.Error() != "auth: credential rejected: for the operator" {
		t.Errorf("a Rejection reads %q", err)
	}
}

// wantRejected returns a function that fails the test unless a wrong password is rejected, with
// a reason that contains reason: wantRejected(t, reason)(f()).
func wantRejected(tb testing.TB, reason string) func(*policy.Identity, error) {
	tb.Helper()
	return func(id *policy.Identity, err error) {
		tb.Helper()
		var r *Rejection
		if id != nil || !errors.As(err, &r) || !errors.Is(err, ErrRejected) || r.Detail != DetailWrongPassword ||
			!strings.Contains(r.Reason, reason) {
			tb.Errorf("got %+v, %v, want a wrong password because of: %s", id, err, reason)
		}
	}
}

// wantError fails the test unless the result is that error alone.
func wantError[T any](tb testing.TB, want error) func(*T, error) {
	tb.Helper()
	return func(got *T, err error) {
		tb.Helper()
		if got != nil || !errors.Is(err, want) {
			tb.Errorf("got %+v, %v, want %v", got, err, want)
		}
	}
}

// blocking makes each computation of h wait until release is closed. most returns the
// largest number of computations at the same time.
func blocking(h *hasher) (release chan struct{}, most func() int) {
	release = make(chan struct{})
	var mu sync.Mutex
	var running, peak int
	count := func(change int) int {
		mu.Lock()
		defer mu.Unlock()
		running += change
		peak = max(peak, running)
		return peak
	}
	h.compute = func(hash password.Hash, plain string) bool {
		count(1)
		defer count(-1)
		<-release
		return hash.Verify(plain)
	}
	return release, func() int { return count(0) }
}
