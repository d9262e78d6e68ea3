package gateway

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"authgate/internal/test/must"
	ownrig "authgate/internal/test/rig"
)

// A page load without credentials is redirected to the sign-in page if the route says
// so, with the path to return to. TestDeadCookies has credentials that are not valid.
func TestUnauthenticated(t *testing.T) {
	t.Parallel()
	const script, navigation = "Sec-Fetch-Mode: cors", "Sec-Fetch-Mode: navigate"
	for _, c := range []struct {
		says, auth, method string
		header             []string
		status             int
	}{
		{"auto", "session", "GET", []string{browser}, 302},
		{"auto", "session", "GET", []string{browser, navigation}, 302},
		{"auto", "session", "GET", []string{browser, script}, 401},
		{"auto", "session", "GET", nil, 401},
		{"auto", "session", "HEAD", []string{browser}, 302},
		{"auto", "session", "POST", []string{browser}, 401},
		{"auto", "session, bearer, basic", "GET", []string{browser}, 302},
		{"auto", "bearer", "GET", []string{browser}, 401},
		{"auto", "basic", "GET", []string{browser}, 401},
		{"auto", "session, bearer", "GET", []string{browser, "Authorization: Bearer x"}, 401},
		{"challenge", "session", "GET", []string{browser}, 401},
		{"redirect", "session", "GET", []string{"Accept: application/json", script}, 302},
		{"redirect", "session", "HEAD", nil, 302},
		{"redirect", "session", "POST", nil, 401},
		{"redirect", "session", "OPTIONS", []string{browser}, 401},
	} {
		r := newRig(t, baseConfig+
			fmt.Sprintf("  - {match: /r/, upstream: app, auth: [%s], unauthenticated: %s}\n", c.auth, c.says))
		want := map[int]string{302: "/signin?return_to=%2Fr%2Fa%2520b%3Fc%3D%252F%26d"}[c.status]
		w := r.want(c.status, c.method, "/r/a%20b?c=%2F&d", "", c.header...)
		if got := w.Header().Get("Location"); got != want || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s, [%s], %s %q: to %q, want %q", c.says, c.auth, c.method, c.header, got, want)
		}
	}
}

// A 401 carries one challenge for each mechanism of the route that has one.
func TestChallenges(t *testing.T) {
	t.Parallel()
	const basic, bearer = `Basic realm="authgate", charset="UTF-8"`, `Bearer realm="authgate"`
	const invalid = `Bearer realm="authgate", error="invalid_token"`
	const notSignedIn, wrong = "Not signed in.", "Invalid username or password."
	const badToken = "The access token is invalid, expired or revoked."
	r := newRig(t, baseConfig)
	for _, c := range []struct {
		method, target, header, detail string
		want                           []string
	}{
		{"GET", "/basic/", "", notSignedIn, []string{basic}},
		{"GET", "/basic/", basicHeader("service", "x"), wrong, []string{basic}},
		{"GET", "/basic/", "Authorization: Basic ###", wrong, []string{basic}},
		{"GET", "/basic/", "Authorization: Bearer x", notSignedIn, []string{basic}},
		{"GET", "/session/", "Cookie: session_id=x", notSignedIn, nil},
		{"GET", "/session/", "Authorization: Bearer x", notSignedIn, nil},
		{"GET", "/bearer/", "", notSignedIn, []string{bearer}},
		{"GET", "/bearer/", "Authorization: Bearer", badToken, []string{invalid}},
		{"GET", "/any/", "Authorization: Bearer x", badToken, []string{basic, invalid}},
		{"GET", "/me", "", notSignedIn, []string{bearer}},
		{"GET", "/me", "Authorization: Bearer x", badToken, []string{invalid}},
		{"GET", "/me", basicHeader("service", "s3rvice"), notSignedIn, []string{bearer}},
		{"POST", "/logout", "Authorization: Bearer x", badToken, []string{invalid}},
	} {
		w := r.want(401, c.method, c.target, "", c.header)
		got := slices.Sorted(slices.Values(w.Header()["Www-Authenticate"]))
		if !slices.Equal(got, c.want) || detailOf(t, w) != c.detail {
			t.Errorf("%s with %q: %q %q, want %q %q", c.target, c.header, got, detailOf(t, w), c.want, c.detail)
		}
	}
	w := r.want(401, "POST", "/refresh", refreshBody("x"), jsonType)
	if got := w.Header()["Www-Authenticate"]; !slices.Equal(got, []string{invalid}) {
		t.Errorf("a refresh: %q", got)
	}
}

