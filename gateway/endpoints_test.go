package gateway

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"authgate/gateway/web"
)

// After a sign-in, the browser is redirected to return_to if that is accepted, and
// otherwise to "/".
func TestReturnTo(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	for target, want := range map[string]string{
		"/":                  "/",
		"/a/b%20c?d=e&f=%2F": "/a/b%20c?d=e&f=%2F",
		`/search?q=a\b`:      `/search?q=a\b`,
		"/é":                 "/é",
		"":                   "/",
		"//evil.example":     "/",
		`/\evil.example`:     "/",
		"https://gw.example": "/",
		"/a\r\nX: y":         "/",
		"/a#b":               "/",
		"a":                  "/",
	} {
		escaped := url.QueryEscape(target)
		w := r.do("POST", "/login", "username=alice&password=wonderland&return_to="+escaped, formType, browser)
		if got := w.Header().Get("Location"); w.Code != 303 || got != want {
			t.Errorf("%q: after the login %d to %q, want %q", target, w.Code, got, want)
		}
		// The link to the sign-in page and its form have it.
		w = r.do("GET", "/login?return_to="+escaped, "")
		link := "/signin"
		if want != "/" || target == "/" {
			link += "?return_to=" + url.QueryEscape(want)
		}
		if got := w.Header().Get("Location"); w.Code != 302 || got != link {
			t.Errorf("%q: GET /login: %d to %q, want %q", target, w.Code, got, link)
		}
		page := r.do("GET", "/signin?return_to="+escaped, "", browser).Body.String()
		if there := strings.Contains(page, `name="return_to"`); there != (link != "/signin") {
			t.Errorf("%q: the form keeps it: %t", target, there)
		}
	}
	if w := r.do("GET", "/login?return_to=/a&return_to=/b", ""); w.Header().Get("Location") != "/signin" {
		t.Errorf("one of two targets is used: %q", w.Header().Get("Location"))
	}
}

// A page load without credentials is redirected to the sign-in page if the route says
// so, with the path to return to.
func TestUnauthenticated(t *testing.T) {
	t.Parallel()
	const toSignIn = "/signin?return_to=%2Fr%2Fa%2520b%3Fc%3D%252F%26d"
	const target = "/r/a%20b?c=%2F&d"
	const script, navigation = "Sec-Fetch-Mode: cors", "Sec-Fetch-Mode: navigate"
	for _, c := range []struct {
		says, auth, method string
		header             []string
		redirects          bool
	}{
		{"auto", "session", "GET", []string{browser}, true},
		{"auto", "session", "GET", []string{browser, navigation}, true},
		{"auto", "session", "GET", []string{browser, script}, false},
		{"auto", "session", "GET", nil, false},
		{"auto", "session", "GET", []string{"Accept: application/json"}, false},
		{"auto", "session", "HEAD", []string{browser}, true},
		{"auto", "session", "POST", []string{browser}, false},
		{"auto", "session, bearer", "GET", []string{browser}, true},
		{"auto", "session, basic", "GET", []string{browser}, true},
		{"auto", "bearer", "GET", []string{browser}, false},
		{"auto", "basic", "GET", []string{browser}, false},
		{"challenge", "session", "GET", []string{browser}, false},
		{"redirect", "session", "GET", nil, true},
		{"redirect", "session", "GET", []string{"Accept: application/json", script}, true},
		{"redirect", "session", "HEAD", nil, true},
		{"redirect", "session", "POST", nil, false},
		{"redirect", "session", "OPTIONS", []string{browser}, false},
		// For a page load, a cookie that is no longer valid counts as absent. Another
		// credential that is not valid never leads to a redirect.
		{"redirect", "session", "GET", []string{browser, "Cookie: session_id=x"}, true},
		{"auto", "session", "GET", []string{browser, navigation, "Cookie: session_id=x"}, true},
		{"auto", "session", "GET", []string{browser, script, "Cookie: session_id=x"}, false},
		{"auto", "session", "GET", []string{"Cookie: session_id=x"}, false},
		{"auto", "session", "POST", []string{browser, "Cookie: session_id=x"}, false},
		{"challenge", "session", "GET", []string{browser, "Cookie: session_id=x"}, false},
		{"auto", "session, bearer", "GET", []string{browser, "Authorization: Bearer x"}, false},
		{"auto", "session, basic", "GET", []string{browser, basicHeader("service", "x")}, false},
	} {
		r := newRig(t, baseConfig+fmt.Sprintf("  - {match: /r/, upstream: app, auth: [%s], unauthenticated: %s}\n", c.auth, c.says))
		w := r.do(c.method, target, "", c.header...)
		name := fmt.Sprintf("%s, [%s], %s %q", c.says, c.auth, c.method, c.header)
		if !c.redirects {
			if w.Code != 401 || w.Header().Get("Location") != "" {
				t.Errorf("%s: %d to %q, want 401", name, w.Code, w.Header().Get("Location"))
			}
			continue
		}
		if w.Code != 302 || w.Header().Get("Location") != toSignIn || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d to %q, want 302 to %q", name, w.Code, w.Header().Get("Location"), toSignIn)
		}
	}
}

