package login

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"authgate/gateway/identity/auth"
	"authgate/gateway/identity/provider"
	"authgate/gateway/store/seal"
	"authgate/internal/test/must"
	"authgate/policy"
)

func TestBeginSavesUserLoginGroupsAndSession(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	grant := r.grant("user")
	s := r.signInAt(t, grant)

	known := stored[user](t, r.store, userPrefix+"keycloak:"+testPerson)
	if diff := cmp.Diff(user{
		Issuer: testOP, Profile: grant.Profile, Said: grant.Said, Updated: r.now(),
	}, *known); diff != "" {
		t.Errorf("the user (-want +got):\n%s", diff)
	}
	login := stored[Login](t, r.store, loginPrefix+s.login.ID)
	if d := login.Delegated; d == nil || d.Provider != "keycloak" || d.Issuer != testOP ||
		d.User != testPerson || d.Session != testSession || !d.Expires.Equal(grant.Tokens.Expires) ||
		!d.RenewAt.Equal(r.now().Add(15*time.Minute)) || !login.Expires.Equal(r.now().Add(time.Hour)) {
		t.Errorf("the login is %+v", login)
	}
	if len(login.Handles) != 1 {
		t.Fatalf("the handles are %q, want the session", login.Handles)
	}
	if session := stored[sessionRecord](t, r.store, login.Handles[0]); session.Mechanism != policy.OIDC ||
		session.Login != s.login.ID {
		t.Errorf("the session is %+v", session)
	}
	for _, key := range []string{
		personGroup("keycloak", testOP, testPerson), sessionGroup("keycloak", testOP, testSession),
	} {
		want := group{Members: []member{{Login: s.login.ID, Expires: login.Expires}}}
		if diff := cmp.Diff(want, *r.group(t, key)); diff != "" {
			t.Errorf("group %s (-want +got):\n%s", key, diff)
		}
	}
	tokens, err := r.users.Tokens(s.login)
	if diff := cmp.Diff(grant.Tokens, tokens); err != nil || diff != "" {
		t.Errorf("the tokens: %v (-want +got):\n%s", err, diff)
	}

	r.clock.Advance(time.Hour - 1)
	r.wantIn(t, s, "user")
	r.clock.Advance(1)
	r.wantExpired(t, s)
	r.clock.Advance(auth.TraceLifetime)
	r.wantRecords(t, "", 0)
	r.wantOut(t, s)
}

func TestAnotherEncryptionKeyLosesTheTokensAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, other := r.signInAt(t, r.grant("user")), r.signInAt(t, r.grant("user"))
	moved := *s.login.Delegated
	moved.Tokens = other.login.Delegated.Tokens
	for name, login := range map[string]*Login{
		"with the tokens of another login": {ID: s.login.ID, Delegated: &moved},
		"local":                            {ID: "local"},
	} {
		if tokens, err := r.users.Tokens(login); err == nil || tokens != (provider.Tokens{}) {
			t.Errorf("%s: got %#v, %v, want an error alone", name, tokens, err)
		}
	}
	r = r.instance(t, func(r *rig) { r.box = testBox(t, "another") })
	r.wantIn(t, s, "user")
	if tokens, err := r.users.Tokens(s.login); !errors.Is(err, seal.ErrOpen) || tokens != (provider.Tokens{}) {
		t.Errorf("got %#v, %v, want the tokens lost", tokens, err)
	}
	r.clock.Advance(15 * time.Minute)
	r.users.renewOnce(s.login)
	r.wantReported(t, s, false, seal.ErrOpen)
	r.wantAsked(t, 0)
	r.wantIn(t, s, "user")
}

// Sessions of local accounts and delegated sessions cannot replace each other, under any
// cookie and with changed records.
func TestKindsOfSessionAreApart(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	local, delegated := r.signIn(t, "alice"), r.signInAt(t, r.grant("user"))
	swapped := []*signedIn{{session: delegated.delegated}, {delegated: local.session}}
	wantApart := func() {
		t.Helper()
		for _, s := range swapped {
			r.wantOut(t, s)
		}
	}
	wantApart()
	for range 2 { // cold and warm
		r.wantIn(t, delegated, "user")
		if id, err := r.bySession(t, local); err != nil || id.Mechanism != policy.Session {
			t.Errorf("got %+v, %v, want the local session", id, err)
		}
		wantApart()
	}
	id, err := r.session.Authenticate(t.Context(), &auth.Credentials{Delegated: local.session})
	wantNothing(t, id, err)
	id, err = r.delegated.Authenticate(t.Context(), &auth.Credentials{Session: delegated.delegated})
	wantNothing(t, id, err)
	// With the other mechanism in its record, a session still has its own login.
	restore(t, r.store, local.login.Handles[0], func(r *sessionRecord) { r.Mechanism = policy.OIDC })
	restore(t, r.store, delegated.login.Handles[0], func(r *sessionRecord) { r.Mechanism = policy.Session })
	wantApart()
	// A login cannot be of both kinds.
	restore(t, r.store, loginPrefix+delegated.login.ID, func(l *Login) {
		l.Username, l.Version = local.login.Username, local.login.Version
	})
	wantApart()
}

// If a provider is removed from the configuration or gets another issuer, its logins do
// not count until the old configuration is back. The same sub at the other issuer is another person.
func TestLoginsFollowTheConfiguredProvider(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(r *rig, elsewhere Provider){
		"removed":    func(r *rig, _ Provider) { clear(r.usersOptions.Providers) },
		"renamed":    func(r *rig, _ Provider) { r.usersOptions.Providers = map[string]Provider{"other": r.op} },
		"re-pointed": func(r *rig, elsewhere Provider) { r.usersOptions.Providers["keycloak"] = elsewhere },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, elsewhere := newRig(t), providerAt("https://id.example.org/realms/other")
			s := r.signInAt(t, r.grant("user"))
			r.wantIn(t, s, "user")
			changed := r.instance(t, func(r *rig) { change(r, elsewhere) })
			changed.wantOut(t, s)
			stranger, err := changed.beginAt(t, "keycloak", r.grant("admin"), r.now())
			if name != "re-pointed" && (stranger.login != nil || err == nil || errors.Is(err, auth.ErrRejected)) {
				t.Errorf("a new login: got %+v, %v, want an error alone", stranger.login, err)
			}
			r.clock.Advance(15 * time.Minute)
			changed.users.renewOnce(s.login)
			r.wantAsked(t, 0)
			if asked := elsewhere.Questions(); len(asked) != 0 {
				t.Errorf("the other provider was given the refresh token %q", asked)
			}
			again := r.instance(t)
			if name != "re-pointed" {
				again.wantIn(t, s, "user")
				return
			}
			changed.wantIn(t, stranger, "admin")
			again.wantOut(t, stranger)
			again.wantOut(t, s) // the record is that of the other person
			r.wantOut(t, s)     // the cache does not help
		})
	}
}

// A slow renewal does not replace a newer profile.
func TestOlderProfileDoesNotReplaceNewer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	asked := r.now()
	r.clock.Advance(time.Second)
	s := r.signInAt(t, r.grant("user"))
	save := func(asked time.Time, roles ...string) {
		must.Do(t, r.users.saveProfile(t.Context(), s.login.Delegated, asked, func(provider.Said) (provider.Profile,
			provider.Said) {
			return r.grant(roles...).Profile, provider.Said{}
		}))
	}
	save(asked, "user", "admin")
	r.wantIn(t, s, "user")
	r.clock.Advance(time.Second)
	save(r.now(), "auditor")
	r.wantIn(t, s, "auditor")
}
