package gateway

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"authgate/gateway/must"
	"authgate/gateway/web"
)

// After a sign-in, the browser is redirected to return_to if that is a path, or a URL
// of one of the gateway's hosts, and otherwise to "/". The link to the sign-in page and
// its form keep what is accepted.
func TestReturnTo(t *testing.T) {
	t.Parallel()
	r := newRig(t, edit(t, hostsConfig, "https://gw.example", "https://gw.example:8443"))
	kept := map[string]string{ // as what
		"/": "/", "/a/b%20c?d=e&f=%2F": "/a/b%20c?d=e&f=%2F", "/é": "/é",
		"https://gw.example:8443": "/", "https://gw.example:8443/a?b": "/a?b", "https://GW.example:8443/": "/",
	}
	for _, place := range []string{"https://wiki.example.org:8443/a/b%20c?d=%2F&e", "https://files.example:8443/", "https://x.apps.example:8443/", "https://[2001:db8::1]:8443/a"} {
		kept[place] = place
	}
	kept["https://WIKI.example.org:8443"] = "https://wiki.example.org:8443/"
	for _, dropped := range []string{
		"", "//evil.example", `/\evil.example`, "/a#b", "https://evil.example:8443/", "https://wiki.example.org/", "https://wiki.example.org:443/", "https://wiki.example.org:84430/",
		"https://wiki.example.org:8443:8443/", "http://wiki.example.org:8443/", "//wiki.example.org:8443/", "HTTPS:wiki.example.org:8443/", "https:/wiki.example.org:8443/", "https:///wiki.example.org:8443/",
		"https://wiki.example.org:8443.evil.example/", "https://wiki.example.org:8443@evil.example/", "https://user@wiki.example.org:8443/", "https://wiki.example.org.:8443/",
		`https://wiki.example.org:8443\@evil.example/`, `https:\\wiki.example.org:8443/`, "https://evil.example/https://wiki.example.org:8443/", "https://evil.example?wiki.example.org:8443/",
		"https://evil.example#wiki.example.org:8443/", "https://wiki.example.org:8443?a", "https://wiki.example.org:8443#a", "https://wiki.example.org:8443//evil.example", "https://wiki.example.org:8443/..//evil.example",
		"https://wiki.example.org:8443/\nx", " https://wiki.example.org:8443/", "https://a.b.apps.example:8443/", "https://apps.example:8443/", "https://*.apps.example:8443/", "javascript:alert(1)",
		"https://localhost:8443/", "https://127.0.0.1:8443/", "https://[::1]:8443/", // where another program may listen
	} {
		kept[dropped] = ""
	}
	for target, kept := range kept {
		want, query := kept, ""
		if kept == "" {
			want = "/"
		} else {
			query = "?return_to=" + url.QueryEscape(kept)
		}
		escaped := url.QueryEscape(target)
		if got := r.want(303, "POST", "/login", aliceForm+"&return_to="+escaped, formType, browser).Header().Get("Location"); got != want {
			t.Errorf("%q: after the login to %q, want %q", target, got, want)
		}
		if got := r.want(302, "GET", "/login?return_to="+escaped, "").Header().Get("Location"); got != "/signin"+query {
			t.Errorf("%q: GET /login leads to %q, want %q", target, got, "/signin"+query)
		}
		if page := r.want(200, "GET", "/signin?return_to="+escaped, "", browser).Body.String(); strings.Contains(page, `name="return_to"`) != (kept != "") {
			t.Errorf("%q: the form keeps it: %t", target, kept == "")
		}
	}
	if got := r.want(302, "GET", "/login?return_to=/a&return_to=/b", "").Header().Get("Location"); got != "/signin" {
		t.Errorf("one of two targets is used: %q", got)
	}
	// The default port may be there or not, as browsers read both as the same.
	r = newRig(t, hostsConfig)
	for target, want := range map[string]string{
		"https://wiki.example.org/a": "https://wiki.example.org/a", "https://wiki.example.org:443/a": "https://wiki.example.org/a",
		"https://wiki.example.org:/a": "/", "https://wiki.example.org:8443/a": "/", "https://wiki.example.org:0443/a": "/",
	} {
		if got := r.want(303, "POST", "/login", aliceForm+"&return_to="+url.QueryEscape(target), formType, browser).Header().Get("Location"); got != want {
			t.Errorf("%q: after the login to %q, want %q", target, got, want)
		}
	}
}

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
		r := newRig(t, baseConfig+fmt.Sprintf("  - {match: /r/, upstream: app, auth: [%s], unauthenticated: %s}\n", c.auth, c.says))
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
	const basic, bearer, invalid = `Basic realm="authgate", charset="UTF-8"`, `Bearer realm="authgate"`, `Bearer realm="authgate", error="invalid_token"`
	const notSignedIn, wrong, badToken = "Not signed in.", "Invalid username or password.", "The access token is invalid, expired or revoked."
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
	if got := r.want(401, "POST", "/refresh", refreshBody("x"), jsonType).Header()["Www-Authenticate"]; !slices.Equal(got, []string{invalid}) {
		t.Errorf("a refresh: %q", got)
	}
}

