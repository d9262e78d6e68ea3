package gateway

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// cleared returns the names of the cookies that an answer clears.
func cleared(w *httptest.ResponseRecorder) (names []string) {
	for _, c := range w.Result().Cookies() {
		if c.MaxAge < 0 && c.Value == "" {
			names = append(names, c.Name)
		}
	}
	slices.Sort(names)
	return names
}

// A cookie of the gateway that is no longer valid is cleared. For a page load it
// counts as absent (design E.6).
func TestDeadCookies(t *testing.T) {
	t.Parallel()
	const script, navigation = "Sec-Fetch-Mode: cors", "Sec-Fetch-Mode: navigate"
	r := newRig(t, baseConfig+"  - {match: /tokens/, upstream: app, auth: [bearer, session]}\n  - {match: /challenge/, upstream: app, auth: [session], unauthenticated: challenge}\ntoken: {delivery: cookie}\n")
	alice, ended := r.login(aliceIn), r.login(aliceIn)
	r.do("POST", "/logout", "", ended.cookie)
	junk, both := "Cookie: session_id=junk", "Cookie: access_token=junk; "+strings.TrimPrefix(alice.cookie, "Cookie: ")
	for _, c := range []struct {
		name, method, target string
		header               []string
		status               int
		cleared              []string
		reaches              bool
	}{
		{"junk, a page load", "GET", "/session/", []string{browser, navigation, junk}, 302, []string{"session_id"}, false},
		{"ended, a page load", "GET", "/session/", []string{browser, ended.cookie}, 302, []string{"session_id"}, false},
		{"junk, HEAD", "HEAD", "/session/", []string{browser, junk}, 302, []string{"session_id"}, false},
		{"junk, a program", "GET", "/session/", []string{junk}, 401, []string{"session_id"}, false},
		{"junk, a form", "POST", "/session/", []string{browser, navigation, junk}, 401, []string{"session_id"}, false},
		{"junk, in the background", "GET", "/session/", []string{script, junk}, 401, nil, false},
		{"junk, where there is no redirect", "GET", "/challenge/", []string{browser, junk}, 401, []string{"session_id"}, false},
		{"an access token, a page load", "GET", "/bearer/", []string{browser, "Cookie: access_token=junk"}, 401, []string{"access_token"}, false},
		{"an access token beside a session, a page load", "GET", "/tokens/", []string{browser, both}, 200, []string{"access_token"}, true},
		{"an access token beside a session, a program", "GET", "/tokens/", []string{both}, 401, []string{"access_token"}, false},
		{"two of them, a page load", "GET", "/tokens/", []string{browser, "Cookie: access_token=junk; session_id=junk"}, 302, []string{"access_token", "session_id"}, false},
		{"Authorization, a page load", "GET", "/tokens/", []string{browser, "Authorization: Bearer x", alice.cookie}, 401, nil, false},
		{"Basic, a page load", "GET", "/basic/", []string{browser, basicHeader("service", "x"), junk}, 401, nil, false},
		{"a public page", "GET", "/public/", []string{browser, junk}, 200, nil, true},
		{"/me, a page load", "GET", "/me", []string{browser, junk}, 401, []string{"session_id"}, false},
		{"good", "GET", "/session/", []string{browser, alice.cookie}, 200, nil, true},
	} {
		before := r.upstream.count()
		w := r.do(c.method, c.target, "", c.header...)
		if w.Code != c.status || !slices.Equal(cleared(w), c.cleared) || (r.upstream.count() > before) != c.reaches {
			t.Errorf("%s: %d, cleared %q, %d requests at the upstream; want %d, %q", c.name, w.Code, cleared(w), r.upstream.count()-before, c.status, c.cleared)
		}
	}
	r.clock.Advance(2 * r.Config().Session.Lifetime)
	if w := r.do("GET", "/session/", "", browser, alice.cookie); w.Code != 302 || !slices.Equal(cleared(w), []string{"session_id"}) {
		t.Errorf("expired: %d, cleared %q", w.Code, cleared(w))
	}
}

