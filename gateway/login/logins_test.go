package login

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/identity/auth"
	"authgate/gateway/people/accounts"
	"authgate/gateway/people/factors"
	"authgate/internal/test/must"
)

// Each secret has 256 random bits, and none is given twice. The sid, which is public, tells
// none of them.
func TestSecretsAreRandom(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	seen := make(map[string]bool)
	for range 20 {
		s := r.signIn(t, "alice")
		refresh := decoded(t, s.refresh)
		if len(refresh) != 80 || len(s.login.ID) < 26 || seen[s.login.ID] {
			t.Fatalf("a refresh token of %d bytes of the login %q, want 80 bytes, and 130 new bits", len(refresh), s.login.ID)
		}
		seen[s.login.ID] = true
		secrets := []string{s.session, encode(refresh[:32]), encode(refresh[32:64])}
		for i, secret := range secrets {
			if n := len(decoded(t, secret)); n != 32 || seen[secret] {
				t.Errorf("secret %d has %d bytes, given before: %v; want 32 new ones", i, n, seen[secret])
			}
			seen[secret] = true
		}
		for _, secret := range []string{s.session, s.refresh} {
			if strings.Contains(secret, s.login.ID) || strings.Contains(s.access, secret) ||
				strings.Contains(decoded(t, strings.Split(s.access, ".")[1]), secret) {
				t.Error("the sid or the access token tells a secret")
			}
		}
	}
}

func TestEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.signIn(t, "alice")
	r.wantRecords(t, "", 5) // login, session, what outlives it, refresh family and group
	other := r.signIn(t, "alice")
	r.wantIn(t, s)
	ended, err := r.logins.End(t.Context(), s.login.ID)
	if err != nil || ended == nil || ended.ID != s.login.ID || ended.Subject() != "local:alice" {
		t.Errorf("got %+v, %v, want the login that ended", ended, err)
	}
	r.wantOut(t, s)
	for _, sid := range []string{s.login.ID, "NEVER", ""} {
		if again, err := r.logins.End(t.Context(), sid); again != nil || err != nil {
			t.Errorf("%q: got %+v, %v, want nothing to end", sid, again, err)
		}
	}
	r.wantIn(t, other)
	r.end(t, other)
	r.wantRecords(t, "", 0)
}

// A damaged record is an error and no decision. A login with one can be ended.
func TestDamagedRecordsDecideNothing(t *testing.T) {
	t.Parallel()
	for prefix, unknown := range map[string]string{
		loginPrefix:   "session, token, refresh, delegated",
		SessionPrefix: "session, delegated",
		refreshPrefix: "refresh",
		userPrefix:    "delegated, begin",
		groupPrefix:   "begin, end",
	} {
		t.Run(prefix, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			s, remote := r.signIn(t, "alice"), r.signInAt(t, r.grant("user"))
			for _, call := range r.store.TakeCalls() {
				if _, key, _ := strings.Cut(call, " "); strings.HasPrefix(key, prefix) {
					must.Do(t, r.store.Put(t.Context(), key, []byte(`{"sid":7`), r.now().Add(time.Hour)))
				}
			}
			for name, do := range map[string]func() error{
				"session":   func() error { return errorOf(r.bySession(t, s)) },
				"token":     func() error { return errorOf(r.byToken(t, s.access)) },
				"refresh":   func() error { return errorOf(r.rotate(t, s.refresh)) },
				"delegated": func() error { return errorOf(r.bySession(t, remote)) },
				"begin":     func() error { return errorOf(r.beginAt(t, "keycloak", r.grant("user"), r.now())) },
				"end":       func() error { return errorOf(r.users.FrontChannel(t.Context(), "keycloak", testSession)) },
			} {
				if slices.Contains(strings.Split(unknown, ", "), name) {
					wantNoAnswer(t)(nil, do())
				}
			}
			r.end(t, s)
			wantRejected(t, auth.DetailBadToken, "ended")(r.byToken(t, s.access))
		})
	}
}

// A login ends when the factors of its account change, by any change of the file.
func TestFactorsOfAccount(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	proven, others, spent := alice, alice, alice
	proven.Factors = factors.Set{TOTP: &factors.TOTP{Secret: "c2VhbGVk"}, Recovery: []string{"x", "y"}}
	others.Factors = factors.Set{TOTP: &factors.TOTP{Secret: "b3RoZXI"}}
	spent.Factors = factors.Set{TOTP: proven.Factors.TOTP, Recovery: []string{"y"}}
	for _, c := range map[string]struct{ before, after accounts.Account }{
		"added": {alice, proven}, "removed": {proven, alice}, "replaced": {proven, others},
	} {
		r := r.withAccounts(t, c.before, bob)
		s, other := r.signIn(t, "alice"), r.signIn(t, "bob")
		r.wantIn(t, s)
		next := r.withAccounts(t, c.after, bob)
		next.wantOut(t, s)
		next.wantIn(t, other)
	}
	record := func(users ...accounts.Account) *rig {
		r := r.withAccounts(t, users...)
		r.clock.Advance(time.Minute)
		must.Do(t, r.accounts.RecordChanges(t.Context(), r.store, accounts.Reload{Now: r.now()}))
		return r
	}
	r = record(proven)
	s := r.signIn(t, "alice")
	record(spent).wantIn(t, s)
	record(alice).wantOut(t, s)
	record(spent).wantOut(t, s) // although the factors are the same again
}

