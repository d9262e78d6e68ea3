package gateway

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// cleared are the names of the cookies that an answer takes back.
func cleared(w *httptest.ResponseRecorder) (names []string) {
	for _, c := range w.Result().Cookies() {
		if c.MaxAge < 0 && c.Value == "" {
			names = append(names, c.Name)
		}
	}
	slices.Sort(names)
	return names
}

// A cookie of the gateway that is no longer valid is cleared, and to a page
// load it is as if it had not come (design E.6).
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
		{"who is it, a page load", "GET", "/me", []string{browser, junk}, 401, []string{"session_id"}, false},
		{"good", "GET", "/session/", []string{browser, alice.cookie}, 200, nil, true},
	} {
		before := r.upstream.count()
		w := r.do(c.method, c.target, "", c.header...)
		if w.Code != c.status || !slices.Equal(cleared(w), c.cleared) || (r.upstream.count() > before) != c.reaches {
			t.Errorf("%s: %d, cleared %q, %d requests at the upstream; want %d, %q", c.name, w.Code, cleared(w), r.upstream.count()-before, c.status, c.cleared)
		}
	}
	r.clock.advance(2 * r.Config().Session.Lifetime)
	if w := r.do("GET", "/session/", "", browser, alice.cookie); w.Code != 302 || !slices.Equal(cleared(w), []string{"session_id"}) {
		t.Errorf("expired: %d, cleared %q", w.Code, cleared(w))
	}
}

// A store that cannot answer says nothing of a cookie, nor does it after another
// cookie was found to be invalid.
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
