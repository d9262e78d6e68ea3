package login

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"authgate/gateway/auth"
	"authgate/gateway/provider"
)

// people are logins of two persons in three sessions at the provider. One login has no
// session identifier.
type people struct{ here, there, unnamed, other *signedIn }

func (d *delegation) people(tb testing.TB) people {
	tb.Helper()
	begin := func(sub, session string) *signedIn {
		grant := d.grant("user")
		grant.Profile.Subject, grant.Session = sub, session
		return d.signIn(tb, grant)
	}
	return people{begin(testPerson, "here"), begin(testPerson, "there"), begin(testPerson, ""), begin("1", "other")}
}

// logoutToken returns a new logout token.
func (d *delegation) logoutToken(id, sub, session string) *provider.LogoutToken {
	return &provider.LogoutToken{ID: id, Subject: sub, Session: session, Expires: d.now().Add(2 * time.Minute)}
}

func TestBackChannelLogout(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, sub, session string
		ended              func(people) []*signedIn
	}{
		{"by sid alone", "", "here", func(p people) []*signedIn { return []*signedIn{p.here} }},
		{"by sub alone", testPerson, "", func(p people) []*signedIn { return []*signedIn{p.here, p.there, p.unnamed} }},
		{"by both", testPerson, "here", func(p people) []*signedIn { return []*signedIn{p.here, p.unnamed} }},
		{"by an unknown sid", "", "nowhere", func(people) []*signedIn { return nil }},
		{"by an unknown sid and a sub", testPerson, "nowhere", func(p people) []*signedIn { return []*signedIn{p.unnamed} }},
		{"by an unknown sub", "2", "", func(people) []*signedIn { return nil }},
		{"by a sub that is a sid", "here", "", func(people) []*signedIn { return nil }},
		{"by a sid that is a sub", "", testPerson, func(people) []*signedIn { return nil }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := newDelegation(t, nil)
			elsewhere := d.instance(nil)
			p := d.people(t)
			for _, s := range []*signedIn{p.here, p.there, p.unnamed, p.other} {
				elsewhere.wantIn(t, s, "user") // warm
			}
			got := must(d.users.BackChannel(t.Context(), "keycloak", d.logoutToken("one", test.sub, test.session)))(t)
			want := test.ended(p)
			for name, s := range map[string]*signedIn{"here": p.here, "there": p.there, "unnamed": p.unnamed, "other": p.other} {
				told := slices.ContainsFunc(got, func(login *Login) bool { return login.ID == s.login.ID })
				_, err := elsewhere.by(t, s)
				if ends := slices.Contains(want, s); told != ends || ends != errors.Is(err, auth.ErrRejected) || !ends && err != nil {
					t.Errorf("%s: ended %v, want %v; afterwards %v", name, told, ends, err)
				}
			}
			if len(got) != len(want) {
				t.Errorf("%d logins ended, want %d", len(got), len(want))
			}
		})
	}
}

// A logout token ends only logins of its provider and its provider's current issuer.
func TestBackChannelOfAnotherProvider(t *testing.T) {
	t.Parallel()
	d := newDelegation(t, func(d *delegation) { d.options.Providers["other"] = &testProvider{issuer: "https://id.example.net"} })
	p := d.people(t)
	for _, token := range []*provider.LogoutToken{d.logoutToken("one", testPerson, ""), d.logoutToken("two", testPerson, "here")} {
		if ended, err := d.users.BackChannel(t.Context(), "other", token); err != nil || len(ended) != 0 {
			t.Errorf("got %+v, %v", ended, err)
		}
		changed := d.instance(func(o *UsersOptions) { o.Providers["keycloak"] = o.Providers["other"] })
		if ended, err := changed.users.BackChannel(t.Context(), "keycloak", d.logoutToken("3"+token.ID, token.Subject, token.Session)); err != nil || len(ended) != 0 {
			t.Errorf("re-pointed: got %+v, %v", ended, err)
		}
	}
	d.wantIn(t, p.here, "user")
	if _, err := d.users.BackChannel(t.Context(), "gone", d.logoutToken("four", testPerson, "")); err == nil || errors.Is(err, ErrReplayed) {
		t.Errorf("of no provider: %v", err)
	}
}