// A browser asks for a password when it gets a Basic challenge. It must not do so
// for a script of a page; programs and page loads get the challenge.
func TestScriptsGetNoBasicChallenge(t *testing.T) {
	t.Parallel()
	const firefox = "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
	r := newRig(t, baseConfig)
	for _, c := range []struct {
		header []string
		asks   bool
	}{
		{nil, true},
		{[]string{"User-Agent: curl/8.14.1", "Accept: */*"}, true},
		{[]string{"User-Agent: git/2.47.2", "Accept: application/json"}, true},
		{[]string{firefox, browser}, true},
		{[]string{firefox, browser, "Sec-Fetch-Mode: navigate"}, true},
		{[]string{firefox, "Accept: */*"}, false},
		{[]string{firefox, "Accept: application/json"}, false},
		{[]string{firefox}, false},
		{[]string{"Sec-Fetch-Mode: cors"}, false},
		{[]string{browser, "Sec-Fetch-Mode: same-origin"}, false},
		{[]string{"Sec-Fetch-Mode: no-cors"}, false},
		{[]string{"Sec-Fetch-Mode: websocket"}, false},
		{[]string{"X-Requested-With: XMLHttpRequest"}, false},
		{[]string{browser, "X-Requested-With: xmlhttprequest", "Sec-Fetch-Mode: navigate"}, false},
	} {
		for _, target := range []string{"/any/", "/basic/"} {
			for _, credential := range []string{"", basicHeader("service", "guess")} {
				w := r.want(401, "POST", target, "", append(c.header, credential)...)
				challenges := strings.Join(w.Header()["Www-Authenticate"], ",")
				if strings.Contains(challenges, "Basic") != c.asks || strings.Contains(challenges, "Bearer") != (target == "/any/") {
					t.Errorf("%s with %q: challenges %q", target, c.header, challenges)
				}
			}
		}
		r.clock.Advance(time.Hour) // the failures are forgotten
	}
	r.want(401, "POST", "/login", "", basicHeader("alice", "guess"), "Sec-Fetch-Mode: cors")
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

func TestMe(t *testing.T) {
	t.Parallel()
	r := newRig(t, edit(t, baseConfig, "username: bob, roles: [user]", "username: bob"))
	alice := r.login(aliceIn)
	for mechanism, c := range map[string]struct {
		header string
		ends   time.Duration
	}{"session": {alice.cookie, time.Hour}, "bearer": {alice.bearer, 15 * time.Minute}} {
		w, page := r.want(200, "GET", "/me", "", c.header), r.want(200, "GET", "/me", "", c.header, browser)
		var got map[string]any
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		want := map[string]any{
			"username": "alice", "name": "Alice Example", "email": "alice@example.org", "roles": []any{"user", "admin"},
			"mechanism": mechanism, "provider": "local", "expires_at": r.clock.Now().Add(c.ends).UTC().Format(time.RFC3339),
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\ngot  %v\nwant %v", mechanism, got, want)
		}
		if !strings.HasPrefix(page.Header().Get("Content-Type"), "text/html") || !strings.Contains(page.Body.String(), "Alice Example") {
			t.Errorf("%s: the page: %s", mechanism, page.Header().Get("Content-Type"))
		}
	}
	if w := r.want(200, "GET", "/me", "", r.login(bobIn).cookie); !strings.Contains(w.Body.String(), `"roles":[]`) {
		t.Errorf("a user without roles: %s", w.Body)
	}
}

// Own endpoints answer their methods, in any spelling of the path, and hide that path
// from the routes. Paths below belong to the routes.
func TestOwnEndpoints(t *testing.T) {
	t.Parallel()
	paths := map[string][]string{ // with the methods that each answers
		"login": {"GET", "HEAD", "POST"}, "logout": {"GET", "HEAD", "POST"}, "refresh": {"POST"}, "me": {"GET", "HEAD"},
		"signin": {"GET", "HEAD"}, "callback": {"GET", "HEAD"}, "auth/callback": {"GET", "HEAD"}, ".well-known/jwks.json": {"GET", "HEAD"},
	}
	for _, prefix := range []string{"/", "/auth/"} {
		r := newRig(t, baseConfig+"  - {match: /, name: rest, upstream: app, auth: [none]}\nendpoints: {prefix: "+prefix+"}\n")
		for path, methods := range paths {
			for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "get"} {
				w := r.do(method, prefix+path, "")
				if allowed := slices.Contains(methods, method); (w.Code == 405) == allowed || !allowed && w.Header().Get("Allow") != strings.Join(methods, ", ") {
					t.Errorf("%s %s%s: %d, Allow: %q, want %q", method, prefix, path, w.Code, w.Header().Get("Allow"), methods)
				}
			}
			r.want(405, "PUT", prefix+"%"+fmt.Sprintf("%x", path[0])+path[1:], "")
			if n := r.upstream.count(); n != 0 {
				t.Errorf("%s%s: %d requests went to the upstream", prefix, path, n)
			}
			r.want(200, "PUT", prefix+path+"/x", "")
			r.upstream.asked.Store(0)
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
		if w := r.want(200, "GET", prefix+".well-known/jwks.json", "", browser); strings.TrimSpace(w.Body.String()) != `{"keys":[]}` || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("no public keys: %s %s", w.Header().Get("Content-Type"), w.Body)
		}
	}
}

