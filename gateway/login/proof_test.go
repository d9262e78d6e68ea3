package login

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"authgate/gateway/identity/auth"
	"authgate/gateway/identity/provider"
	"authgate/gateway/people/accounts"
	"authgate/gateway/people/factors"
	"authgate/internal/test/must"
	"authgate/policy"
)

// wantProof fails the test unless an identity has exactly this proof.
func wantProof(t *testing.T, what string, want policy.Proof, id *policy.Identity, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if diff := cmp.Diff(want, id.Proof); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// All that a login has, and gets later, has the proof of its sign-in: nothing makes it
// younger, and nothing adds to it.
func TestProofStaysWithTheLogin(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	want := policy.Proof{AMR: []string{factors.Password}, AuthTime: r.now()}
	s := r.signIn(t, "alice")
	all := func(when string) {
		t.Helper()
		for _, at := range []*rig{r, r.elsewhere(t)} {
			id, err := at.bySession(t, s)
			wantProof(t, when+": the session", want, id, err)
			id, err = at.byToken(t, s.access)
			wantProof(t, when+": the access token", want, id, err)
		}
	}
	all("at first")

	r.clock.Advance(10 * time.Minute)
	rotated := must.Get(r.rotate(t, s.refresh))(t)
	s.refresh = rotated.Token
	s.access, _, _ = r.bearer.Issue(rotated.Login, rotated.Account)
	_, claims := claimsOf(t, s.access)
	if at, _ := claims["auth_time"].(float64); int64(at) != want.AuthTime.Unix() {
		t.Errorf("a refreshed token says auth_time %v, want %v", claims["auth_time"], want.AuthTime.Unix())
	}
	all("refreshed")

	there := must.Get(r.attach(t, s, r.session, otherHost))(t)
	id, err := r.session.Authenticate(t.Context(), at(otherHost, there, ""))
	wantProof(t, "a session at another host", want, id, err)

	changed := alice
	changed.Hash = testHash("looking-glass")
	after := r.withAccounts(t, changed, bob)
	account, _ := after.accounts.Lookup("alice")
	s, r = must.Get(r.renew(t, s, account))(t), after
	all("with a new password")
}

// A login at a provider keeps the proof of its sign-in. What the provider says at a renewal
// is about another time.
func TestProofOfAProvider(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	grant := r.grant("user")
	grant.Proof = policy.Proof{AMR: []string{"hwk", "mfa"}, AuthTime: r.now().Add(-time.Hour)}
	s := r.signInAt(t, grant)
	id, err := r.bySession(t, s)
	wantProof(t, "at first", grant.Proof, id, err)

	r.clock.Advance(15 * time.Minute)
	next := r.grant("auditor")
	next.Proof = policy.Proof{AMR: []string{"pwd"}, AuthTime: r.now()}
	r.op.Answers(func(context.Context, string) (*provider.Grant, error) { return next, nil })
	r.users.renewOnce(s.login)
	r.wantIn(t, s, "auditor")
	id, err = r.bySession(t, s)
	wantProof(t, "renewed", grant.Proof, id, err)
}

// The login that adds a second factor goes on, and has used it; so does all that it has. Another
// login of the account ends with the change.
func TestKeep(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	must.Do(t, r.accounts.RecordChanges(t.Context(), r.store, accounts.Reload{Now: r.now()}))
	before := policy.Proof{AMR: []string{factors.Password}, AuthTime: r.now()}
	s, other := r.signIn(t, "alice"), r.signIn(t, "alice")
	r.wantIn(t, s)
	r.clock.Advance(time.Minute)
	changed := alice
	changed.Factors = factors.Set{TOTP: &factors.TOTP{Secret: "c2VhbGVk"}}
	next := r.withAccounts(t, changed, bob)
	must.Do(t, next.accounts.RecordChanges(t.Context(), r.store, accounts.Reload{Now: r.now(), Running: r.accounts}))
	account, _ := next.accounts.Lookup("alice")
	id := &policy.Identity{Login: s.login.ID}
	for range 2 {
		must.Get(r.overview().Keep(t.Context(), id, account, "otp"))(t)
	}
	want := policy.Proof{AMR: []string{factors.Password, "otp", policy.TwoFactors}, AuthTime: before.AuthTime}
	for _, r := range []*rig{r, next} { // an instance that does not know the factor, and one that does
		id, err := r.bySession(t, s)
		wantProof(t, "the session", want, id, err)
		id, err = r.byToken(t, s.access)
		wantProof(t, "the access token", want, id, err)
		rotated := must.Get(r.rotate(t, s.refresh))(t)
		if diff := cmp.Diff(want, rotated.Login.Proof); diff != "" {
			t.Errorf("a refresh: %s", diff)
		}
		s.refresh = rotated.Token
	}
	id, err := r.bySession(t, other)
	wantProof(t, "another login", before, id, err)
	if _, err := next.bySession(t, other); !errors.Is(err, auth.ErrRejected) {
		t.Errorf("another login, with the factor: %v", err)
	}
	r.end(t, s)
	_, err = r.overview().Keep(t.Context(), &policy.Identity{Login: s.login.ID}, account)
	if !errors.Is(err, ErrNoLogin) {
		t.Errorf("a login that has ended: %v", err)
	}
}

// A login that an older version has recorded has no proof, and what belongs to no login
// has none either.
func TestNoProof(t *testing.T) {
	t.Parallel()
	e := newEverything(t)
	for _, s := range []*signedIn{e.local, e.remote} {
		restore(t, e.store, loginPrefix+s.login.ID, func(l *Login) { l.Proof = policy.Proof{} })
		if raw := must.Get(e.store.Get(t.Context(), loginPrefix+s.login.ID))(t); strings.Contains(string(raw), "proof") {
			t.Errorf("the record is not like an old one: %s", raw)
		}
		id, err := e.bySession(t, s)
		wantProof(t, "a session of an older version", policy.Proof{}, id, err)
	}
	id, err := e.byToken(t, e.local.access)
	wantProof(t, "an access token of an older version, whatever it says", policy.Proof{}, id, err)
	login := must.Get(e.rotate(t, e.local.refresh))(t)
	token, _, err := e.bearer.Issue(login.Login, login.Account)
	must.Do(t, err)
	if _, claims := claimsOf(t, token); claims["amr"] != nil || claims["auth_time"] != nil {
		t.Errorf("a refreshed token says %v at %v", claims["amr"], claims["auth_time"])
	}

	id, err = e.bearers.Authenticate(t.Context(), &auth.Credentials{Scheme: "bearer", Value: e.jwt})
	wantProof(t, "a token of another issuer", policy.Proof{}, id, err)

	// Somebody else may have the gateway's key.
	date := e.now().Unix()
	foreign := must.Get(e.keys.Sign(map[string]any{
		"iss": testIssuer, "sub": "alice", "aud": "authgate", "iat": date, "nbf": date, "exp": date + 900, "jti": "x",
		"amr": []string{"pwd", "mfa"}, "auth_time": date,
	}))(t)
	id, err = e.byToken(t, foreign)
	wantProof(t, "a token without a login", policy.Proof{}, id, err)
}