// A logout token works once, on all instances. A token of another issuer may have the
// same jti.
func TestBackChannelReplay(t *testing.T) {
	t.Parallel()
	d := newDelegation(t, func(d *delegation) { d.options.Providers["other"] = &testProvider{issuer: "https://id.example.net"} })
	token := d.logoutToken("one", testPerson, "")
	must(d.users.BackChannel(t.Context(), "keycloak", token))(t)
	d.clock.Advance(time.Second)
	s := d.signIn(t, d.grant("user"))
	for _, each := range []*delegation{d, d.instance(nil)} {
		for _, at := range []time.Duration{0, 2*time.Minute - time.Second - 1} {
			d.clock.Advance(at)
			if ended, err := each.users.BackChannel(t.Context(), "keycloak", token); len(ended) != 0 || !errors.Is(err, ErrReplayed) || errors.Is(err, auth.ErrRejected) {
				t.Errorf("after %v: got %+v, %v, want that it was used", at, ended, err)
			}
		}
		d.clock.Advance(-2*time.Minute + time.Second + 1)
	}
	d.wantIn(t, s, "user")
	must(d.users.BackChannel(t.Context(), "other", token))(t)
	must(d.users.BackChannel(t.Context(), "keycloak", d.logoutToken("two", testPerson, "")))(t)
	d.wantOut(t, s)
	d.clock.Advance(2 * time.Minute)
	if n := d.records(t, usedPrefix); n != 0 {
		t.Errorf("%d tokens are remembered for longer than they are good", n)
	}
}

// If a logout fails, the provider can send the same token again.
func TestBackChannelFailingHalfWay(t *testing.T) {
	t.Parallel()
	for _, failing := range []string{
		"get used:", "get group:", "swap group:", "put used:", "take login:",
		"get " + sessionGroup("keycloak", testOP, "here"), "swap " + sessionGroup("keycloak", testOP, "here"),
		"get " + unnamedGroup("keycloak", testOP, testPerson), "swap " + unnamedGroup("keycloak", testOP, testPerson),
		"take login of here", "take login of there", "take login of unnamed",
	} {
		for _, late := range []bool{false, true} {
			for name, ids := range map[string][2]string{"by sub": {testPerson, ""}, "by both": {testPerson, "here"}} {
				t.Run(fmt.Sprintf("%s, %.26s, late %v", name, failing, late), func(t *testing.T) {
					t.Parallel()
					d := newDelegation(t, nil)
					p := d.people(t)
					calls := strings.NewReplacer(
						"login of here", "login:"+p.here.login.ID, "login of there", "login:"+p.there.login.ID, "login of unnamed", "login:"+p.unnamed.login.ID,
					).Replace(failing)
					token := d.logoutToken("one", ids[0], ids[1])
					d.store.late = late
					d.store.fails(calls)
					_, err := d.users.BackChannel(t.Context(), "keycloak", token)
					failed := err != nil
					if failed && (!errors.Is(err, errStore) || errors.Is(err, ErrReplayed) || errors.Is(err, auth.ErrRejected)) {
						t.Errorf("got %v, want the error of the store", err)
					}
					d.store.fails("")
					if failed {
						d.clock.Advance(time.Second)
						// With late, it may be stored that the token was used.
						if _, err := d.users.BackChannel(t.Context(), "keycloak", token); err != nil && !errors.Is(err, ErrReplayed) {
							t.Errorf("sent again: %v", err)
						}
					}
					d.wantOut(t, p.here)
					d.wantOut(t, p.unnamed)
					if ids[1] == "" {
						d.wantOut(t, p.there)
					}
					d.wantIn(t, p.other, "user")
				})
			}
		}
	}
}

// Anyone can send such a request, so an unknown session must not fill the store.
func TestFrontChannelLogout(t *testing.T) {
	t.Parallel()
	d := newDelegation(t, nil)
	elsewhere := d.instance(nil)
	p := d.people(t)
	d.store.takeCalls()
	for _, sid := range []string{"nowhere", "", testPerson, p.here.login.ID, strings.Repeat("x", 1<<20)} {
		if ended, err := d.users.FrontChannel(t.Context(), "keycloak", sid); err != nil || len(ended) != 0 {
			t.Errorf("%.20q: got %+v, %v", sid, ended, err)
		}
	}
	for _, call := range d.store.takeCalls() {
		if !strings.HasPrefix(call, "get ") {
			t.Errorf("the store was asked to %s", call)
		}
	}
	elsewhere.wantIn(t, p.here, "user")
	got, err := d.users.FrontChannel(t.Context(), "keycloak", "here")
	if err != nil || len(got) != 1 || got[0].ID != p.here.login.ID {
		t.Errorf("got %+v, %v, want the login of that session", got, err)
	}
	elsewhere.wantOut(t, p.here)
	for _, s := range []*signedIn{p.there, p.unnamed, p.other} {
		elsewhere.wantIn(t, s, "user")
	}
	if again, err := d.users.FrontChannel(t.Context(), "keycloak", "here"); err != nil || len(again) != 0 {
		t.Errorf("again: got %+v, %v", again, err)
	}
	if _, err := d.users.FrontChannel(t.Context(), "gone", "here"); err == nil || errors.Is(err, auth.ErrRejected) {
		t.Errorf("of no provider: %v", err)
	}
}