// brokenBody is a body that fails.
type brokenBody func() error

func (b brokenBody) Read([]byte) (int, error) { return 0, b() }

// Own endpoints accept bodies up to 64 KiB, even if they do not use them.
func TestOwnBody(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	fits := strings.Repeat(" ", web.MaxBody-len(aliceIn)) + aliceIn
	unknownLength := func(body io.Reader) *http.Request {
		q := request("POST", "/login", "", jsonType)
		q.Body, q.ContentLength = io.NopCloser(body), -1
		return q
	}
	r.wantOf(200, request("POST", "/login", fits, jsonType))
	r.wantOf(200, unknownLength(strings.NewReader(fits)))
	r.wantOf(413, request("POST", "/login", " "+fits, jsonType))
	r.wantOf(413, unknownLength(strings.NewReader(" "+fits)))
	r.wantOf(413, request("POST", "/logout", " "+fits))
	r.wantOf(413, request("GET", "/me", " "+fits))
	r.wantOf(413, request("POST", "/login", " "+fits, basicHeader("alice", "wonderland")))
	r.wantOf(400, unknownLength(io.MultiReader(strings.NewReader(`{"username":`), brokenBody(func() error { return io.ErrUnexpectedEOF }))))
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
	r, _ := delegatedRig(t, "session: {csrf_token: true}\n")
	for _, name := range r.Config().OwnEndpoints() {
		allowed := r.want(405, "PATCH", "/"+name, "").Header().Get("Allow")
		for _, method := range strings.Split(strings.Replace(allowed, "GET, HEAD", "GET", 1), ", ") {
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