// The page of an error offers to sign in if that helps: for a 401, with the way
// back where there is one, and for each error of a sign-in at a provider.
func TestErrorPageOffersSignIn(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig+"  - {match: /page/, upstream: app, auth: [session], unauthenticated: challenge}\n")
	bearerOnly := newRig(t, edit(t, edit(t, baseConfig, "[session", "[bearer"), "[bearer, bearer", "[bearer"))
	delegated, _ := delegatedRig(t, "")
	for _, c := range []struct {
		rig            *rig
		method, target string
		status         int
		want           string // empty: no link
	}{
		{r, "GET", "/page/a?b", 401, `href="/signin?return_to=%2Fpage%2Fa%3Fb"`},
		{r, "POST", "/page/a", 401, `href="/signin"`},
		{r, "GET", "/me", 401, `href="/signin"`},
		{r, "GET", "/callback?code=x&state=y", 404, `href="/signin"`}, // there is no provider
		{r, "GET", "/auth/callback", 404, `href="/signin"`},
		{delegated, "GET", "/auth/callback?state=x&code=y", 400, `href="/signin"`},
		{r, "GET", "/nowhere", 404, ""},
		{r, "GET", "/basic/", 401, ""},
		{bearerOnly, "GET", "/me", 401, ""},
	} {
		body := c.rig.want(c.status, c.method, c.target, "", browser).Body.String()
		if offers := strings.Contains(body, `href="/signin`); offers != (c.want != "") || !strings.Contains(body, c.want) {
			t.Errorf("%s %s: want the page to have %q:\n%s", c.method, c.target, c.want, body)
		}
	}
}

// Own endpoints answer their methods, in any spelling of the path, and hide that path
// from the routes. Paths below belong to the routes.
func TestOwnEndpoints(t *testing.T) {
	t.Parallel()
	paths := map[string][]string{ // with the methods that each answers
		"login": {"GET", "HEAD", "POST"}, "logout": {"GET", "HEAD", "POST"}, "refresh": {"POST"}, "me": {"GET", "HEAD"},
		"signin": {"GET", "HEAD"}, "callback": {"GET", "HEAD"}, "auth/callback": {"GET", "HEAD"},
		".well-known/jwks.json": {"GET", "HEAD", "OPTIONS"},
	}
	for _, prefix := range []string{"/", "/auth/"} {
		r := newRig(t, baseConfig+
			"  - {match: /, name: rest, upstream: app, auth: [none]}\nendpoints: {prefix: "+prefix+"}\n")
		for path, methods := range paths {
			for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "get"} {
				w := r.do(method, prefix+path, "")
				if allowed := slices.Contains(methods, method); (w.Code == 405) == allowed ||
					!allowed && w.Header().Get("Allow") != strings.Join(methods, ", ") {
					t.Errorf("%s %s%s: %d, Allow: %q, want %q", method, prefix, path, w.Code, w.Header().Get("Allow"), methods)
				}
			}
			r.want(405, "PUT", prefix+"%"+fmt.Sprintf("%x", path[0])+path[1:], "")
			if n := r.upstream.Reached(); n != 0 {
				t.Errorf("%s%s: %d requests went to the upstream", prefix, path, n)
			}
			r.want(200, "PUT", prefix+path+"/x", "")
			r.upstream.Forget()
		}
		others := []string{"/"}
		if prefix != "/" {
			others = append(others, "/login")
		}
		for _, path := range others {
			if w := r.want(200, "GET", path, ""); w.Body.String() != "hello" {
				t.Errorf("the application's own %s: %s", path, w.Body)
			}
		}
		w := r.want(200, "GET", prefix+".well-known/jwks.json", "", browser)
		if strings.TrimSpace(w.Body.String()) != `{"keys":[]}` || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("no public keys: %s %s", w.Header().Get("Content-Type"), w.Body)
		}
	}
}

// TestReference checks that docs/http.md lists each endpoint with each of its
// methods, and no other.
func TestReference(t *testing.T) {
	t.Parallel()
	documented := map[string]bool{}
	page := string(must.Get(os.ReadFile("../docs/http.md"))(t))
	for _, row := range regexp.MustCompile("(?m)^\\| (`(?:GET|POST) /.*?) \\|").FindAllStringSubmatch(page, -1) {
		for _, request := range strings.Split(row[1], ", ") {
			documented[strings.Trim(request, "`")] = true
		}
	}
	delete(documented, "GET /") // the start page, if no route matches
	withApp := edit(t, baseConfig, "auth: [session]}", "auth: [session], app: {title: Wiki}}")
	r := delegatedRigOf(t, ownrig.NewProvider(t), withApp, "session: {csrf_token: true}\noauth: {enabled: true}\n")
	for _, name := range r.Config().OwnEndpoints() {
		var methods []string
		switch {
		case name == "account/people": // only those who look after accounts get an answer of it, and below
			methods = []string{"GET"}
		case strings.HasPrefix(name, "account/people/"):
			methods = []string{"POST"}
		default:
			allowed := r.want(405, "PATCH", "/"+name, "").Header().Get("Allow")
			methods = strings.Split(strings.Replace(allowed, "GET, HEAD", "GET", 1), ", ")
		}
		for _, method := range methods {
			if method == "OPTIONS" { // for preflights of browsers
				continue
			}
			request := method + " /" + strings.Replace(name, "small", "PROVIDER", 1)
			if !documented[request] {
				t.Errorf("docs/http.md does not list %s", request)
			}
			delete(documented, request)
		}
	}
	for request := range documented {
		t.Errorf("docs/http.md lists %s, which does not exist", request)
	}
}
