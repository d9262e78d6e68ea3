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

	"authgate/gateway/clocktest"
	"authgate/gateway/password"
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

// methods returns Check and CheckFresh with one signature.
func (f *verifierFixture) methods() map[string]func(*Accounts, string, string, netip.Addr) (*Account, error) {
	return map[string]func(*Accounts, string, string, netip.Addr) (*Account, error){
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
	const argonCost, bcryptCost = "argon2id,m=8,t=1,p=1", "bcrypt,cost=4"
	mixed := newAccounts(t,
		Account{Username: "alice", PasswordHash: argon},
		Account{Username: "bob", PasswordHash: bcrypt},
		Account{Username: "eve", PasswordHash: argon, Disabled: true},
		Account{Username: "mallory", PasswordHash: bcrypt, Disabled: true},
		Account{Username: "blank", PasswordHash: cheapArgon2id("")},
	)
	defaultCost := password.Unmatched().Cost()
	for _, c := range []struct {
		name               string
		accounts           *Accounts
		username, password string
		costs              []string
	}{
		{"wrong password, argon2id", mixed, "alice", "builder", []string{argonCost}},
		{"wrong password, bcrypt", mixed, "bob", "wonderland", []string{bcryptCost}},
		{"unknown", mixed, "nobody", "wonderland", []string{argonCost, bcryptCost}},
		{"other case", mixed, "Alice", "wonderland", []string{argonCost, bcryptCost}},
		{"outer space", mixed, "alice ", "wonderland", []string{argonCost, bcryptCost}},
		{"disabled, argon2id", mixed, "eve", "wonderland", []string{argonCost}},
		{"disabled, bcrypt", mixed, "mallory", "builder", []string{bcryptCost}},
		{"empty username", mixed, "", "wonderland", []string{argonCost, bcryptCost}},
		{"empty password", mixed, "alice", "", []string{argonCost}},
		{"empty password, hashed", mixed, "blank", "", []string{argonCost}},
		{"long password, argon2id", mixed, "alice", strings.Repeat("x", 50_000), []string{argonCost}},
		{"long password, bcrypt", mixed, "bob", strings.Repeat("x", 73), []string{bcryptCost}},
		{"no accounts", nil, "alice", "wonderland", []string{defaultCost}},
		{"empty accounts", newAccounts(t), "alice", "wonderland", []string{defaultCost}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newVerifierFixture()
			for name, check := range f.methods() {
				account, err := check(c.accounts, c.username, c.password, nthAddr(0))
				if account != nil || !errors.Is(err, ErrRejected) {
					t.Errorf("%s: got %+v, %v, want ErrRejected", name, account, err)
				}
				if got := f.takeCosts(); len(got) != 1 || !slices.Contains(c.costs, got[0]) {
					t.Errorf("%s: computed %q, want one of %q", name, got, c.costs)
				}
			}
			f.throttle.SetLimits(2, time.Hour)
			if got := retryAfter(t, f.throttle, c.username, nthAddr(2)); got != time.Hour {
				t.Errorf("refused for %s, want both failures to count for the account", got)
			}
			if got := retryAfter(t, f.throttle, "somebody", nthAddr(0)); got != time.Hour {
				t.Errorf("refused for %s, want both failures to count for the address", got)
			}
		})
	}
}

// A cached credential does not verify a similar one.
func TestCheckTellsCredentialsApart(t *testing.T) {
	t.Parallel()
	f := newVerifierFixture()
	hash := cheapArgon2id("cd")
	accounts := newAccounts(t, Account{Username: "ab", PasswordHash: hash}, Account{Username: "abc", PasswordHash: hash})
	must(f.Check(t.Context(), "basic", accounts, "ab", "cd", nthAddr(0)))(t)
	for _, c := range []struct{ kind, username, password string }{
		{"basic", "abc", "d"},
		{"basic", "ab", "cd\x00"},
		{"basic", "ab", "CD"},
		{"basica", "b", "cd"},
	} {
		if account, err := f.Check(t.Context(), c.kind, accounts, c.username, c.password, nthAddr(0)); !errors.Is(err, ErrRejected) {
			t.Errorf("%q: got %+v, %v, want ErrRejected", c, account, err)
		}
	}
	f.takeCosts()
	must(f.Check(t.Context(), "accounts", accounts, "ab", "cd", nthAddr(0)))(t)
	if got := len(f.takeCosts()); got != 1 {
		t.Errorf("another kind computed %d, want 1", got)
	}
}

func TestCredentialKeysDependOnTheVerifier(t *testing.T) {
	t.Parallel()
	a, b := newVerifierFixture(), newVerifierFixture()
	long := strings.Repeat("x", 10_000) // more than the buffer holds
	for _, password := range []string{"secret", long} {
		key := a.key("basic", "alice", password, "hash")
		if key != a.key("basic", "alice", password, "hash") {
			t.Error("one Verifier has two keys for one credential")
		}
		if key == a.key("basic", "alice", password+"x", "hash") {
			t.Error("two passwords have one key")
		}
		if key == b.key("basic", "alice", password, "hash") {
			t.Error("two Verifiers have the same key, it could be computed elsewhere")
		}
	}
}

