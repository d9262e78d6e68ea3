package login

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"authgate/gateway/auth"
	"authgate/gateway/provider"
	"authgate/gateway/seal"
	"authgate/gateway/store"
	"authgate/policy"
)

func TestBeginSavesUserLoginGroupsAndSession(t *testing.T) {
	t.Parallel()
	d := newDelegation(t, nil)
	grant := d.grant("user")
	s := d.signIn(t, grant)

	known := stored[user](t, d.store, userPrefix+"keycloak:"+testPerson)
	if diff := cmp.Diff(user{Issuer: testOP, Profile: grant.Profile, Updated: d.now()}, *known); diff != "" {
		t.Errorf("the user (-want +got):\n%s", diff)
	}
	login := stored[Login](t, d.store, loginPrefix+s.login.ID)
	if v := login.Delegated; v == nil || v.Provider != "keycloak" || v.Issuer != testOP || v.User != testPerson || v.Session != grant.Session ||
		!v.Expires.Equal(grant.Tokens.Expires) || !v.RenewAt.Equal(d.now().Add(15*time.Minute)) || !login.Expires.Equal(d.now().Add(time.Hour)) {
		t.Errorf("the login is %+v", login)
	}
	if len(login.Handles) != 1 {
		t.Fatalf("the handles are %q, want the session", login.Handles)
	}
	if session := stored[sessionRecord](t, d.store, login.Handles[0]); session.Mechanism != policy.OIDC || session.Login != s.login.ID {
		t.Errorf("the session is %+v", session)
	}
	for name, key := range map[string]string{
		"the person's":  personGroup("keycloak", testOP, testPerson),
		"the session's": sessionGroup("keycloak", testOP, grant.Session),
	} {
		want := group{Members: []member{{Login: s.login.ID, Expires: login.Expires}}}
		if diff := cmp.Diff(want, *stored[group](t, d.store, key)); diff != "" {
			t.Errorf("%s group (-want +got):\n%s", name, diff)
		}
	}
	tokens, err := d.users.Tokens(s.login)
	if diff := cmp.Diff(grant.Tokens, tokens); err != nil || diff != "" {
		t.Errorf("the tokens: %v (-want +got):\n%s", err, diff)
	}

	d.clock.Advance(time.Hour - 1)
	d.wantIn(t, s, "user")
	d.clock.Advance(1)
	d.wantOut(t, s)
	if n := d.records(t, ""); n != 0 {
		t.Errorf("%d records outlive the login", n)
	}
}

func TestAnotherEncryptionKeyLosesTheTokensAlone(t *testing.T) {
	t.Parallel()
	d := newDelegation(t, nil)
	s, other := d.signIn(t, d.grant("user")), d.signIn(t, d.grant("user"))
	moved := *s.login.Delegated
	moved.Tokens = other.login.Delegated.Tokens
	for name, login := range map[string]*Login{"with the tokens of another login": {ID: s.login.ID, Delegated: &moved}, "local": {ID: "local"}} {
		if tokens, err := d.users.Tokens(login); err == nil || tokens != (provider.Tokens{}) {
			t.Errorf("%s: got %#v, %v", name, tokens, err)
		}
	}
	d = d.instance(func(o *UsersOptions) { o.Box = testBox(t, "another") })
	d.wantIn(t, s, "user")
	if tokens, err := d.users.Tokens(s.login); !errors.Is(err, seal.ErrOpen) || tokens != (provider.Tokens{}) {
		t.Errorf("got %#v, %v, want the tokens lost", tokens, err)
	}
	d.clock.Advance(15 * time.Minute)
	d.users.renewOnce(s.login)
	got := d.reports.take()
	if len(got) != 1 || got[0].login != s.login.ID || got[0].ended || !errors.Is(got[0].err, seal.ErrOpen) {
		t.Errorf("reported %+v, want that the tokens cannot be opened", got)
	}
	if asked := d.op.refreshes(); len(asked) != 0 {
		t.Errorf("the provider was given %q", asked)
	}
	d.wantIn(t, s, "user")
}

