package signin_test

import (
	"strings"
	"testing"

	"authgate/internal/test/rig"
)

// A user who is signed in sees who they are on the sign-in page, and goes on or
// switches. A form for another account is one step away.
func TestSignInPageKnowsUser(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Base)
	alice := r.Login(rig.Alice)
	form := `<form method="post" action="/login">`
	rig.WantPage(t, r.Want(200, "GET", "/signin", "", rig.Browser), form, "Sign in to gw.example", "not You are signed in")
	rig.WantPage(t, r.Want(200, "GET", "/signin?return_to=/session/x", "", rig.Browser, alice.Cookie),
		"not "+form, "<strong>Alice Example (alice)</strong>",
		`href="/session/x"`, `href="/signin?switch=1&amp;return_to=%2Fsession%2Fx"`, rig.LogoutButton)
	rig.WantPage(t, r.Want(200, "GET", "/signin", "", rig.Browser, alice.Cookie), `href="/">`)
	rig.WantPage(t, r.Want(200, "GET", "/signin?switch=1&return_to=/session/x", "", rig.Browser, alice.Cookie),
		form, "<strong>Alice Example (alice)</strong>", `name="return_to" value="/session/x"`)
	r.Good(alice, true)
}

// A browser that signs in, and comes back without the cookie, is told so. The log has
// a hint for operators.
func TestSignInWithoutCookies(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Base)
	const told, logged = "your browser did not keep the session", "a sign-in came back without its cookie"
	page, from := "/signin?return_to=%2Fsession%2Fx", "Referer: https://gw.example/signin?return_to=%2Fsession%2Fx"
	for _, c := range []struct{ path, referer string }{
		{page, ""}, {page, "Referer: https://evil.example/signin"}, {page, "Referer: https://gw.example/app"},
		{page, "Referer: %"},
		{"/signin", from}, {page + "&switch=1", from}, {page + "&reason=ended", from}, {page, from + "&switch=1"},
		{page, "Referer: https://gw.example/signin?reason=signed_out"},
	} {
		rig.WantPage(t, r.Want(200, "GET", c.path, "", rig.Browser, c.referer), "not "+told)
	}
	if strings.Contains(r.Log.String(), logged) {
		t.Error("the log tells of a cookie that is not missing")
	}
	rig.WantPage(t, r.Want(200, "GET", page, "", rig.Browser, from), told)
	rig.WantPage(t, r.Want(200, "GET", page, "", rig.Browser, "Referer: https://gw.example/login"), told)
	if !strings.Contains(r.Log.String(), logged) {
		t.Errorf("the log has no hint:\n%s", r.Log)
	}
}

// After signing out, a user is told so, with a way back in, and so is one who is not
// signed in any more. A user who is signed in is not told otherwise.
func TestSignedOutPage(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Base)
	alice := r.Login(rig.Alice)
	location := r.Want(303, "POST", "/logout", "", rig.Browser, r.Login(rig.Alice).Cookie).Header().Get("Location")
	rig.WantPage(t, r.Want(200, "GET", location, "", rig.Browser), "You are signed out", `href="/signin"`)
	rig.WantPage(t, r.Want(200, "GET", location, "", rig.Browser, alice.Cookie), "not You are signed out", "Alice Example")
}

// A form that is refused because of too many failures tells how long to wait, and
// keeps the user name.
func TestThrottledForm(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Edit(t, rig.Base, "store:", "limits: {login_failures: 1, login_window: 5m}\nstore:"))
	form := "username=alice&password=wrong&return_to=/session/"
	rig.WantPage(t, r.Want(401, "POST", "/login", form, rig.Form, rig.Browser), "Invalid username or password.",
		`value="alice"`)
	w := r.Want(429, "POST", "/login", form, rig.Form, rig.Browser)
	rig.WantPage(t, w, "Too many failed logins. Try again in 5 minutes.", `value="alice"`, `value="/session/"`)
	if got := w.Header().Get("Retry-After"); got != "300" {
		t.Errorf("Retry-After is %q", got)
	}
	if got := rig.DetailOf(t, r.Want(429, "POST", "/login", form,
		rig.Form)); got != "Too many failed logins. Try again later." {
		t.Errorf("a program is told %q", got)
	}
}
