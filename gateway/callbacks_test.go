package gateway

import (
	"cmp"
	"html"
	"strings"
	"testing"

	"authgate/gateway/login"
)

// Each of several providers has a redirect URI of its own. A response counts only there:
// a provider must not pass off the answer of another as its own.
func TestCallbackOfEachProvider(t *testing.T) {
	t.Parallel()
	one, two := newSmallProvider(t), newSmallProvider(t)
	for _, test := range []struct{ ofOne, more, one, two string }{
		{"", "", "/callback/one", "/callback/two"},
		{", callback: /callback", "", "/callback", "/callback/two"},
		{", callback: /auth/callback", "", "/auth/callback", "/callback/two"},
		{"", "endpoints: {prefix: /auth/}\n", "/auth/callback/one", "/auth/callback/two"},
	} {
		r := newRig(t, baseConfig+"providers:\n"+
			"  - {name: one, issuer: \""+one.issuer+"\", client_id: gateway"+test.ofOne+"}\n"+
			"  - {name: two, issuer: \""+two.issuer+"\", client_id: gateway}\n"+test.more)
		one.now, two.now = r.clock.Now, r.clock.Now
		login := r.state.Load().site.Own("login")
		for name, path := range map[string]string{"one": test.one, "two": test.two} {
			for _, at := range []string{"callback", "auth/callback", "callback/one", "callback/two"} {
				place := r.state.Load().site.Own(at)
				w := r.want(302, "GET", login+"?provider="+name, "")
				query := queryOf(t, w)
				if got := query.Get("redirect_uri"); got != "https://gw.example"+path {
					t.Errorf("%s: the redirect URI is %s, want that of %s", name, got, path)
				}
				asked := one.asked.Load() + two.asked.Load()
				want := 400
				if place == path {
					want = 302
				}
				w = r.want(want, "GET", place+"?"+responseTo(query), "", jarOf(w).line())
				calls := one.asked.Load() + two.asked.Load() - asked
				if want == 400 && (calls > 0 || w.Header()["Set-Cookie"] != nil) {
					t.Errorf("%s at %s: %d requests to token endpoints, %q", name, place, calls, w.Header()["Set-Cookie"])
				}
			}
		}
	}
}

// A single provider may use each of the redirect URIs that it can be registered with.
func TestCallbacksOfOneProvider(t *testing.T) {
	t.Parallel()
	for _, callback := range []string{"", "/callback", "/auth/callback", "/callback/small"} {
		p := newSmallProvider(t)
		r := newRig(t, baseConfig+"providers:\n"+
			"  - {name: small, issuer: \""+p.issuer+"\", client_id: gateway, callback: \""+callback+"\"}\n")
		p.now = r.clock.Now
		for _, place := range []string{"/callback", "/auth/callback", "/callback/small"} {
			w := r.want(302, "GET", "/login", "")
			query := queryOf(t, w)
			if got := query.Get("redirect_uri"); got != "https://gw.example"+cmp.Or(callback, "/callback") {
				t.Errorf("callback: %q: the redirect URI is %s", callback, got)
			}
			r.want(302, "GET", place+"?"+responseTo(query), "", jarOf(w).line())
		}
	}
}

// The way back survives a sign-in that fails: the page leads to another try with the
// same place, at a host of the gateway too.
func TestFailedCallbackKeepsThePlace(t *testing.T) {
	t.Parallel()
	p := newSmallProvider(t)
	r := p.rig(fiveHostsConfig, "")
	binding := "&binding=" + login.Binding(login.NewBrowserSecret())
	responses := map[string]int{"error=access_denied": 401, "error=server_error": 502, "code=another+nonce": 502, "": 400}
	for _, place := range []string{
		"", "?return_to=%2Fdelegated%2Fx%3Fy%3D%2526", "?return_to=https%3A%2F%2Fwiki.example.org%2Fx%3Fy" + binding,
	} {
		link := html.EscapeString("/signin" + place)
		for response, status := range responses {
			w := r.want(302, "GET", "/login"+place, "")
			state, cookie := queryOf(t, w).Get("state"), jarOf(w).line()
			for range 2 { // the second time, the state is used
				w := r.want(status, "GET", "/callback?"+response+"&state="+state, "", cookie, browser)
				if !strings.Contains(w.Body.String(), `href="`+link+`"`) {
					t.Errorf("%s, then %q: the page has no link to %s:\n%s", place, response, link, w.Body)
				}
				status = 400
			}
			// Another browser learns nothing of the place.
			cookie = "Cookie: __Host-authgate_login=" + login.NewBrowserSecret()
			w = r.want(400, "GET", "/callback?"+response+"&state="+state, "", cookie, browser)
			if body := w.Body.String(); strings.Contains(body, "delegated") || strings.Contains(body, "wiki") {
				t.Errorf("another browser sees the place:\n%s", body)
			}
		}
	}
}

// A response that a browser sends twice, because its user pressed a button twice or went
// back, leads to the place again if they are signed in. It is still used once.
func TestCallbackAgain(t *testing.T) {
	t.Parallel()
	p := newSmallProvider(t)
	r := p.rig(fiveHostsConfig, "")
	for place, want := range map[string]string{
		"/login":                            "/",
		"/login?return_to=/delegated/x%3Fy": "/delegated/x?y",
		"/login?return_to=https://wiki.example.org/x": "https://wiki.example.org/x",
	} {
		back := r.leaveFrom(place, "")
		asked := p.asked.Load()
		with := func(session string) string { return back.cookie + "; " + strings.TrimPrefix(session, "Cookie: ") }
		w := r.want(302, "GET", back.target, "", back.cookie)
		jar := jarOf(w)
		for _, session := range []string{jar.line("session"), r.login(aliceIn).cookie} {
			w := r.want(302, "GET", back.target, "", with(session), browser)
			if got := w.Header().Get("Location"); got != want || len(jarOf(w)) > 0 {
				t.Errorf("%s again: to %q with %q, want %q", place, got, w.Header()["Set-Cookie"], want)
			}
		}
		for who, cookie := range map[string]string{
			"no user": back.cookie, "another browser": jar.line("session"), "a dead session": back.cookie + "; session=x",
		} {
			if w := r.want(400, "GET", back.target, "", cookie, browser); w.Header()["Location"] != nil {
				t.Errorf("%s: to %q", who, w.Header()["Location"])
			}
		}
		if got := p.asked.Load(); got != asked+1 {
			t.Errorf("the provider was asked %d times for tokens", got-asked)
		}
		r.clock.Advance(login.AttemptLifetime)
		r.want(400, "GET", back.target, "", with(jar.line("session")), browser)
	}
}
