package login

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"authgate/gateway/identity/auth"
	"authgate/gateway/identity/provider"
	"authgate/internal/test/must"
)

// people signs in two persons in three sessions at the provider. The login "unnamed" has no
// session identifier there.
func (r *rig) signInPeople(tb testing.TB) map[string]*signedIn {
	tb.Helper()
	begin := func(sub, session string) *signedIn {
		grant := r.grant("user")
		grant.Profile.Subject, grant.Session = sub, session
		return r.signInAt(tb, grant)
	}
	return map[string]*signedIn{"here": begin(testPerson, "here"), "there": begin(testPerson, "there"),
		"unnamed": begin(testPerson, ""), "other": begin("1", "other")}
}

// logoutToken returns a new logout token.
func (r *rig) logoutToken(id, sub, session string) *provider.LogoutToken {
	return &provider.LogoutToken{ID: id, Subject: sub, Session: session, Expires: r.now().Add(2 * time.Minute)}
}

// wantEnded fails the test unless exactly those of the people have ended whose names are in want.
func (r *rig) wantEnded(tb testing.TB, people map[string]*signedIn, want string) {
	tb.Helper()
	for name, s := range people {
		if slices.Contains(strings.Fields(want), name) {
			r.wantOut(tb, s)
		} else {
			r.wantIn(tb, s, "user")
		}
	}
}

func TestBackChannelLogout(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, sub, session, ended string }{
		{"by sid alone", "", "here", "here"},
		{"by sub alone", testPerson, "", "here there unnamed"},
		{"by both", testPerson, "here", "here unnamed"},
		{"by an unknown sid", "", "nowhere", ""},
		{"by an unknown sid and a sub", testPerson, "nowhere", "unnamed"},
		{"by an unknown sub", "2", "", ""},
		{"by a sub that is a sid", "here", "", ""},
		{"by a sid that is a sub", "", testPerson, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			elsewhere, people, before := r.instance(t), r.signInPeople(t), r.signInPeople(t)
			for _, s := range before { // BackChannel does not name logins that have ended before
				r.end(t, s)
			}
			elsewhere.wantEnded(t, people, "") // warm
			got := must.Get(r.users.BackChannel(t.Context(), "keycloak", r.logoutToken("one", test.sub, test.session)))(t)
			elsewhere.wantEnded(t, people, test.ended)
			var names []string
			for name, s := range people {
				if slices.ContainsFunc(got, func(login *Login) bool { return login.ID == s.login.ID }) {
					names = append(names, name)
				}
			}
			if slices.Sort(names); strings.Join(names, " ") != test.ended || len(got) != len(names) {
				t.Errorf("BackChannel names %d logins: %q, want %q", len(got), names, test.ended)
			}
		})
	}
}

// A logout token ends only logins of its provider and its provider's current issuer. Two
// names of one issuer are two providers.
func TestBackChannelOfAnotherProvider(t *testing.T) {
	t.Parallel()
	other := providerAt("https://id.example.net")
	r := newRig(t, func(r *rig) { r.usersOptions.Providers["other"], r.usersOptions.Providers["same"] = other, r.op })
	people := r.signInPeople(t)
	repointed := r.instance(t, func(r *rig) { r.usersOptions.Providers["keycloak"] = other })
	for i, session := range []string{"", "here"} {
		for name, at := range map[string]*rig{"other": r, "same": r, "keycloak": repointed} {
			if ended, err := at.users.BackChannel(t.Context(), name,
				r.logoutToken(fmt.Sprint(name, i), testPerson, session)); err != nil || len(ended) != 0 {
				t.Errorf("%s: got %+v, %v, want nothing to end", name, ended, err)
			}
		}
	}
	r.wantEnded(t, people, "")
	if _, err := r.users.BackChannel(t.Context(), "gone", r.logoutToken("four", testPerson, "")); err == nil ||
		errors.Is(err, provider.ErrReplayed) {
		t.Errorf("of no provider: %v", err)
	}
	if _, err := r.users.FrontChannel(t.Context(), "gone", "here"); err == nil || errors.Is(err, auth.ErrRejected) {
		t.Errorf("of no provider: %v", err)
	}
}

// A logout token works once, on all instances. A token of another issuer may have the
// same jti.
func TestBackChannelReplay(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) {
		r.usersOptions.Providers["other"] = providerAt("https://id.example.net")
	})
	token := r.logoutToken("one", testPerson, "")
	must.Get(r.users.BackChannel(t.Context(), "keycloak", token))(t)
	r.clock.Advance(time.Second)
	s, elsewhere := r.signInAt(t, r.grant("user")), r.instance(t)
	for _, wait := range []time.Duration{0, 2*time.Minute - time.Second - 1} {
		r.clock.Advance(wait)
		for _, each := range []*rig{r, elsewhere} {
			if ended, err := each.users.BackChannel(t.Context(), "keycloak", token); len(ended) != 0 ||
				!errors.Is(err, provider.ErrReplayed) || errors.Is(err, auth.ErrRejected) {
				t.Errorf("after %v: got %+v, %v, want that it was used", wait, ended, err)
			}
		}
	}
	r.wantIn(t, s, "user")
	must.Get(r.users.BackChannel(t.Context(), "other", token))(t)
	must.Get(r.users.BackChannel(t.Context(), "keycloak", r.logoutToken("two", testPerson, "")))(t)
	r.wantOut(t, s)
	r.clock.Advance(2*time.Minute + time.Second) // to the end of the second, when it is not counted any more
	r.wantRecords(t, usedPrefix, 0)              // tokens are remembered for as long as they are good
}

// Anyone can send such a request, so an unknown session must not fill the store.
func TestFrontChannelLogout(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	elsewhere, people := r.instance(t), r.signInPeople(t)
	front := func(sid string, want ...string) {
		t.Helper()
		got, err := r.users.FrontChannel(t.Context(), "keycloak", sid)
		if same := func(login *Login, name string) bool { return login.ID == people[name].login.ID }; err != nil ||
			!slices.EqualFunc(got, want, same) {
			t.Errorf("%.20q: got %+v, %v, want %q", sid, got, err, want)
		}
	}
	r.store.TakeCalls()
	for _, sid := range []string{"nowhere", "", testPerson, people["here"].login.ID, strings.Repeat("x", 1<<20)} {
		front(sid)
	}
	r.store.WantReads(t)
	elsewhere.wantEnded(t, people, "")
	front("here", "here")
	elsewhere.wantEnded(t, people, "here")
	front("here")
}
