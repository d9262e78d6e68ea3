package gateway

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// wantPage checks that an answer is a page with these parts.
func wantPage(t *testing.T, w *httptest.ResponseRecorder, parts ...string) {
	t.Helper()
	if got := w.Header().Get("Content-Type"); got != "text/html; charset=utf-8" {
		t.Errorf("%d with the type %q, want a page", w.Code, got)
	}
	body := w.Body.String()
	if end := strings.Index(body, "</style>"); end >= 0 {
		body = body[end:]
	}
	for _, part := range parts {
		if absent, found := strings.CutPrefix(part, "not "); strings.Contains(body, absent) == found || !found && !strings.Contains(body, part) {
			t.Errorf("the page is to have %q:\n%s", part, body)
		}
	}
}

const logoutButton = `<form method="post" action="/logout">`

// A user who is signed in sees who they are on the sign-in page, and goes on or
// switches. A form for another account is one step away.
func TestSignInPageKnowsUser(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	alice := r.login(aliceIn)
	form := `<form method="post" action="/login">`
	wantPage(t, r.want(200, "GET", "/signin", "", browser), form, "Sign in to gw.example", "not You are signed in")
	wantPage(t, r.want(200, "GET", "/signin?return_to=/session/x", "", browser, alice.cookie),
		"not "+form, "<strong>Alice Example (alice)</strong>", `href="/session/x"`, `href="/signin?switch=1&amp;return_to=%2Fsession%2Fx"`, logoutButton)
	wantPage(t, r.want(200, "GET", "/signin", "", browser, alice.cookie), `href="/">`)
	wantPage(t, r.want(200, "GET", "/signin?switch=1&return_to=/session/x", "", browser, alice.cookie),
		form, "<strong>Alice Example (alice)</strong>", `name="return_to" value="/session/x"`)
	r.good(alice, true)
}

// A session that has ended is named as the reason for the sign-in, and nothing else is.
func TestReasonForSignIn(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	alice := r.login(aliceIn)
	if got := r.want(302, "GET", "/session/x", "", browser).Header().Get("Location"); got != "/signin?return_to=%2Fsession%2Fx" {
		t.Errorf("without a session: %s", got)
	}
	r.clock.Advance(2 * time.Hour)
	w := r.want(302, "GET", "/session/x", "", browser, alice.cookie)
	location := w.Header().Get("Location")
	if line := r.log.Last(t, "request"); !strings.HasSuffix(line["reason"].(string), "; the session that the browser sent is unknown, expired or ended") {
		t.Errorf("logged %v", line)
	}
	if location != "/signin?return_to=%2Fsession%2Fx&reason=ended" || len(cleared(w)) != 1 {
		t.Errorf("after the session: %s, cleared %q", location, cleared(w))
	}
	const ended = "Your session has ended. Please sign in again."
	wantPage(t, r.want(200, "GET", location, "", browser), ended)
	wantPage(t, r.want(200, "GET", "/signin?reason=<b>", "", browser), "not "+ended, "not &lt;b&gt;")
	// Each cookie that is no longer valid is cleared once.
	if w := r.want(200, "GET", "/signin", "", browser, alice.cookie); len(cleared(w)) != 1 {
		t.Errorf("cleared %q", cleared(w))
	}
}

// A browser that signs in, and comes back without the cookie, is told so. The log has
// a hint for operators.
func TestSignInWithoutCookies(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	const told, logged = "your browser did not keep the session", "a sign-in came back without its cookie"
	page, from := "/signin?return_to=%2Fsession%2Fx", "Referer: https://gw.example/signin?return_to=%2Fsession%2Fx"
	for _, c := range []struct{ path, referer string }{
		{page, ""}, {page, "Referer: https://evil.example/signin"}, {page, "Referer: https://gw.example/app"}, {page, "Referer: %"},
		{"/signin", from}, {page + "&switch=1", from}, {page + "&reason=ended", from}, {page, from + "&switch=1"}, {page, "Referer: https://gw.example/signin?reason=signed_out"},
	} {
		wantPage(t, r.want(200, "GET", c.path, "", browser, c.referer), "not "+told)
	}
	if strings.Contains(r.log.String(), logged) {
		t.Error("the log tells of a cookie that is not missing")
	}
	wantPage(t, r.want(200, "GET", page, "", browser, from), told)
	wantPage(t, r.want(200, "GET", page, "", browser, "Referer: https://gw.example/login"), told)
	if !strings.Contains(r.log.String(), logged) {
		t.Errorf("the log has no hint:\n%s", r.log)
	}
}

