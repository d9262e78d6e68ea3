package relyingparty_test

import (
	"cmp"
	"html"
	"strings"
	"testing"
	"time"

	"authgate/gateway/login/journey"
	"authgate/internal/test/rig"
)

// Each of several providers has a redirect URI of its own. A response counts only there:
// a provider must not pass off the answer of another as its own.
func TestCallbackOfEachProvider(t *testing.T) {
	t.Parallel()
	one, two := rig.NewProvider(t), rig.NewProvider(t)
	for _, test := range []struct{ ofOne, more, one, two string }{
		{"", "", "/callback/one", "/callback/two"},
		{", callback: /callback", "", "/callback", "/callback/two"},
		{", callback: /auth/callback", "", "/auth/callback", "/callback/two"},
		{"", "endpoints: {prefix: /auth/}\n", "/auth/callback/one", "/auth/callback/two"},
	} {
		r := rig.New(t, rig.Base+"providers:\n"+
			"  - {name: one, issuer: \""+one.Issuer+"\", client_id: gateway"+test.ofOne+"}\n"+
			"  - {name: two, issuer: \""+two.Issuer+"\", client_id: gateway}\n"+test.more)
		one.Now, two.Now = r.Clock.Now, r.Clock.Now
		login := r.Options.Site.Own("login")
		for name, path := range map[string]string{"one": test.one, "two": test.two} {
			for _, at := range []string{"callback", "auth/callback", "callback/one", "callback/two"} {
				place := r.Options.Site.Own(at)
				w := r.Want(302, "GET", login+"?provider="+name, "")
				query := rig.QueryOf(t, w)
				if got := query.Get("redirect_uri"); got != "https://gw.example"+path {
					t.Errorf("%s: the redirect URI is %s, want that of %s", name, got, path)
				}
				asked := one.Asked.Load() + two.Asked.Load()
				want := 400
				if place == path {
					want = 302
				}
				w = r.Want(want, "GET", place+"?"+rig.ResponseTo(query), "", rig.JarOf(w).Line())
				calls := one.Asked.Load() + two.Asked.Load() - asked
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
		p := rig.NewProvider(t)
		r := rig.New(t, rig.Base+"providers:\n"+
			"  - {name: small, issuer: \""+p.Issuer+"\", client_id: gateway, callback: \""+callback+"\"}\n")
		p.Now = r.Clock.Now
		for _, place := range []string{"/callback", "/auth/callback", "/callback/small"} {
			w := r.Want(302, "GET", "/login", "")
			query := rig.QueryOf(t, w)
			if got := query.Get("redirect_uri"); got != "https://gw.example"+cmp.Or(callback, "/callback") {
				t.Errorf("callback: %q: the redirect URI is %s", callback, got)
			}
			r.Want(302, "GET", place+"?"+rig.ResponseTo(query), "", rig.JarOf(w).Line())
		}
	}
}

// The way back survives a sign-in that fails: the page leads to another try with the
// same place, at a host of the gateway too.
func TestFailedCallbackKeepsThePlace(t *testing.T) {
	t.Parallel()
	p := rig.NewProvider(t)
	r := p.Rig(rig.FiveHostsConfig, "")
	binding := "&binding=" + journey.Binding(journey.NewBrowserSecret())
	responses := map[string]int{"error=access_denied": 401, "error=server_error": 502, "code=another+nonce": 502, "": 400}
	for _, place := range []string{
		"", "?return_to=%2Fdelegated%2Fx%3Fy%3D%2526", "?return_to=https%3A%2F%2Fwiki.example.org%2Fx%3Fy" + binding,
	} {
		link := html.EscapeString("/signin" + place)
		for response, status := range responses {
			w := r.Want(302, "GET", "/login"+place, "")
			state, cookie := rig.QueryOf(t, w).Get("state"), rig.JarOf(w).Line()
			for range 2 { // the second time, the state is used
				w := r.Want(status, "GET", "/callback?"+response+"&state="+state, "", cookie, rig.Browser)
				if !strings.Contains(w.Body.String(), `href="`+link+`"`) {
					t.Errorf("%s, then %q: the page has no link to %s:\n%s", place, response, link, w.Body)
				}
				status = 400
			}
			// Another browser learns nothing of the place.
			cookie = "Cookie: __Host-authgate_login=" + journey.NewBrowserSecret()
			w = r.Want(400, "GET", "/callback?"+response+"&state="+state, "", cookie, rig.Browser)
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
	p := rig.NewProvider(t)
	r := p.Rig(rig.FiveHostsConfig, "")
	for place, want := range map[string]string{
		"/login":                            "/",
		"/login?return_to=/delegated/x%3Fy": "/delegated/x?y",
		"/login?return_to=https://wiki.example.org/x": "https://wiki.example.org/x",
	} {
		back := r.LeaveFrom(place, "")
		asked := p.Asked.Load()
		with := func(session string) string { return back.Cookie + "; " + strings.TrimPrefix(session, "Cookie: ") }
		w := r.Want(302, "GET", back.Target, "", back.Cookie)
		jar := rig.JarOf(w)
		for _, session := range []string{jar.Line("session"), r.Login(rig.Alice).Cookie} {
			w := r.Want(302, "GET", back.Target, "", with(session), rig.Browser)
			if got := w.Header().Get("Location"); got != want || len(rig.JarOf(w)) > 0 {
				t.Errorf("%s again: to %q with %q, want %q", place, got, w.Header()["Set-Cookie"], want)
			}
		}
		for who, cookie := range map[string]string{
			"no user": back.Cookie, "another browser": jar.Line("session"), "a dead session": back.Cookie + "; session=x",
		} {
			if w := r.Want(400, "GET", back.Target, "", cookie, rig.Browser); w.Header()["Location"] != nil {
				t.Errorf("%s: to %q", who, w.Header()["Location"])
			}
		}
		if got := p.Asked.Load(); got != asked+1 {
			t.Errorf("the provider was asked %d times for tokens", got-asked)
		}
		r.Clock.Advance(journey.AttemptLifetime)
		r.Want(400, "GET", back.Target, "", with(jar.Line("session")), rig.Browser)
	}
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
	if len(jar) != 2 || jar["session"] == "" || jar["authgate_ended"] == "" {
		t.Errorf("the browser keeps %v", jar)
	}
	r.Want(401, "GET", "/session/", "", session)
	r.Want(401, "GET", "/bearer/", "", access)
}

// A sign-in at a provider that fails because of the browser's cookies, or of a clock, is
// named, and so is one that is merely too late. Only the log tells operators more.
func TestProviderPages(t *testing.T) {
	t.Parallel()
	r, p := rig.Delegated(t, "")
	lost := func(status int, page, logged string, header ...string) {
		t.Helper()
		back := r.Leave("")
		for i := range header {
			header[i] = strings.ReplaceAll(header[i], "$cookie", back.Cookie)
		}
		w := r.Want(status, "GET", back.Target, "", append(header, rig.Browser)...)
		rig.WantPage(t, w, page, `href="/signin"`)
		if line := r.Log.Last(t, "request"); logged != "" && !strings.Contains(line["error"].(string), logged) ||
			strings.Contains(w.Body.String(), logged) && logged != "" {
			t.Errorf("%s: logged %v", page, line)
		}
	}
	lost(400, "Your browser did not keep a cookie", "the browser did not send the cookie __Host-authgate_login")
	lost(400, "This sign-in cannot be completed", "", "Cookie: __Host-authgate_login="+strings.Repeat("A", 43))
	for _, off := range []time.Duration{time.Hour, -time.Hour} {
		p.Now = func() time.Time { return r.Clock.Now().Add(off) }
		lost(502, "The clocks do not agree", "compare the clocks of the gateway and the provider", "$cookie")
	}
}
