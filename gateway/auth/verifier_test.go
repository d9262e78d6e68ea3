package auth

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/bcrypt"

	"authgate/gateway/clocktest"
	"authgate/gateway/must"
	"authgate/gateway/password"
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
	hasher := NewHasher(0)
	hasher.compute = func(h password.Hash, plain string) bool {
		f.mu.Lock()
		f.costs = append(f.costs, h.Cost())
		f.mu.Unlock()
		return h.Verify(plain)
	}
	f.Verifier = NewVerifier(hasher, NewThrottle(testLimit, time.Hour, f.clock.Now), 100, testTTL, f.clock.Now)
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
type checkMethod func(accounts *Accounts, username, password string, client netip.Addr) (*Account, error)

func (f *verifierFixture) methods() map[string]checkMethod {
	return map[string]checkMethod{
		"Check": func(accounts *Accounts, username, password string, client netip.Addr) (*Account, error) {
			return f.Check(context.Background(), "basic", accounts, username, password, client)
		},
		"CheckFresh": func(accounts *Accounts, username, password string, client netip.Addr) (*Account, error) {
			return f.CheckFresh(context.Background(), accounts, username, password, client)
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
	argon, bcrypt := cheapArgon2id("wonderland"), cheapBcrypt(t, "builder")
	mixed := newAccounts(
		Account{Username: "alice", PasswordHash: argon},
		Account{Username: "bob", PasswordHash: bcrypt},
		Account{Username: "eve", PasswordHash: argon, Disabled: true},
		Account{Username: "mallory", PasswordHash: bcrypt, Disabled: true},
		Account{Username: "blank", PasswordHash: cheapArgon2id("")},
	)
	none := password.Unmatched().Cost()
	for _, c := range []struct {
		name               string
		accounts           *Accounts
		username, password string
		costs              []string
	}{
		{"wrong password, argon2id", mixed, "alice", "builder", []string{argonCost}},
		{"wrong password, bcrypt", mixed, "bob", "wonderland", []string{bcryptCost}},
		{"unknown", mixed, "stranger", "wonderland", []string{argonCost, bcryptCost}},
		{"disabled, argon2id", mixed, "eve", "wonderland", []string{argonCost}},
		{"disabled, bcrypt", mixed, "mallory", "builder", []string{bcryptCost}},
		{"empty username", mixed, "", "wonderland", []string{argonCost, bcryptCost}},
		{"empty password", mixed, "alice", "", []string{argonCost}},
		{"empty password, hashed", mixed, "blank", "", []string{argonCost}},
		{"long password, bcrypt", mixed, "bob", strings.Repeat("x", 73), []string{bcryptCost}},
		{"empty accounts", newAccounts(), "alice", "wonderland", []string{none}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newVerifierFixture()
			for name, check := range f.methods() {
				wantError[Account](t, ErrRejected)(check(c.accounts, c.username, c.password, nthAddr(0)))
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
	hash := cheapArgon2id("cd")
	accounts := newAccounts(Account{Username: "ab", PasswordHash: hash}, Account{Username: "abc", PasswordHash: hash})
	must.Get(f.Check(t.Context(), "basic", accounts, "ab", "cd", nthAddr(0)))(t)
	for _, c := range [][3]string{{"basic", "abc", "d"}, {"basic", "ab", "cd\x00"}, {"basic", "ab", "CD"}, {"basica", "b", "cd"}} {
		wantError[Account](t, ErrRejected)(f.Check(t.Context(), c[0], accounts, c[1], c[2], nthAddr(0)))
	}
	f.takeCosts()
	must.Get(f.Check(t.Context(), "accounts", accounts, "ab", "cd", nthAddr(0)))(t)
	if got := len(f.takeCosts()); got != 1 {
		t.Errorf("another kind computed %d, want 1", got)
	}
}

func TestCredentialKeysDependOnTheVerifier(t *testing.T) {
	t.Parallel()
	a, b := newVerifierFixture(), newVerifierFixture()
	for _, password := range []string{"secret", strings.Repeat("x", 10_000)} { // more than the buffer holds
		key := a.key("basic", "alice", password, "hash")
		if key != a.key("basic", "alice", password, "hash") {
			t.Error("one Verifier has two keys for one credential")
		}
		if key == a.key("basic", "alice", password+"x", "hash") || key == b.key("basic", "alice", password, "hash") {
			t.Error("two passwords or two Verifiers have one key, which could be computed elsewhere")
		}
	}
}

// A client that leaves does not make equal checks of others fail. Its own check counts.
func TestLeavingACheck(t *testing.T) {
	t.Parallel()
	accounts := newAccounts(Account{Username: "alice", PasswordHash: cheapArgon2id("wonderland")})
	synctest.Test(t, func(t *testing.T) {
		f := newVerifierFixture()
		release, _ := blocking(f.hasher)
		ctx, leave := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			account, err := f.Check(ctx, "basic", accounts, "alice", "wonderland", nthAddr(0))
			wantError[Account](t, ErrBusy)(account, err)
			wantError[Account](t, context.Canceled)(account, err)
		})
		for i := range testLimit {
			wg.Go(func() {
				wantError[Account](t, ErrBusy)(f.Check(ctx, "basic", accounts, "bob", fmt.Sprint("guess-", i), nthAddr(1)))
			})
		}
		synctest.Wait()
		for range 5 {
			wg.Go(func() {
				if account, err := f.Check(t.Context(), "basic", accounts, "alice", "wonderland", nthAddr(0)); err != nil || account == nil {
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
	for range maxHashQueue {
		f.hasher.queues[0].PushBack(make(chan struct{}))
	}
	accounts := newAccounts(Account{Username: "alice", PasswordHash: cheapArgon2id("wonderland")})
	for range 2 * testLimit {
		for _, check := range f.methods() {
			wantError[Account](t, ErrBusy)(check(accounts, "alice", "wrong", nthAddr(0)))
		}
	}
	wantRetry(t, f.throttle, "alice", nthAddr(0), 0)
}

// During a reload two sets of accounts are in use. A check for one must not let an account
// of the other in.
func TestSharedComputationsDoNotShareAccounts(t *testing.T) {
	t.Parallel()
	hash := cheapArgon2id("wonderland")
	enabled := newAccounts(Account{Username: "alice", PasswordHash: hash})
	disabled := newAccounts(Account{Username: "alice", PasswordHash: hash, Disabled: true})
	for _, order := range [][]*Accounts{{enabled, disabled}, {disabled, enabled}} {
		synctest.Test(t, func(t *testing.T) {
			f := newVerifierFixture()
			release, _ := blocking(f.hasher)
			var wg sync.WaitGroup
			for _, accounts := range order {
				wg.Go(func() {
					account, err := f.Check(t.Context(), "basic", accounts, "alice", "wonderland", nthAddr(0))
					if accounts == disabled {
						wantError[Account](t, ErrRejected)(account, err)
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
		must.Get(f.Check(t.Context(), "basic", newAccounts(Account{Username: username, PasswordHash: scriptHashes["new"]}), username, "secret", nthAddr(i)))(t)
	}
	if got := f.good.Len(); got != 100 {
		t.Errorf("%d credentials are remembered, want 100", got)
	}
}

// Not parallel: it counts allocations.
func TestWarmCheckAllocatesNothing(t *testing.T) {
	f := newVerifierFixture()
	accounts := newAccounts(Account{Username: "service", PasswordHash: cheapArgon2id("s3rvice")})
	got := testing.AllocsPerRun(1000, func() {
		if _, err := f.Check(t.Context(), "basic", accounts, "service", "s3rvice", nthAddr(0)); err != nil {
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
	if !errors.Is(err, ErrRejected) || errors.Is(err, ErrNoCredentials) || err.Error() != "auth: credential rejected: for the operator" {
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
		if id != nil || !errors.As(err, &r) || !errors.Is(err, ErrRejected) || r.Detail != DetailWrongPassword || !strings.Contains(r.Reason, reason) {
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

// The costs of cheapArgon2id and cheapBcrypt.
const argonCost, bcryptCost = "argon2id,m=8,t=1,p=1", "bcrypt,cost=4"

// cheapArgon2id returns a cheap argon2id hash.
func cheapArgon2id(plain string) password.Hash {
	salt := []byte(rand.Text())[:16]
	encode := base64.RawStdEncoding.EncodeToString
	hash, err := password.Parse(fmt.Sprintf("$argon2id$v=19$m=8,t=1,p=1$%s$%s", encode(salt), encode(argon2.IDKey([]byte(plain), salt, 1, 8, 1, 32))))
	if err != nil {
		panic(err)
	}
	return hash
}

// cheapBcrypt returns a bcrypt hash with the lowest cost.
func cheapBcrypt(tb testing.TB, plain string) password.Hash {
	tb.Helper()
	return must.Get(password.Parse(string(must.Get(bcrypt.GenerateFromPassword([]byte(plain), bcrypt.MinCost))(tb))))(tb)
}

// blocking makes each computation of h wait until release is closed. most returns the
// largest number of computations at the same time.
func blocking(h *Hasher) (release chan struct{}, most func() int) {
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