// A 401 carries one challenge for each mechanism of the route that has one.
func TestChallenges(t *testing.T) {
	t.Parallel()
	const basic, bearer, invalid = `Basic realm="authgate", charset="UTF-8"`, `Bearer realm="authgate"`, `Bearer realm="authgate", error="invalid_token"`
	r := newRig(t, baseConfig)
	for _, c := range []struct {
		target, header, detail string
		want                   []string
	}{
		{"/basic/", "", "Not signed in.", []string{basic}},
		{"/basic/", basicHeader("service", "x"), "Invalid username or password.", []string{basic}},
		{"/basic/", "Authorization: Basic", "Invalid username or password.", []string{basic}},
		{"/basic/", "Authorization: Basic ###", "Invalid username or password.", []string{basic}},
		{"/basic/", "Authorization: Bearer x", "Not signed in.", []string{basic}},
		{"/session/", "", "Not signed in.", nil},
		{"/session/", "Cookie: session_id=x", "Not signed in.", nil},
		{"/session/", "Authorization: Bearer x", "Not signed in.", nil},
		{"/bearer/", "", "Not signed in.", []string{bearer}},
		{"/bearer/", "Authorization: Bearer x", "The access token is invalid, expired or revoked.", []string{invalid}},
		{"/bearer/", "Authorization: Bearer", "The access token is invalid, expired or revoked.", []string{invalid}},
		{"/bearer/", "Authorization: x", "Not signed in.", []string{bearer}},
		{"/any/", "", "Not signed in.", []string{basic, bearer}},
		{"/any/", "Authorization: Bearer x", "The access token is invalid, expired or revoked.", []string{basic, invalid}},
		{"/me", "", "Not signed in.", []string{bearer}},
		{"/me", "Authorization: Bearer x", "The access token is invalid, expired or revoked.", []string{invalid}},
	} {
		w := r.do("GET", c.target, "", c.header)
		got := slices.Sorted(slices.Values(w.Header()["Www-Authenticate"]))
		if w.Code != 401 || !slices.Equal(got, c.want) || problemOf(t, w).Detail != c.detail {
			t.Errorf("%s with %q: %d %q %q, want %q %q", c.target, c.header, w.Code, got, problemOf(t, w).Detail, c.want, c.detail)
		}
	}
}

// So does a refused refresh or logout.
func TestChallengesOfEndpoints(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	for _, w := range []*httptest.ResponseRecorder{
		r.do("POST", "/refresh", refreshBody("x"), jsonType), r.do("POST", "/logout", "", "Authorization: Bearer x"),
	} {
		if got := w.Header()["Www-Authenticate"]; w.Code != 401 || !slices.Equal(got, []string{`Bearer realm="authgate", error="invalid_token"`}) {
			t.Errorf("%d %q", w.Code, got)
		}
	}
}

func TestMe(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	alice := r.login(aliceIn)
	for mechanism, c := range map[string]struct {
		header string
		ends   time.Duration
	}{"session": {alice.cookie, time.Hour}, "bearer": {alice.bearer, 15 * time.Minute}} {
		w := r.do("GET", "/me", "", c.header)
		var got map[string]any
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		ends := r.clock.Now().Add(c.ends).UTC().Format(time.RFC3339)
		want := map[string]any{
			"username": "alice", "name": "Alice Example", "email": "alice@example.org", "roles": []any{"user", "admin"},
			"mechanism": mechanism, "provider": "local", "expires_at": ends,
		}
		if w.Code != 200 || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %d\ngot  %v\nwant %v", mechanism, w.Code, got, want)
		}
		page := r.do("GET", "/me", "", c.header, browser)
		if page.Code != 200 || !strings.HasPrefix(page.Header().Get("Content-Type"), "text/html") || !strings.Contains(page.Body.String(), "Alice Example") {
			t.Errorf("%s: the page: %d %s", mechanism, page.Code, page.Header().Get("Content-Type"))
		}
		for _, w := range []http.Header{w.Header(), page.Header()} {
			if w.Get("Cache-Control") != "no-store" {
				t.Errorf("%s: Cache-Control: %s", mechanism, w.Get("Cache-Control"))
			}
		}
	}
	if w := r.do("GET", "/me", "", r.login(bobIn).cookie); !strings.Contains(w.Body.String(), `"roles":["user"]`) {
		t.Errorf("bob: %s", w.Body)
	}
	r.want(401, "GET", "/me", "", basicHeader("service", "s3rvice"))
	r = newRig(t, edit(t, baseConfig, "username: bob, roles: [user]", "username: bob"))
	if w := r.do("GET", "/me", "", r.login(bobIn).cookie); !strings.Contains(w.Body.String(), `"roles":[]`) {
		t.Errorf("a user without roles: %s", w.Body)
	}
}