// While the store does not answer, no cookie is cleared, even if another cookie is
// invalid.
func TestUnknownCookiesAreKept(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig+"  - {match: /tokens/, upstream: app, auth: [bearer, session]}\ntoken: {delivery: cookie}\n")
	alice := r.login(aliceIn)
	r.store.breakIf(func(string, int64, string) bool { return true })
	for _, header := range []string{alice.cookie, "Cookie: session_id=" + strings.Repeat("A", 43), "Cookie: access_token=junk; " + strings.TrimPrefix(alice.cookie, "Cookie: ")} {
		if w := r.do("GET", "/tokens/", "", browser, header); w.Code != 503 || w.Header()["Set-Cookie"] != nil {
			t.Errorf("%s: %d with %q", header, w.Code, w.Header()["Set-Cookie"])
		}
	}
	r.store.heal()
	if w := r.do("GET", "/session/", "", alice.cookie); w.Code != 200 {
		t.Errorf("afterwards: %d", w.Code)
	}
}

// An upstream and the gateway use cookies of the same names, and neither sees
// or changes the other's (design E.6).
func TestSeparateCookies(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig+"  - {match: /kept/, upstream: app, auth: [session], forward_credentials: true}\n")
	alice := r.login(aliceIn)
	ours := strings.TrimPrefix(alice.cookie, "Cookie: ")
	for _, status := range []int{200, 302, 500, http.StatusSwitchingProtocols} {
		r.upstream.answer = func(q *http.Request) (*http.Response, error) {
			return response(q, status, http.Header{"Set-Cookie": {"session_id=theirs; Path=/", "a=b"}, "Set-Cookie2": {"session_id=x"}}, ""), nil
		}
		for _, target := range []string{"/session/", "/public/", "/kept/"} {
			got := r.do("GET", target, "", alice.cookie, "Connection: upgrade", "Upgrade: websocket").Result().Header
			if status == http.StatusSwitchingProtocols {
				// No connection to take over here: it is an error, without a cookie.
				if got["Set-Cookie"] != nil && !slices.Contains(got["Set-Cookie"], "authgate_app_session_id=theirs; Path=/") {
					t.Errorf("101 of %s sets %q", target, got["Set-Cookie"])
				}
				continue
			}
			if want := []string{"authgate_app_session_id=theirs; Path=/", "a=b"}; !slices.Equal(got["Set-Cookie"], want) || got["Set-Cookie2"] != nil {
				t.Errorf("%d of %s sets %q and %q, want %q", status, target, got["Set-Cookie"], got["Set-Cookie2"], want)
			}
		}
	}
	r.upstream.answer = nil
	for target, want := range map[string]string{
		"/session/": "session_id=theirs; a=b", "/public/": "session_id=theirs; a=b",
		"/kept/": ours + "; authgate_app_session_id=theirs; a=b",
	} {
		w := r.do("GET", target, "", "Cookie: "+ours+"; authgate_app_session_id=theirs; a=b")
		if got := r.upstream.last().Header["Cookie"]; w.Code != 200 || !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %d, the upstream gets %q, want %q", target, w.Code, got, want)
		}
	}
	// Without the gateway's cookie theirs does not take its place.
	r.do("GET", "/public/", "", "Cookie: authgate_app_session_id=theirs")
	if got := r.upstream.last().Header["Cookie"]; !slices.Equal(got, []string{"session_id=theirs"}) {
		t.Errorf("the upstream gets %q", got)
	}
	if w := r.do("GET", "/kept/", "", "Cookie: authgate_app_session_id="+strings.TrimPrefix(ours, "session_id=")); w.Code != 401 {
		t.Errorf("a session in the cookie of the application: %d", w.Code)
	}
	// The name of a mechanism that is not in use is the application's.
	r.upstream.answer = func(q *http.Request) (*http.Response, error) {
		return response(q, 200, http.Header{"Set-Cookie": {"access_token=theirs"}}, ""), nil
	}
	if got := r.do("GET", "/public/", "").Result().Header["Set-Cookie"]; !slices.Equal(got, []string{"access_token=theirs"}) {
		t.Errorf("a free name becomes %q", got)
	}
	if strings.Contains(r.log.String(), "theirs") {
		t.Error("the log holds a cookie")
	}
}

// Set-Cookie lines that clients read in two ways are left out. The log has a record
// of it.
func TestAmbiguousSetCookie(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	r.upstream.answer = func(q *http.Request) (*http.Response, error) {
		return response(q, 200, http.Header{"Set-Cookie": {"a=b, session_id=theirs"}}, ""), nil
	}
	if got := r.do("GET", "/public/", "").Result().Header["Set-Cookie"]; got != nil {
		t.Errorf("the browser gets %q", got)
	}
	if got := r.log.Last(t, "cookies of an upstream are left out: clients could read them as the gateway's"); got["upstream"] != "app" || got["cookies"] != 1.0 {
		t.Errorf("the log says %v", got)
	}
}