// After signing out, a user is told so, with a way back in, and so is one who is not
// signed in any more. A user who is signed in is not told otherwise.
func TestSignedOutPage(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	alice := r.login(aliceIn)
	location := r.want(303, "POST", "/logout", "", browser, r.login(aliceIn).cookie).Header().Get("Location")
	wantPage(t, r.want(200, "GET", location, "", browser), "You are signed out", `href="/signin"`)
	wantPage(t, r.want(200, "GET", location, "", browser, alice.cookie), "not You are signed out", "Alice Example")
}

// Without a route for /, browsers get a start page there, at the host where users
// sign in, and programs get 404 as for other paths.
func TestStartPage(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	alice := r.login(aliceIn)
	wantPage(t, r.want(200, "GET", "/", "", browser), "You are not signed in.", `href="/signin"`, "not "+logoutButton)
	wantPage(t, r.want(200, "GET", "/", "", browser, alice.cookie), "Alice Example", `href="/account"`, logoutButton)
	wantPage(t, r.want(404, "GET", "/x", "", browser), `href="/">Go to the start page`)
	wantPage(t, r.want(404, "POST", "/", "", browser), "not Go to the start page")
	if got := detailOf(t, r.want(404, "GET", "/", "")); got != "There is nothing here." {
		t.Errorf("a program is told %q", got)
	}
	if line := r.log.Last(t, "request"); line["route"] == "authgate/home" {
		t.Errorf("logged %v", line)
	}
	r.mustReload(edit(t, baseConfig, "routes:", "routes:\n  - {match: '/{$}', upstream: app, auth: [none]}"))
	r.want(200, "GET", "/", "", browser)
	if got := r.upstream.last(); got == nil || got.RequestURI != "/" {
		t.Errorf("the route for / is not asked: %v", got)
	}
	r = newRig(t, edit(t, baseConfig, "routes:", "routes:\n  - {match: wiki.example/wiki, upstream: app, auth: [none]}"))
	r.wantAt("wiki.example", 404, "GET", "/", "", browser)
	wantPage(t, r.wantAt("gw.example", 200, "GET", "/", "", browser), "Welcome")
}

// A user who is not allowed in sees who they are, and can use another account or sign
// out. A user without a session can do neither.
func TestForbiddenPage(t *testing.T) {
	t.Parallel()
	r := newRig(t, edit(t, baseConfig, "auth: [session, bearer], policy: admin", "auth: [session, basic], policy: admin"))
	bob := r.login(bobIn)
	wantPage(t, r.want(403, "GET", "/admin/x?y", "", browser, bob.cookie),
		"<strong>bob</strong>", `href="/signin?switch=1&amp;return_to=%2Fadmin%2Fx%3Fy"`, logoutButton, "Error 403")
	wantPage(t, r.want(403, "GET", "/admin/", "", browser, basicHeader("service", "s3rvice")), "<strong>service</strong>", "not switch", "not "+logoutButton)
	wantPage(t, r.want(403, "POST", "/session/", "", browser, bob.cookie, "Origin: https://evil.example"), "Another site", "not <strong>bob", "not switch")
}

// A form that is refused because of too many failures tells how long to wait, and
// keeps the user name.
func TestThrottledForm(t *testing.T) {
	t.Parallel()
	r := newRig(t, edit(t, baseConfig, "store:", "limits: {login_failures: 1, login_window: 5m}\nstore:"))
	form := "username=alice&password=wrong&return_to=/session/"
	wantPage(t, r.want(401, "POST", "/login", form, formType, browser), "Invalid username or password.", `value="alice"`)
	w := r.want(429, "POST", "/login", form, formType, browser)
	wantPage(t, w, "Too many failed logins. Try again in 5 minutes.", `value="alice"`, `value="/session/"`)
	if got := w.Header().Get("Retry-After"); got != "300" {
		t.Errorf("Retry-After is %q", got)
	}
	if got := detailOf(t, r.want(429, "POST", "/login", form, formType)); got != "Too many failed logins. Try again later." {
		t.Errorf("a program is told %q", got)
	}
}