func TestOwnEndpoints(t *testing.T) {
	t.Parallel()
	paths := map[string][]string{ // with the methods that each answers
		"login": {"GET", "HEAD", "POST"}, "logout": {"GET", "HEAD", "POST"}, "refresh": {"POST"}, "me": {"GET", "HEAD"},
		"signin": {"GET", "HEAD"}, "callback": {"GET", "HEAD"}, "auth/callback": {"GET", "HEAD"}, ".well-known/jwks.json": {"GET", "HEAD"},
	}
	for _, prefix := range []string{"/", "/auth/"} {
		r := newRig(t, baseConfig+"  - {match: /, name: rest, upstream: app, auth: [none]}\nendpoints: {prefix: "+prefix+"}\n")
		for path, methods := range paths {
			for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "get"} {
				before := r.upstream.count()
				w := r.do(method, prefix+path, "")
				if r.upstream.count() != before {
					t.Errorf("%s %s%s went to the upstream", method, prefix, path)
				}
				if allowed := slices.Contains(methods, method); (w.Code == 405) == allowed {
					t.Errorf("%s %s%s: %d", method, prefix, path, w.Code)
				}
				if allow := w.Header().Get("Allow"); w.Code == 405 && allow != strings.Join(methods, ", ") {
					t.Errorf("%s %s%s: Allow: %q, want %q", method, prefix, path, allow, methods)
				}
			}
			// Another spelling is the same path. Paths below it belong to the routes.
			r.want(405, "PUT", prefix+"%"+fmt.Sprintf("%x", path[0])+path[1:], "")
			r.want(200, "PUT", prefix+path+"/x", "")
		}
		if prefix != "/" {
			if w := r.do("GET", "/login", ""); w.Code != 200 || w.Body.String() != "hello" {
				t.Errorf("the application's own /login: %d %s", w.Code, w.Body)
			}
		}
		if w := r.do("GET", "/", ""); w.Code != 200 || w.Body.String() != "hello" {
			t.Errorf("/ belongs to the routes: %d", w.Code)
		}
	}
}

func TestJWKS(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	w := r.do("GET", "/.well-known/jwks.json", "", browser)
	if w.Code != 200 || strings.TrimSpace(w.Body.String()) != `{"keys":[]}` || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("HS256: %d %s %s", w.Code, w.Header().Get("Content-Type"), w.Body)
	}
	r = newRig(t, baseConfig+"token: {algorithm: RS256}\n")
	var set struct {
		Keys []map[string]string `json:"keys"`
	}
	if err := json.Unmarshal(r.do("GET", "/.well-known/jwks.json", "").Body.Bytes(), &set); err != nil || len(set.Keys) != 1 {
		t.Fatalf("RS256: %v, %v", set, err)
	}
	for _, secret := range []string{"d", "p", "q", "dp", "dq", "qi", "k"} {
		if set.Keys[0][secret] != "" {
			t.Errorf("the private member %s is published", secret)
		}
	}
	if set.Keys[0]["kty"] != "RSA" || set.Keys[0]["alg"] != "RS256" || set.Keys[0]["use"] != "sig" {
		t.Errorf("RS256: %v", set.Keys[0])
	}
}

// Own endpoints accept bodies up to 64 KiB, even if they do not use them.
func TestOwnBody(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	fits := strings.Repeat(" ", web.MaxBody-len(aliceIn)) + aliceIn
	unknownLength := func(target, body string, header ...string) *http.Request {
		q := request("POST", target, "", header...)
		q.Body, q.ContentLength = io.NopCloser(strings.NewReader(body)), -1
		return q
	}
	for _, c := range []struct {
		name string
		q    *http.Request
		want int
	}{
		{"as large as may be", request("POST", "/login", fits, jsonType), 200},
		{"as large as may be, of unknown length", unknownLength("/login", fits, jsonType), 200},
		{"one byte more", request("POST", "/login", " "+fits, jsonType), 413},
		{"one byte more, of unknown length", unknownLength("/login", " "+fits, jsonType), 413},
		{"more than /logout needs", request("POST", "/logout", " "+fits), 413},
		{"more than /me needs", request("GET", "/me", " "+fits), 413},
		{"more, with Basic credentials", request("POST", "/login", " "+fits, basicHeader("alice", "wonderland")), 413},
		{"that breaks", unknownBreaks(), 400},
	} {
		w := r.serve(c.q)
		if w.Code != c.want {
			t.Errorf("a body %s: %d %.100s, want %d", c.name, w.Code, w.Body, c.want)
		}
	}
}

func unknownBreaks() *http.Request {
	q := request("POST", "/login", "", jsonType)
	q.Body, q.ContentLength = io.NopCloser(io.MultiReader(strings.NewReader(`{"username":`), &brokenBody{func() error { return io.ErrUnexpectedEOF }})), -1
	return q
}

func TestCallbackWithoutProviders(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	for _, path := range []string{"/callback?code=x&state=y", "/auth/callback"} {
		if w := r.do("GET", path, ""); w.Code != 404 || w.Header().Get("Location") != "" {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}