// Sessions of local accounts and delegated sessions cannot replace each other, under any
// cookie and with changed records.
func TestKindsOfSessionAreApart(t *testing.T) {
	t.Parallel()
	m := newMechanisms(t, nil)
	d := newDelegation(t, func(d *delegation) { d.clock, d.now, d.store = m.clock, m.clock.Now, m.store })
	local, delegated := m.signIn(t, "alice"), d.signIn(t, d.grant("user"))
	check := func(why string, warm bool) {
		t.Helper()
		for range 2 {
			id, err := m.session.Authenticate(t.Context(), &auth.Credentials{Session: delegated.session, Delegated: local.session})
			if id != nil {
				t.Errorf("%s: a delegated session opens session: %+v", why, id)
			}
			wantRejected(t, auth.DetailNotSignedIn, "unknown")(id, err)
			id, err = d.session.Authenticate(t.Context(), &auth.Credentials{Session: delegated.session, Delegated: local.session})
			if id != nil {
				t.Errorf("%s: a local session opens oidc: %+v", why, id)
			}
			wantRejected(t, auth.DetailNotSignedIn, "unknown")(id, err)
			if warm {
				d.wantIn(t, delegated, "user")
				if id, err := m.bySession(t, local.session); err != nil || id.Mechanism != policy.Session {
					t.Errorf("%s: got %+v, %v", why, id, err)
				}
			}
		}
	}
	check("as they are", true)
	if id, err := m.session.Authenticate(t.Context(), &auth.Credentials{Delegated: local.session}); id != nil || !errors.Is(err, auth.ErrNoCredentials) {
		t.Errorf("local: got %+v, %v, want that nothing was presented", id, err)
	}
	if id, err := d.session.Authenticate(t.Context(), &auth.Credentials{Session: delegated.session}); id != nil || !errors.Is(err, auth.ErrNoCredentials) {
		t.Errorf("delegated: got %+v, %v, want that nothing was presented", id, err)
	}
	// With the other mechanism in its record, a session still has its own login.
	restore(t, m.store, local.login.Handles[0], func(r *sessionRecord) { r.Mechanism = policy.OIDC })
	restore(t, m.store, delegated.login.Handles[0], func(r *sessionRecord) { r.Mechanism = policy.Session })
	check("with swapped mechanisms", false)
	// A login cannot be of both kinds.
	restore(t, m.store, loginPrefix+delegated.login.ID, func(l *Login) { l.Username, l.Version = local.login.Username, local.login.Version })
	check("with a login of both kinds", false)
}

// If a provider is removed from the configuration or gets another issuer, its logins do
// not count until the old configuration is back.
func TestLoginsFollowTheConfiguredProvider(t *testing.T) {
	t.Parallel()
	elsewhere := &testProvider{issuer: "https://id.example.org/realms/other"}
	for name, change := range map[string]func(*UsersOptions){
		"removed":    func(o *UsersOptions) { clear(o.Providers) },
		"renamed":    func(o *UsersOptions) { o.Providers = map[string]Provider{"other": o.Providers["keycloak"]} },
		"re-pointed": func(o *UsersOptions) { o.Providers["keycloak"] = elsewhere },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDelegation(t, nil)
			s := d.signIn(t, d.grant("user"))
			d.wantIn(t, s, "user")
			changed := d.instance(change)
			changed.wantOut(t, s)
			if name != "re-pointed" {
				if again, err := changed.begin(t, "keycloak", d.grant("user"), d.now()); again.login != nil || err == nil || errors.Is(err, auth.ErrRejected) {
					t.Errorf("a new login: got %+v, %v", again.login, err)
				}
			}
			d.clock.Advance(15 * time.Minute)
			changed.users.renewOnce(s.login)
			if asked := append(d.op.refreshes(), elsewhere.refreshes()...); len(asked) != 0 {
				t.Errorf("somebody was given the refresh token %q", asked)
			}
			d.instance(nil).wantIn(t, s, "user")
		})
	}
}

// The same sub at another issuer is another person, also when the name has its first
// issuer again.
func TestSameSubjectOfAnotherIssuer(t *testing.T) {
	t.Parallel()
	d := newDelegation(t, nil)
	s := d.signIn(t, d.grant("user"))
	d.wantIn(t, s, "user")
	changed := d.instance(func(o *UsersOptions) { o.Providers["keycloak"] = &testProvider{issuer: "https://id.example.net"} })
	stranger := changed.signIn(t, changed.grant("admin"))
	changed.wantIn(t, stranger, "admin")
	changed.wantOut(t, s)
	again := d.instance(nil)
	again.wantOut(t, stranger)
	again.wantOut(t, s) // the record is that of the other person
	d.wantOut(t, s)     // the cache does not help
}

