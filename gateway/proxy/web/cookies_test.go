package web_test

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"authgate/internal/test/rig"
)

// twoCookies accepts a token in a cookie, or a session, at /tokens/.
const twoCookies = rig.Base + "  - {match: /tokens/, upstream: app, auth: [bearer, session]}\ntoken: {delivery: " +
	"cookie}\n"

// While the store does not answer, no cookie is cleared, even if another cookie is
// invalid.
func TestUnknownCookiesAreKept(t *testing.T) {
	t.Parallel()
	r := rig.New(t, twoCookies)
	alice := r.Login(rig.Alice)
	r.Store.BreakIf(func(string, int64, string) bool { return true })
	for _, header := range []string{alice.Cookie, "Cookie: session_id=" + strings.Repeat("A", 43),
		"Cookie: access_token=junk; " + strings.TrimPrefix(alice.Cookie, "Cookie: ")} {
		if w := r.Want(503, "GET", "/tokens/", "", rig.Browser, header); w.Header()["Set-Cookie"] != nil {
			t.Errorf("%s: sets %q", header, w.Header()["Set-Cookie"])
		}
	}
	r.Store.Heal()
	r.Want(200, "GET", "/session/", "", alice.Cookie)
}

// With session.host_prefix, each cookie of the gateway has a name that no other host
// and no cleartext response can set, with the attributes that browsers require for it.
// The names without the prefix are the application's.
func TestHostPrefix(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Edit(t, rig.CookieDelivery, "store:", "session: {host_prefix: true}\nstore:"))
	w := r.Want(200, "POST", "/login", rig.Alice, rig.JSON)
	names := []string{"__Host-access_token", "__Host-authgate_ended", "__Host-refresh_token", "__Host-session_id"}
	check := func(what string, w *httptest.ResponseRecorder) {
		t.Helper()
		var got []string
		for _, c := range w.Result().Cookies() {
			got = append(got, c.Name)
			if !c.Secure || !c.HttpOnly || c.Path != "/" || c.Domain != "" {
				t.Errorf("%s: a browser refuses %s", what, c)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, names) {
			t.Errorf("%s: the cookies are %q, want %q", what, got, names)
		}
	}
	check("login", w)
	cookies := rig.JarOf(w)
	session, access := cookies.Line(names[3]), cookies.Line(names[0])
	plain := strings.ReplaceAll(session, "__Host-", "")
	r.Want(401, "GET", "/session/", "", plain)
	r.Want(200, "GET", "/session/", "", session+"; session_id=of-the-application")
	r.Want(401, "GET", "/session/", "", "Cookie: __Host-authgate_app_session_id="+cookies[names[3]])
	r.Want(200, "GET", "/bearer/", "", access)
	r.Want(200, "POST", "/refresh", "", cookies.Line(names[2]))
	check("logout", r.Want(200, "POST", "/logout", "", session))
}

// Java's CookieManager sends cookies in quotes, with their attributes. They count as
// without.
func TestCookiesAsJavaSendsThem(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Base)
	alice, bob := r.Login(rig.Alice), r.Login(rig.Bob)
	quoted := func(cookie string) string { return strings.TrimPrefix(cookie, "Cookie: session_id=") }
	java := `Cookie: $Version="1"; session_id="` + quoted(alice.Cookie) +
		`";$Path="/";$Domain="gw.example"; theme="dark";$Path="/"`
	r.Want(200, "GET", "/session/", "", java)
	if user := r.LastUser(); user != "alice" {
		t.Errorf("it is %q", user)
	}
	r.Want(200, "GET", "/session/", "", alice.Cookie+`; session_id="`+quoted(alice.Cookie)+`"`)
	r.Want(400, "GET", "/session/", "", alice.Cookie+`; session_id="`+quoted(bob.Cookie)+`"`)
	r.Want(200, "GET", "/me", "", java)
	r.Want(200, "POST", "/logout", "", java)
	r.Want(401, "GET", "/me", "", alice.Cookie)
}