// After a user signs in as another user, the browser has the new identity alone,
// whatever cookies it had before.
func TestOneIdentityAfterSignIn(t *testing.T) {
	t.Parallel()
	for _, before := range []string{"/login?mechanism=bearer", "/login?mechanism=session", "/login"} {
		for _, after := range []string{"/login?mechanism=bearer", "/login?mechanism=session", "/login"} {
			r := newRig(t, cookieDelivery)
			jar := map[string]string{}
			send := func(method, target, body string) int {
				header := []string{jsonType}
				for name, value := range jar {
					header = append(header, "Cookie: "+name+"="+value)
				}
				slices.Sort(header)
				w := r.do(method, target, body, header...)
				for _, c := range w.Result().Cookies() {
					if c.MaxAge < 0 {
						delete(jar, c.Name)
					} else {
						jar[c.Name] = c.Value
					}
				}
				return w.Code
			}
			send("POST", before, aliceIn)
			stale := jar["refresh_token"]
			send("POST", after, bobIn)
			if code := send("GET", "/any/", ""); code != 200 || r.upstream.last().Header.Get("X-Auth-User") != "bob" {
				t.Errorf("%s, then %s: %d as %q", before, after, code, r.upstream.last().Header.Get("X-Auth-User"))
			}
			if stale == "" {
				continue
			}
			if w := r.do("POST", "/refresh", "", "Cookie: refresh_token="+stale); w.Code != 401 {
				t.Errorf("%s, then %s: the old tokens can be refreshed: %d", before, after, w.Code)
			}
		}
	}
}

// A logout that failed halfway can be sent again.
func TestLogoutCanBeRepeated(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	alice, bob := r.login(aliceIn), r.login(bobIn)
	takes := 0
	r.store.breakIf(func(operation string, _ int64, _ string) bool {
		if operation == "take" {
			takes++
		}
		return takes > 1
	})
	if w := r.do("POST", "/logout", "", bob.cookie, alice.bearer); w.Code != 503 {
		t.Fatalf("a broken store: %d", w.Code)
	}
	r.store.heal()
	if w := r.do("POST", "/logout", "", bob.cookie, alice.bearer); w.Code != 200 {
		t.Errorf("again: %d %s", w.Code, w.Body)
	}
	for name, header := range map[string]string{"bob": bob.cookie, "alice": alice.bearer} {
		if w := r.do("GET", "/any/", "", header); w.Code != 401 {
			t.Errorf("%s is still signed in: %d", name, w.Code)
		}
	}
}

// A browser that returns from a provider does not send strict cookies. The sign-in
// ends their logins all the same.
func TestStrictCookiesEndAtTheCallback(t *testing.T) {
	t.Parallel()
	r, _ := delegatedRig(t, "session: {same_site: strict}\ntoken: {delivery: cookie}\n")
	alice := r.do("POST", "/login", aliceIn, jsonType).Result().Cookies()
	jar := map[string]string{}
	for _, c := range alice {
		jar[c.Name] = c.Value
	}
	begun := "Cookie: session_id=" + jar["session_id"] + "; access_token=" + jar["access_token"] + "; refresh_token=" + jar["refresh_token"]
	back := r.leave(begun)
	if w := r.do("GET", "/session/", "", "Cookie: session_id="+jar["session_id"]); w.Code != http.StatusOK {
		t.Fatalf("on the way: %d", w.Code)
	}
	w := r.do("GET", back.target, "", back.cookie)
	if w.Code != http.StatusFound || sessionIn(w) == "" {
		t.Fatalf("back again: %d %s", w.Code, w.Body)
	}
	for _, c := range w.Result().Cookies() {
		if c.MaxAge < 0 {
			delete(jar, c.Name)
		}
	}
	if len(jar) != 0 {
		t.Errorf("the browser keeps %v", jar)
	}
	for _, c := range alice {
		target := map[string]string{"session_id": "/session/", "access_token": "/bearer/"}[c.Name]
		if target == "" {
			continue
		}
		if w := r.do("GET", target, "", "Cookie: "+c.Name+"="+c.Value); w.Code != http.StatusUnauthorized {
			t.Errorf("the old %s still opens: %d", c.Name, w.Code)
		}
	}
}
