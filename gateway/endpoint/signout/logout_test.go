package signout_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"authgate/internal/test/rig"
)

// A link of another site does not sign users out: it leads to a confirmation page.
func TestLogoutByLink(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Base)
	for site, ends := range map[string]bool{"": true, "same-origin": true, "none": true, "same-site": false,
		"cross-site": false, "x": false} {
		s := r.Login(rig.Alice)
		header := []string{s.Cookie}
		if site != "" {
			header = append(header, "Sec-Fetch-Site: "+site)
		}
		w := r.Do("GET", "/logout", "", header...)
		if ends && (w.Code != 302 || w.Header().Get("Location") != "/") || !ends &&
			(w.Code != 200 || w.Header()["Set-Cookie"] != nil) {
			t.Errorf("%q: %d to %q, cookies %q", site, w.Code, w.Header().Get("Location"), w.Header()["Set-Cookie"])
		}
		r.Good(s, !ends)
	}
}

// GET /logout signs out a person who goes there, and no one else: not what a browser
// loads ahead of a click, nor what a script or a part of a page asks for.
func TestLogoutByNavigation(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Base)
	const navigates = "Sec-Fetch-Mode: navigate"
	for _, c := range []struct {
		method string
		header []string
	}{
		{"GET", []string{"Sec-Fetch-Site: same-origin", navigates, "Sec-Purpose: prefetch;prerender"}},
		{"GET", []string{"Sec-Fetch-Site: none", navigates, "Sec-Purpose: prefetch"}},
		{"GET", []string{"Sec-Fetch-Site: cross-site", navigates, "Sec-Purpose: prefetch;anonymous-client-ip"}},
		{"GET", []string{"Sec-Fetch-Site: same-origin", navigates, "Sec-Purpose: "}},
		{"GET", []string{"Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: "}},
		{"GET", []string{navigates, "Purpose: prefetch"}},
		{"GET", []string{"Purpose: Prefetch"}},
		{"GET", []string{"Purpose: preview"}},
		{"GET", []string{"X-Purpose: preview"}},
		{"GET", []string{"X-Moz: prefetch"}},
		{"GET", []string{"Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: cors"}},
		{"GET", []string{"Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: same-origin"}},
		{"GET", []string{"Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image"}},
		{"GET", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: image"}},
		{"GET", []string{"Sec-Fetch-Mode: websocket"}},
		{"GET", []string{"X-Requested-With: XMLHttpRequest"}},
		{"GET", []string{"User-Agent: Mozilla/5.0 (iPad; CPU OS 12_5 like Mac OS X)", "Accept: image/png,image/*;q=0.8"}},
		{"HEAD", nil},
		{"HEAD", []string{"Sec-Fetch-Site: same-origin", navigates}},
		{"HEAD", []string{"Sec-Fetch-Site: cross-site"}},
	} {
		s := r.Login(rig.Alice)
		w := r.Want(403, c.method, "/logout", "", append(c.header, s.Cookie)...)
		if w.Header()["Set-Cookie"] != nil || w.Header()["Location"] != nil {
			t.Errorf("%s with %q: %v", c.method, c.header, w.Header())
		}
		r.Good(s, true)
	}
	for _, header := range [][]string{{navigates, rig.Browser, "Sec-Fetch-Site: same-origin"},
		{navigates, rig.Browser, "Purpose: "}, {rig.Browser}, {}} {
		s := r.Login(rig.Alice)
		if w := r.Want(302, "GET", "/logout", "", append(header, s.Cookie)...); w.Header().Get("Location") != "/" {
			t.Errorf("%q: to %q", header, w.Header().Get("Location"))
		}
		r.Good(s, false)
	}
}

