package login

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"authgate/gateway/identity/auth"
	"authgate/gateway/login/journey"
	"authgate/gateway/people/accounts"
	"authgate/internal/test/must"
	"authgate/policy"
)

// renew makes a login go on with new values under a changed account.
func (r *rig) renew(tb testing.TB, s *signedIn, changed *accounts.Account) (*signedIn, error) {
	tb.Helper()
	next := &signedIn{}
	id := &policy.Identity{Login: s.login.ID}
	login, err := r.overview().Renew(tb.Context(), id, changed, func(login *Login) []Handle {
		if login.ID != s.login.ID || !login.HasTokens() {
			tb.Errorf("asked for %+v", login)
		}
		session, byCookie := r.session.New("")
		token, byToken := r.refresh.New(testDevice)
		next.session, next.refresh = session, token
		return []Handle{byCookie, byToken}
	})
	if err != nil {
		return nil, err
	}
	next.login = login
	next.access, _, err = r.bearer.Issue(login, changed)
	return next, err
}

// With a new password, the login that set it goes on with new values, also at instances
// that do not know the password yet. What its client had before opens nothing, and all
// other logins end.
func TestRenew(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	record := func(r *rig) {
		t.Helper()
		must.Do(t, r.accounts.RecordChanges(t.Context(), r.store, accounts.Reload{Now: r.now()}))
	}
	record(r)
	s, other := r.signIn(t, "alice"), r.signIn(t, "alice")
	for _, plain := range []string{"looking-glass", "jabberwocky"} { // twice
		r.clock.Advance(time.Minute)
		changed := alice
		changed.Hash = testHash(plain)
		after := r.withAccounts(t, changed, bob)
		record(after)
		account, _ := after.accounts.Lookup("alice")
		r.wantIn(t, s) // and keeps it in memory
		next := must.Get(r.renew(t, s, account))(t)
		for _, r := range []*rig{r, after} {
			r.wantOut(t, s)
			r.wantIn(t, next)
		}
		if next.login.ID != s.login.ID || !next.login.Created.Equal(s.login.Created) ||
			!next.login.Expires.Equal(s.login.Expires) {
			t.Errorf("the login %+v became %+v", s.login, next.login)
		}
		after.wantOut(t, other)
		r.wantRecords(t, SessionPrefix, 2) // the other login has one too
		r.wantRecords(t, refreshPrefix, 2)
		r, s = after, next
	}
	r.clock.Advance(time.Minute)
	disabled := r.people[0]
	disabled.Disabled = true
	gone := r.withAccounts(t, disabled, bob)
	record(gone)
	gone.wantOut(t, s)
	r.clock.Advance(time.Minute)
	back := r.withAccounts(t, r.people...)
	record(back)
	back.wantOut(t, s) // it has changed
	original := r.withAccounts(t, alice, bob)
	record(original)
	original.wantOut(t, s)
}

// A login that has ended is not renewed, and leaves nothing behind.
func TestRenewOfAnEndedLogin(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.signIn(t, "alice")
	account, _ := r.accounts.Lookup("alice")
	id := r.identity(t, s)
	r.end(t, s)
	_, err := r.overview().Renew(t.Context(), id, account, func(*Login) []Handle { return nil })
	if !errors.Is(err, ErrNoLogin) {
		t.Errorf("got %v", err)
	}
	r.wantRecords(t, loginPrefix, 0)
	for _, calls := range []string{"get login:", "put session:", "put refresh:", "swap login:"} {
		s := r.signIn(t, "alice")
		r.identity(t, s)
		r.store.Fails(calls)
		if _, err := r.renew(t, s, account); err == nil || errors.Is(err, ErrNoLogin) {
			t.Errorf("%s: got %v", calls, err)
		}
		r.store.Fails("")
		r.wantIn(t, s) // as before
		r.end(t, s)
		r.wantRecords(t, SessionPrefix, 0)
	}
}

// Only what the login names opens it: an old value whose record could not be deleted, or
// that another request wrote again, opens nothing.
func TestOldValuesOpenNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.signIn(t, "alice")
	attached := must.Get(r.attach(t, s, r.session, otherHost))(t)
	account, _ := r.accounts.Lookup("alice")
	r.store.Fails("delete ")
	next := must.Get(r.renew(t, s, account))(t)
	r.store.Fails("")
	r.wantOut(t, s)
	r.wantIn(t, next)
	_, err := r.session.Authenticate(t.Context(), at(otherHost, attached, ""))
	if !errors.Is(err, auth.ErrRejected) {
		t.Errorf("the session at another host opens the login: %v", err)
	}
	again := must.Get(r.attach(t, next, r.session, otherHost))(t)
	must.Get(r.session.Authenticate(t.Context(), at(otherHost, again, "")))(t)
	// A refresh that began before.
	if _, err := r.rotate(t, s.refresh); !errors.Is(err, auth.ErrRejected) || errors.As(err, new(*ReuseError)) {
		t.Errorf("the old refresh token: %v", err)
	}
	r.wantIn(t, next)
}

// A ticket from before the password was changed is one that a thief may have got.
func TestTicketsFromBeforeANewPassword(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.signIn(t, "alice")
	before := &journey.Ticket{Login: s.login.ID, Issued: r.now()}
	account, _ := r.accounts.Lookup("alice")
	if s.login.Outdates(before) {
		t.Error("a new ticket is outdated")
	}
	r.clock.Advance(1)
	next := must.Get(r.renew(t, s, account))(t)
	r.clock.Advance(1)
	after := &journey.Ticket{Login: s.login.ID, Issued: r.now()}
	if !next.login.Outdates(before) || next.login.Outdates(after) {
		t.Errorf("outdated: %t, %t", next.login.Outdates(before), next.login.Outdates(after))
	}
}

// The generation of an access token is a number of the gateway's.
func TestGenerationsOfAccessTokens(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.signIn(t, "alice")
	account, _ := r.accounts.Lookup("alice")
	next := must.Get(r.renew(t, s, account))(t)
	_, before := claimsOf(t, s.access)
	header, claims := claimsOf(t, next.access)
	if fmt.Sprint(claims["gen"]) != "1" || before["gen"] != nil {
		t.Errorf("the claims are %v and %v", claims, before)
	}
	sign := func() string {
		return (&forger{header: header, claims: claims, sign: signHS256(testSecret)}).token()
	}
	must.Get(r.byToken(t, sign()))(t)
	for _, gen := range []any{0, 2, -1, 1.5, "1", nil, true} {
		claims["gen"] = gen
		if _, err := r.byToken(t, sign()); !errors.Is(err, auth.ErrRejected) {
			t.Errorf("gen %v: %v", gen, err)
		}
	}
	delete(claims, "gen")
	_, err := r.byToken(t, sign())
	if rejection, ok := errors.AsType[*auth.Rejection](err); !ok || !strings.Contains(rejection.Reason, "password") {
		t.Errorf("without: %v", err)
	}
}