// A client that leaves does not make equal checks of others fail. Its own check counts.
func TestLeavingACheck(t *testing.T) {
	t.Parallel()
	accounts := newAccounts(t, Account{Username: "alice", PasswordHash: cheapArgon2id("wonderland")})
	synctest.Test(t, func(t *testing.T) {
		f := newVerifierFixture()
		release, _ := blocking(f.hasher)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			account, err := f.Check(ctx, "basic", accounts, "alice", "wonderland", nthAddr(0))
			if account != nil || !errors.Is(err, ErrBusy) || !errors.Is(err, context.Canceled) {
				t.Errorf("who left: got %+v, %v, want ErrBusy", account, err)
			}
		})
		for i := range testLimit {
			wg.Go(func() {
				if _, err := f.Check(ctx, "basic", accounts, "bob", fmt.Sprint("guess-", i), nthAddr(1)); !errors.Is(err, ErrBusy) {
					t.Errorf("got %v, want ErrBusy", err)
				}
			})
		}
		synctest.Wait()
		for range 5 {
			wg.Go(func() {
				account, err := f.Check(t.Context(), "basic", accounts, "alice", "wonderland", nthAddr(0))
				if err != nil || account == nil {
					t.Errorf("who stayed: got %+v, %v, want the account", account, err)
				}
			})
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(release)
		wg.Wait()
		synctest.Wait()
		if got := f.hasher.Computed(); got != 1+testLimit {
			t.Errorf("computed %d, want %d", got, 1+testLimit)
		}
		if got := f.throttle.accounts.Len(); got != 1 {
			t.Error("the client that left with the right password is still counted")
		}
		if got := retryAfter(t, f.throttle, "bob", nthAddr(2)); got != time.Hour {
			t.Errorf("refused for %s, want the guesses to count", got)
		}
	})
}

func TestBusyDoesNotCountAsFailure(t *testing.T) {
	t.Parallel()
	f := newVerifierFixture()
	f.hasher.waiting.Add(maxHashQueue) // as if that many were waiting
	for range cap(f.hasher.slots) {
		f.hasher.slots <- struct{}{}
	}
	accounts := newAccounts(t, Account{Username: "alice", PasswordHash: cheapArgon2id("wonderland")})
	for range 2 * testLimit {
		for method, check := range f.methods() {
			if _, err := check(accounts, "alice", "wrong", nthAddr(0)); !errors.Is(err, ErrBusy) {
				t.Fatalf("%s: got %v, want ErrBusy", method, err)
			}
		}
	}
	if got := retryAfter(t, f.throttle, "alice", nthAddr(0)); got != 0 {
		t.Errorf("refused for %s though nothing was found out", got)
	}
}

// During a reload two sets of accounts are in use. A check for one must not let an account
// of the other in.
func TestSharedComputationsDoNotShareAccounts(t *testing.T) {
	t.Parallel()
	hash := cheapArgon2id("wonderland")
	enabled := newAccounts(t, Account{Username: "alice", PasswordHash: hash})
	disabled := newAccounts(t, Account{Username: "alice", PasswordHash: hash, Disabled: true})
	for name, order := range map[string][]*Accounts{"enabled first": {enabled, disabled}, "disabled first": {disabled, enabled}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newVerifierFixture()
				release, _ := blocking(f.hasher)
				var wg sync.WaitGroup
				for _, accounts := range order {
					wg.Go(func() {
						account, err := f.Check(t.Context(), "basic", accounts, "alice", "wonderland", nthAddr(0))
						want := error(nil)
						if accounts == disabled {
							want = ErrRejected
						}
						if !errors.Is(err, want) || (account != nil) != (want == nil) {
							t.Errorf("got %+v, %v, want %v", account, err, want)
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
		})
	}
}

func TestMemoryOfCredentialsIsBounded(t *testing.T) {
	t.Parallel()
	f := newVerifierFixture()
	f.hasher.compute = func(password.Hash, string) bool { return true }
	hash := cheapArgon2id("secret")
	var users []Account
	for i := range 1000 {
		users = append(users, Account{Username: fmt.Sprint("user-", i), PasswordHash: hash})
	}
	accounts := newAccounts(t, users...)
	for i, user := range users {
		must(f.Check(t.Context(), "basic", accounts, user.Username, "secret", nthAddr(i)))(t)
	}
	if got := f.good.Len(); got != 100 {
		t.Errorf("%d credentials are remembered, want 100", got)
	}
}

// Not parallel: it counts allocations.
func TestWarmCheckAllocatesNothing(t *testing.T) {
	f := newVerifierFixture()
	accounts := newAccounts(t, Account{Username: "service", PasswordHash: cheapArgon2id("s3rvice")})
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

func BenchmarkCheck(b *testing.B) {
	accounts := newAccounts(b, Account{Username: "service", PasswordHash: parsed(b, must(password.New("s3rvice"))(b))})
	verifier := NewVerifier(NewHasher(0), NewThrottle(10, 5*time.Minute, time.Now), 10_000, time.Hour, time.Now)
	warm := func(b *testing.B) {
		if _, err := verifier.Check(b.Context(), "basic", accounts, "service", "s3rvice", nthAddr(0)); err != nil {
			b.Error(err)
		}
	}
	warm(b)
	b.Run("warm", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			warm(b)
		}
	})
	b.Run("warm, parallel", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				warm(b)
			}
		})
	})
	b.Run("fresh", func(b *testing.B) {
		for b.Loop() {
			if _, err := verifier.CheckFresh(b.Context(), accounts, "service", "s3rvice", nthAddr(0)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