// A login waits once for a store that stops answering.
func TestBeginWithAStoreThatFreezes(t *testing.T) {
	t.Parallel()
	const answerTime = 1500 * time.Millisecond // how long callers wait for a frozen store
	for keys, begin := range map[string]func(*testing.T, *rig) error{
		loginPrefix: func(t *testing.T, r *rig) error {
			return errorOf(r.logins.Begin(t.Context(), &accounts.Account{Username: "alice"}, Device{},
				Term{Lifetime: time.Hour}, nil))
		},
		groupPrefix: func(t *testing.T, r *rig) error { return errorOf(r.beginAt(t, "keycloak", r.grant("user"), r.now())) },
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			var frozen atomic.Bool
			r.store.Interfere(func(ctx context.Context, call string) error {
				if strings.Contains(call, " "+keys) {
					frozen.Store(true)
				}
				if !frozen.Load() {
					return nil
				}
				select {
				case <-ctx.Done():
				case <-time.After(answerTime):
				}
				return errStore
			})
			began := time.Now()
			err := begin(t, r)
			if took := time.Since(began); !errors.Is(err, errStore) || !frozen.Load() || took != answerTime+undoTime {
				t.Errorf("frozen from %s: %v after %v, want the error of the store after %v", keys, err, took, answerTime+undoTime)
			}
		})
	}
}

// A login counts while its account has the same version and has not changed. It has the
// current name, address and roles of the account.
func TestCurrentAccount(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	disabled, changed := alice, alice
	disabled.Disabled = true
	changed.Hash = testHash("wonderland") // the same password
	record := func(r *rig) *rig {
		r.clock.Advance(time.Minute)
		must.Do(t, r.accounts.RecordChanges(t.Context(), r.store, accounts.Reload{Now: r.now()}))
		return r
	}
	before := r.signIn(t, "alice") // by a version that does not record changes
	r = record(r)
	for _, gone := range [][]accounts.Account{{bob}, {disabled, bob}, {changed, bob}} {
		s, other := r.signIn(t, "alice"), r.signIn(t, "bob")
		r.wantOut(t, before)
		r.wantIn(t, s)
		next := record(r.withAccounts(t, gone...))
		next.wantOut(t, s)
		next.wantIn(t, other)
		r = record(r.withAccounts(t, alice, bob))
		r.wantOut(t, s) // although the account is the same again
		r.wantIn(t, other)
	}
	s, today := r.signIn(t, "alice"), alice
	today.Roles, today.Name, today.Email = []string{"guest"}, "Alice Liddell", "liddell@example.org"
	r.wantIn(t, s)
	r = record(r.withAccounts(t, today))
	r.wantIn(t, s)
	for _, creds := range []auth.Credentials{{Session: s.session}, {Access: s.access}} {
		id, err := auth.Chain{r.bearer, r.session}.Authenticate(t.Context(), &creds)
		if err != nil || !slices.Equal(id.Roles, today.Roles) || id.Name != today.Name || id.Email != today.Email {
			t.Errorf("got %+v, %v, want the account of today", id, err)
		}
	}
	login := Login{Created: r.now()}
	if !login.began(login.Created) || login.began(login.Created.Add(1)) {
		t.Error("a login without the time of a change must have been created after it")
	}
}

// After the clock is set back by hours, what providers say counts at once.
func TestProviderClockSetBack(t *testing.T) {
	t.Parallel()
	const far = 5 * time.Hour
	t.Run("a logout", func(t *testing.T) {
		r := newRig(t)
		before := r.signInAt(t, r.grant("user"))
		must.Get(r.users.BackChannel(t.Context(), "keycloak", r.logoutToken("one", testPerson, "")))(t)
		r.clock.Advance(-far)
		r.wantOut(t, before)
		// It is unknown whether the first attempt began before the logout.
		if _, err := r.beginAt(t, "keycloak", r.grant("user"), r.now()); !errors.Is(err, auth.ErrRejected) {
			t.Errorf("the first attempt: %v, want it rejected", err)
		}
		r.clock.Advance(time.Second)
		r.wantIn(t, r.signInAt(t, r.grant("user")), "user")
	})
	t.Run("roles at a new login", func(t *testing.T) {
		r := newRig(t)
		first := r.signInAt(t, r.grant("user", "admin"))
		r.clock.Advance(-far)
		r.wantIn(t, r.signInAt(t, r.grant("user")), "user")
		r.wantIn(t, first, "user")
	})
	synctest.Test(t, func(t *testing.T) { // roles at a renewal
		r := newRig(t)
		s := r.signInAt(t, r.grant("user", "admin"))
		r.clock.Advance(-far)
		r.answersAfter(0, "user")
		must.Get(r.bySession(t, s))(t) // starts the renewal in the background
		synctest.Wait()
		r.wantIn(t, s, "user")
		r.wantIn(t, s, "user")
		r.wantAsked(t, 1)
	})
}