// A logout by a cookie needs the token, which the pages that lead to it have. A logout
// that ends nothing needs none. The token belongs to the login: it is the same after a
// restart, and at all instances with the key.
func TestCSRFTokenAtLogout(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.WithToken)
	alice := r.Login(rig.Alice)
	token := r.CSRFToken(alice.Cookie)
	if r.Reload(rig.WithToken); r.CSRFToken(alice.Cookie) != token || r.CSRFToken(r.Login(rig.Alice).Cookie) == token {
		t.Error("another state has another token, or a new login has the old one")
	}
	r.Want(401, "GET", "/csrf-token", "")
	rig.New(t, rig.Base).Want(404, "GET", "/csrf-token", "")
	r.Want(403, "POST", "/logout", "", alice.Cookie)
	r.Want(200, "GET", "/session/", "", alice.Cookie)
	for target, header := range map[string]string{"/me": rig.Browser, "/logout": "Sec-Fetch-Site: cross-site"} {
		if page := r.Want(200, "GET", target, "", alice.Cookie, header).Body.String(); !strings.Contains(page,
			`name="csrf_token" value="`+token+`"`) {
			t.Errorf("the form of %s has no token:\n%s", target, page)
		}
	}
	r.Want(200, "POST", "/logout", "csrf_token="+token, rig.Form, alice.Cookie)
	r.Want(200, "POST", "/logout", "", alice.Cookie)
	r.Want(200, "POST", "/logout", "")
}

// Tokens in cookies need the protection too: another site could make a browser refresh
// or revoke them.
func TestCSRFTokenForTokenCookies(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Edit(t, rig.CookieDelivery, "store:", "session: {csrf_token: true}\nstore:"))
	cookies := rig.JarOf(r.Do("POST", "/login?mechanism=bearer", rig.Alice, rig.JSON))
	access, refresh := cookies.Line("access_token"), cookies.Line("refresh_token")
	token := "X-CSRF-Token: " + r.CSRFToken(access)
	for _, c := range []struct{ target, cookie string }{{"/refresh", refresh}, {"/logout", refresh}, {"/logout", access},
		{"/bearer/", access}} {
		r.Want(403, "POST", c.target, "", c.cookie)
	}
	r.Want(200, "POST", "/bearer/", "", access, token)
	r.Want(200, "POST", "/refresh", "", refresh, token)
	r.Want(200, "POST", "/logout", "", access, token)
	r.Want(401, "GET", "/bearer/", "", access)
}

// A logout ends the logins of its credentials, clears the cookies, and confirms it.
// With a bearer token that is not valid it ends nothing.
func TestLogout(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Base)
	logout := func(want int, ends bool, header func(rig.SignedIn) []string) {
		t.Helper()
		s := r.Login(rig.Alice)
		w := r.Want(want, "POST", "/logout", "", header(s)...)
		if confirms := strings.TrimSpace(w.Body.String()) == `{"message":"Signed out."}`; confirms != (want == 200) ||
			slices.Contains(rig.Cleared(w), "session_id") != confirms {
			t.Errorf("%s, cleared %q", w.Body, rig.Cleared(w))
		}
		r.Good(s, !ends)
	}
	logout(200, false, func(rig.SignedIn) []string { return nil })
	logout(200, false, func(rig.SignedIn) []string { return []string{"Cookie: session_id=x"} })
	logout(200, true, func(s rig.SignedIn) []string { return []string{s.Cookie} })
	logout(200, true, func(s rig.SignedIn) []string { return []string{s.Bearer} })
	logout(200, true, func(s rig.SignedIn) []string { return []string{rig.Basic("service", "s3rvice"), s.Cookie} })
	logout(401, false, func(rig.SignedIn) []string { return []string{"Authorization: Bearer"} })
	logout(401, false, func(s rig.SignedIn) []string { return []string{"Authorization: Bearer x", s.Cookie} })
	if w := r.Want(303, "POST", "/logout", "", rig.Browser,
		r.Login(rig.Alice).Cookie); w.Header().Get("Location") != "/signin?reason=signed_out" ||
		!slices.Equal(rig.Cleared(w), []string{"authgate_ended", "session_id"}) {
		t.Errorf("a browser: %v", w.Header())
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
