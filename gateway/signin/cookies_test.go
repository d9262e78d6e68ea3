package signin_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"authgate/gateway/endpoint/rig"
)

// After a user signs in as another user, the browser has the new identity alone,
// also if it had other cookies before.
func TestOneIdentityAfterSignIn(t *testing.T) {
	t.Parallel()
	logins := []string{"/login?mechanism=bearer", "/login?mechanism=session", "/login"}
	for _, before := range logins {
		for _, after := range logins {
			r := rig.New(t, rig.CookieDelivery)
			jar := rig.JarOf(r.Want(200, "POST", before, rig.Alice, rig.JSON))
			stale := jar["refresh_token"]
			jar.Take(r.Want(200, "POST", after, rig.Bob, rig.JSON, jar.Line()))
			r.Want(200, "GET", "/any/", "", jar.Line())
			if got := r.LastUser(); got != "bob" {
				t.Errorf("%s, then %s: as %q", before, after, got)
			}
			r.Want(401, "POST", "/refresh", "", "Cookie: refresh_token="+stale)
		}
	}
}

// A logout of two logins that failed halfway can be sent again.
func TestLogoutCanBeRepeated(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Base)
	rig.EachFailure(r.Client, r.Store, rig.Outages["from then"],
		func(broken func(*http.Request) *httptest.ResponseRecorder) {
			alice, bob := r.Login(rig.Alice), r.Login(rig.Bob)
			if w := broken(rig.Request("POST", "/logout", "", bob.Cookie, alice.Bearer)); w.Code != 200 {
				r.Do("POST", "/logout", "", bob.Cookie, alice.Bearer)
			}
			r.Good(alice, false)
			r.Good(bob, false)
		})
}

// A browser that returns from a provider does not send strict cookies. The sign-in
// ends their logins all the same.
func TestStrictCookiesEndAtTheCallback(t *testing.T) {
	t.Parallel()
	r, _ := rig.Delegated(t, "session: {same_site: strict}\ntoken: {delivery: cookie}\n")
	jar := rig.JarOf(r.Want(200, "POST", "/login", rig.Alice, rig.JSON))
	session, access := jar.Line("session_id"), jar.Line("access_token")
	back := r.Leave(jar.Line())
	r.Want(200, "GET", "/session/", "", session)
	w := r.Want(302, "GET", back.Target, "", back.Cookie)
	if rig.JarOf(w).Line("session") == "" {
		t.Fatalf("back again: no session")
	}
	jar.Take(w)
	if len(jar) != 1 || jar["session"] == "" {
		t.Errorf("the browser keeps %v", jar)
	}
	r.Want(401, "GET", "/session/", "", session)
	r.Want(401, "GET", "/bearer/", "", access)
}