func TestUserRecords(t *testing.T) {
	t.Parallel()
	const key = userPrefix + "keycloak:" + testPerson
	for name, change := range map[string]func(store.Store){
		"missing":           func(s store.Store) { noError(t, s.Delete(t.Context(), key)) },
		"of another issuer": func(s store.Store) { restore(t, s, key, func(u *user) { u.Issuer = "https://id.example.net" }) },
		"of another person": func(s store.Store) { restore(t, s, key, func(u *user) { u.Profile.Subject = "1" }) },
		"damaged":           func(s store.Store) { noError(t, s.Put(t.Context(), key, []byte(`{"issuer":7`), time.Time{})) },
	} {
		for _, warm := range []bool{false, true} {
			d := newDelegation(t, nil)
			s := d.signIn(t, d.grant("user"))
			if warm {
				d.wantIn(t, s, "user")
			}
			change(d.store)
			id, err := d.by(t, s)
			if name == "damaged" {
				wantNoAnswer(t)(id, err)
			} else {
				wantRejected(t, auth.DetailNotSignedIn, "unknown")(id, err)
			}
		}
	}
}

// If a step of a login fails, the error is that of the store, and nothing usable remains.
func TestBeginDelegatedWithAFailingStore(t *testing.T) {
	t.Parallel()
	person, session := personGroup("keycloak", testOP, testPerson), sessionGroup("keycloak", testOP, "session at the provider")
	for _, failing := range []string{"get " + person, "swap " + person, "get " + session, "swap " + session, "swap user:", "put session:", "put login:"} {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprintf("%.20s, late %v", failing, late), func(t *testing.T) {
				t.Parallel()
				d := newDelegation(t, nil)
				before := d.signIn(t, d.grant("user"))
				d.store.late = late
				d.store.fails(failing)
				s, err := d.begin(t, "keycloak", d.grant("admin"), d.now())
				if s.login != nil || !errors.Is(err, errStore) || errors.Is(err, auth.ErrRejected) {
					t.Errorf("got %+v, %v, want the error of the store", s.login, err)
				}
				d.store.fails("")
				d.wantOut(t, s)
				if n := d.records(t, loginPrefix); n != 1 {
					t.Errorf("%d logins in the store, want the one from before", n)
				}
				must(d.by(t, before))(t)
				again := d.signIn(t, d.grant("auditor"))
				d.wantIn(t, again, "auditor")
			})
		}
	}
}

// A shorter lifetime counts for existing delegated sessions. A longer one does not.
func TestLifetimeOfDelegatedSessions(t *testing.T) {
	t.Parallel()
	d := newDelegation(t, nil)
	s, created := d.signIn(t, d.grant("user")), d.now()
	shorter := d.instance(func(o *UsersOptions) { o.Lifetime = 10 * time.Minute })
	longer := d.instance(func(o *UsersOptions) { o.Lifetime = 2 * time.Hour })
	if id, err := shorter.by(t, s); err != nil || !id.Expires.Equal(created.Add(10*time.Minute)) {
		t.Errorf("got %+v, %v, want an end after 10 minutes", id, err)
	}
	d.clock.Advance(10*time.Minute - 1)
	shorter.wantIn(t, s, "user")
	d.clock.Advance(1)
	shorter.wantOut(t, s)
	longer.wantIn(t, s, "user")
	d.clock.Advance(50 * time.Minute)
	longer.wantOut(t, s)
}

// A cached session does not count if the store's records have changed.
func TestWarmDelegatedSessionSeesWhatOthersWrote(t *testing.T) {
	t.Parallel()
	d := newDelegation(t, nil)
	s, other := d.signIn(t, d.grant("user")), d.signIn(t, d.grant("user"))
	d.wantIn(t, s, "user")
	restore(t, d.store, userPrefix+"keycloak:"+testPerson, func(u *user) { u.Profile.Roles = []string{"auditor"} })
	d.wantIn(t, s, "auditor")
	restore(t, d.store, s.login.Handles[0], func(r *sessionRecord) { r.Login = other.login.ID })
	d.wantIn(t, &signedIn{login: other.login, session: s.session}, "auditor")
	restore(t, d.store, loginPrefix+other.login.ID, func(l *Login) { l.Delegated.User = "somebody else" })
	d.wantOut(t, s)
	restore(t, d.store, loginPrefix+other.login.ID, func(l *Login) { l.Delegated = nil })
	d.wantOut(t, s)
}

// A slow renewal does not replace a newer profile.
func TestOlderProfileDoesNotReplaceNewer(t *testing.T) {
	t.Parallel()
	d := newDelegation(t, nil)
	asked := d.now()
	d.clock.Advance(time.Second)
	s := d.signIn(t, d.grant("user"))
	noError(t, d.users.save(t.Context(), s.login.Delegated, d.grant("user", "admin").Profile, asked))
	d.wantIn(t, s, "user")
	d.clock.Advance(time.Second)
	noError(t, d.users.save(t.Context(), s.login.Delegated, d.grant("auditor").Profile, d.now()))
	d.wantIn(t, s, "auditor")
}
