package login

import (
	"slices"
	"testing"
	"time"

	"authgate/gateway/people/accounts"
	"authgate/internal/test/must"
)

// ending returns alice, whose role admin and whose account end after some time.
func (r *rig) ending(admin, account time.Duration) accounts.Account {
	a := alice
	a.RoleEnds = map[string]time.Time{"admin": r.now().Add(admin)}
	a.Until = r.now().Add(account)
	return a
}

// A warm session and a warm access token lose a role at its end, and are refused from the end of the account
// on: at that time, and not before.
func TestEndsWarm(t *testing.T) {
	t.Parallel()
	before := newRig(t)
	s := before.signIn(t, "alice") // its token has no end by the account
	s.refresh = ""
	r := before.withAccounts(t, before.ending(10*time.Second, 20*time.Second))
	for _, step := range []struct {
		passes time.Duration
		roles  []string // nil: refused
	}{
		{0, []string{"user", "admin"}},
		{10*time.Second - 1, []string{"user", "admin"}}, {1, []string{"user"}},
		{10*time.Second - 1, []string{"user"}}, {1, nil},
	} {
		r.clock.Advance(step.passes)
		if step.roles == nil {
			r.wantOut(t, s)
			continue
		}
		for range 2 { // the second time it is warm
			r.wantIn(t, s, step.roles...)
			if id := must.Get(r.byToken(t, s.access))(t); !slices.Equal(id.Roles, step.roles) {
				t.Errorf("at %v the access token has %q, want %q", r.now(), id.Roles, step.roles)
			}
		}
	}
}

// An access token names the roles that have not ended, and ends no later than each of them and the account.
func TestTokenEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r = r.withAccounts(t, r.ending(10*time.Second, 20*time.Second))
	for _, want := range []time.Duration{10 * time.Second, 10 * time.Second} {
		account, _ := r.accounts.Lookup("alice")
		s := must.Get(r.begin(t, account))(t)
		token, left, err := r.bearer.Issue(s.login, account)
		if err != nil || left != want {
			t.Errorf("a token ends after %v (%v), want %v", left, err, want)
		}
		must.Get(r.byToken(t, token))(t)
		r.clock.Advance(10*time.Second - 1)
		must.Get(r.byToken(t, token))(t)
		r.clock.Advance(1)
		if id, err := r.byToken(t, token); err == nil {
			t.Errorf("the token goes on as %+v", id)
		}
	}
}
