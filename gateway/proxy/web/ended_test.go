package web_test

import (
	"net/http"
	"testing"
	"time"

	"authgate/gateway/identity/auth"
	"authgate/internal/test/rig"
)

// A user whose session has ended by time is told so for a day: on the sign-in page, and in the detail
// of a 401. Browsers drop its cookie at that moment; another one, which opens nothing, tells it, and so
// does the session's where a client keeps it. Who signed out, and who makes up a cookie, is told nothing.
func TestSessionEnded(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Base+"  - {match: /asks/, upstream: app, auth: [session], unauthenticated: challenge}\n")
	w := r.Want(200, "POST", "/login", rig.Alice, rig.JSON)
	lifetime := r.Config.Session.Lifetime
	for name, want := range map[string]time.Duration{"session_id": time.Hour, "authgate_ended": 25 * time.Hour} {
		if got := rig.MaxAge(t, w, name); got != want {
			t.Errorf("the cookie %s lives for %v", name, got)
		}
	}
	tells := rig.JarOf(w).Line("authgate_ended")
	r.Want(401, "GET", "/session/", "", tells)
	ended, bob := rig.ReadLogin(t, w).Cookie, rig.JarOf(r.Want(200, "POST", "/login", rig.Bob, rig.JSON))
	left, leftTells := bob.Line("session_id"), bob.Line("authgate_ended")
	if bob.Take(r.Want(200, "POST", "/logout", "", left)); len(bob) > 0 {
		t.Errorf("after the logout the browser has %v", bob)
	}
	if got := rig.DetailOf(t, r.Want(401, "GET", "/session/", "", tells)); got != auth.DetailNotSignedIn {
		t.Errorf("before the end: %q", got)
	}
	r.Clock.Advance(lifetime)
	const text, page = "Your session has ended. Please sign in again.", "/signin?return_to=%2Fsession%2F"
	for cookie, told := range map[string]bool{
		ended: true, tells: true, left: false, leftTells: false, "Cookie: session_id=junk": false,
		"Cookie: authgate_ended=junk": false, "Cookie: theme=dark": false,
	} {
		place, detail, shown := page, auth.DetailNotSignedIn, "not "+text
		if told {
			place, detail, shown = page+"&reason=ended", "Your session has ended.", text
		}
		if got := r.Want(302, "GET", "/session/", "", rig.Browser, cookie).Header().Get("Location"); got != place {
			t.Errorf("%s leads to %s, want %s", cookie, got, place)
		}
		for _, path := range []string{"/session/", "/asks/", "/me", "/account/sessions"} {
			for _, header := range []string{"Accept: application/json", "Sec-Fetch-Mode: cors"} {
				if got := rig.DetailOf(t, r.Want(401, "GET", path, "", header, cookie)); got != detail {
					t.Errorf("%s with %s, %s: %q", path, cookie, header, got)
				}
			}
		}
		rig.WantPage(t, r.Want(200, "GET", "/signin", "", rig.Browser, cookie), shown)
		r.Want(200, "GET", "/public/", "", cookie)
		rig.WantPage(t, r.Want(200, "GET", place, "", rig.Browser), shown)
	}
	rig.WantPage(t, r.Want(200, "GET", "/signin?reason=<b>", "", rig.Browser), "not "+text, "not &lt;b&gt;")
	// A cookie that is no longer valid is cleared once.
	if cleared := rig.Cleared(r.Want(200, "GET", "/signin", "", rig.Browser, ended)); len(cleared) != 1 {
		t.Errorf("cleared %q", cleared)
	}
	r.Clock.Advance(24 * time.Hour)
	for _, cookie := range []string{ended, tells} {
		if got := rig.DetailOf(t, r.Want(401, "GET", "/session/", "", cookie)); got != auth.DetailNotSignedIn {
			t.Errorf("a day later: %q", got)
		}
	}
}

// The cookie that tells of an ended session goes where the session's goes, and has its prefix.
func TestEndedCookie(t *testing.T) {
	t.Parallel()
	for yaml, name := range map[string]string{
		"session: {host_prefix: true}\n":          "__Host-authgate_ended",
		"session: {domain: gw.example}\n":         "authgate_ended",
		"session: {same_site: strict}\n":          "authgate_ended",
		"session: {cookie: __Host-sid}\n":         "authgate_ended",
		"session: {idle_timeout: 10m}\n":          "authgate_ended",
		"token: {delivery: cookie}\n":             "authgate_ended",
		"session: {lifetime: 1h, remember: 2d}\n": "authgate_ended",
	} {
		r := rig.New(t, rig.Base+yaml)
		w := r.Want(200, "POST", "/login", rig.Alice, rig.JSON)
		var session, tells *http.Cookie
		for _, c := range w.Result().Cookies() {
			switch c.Name {
			case r.Config.Session.Cookie:
				session = c
			case name:
				tells = c
			}
		}
		if session == nil || tells == nil || tells.Domain != session.Domain || tells.Path != "/" || !tells.Secure ||
			!tells.HttpOnly || tells.SameSite != http.SameSiteLaxMode || tells.MaxAge != session.MaxAge+86400 {
			t.Errorf("%s: the session has %v, and its end %v", yaml, session, tells)
			continue
		}
		if tells.Value == session.Value || len(tells.Value) != 43 {
			t.Errorf("%s: its value is %q", yaml, tells.Value)
		}
		r.Want(401, "GET", "/session/", "", "Cookie: "+session.Name+"="+tells.Value)
	}
}