// A proxy that does not say that a request came over https is named to operators, and
// to users in words that they can use.
func TestProxyWithoutProto(t *testing.T) {
	t.Parallel()
	r := newRig(t, edit(t, baseConfig, "store:", "tls: {mode: \"off\"}\nlisten: {https: \"\", http: \":80\", trusted_proxies: [192.0.2.1]}\nstore:"))
	for header, logged := range map[string]string{
		"X-Other: x": "let it set X-Forwarded-Proto", "X-Forwarded-Proto: http": "came over http", "Forwarded: proto=http": "came over http",
	} {
		q := httptest.NewRequest(http.MethodGet, "/public/", nil)
		q.Host, q.RemoteAddr = "gw.example", "192.0.2.1:1"
		name, value, _ := strings.Cut(header, ": ")
		q.Header.Set(name, value)
		q.Header.Set("Accept", "text/html")
		wantPage(t, r.wantOf(403, q), "If the address already begins with https, the service is not set up completely.")
		if line := r.log.Last(t, "request"); !strings.Contains(line["error"].(string), logged) {
			t.Errorf("%s: logged %v", header, line)
		}
	}
}

// What an operator changes under site is on the pages after a reload.
func TestSiteReloads(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	wantPage(t, r.want(200, "GET", "/signin", "", browser), `<p class="brand">gw.example</p>`)
	r.mustReload(edit(t, baseConfig, "store:", "site: {title: Example & Co, help: 'https://help.example/'}\nstore:"))
	wantPage(t, r.want(200, "GET", "/signin", "", browser), `<p class="brand">Example &amp; Co</p>`, `href="https://help.example/"`)
}

// A sign-in at a provider that fails because of the browser's cookies, or of a clock, is
// named, and so is one that is merely too late. Only the log tells operators more.
func TestProviderPages(t *testing.T) {
	t.Parallel()
	r, p := delegatedRig(t, "")
	lost := func(status int, page, logged string, header ...string) {
		t.Helper()
		back := r.leave("")
		for i := range header {
			header[i] = strings.ReplaceAll(header[i], "$cookie", back.cookie)
		}
		w := r.want(status, "GET", back.target, "", append(header, browser)...)
		wantPage(t, w, page, `href="/signin"`)
		if line := r.log.Last(t, "request"); logged != "" && !strings.Contains(line["error"].(string), logged) || strings.Contains(w.Body.String(), logged) && logged != "" {
			t.Errorf("%s: logged %v", page, line)
		}
	}
	lost(400, "Your browser did not keep a cookie", "the browser did not send the cookie __Host-authgate_login")
	lost(400, "This sign-in cannot be completed", "", "Cookie: __Host-authgate_login="+strings.Repeat("A", 43))
	for _, off := range []time.Duration{time.Hour, -time.Hour} {
		p.now = func() time.Time { return r.clock.Now().Add(off) }
		lost(502, "The clocks do not agree", "compare the clocks of the gateway and the provider", "$cookie")
	}
}

// A user who wants another account is asked for it by the provider too.
func TestAnotherAccountAtProvider(t *testing.T) {
	t.Parallel()
	r, _ := delegatedRig(t, "")
	wantPage(t, r.want(200, "GET", "/signin?switch=1&return_to=/delegated/", "", browser), `href="/login?provider=small&amp;switch=1&amp;return_to=%2Fdelegated%2F"`)
	for path, want := range map[string]bool{"/login?provider=small&switch=1": true, "/login?switch=1": true, "/login?provider=small": false} {
		location := r.want(302, "GET", path, "", browser).Header().Get("Location")
		if strings.Contains(location, "prompt=login") != want {
			t.Errorf("%s leads to %s", path, location)
		}
	}
}
