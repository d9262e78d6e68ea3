package proxies

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"authgate/e2e/world"
)

const forwardApp = "https://app.example.org"

// wantUser checks the identity that a request to the application carries.
func wantUser(t *testing.T, what string, m world.Message, user, roles string) {
	t.Helper()
	want := map[string]string{}
	if user != "" {
		want = map[string]string{"X-Auth-User": user, "X-Auth-Subject": "local:" + user, "X-Auth-Roles": roles,
			"X-Auth-Mechanism": "session", "X-Auth-Provider": "local"}
	}
	for _, name := range world.IdentityNames {
		if got := m.Value(t, name); got != want[name] {
			t.Errorf("%s: %s is %q, expected %q", what, name, got, want[name])
		}
	}
}

// spoofedIdentity is headers by which a client claims to be someone else.
func spoofedIdentity() []string {
	var headers []string
	for _, name := range world.IdentityNames {
		headers = append(headers, name, "root", name, "root2")
	}
	return headers
}

// TestForwardAuth: with the configurations of the documents, real proxies let users
// sign in, ask about each request, and give the application the identity that the
// gateway tells, whatever the client claims.
func TestForwardAuth(t *testing.T) {
	t.Parallel()
	for name, proxy := range forwardProxies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			forwardThrough(t, proxy)
		})
	}
}

// forwardThrough tells all stories through one proxy.
func forwardThrough(t *testing.T, proxy forwardProxy) {
	t.Helper()
	g, app := forwardGateway(t, proxy.endpoints), world.Record(t)
	address, roots := proxy.start(t, g, app.URL)
	forwardSignIn(t, app, world.Surf(t, "127.0.0.1", address, roots))
	if !proxy.leadsAll {
		forwardPrograms(t, app, world.Surf(t, "127.0.0.1", address, roots))
	}
	forwardRefusals(t, app, world.Surf(t, "127.0.0.1", address, roots))
	if proxy.ownPages {
		forwardPages(t, app, world.Surf(t, "127.0.0.1", address, roots))
	}
	forwardHeaders(t, app, world.Surf(t, "127.0.0.1", address, roots))
	forwardAddresses(t, app, world.Surf(t, "127.0.0.2", address, roots), world.Surf(t, "127.0.0.3", address, roots))
	send := func(text string) world.Answer {
		conn := world.Must(tls.Dial("tcp", address, &tls.Config{RootCAs: roots, ServerName: "app.example.org"}))(t)
		defer conn.Close()
		world.Limit(t, conn)
		return world.Exchange(t, conn, text)
	}
	forwardEveryKind(t, app, send)
	proxy.forwardSmuggling(t, g, app, send)
}

// forwardSignIn: a page leads to the sign-in page and back, the application gets the
// identity, and nothing after the logout.
func forwardSignIn(t *testing.T, app *world.Recorder, v world.Surfer) {
	t.Helper()
	a, at := v.SignIn(forwardApp+"/page?a=%2Fb&c", "alice")
	if a.Status != http.StatusOK || a.Body != "ok" || at.String() != forwardApp+"/page?a=%2Fb&c" {
		t.Fatalf("after the sign-in: %d at %s\n%s", a.Status, at, a.Body)
	}
	m := app.One(t)
	wantUser(t, "the page", m, "alice", "user,admin")
	if m.Target() != "/page?a=%2Fb&c" {
		t.Errorf("the application gets %q", m.Line)
	}
	a, _ = v.Visit("POST", forwardApp+"/admin/x%20y;z", "a body",
		append(spoofedIdentity(), "Sec-Fetch-Site", "same-origin")...)
	world.WantStatus(t, "a post", a, http.StatusOK)
	m = app.One(t)
	wantUser(t, "a post with spoofed headers", m, "alice", "user,admin")
	if m.Target() != "/admin/x%20y;z" || m.Body != "a body" || !strings.HasPrefix(m.Line, "POST ") {
		t.Errorf("the application gets %q with %q", m.Line, m.Body)
	}
	a, _ = v.Visit("POST", forwardApp+"/page", "a body", "Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example")
	world.WantStatus(t, "a post of another site", a, http.StatusForbidden)
	a, _ = v.Visit("GET", forwardApp+"/page", "", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key",
		"dGhlIHNhbXBsZSBub25jZQ==", "Connection", "Upgrade", "Upgrade", "websocket", "Origin", "https://evil.example")
	world.WantStatus(t, "a WebSocket of another site", a, http.StatusForbidden)
	a, _ = v.Visit("POST", forwardApp+"/.authgate/logout", "", "Origin", forwardApp, "Sec-Fetch-Site", "same-origin")
	world.WantStatus(t, "the logout", a, http.StatusOK)
	a, at = v.Visit("GET", forwardApp+"/page", "", "Accept", world.AcceptsPage)
	if a.Status != http.StatusOK || !strings.HasPrefix(at.Path, "/.authgate/") {
		t.Errorf("after the logout: %d at %s", a.Status, at)
	}
	app.None(t)
}

// forwardPrograms: a program without a login gets 401.
func forwardPrograms(t *testing.T, app *world.Recorder, v world.Surfer) {
	t.Helper()
	a, _ := v.Visit("GET", forwardApp+"/api", "", "Accept", world.TypeJSON)
	world.WantStatus(t, "without a login", a, http.StatusUnauthorized)
	a, _ = v.Visit("GET", forwardApp+"/api", "",
		append(spoofedIdentity(), "Cookie", "session_id=x", "Accept", world.TypeJSON)...)
	world.WantStatus(t, "with a wrong cookie", a, http.StatusUnauthorized)
	app.None(t)
}

// forwardRefusals: what the gateway refuses does not reach the application.
func forwardRefusals(t *testing.T, app *world.Recorder, v world.Surfer) {
	t.Helper()
	if a, at := v.SignIn(forwardApp+"/page", "bob"); a.Status != http.StatusOK || at.Path != "/page" {
		t.Fatalf("after the sign-in: %d at %s", a.Status, at)
	}
	wantUser(t, "the page", app.One(t), "bob", "user")
	a, _ := v.Visit("GET", forwardApp+"/admin/", "", spoofedIdentity()...)
	world.WantStatus(t, "without the role", a, http.StatusForbidden)
	for _, spelling := range []string{
		"verify", "verify?x", "%76erify", "ver%69fy", "/verify", "./verify", "x/../verify", "%2e/verify",
		"..%2f.authgate/verify", "../.authgate/verify", "../%2eauthgate/verify", "../.authgate/%76erify",
	} {
		a, _ = v.Visit("GET", forwardApp+"/.authgate/"+spelling, "", "X-Forwarded-Method", "GET",
			"X-Forwarded-Uri", "/page", "X-Original-Method", "GET", "X-Original-URL", forwardApp+"/page")
		switch a.Status {
		case http.StatusNotFound, http.StatusBadRequest, http.StatusForbidden: // Traefik asks about it like any other
		default:
			t.Errorf("a question of a client, %s: %d %s", spelling, a.Status, a.Body)
		}
	}
	a, _ = v.Visit("GET", forwardApp+"/.authgate/signin?switch=1", "", "Accept", world.AcceptsPage,
		"X-Forwarded-Host", "evil.example", "Forwarded", "host=evil.example;proto=http")
	world.WantStatus(t, "the gateway's own page, for a client that names another host", a, http.StatusOK)
	app.None(t)
	a, _ = v.Visit("GET", forwardApp+"/public/x", "", spoofedIdentity()...)
	world.WantStatus(t, "a public page", a, http.StatusOK)
	m := app.One(t)
	if user := m.Value(t, "X-Auth-User"); user != "" {
		t.Errorf("on a public page X-Auth-User is %q", user)
	}
	wantUser(t, "a public page", m, "", "")
}

// forwardPages: who is refused gets the gateway's own page, and a program its JSON.
func forwardPages(t *testing.T, app *world.Recorder, v world.Surfer) {
	t.Helper()
	v.SignIn(forwardApp+"/page", "bob")
	app.One(t)
	a, _ := v.Visit("GET", forwardApp+"/admin/?x", "", "Accept", world.AcceptsPage)
	world.WantStatus(t, "a page without the role", a, http.StatusForbidden)
	for _, part := range []string{"You have no access", "<strong>bob</strong>",
		"https://auth.example.org/.authgate/signin?switch=1&amp;return_to=https%3A%2F%2Fapp.example.org%2Fadmin%2F%3Fx"} {
		if !strings.Contains(a.Body, part) {
			t.Errorf("the page of a refusal does not have %q:\n%s", part, a.Body)
		}
	}
	a, _ = v.Visit("POST", forwardApp+"/admin/", "a body", "Accept", world.TypeJSON, "Sec-Fetch-Site", "same-origin")
	world.WantStatus(t, "a program without the role", a, http.StatusForbidden)
	if !strings.Contains(a.Body, `"detail":"You are signed in, but not allowed to do this."`) {
		t.Errorf("a program gets %s", a.Body)
	}
	app.None(t)
}

// forwardHeaders: the question has each header by which the gateway refuses a request of a user.
func forwardHeaders(t *testing.T, app *world.Recorder, v world.Surfer) {
	t.Helper()
	if a, at := v.SignIn(forwardApp+"/page", "bob"); a.Status != http.StatusOK || at.Path != "/page" {
		t.Fatalf("after the sign-in: %d at %s", a.Status, at)
	}
	app.One(t)
	for _, c := range []struct {
		method  string
		headers []string
	}{
		{"POST", []string{"Origin", "https://evil.example"}},
		{"POST", []string{"Sec-Fetch-Site", "cross-site"}},
		{"GET", []string{"Origin", "https://evil.example", "Sec-Fetch-Mode", "websocket"}},
		{"GET", []string{"Origin", "https://evil.example", "Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="}},
		{"GET", []string{"Origin", "https://evil.example", "Sec-WebSocket-Version", "13"}},
		{"GET", []string{"Sec-Fetch-Dest", "serviceworker"}},
		{"GET", []string{"Service-Worker", "script"}},
		{"PUT", []string{"Sec-Fetch-Site", "same-origin", "Destination", forwardApp + "/admin/"}},
		{"PUT", []string{"Sec-Fetch-Site", "same-origin", "If", "</admin/> (<urn:uuid:1>)"}},
	} {
		a, _ := v.Visit(c.method, forwardApp+"/page", "", c.headers...)
		world.WantStatus(t, fmt.Sprint(c.method, c.headers), a, http.StatusForbidden)
		app.None(t)
	}
}

// forwardAddresses: policies see the address of the client, whatever it claims.
func forwardAddresses(t *testing.T, app *world.Recorder, near, far world.Surfer) {
	t.Helper()
	for _, v := range []world.Surfer{near, far} {
		if a, at := v.SignIn(forwardApp+"/page", "bob"); a.Status != http.StatusOK {
			t.Fatalf("after the sign-in: %d at %s", a.Status, at)
		}
		app.One(t)
	}
	claims := func(address string) []string {
		return []string{"X-Forwarded-For", address, "X-Real-IP", address, "Forwarded", "for=" + address}
	}
	a, _ := far.Visit("GET", forwardApp+"/office/", "", claims("127.0.0.2")...)
	world.WantStatus(t, "from another network", a, http.StatusForbidden)
	app.None(t)
	a, _ = near.Visit("GET", forwardApp+"/office/", "", claims("127.0.0.3")...)
	world.WantStatus(t, "from the network", a, http.StatusOK)
	app.One(t)
}

// forwardEveryKind: the proxy asks about each kind of request. What it lets through without a login
// has no identity that the client claims.
func forwardEveryKind(t *testing.T, app *world.Recorder, send func(text string) world.Answer) {
	t.Helper()
	for what, ask := range map[string]string{
		"a preflight": "OPTIONS %s HTTP/1.1\nHost: app.example.org\n" +
			"Connection: close\nOrigin: https://evil.example\nAccess-Control-Request-Method: GET\n",
		"a WebSocket": "GET %s HTTP/1.1\nHost: app.example.org\nConnection: Upgrade\nUpgrade: websocket\n" +
			"Sec-WebSocket-Version: 13\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\nOrigin: https://app.example.org\n",
	} {
		if a := send(fmt.Sprintf(ask, "/secret") + "\n"); !refused(a) {
			t.Errorf("%s: %d", what, a.Status)
		}
		app.None(t)
		send(fmt.Sprintf(ask, "/public/") + "X-Auth-User: root\nX-Auth-Roles: admin\n\n")
		wantUser(t, what, app.One(t), "", "")
	}
}

// forwardSmuggling: neither spellings of headers nor odd targets lead a client of
// public pages past the gateway.
func (p forwardProxy) forwardSmuggling(
	t *testing.T, g *world.Instance, app *world.Recorder, send func(text string) world.Answer,
) {
	t.Helper()
	const head = "Host: app.example.org\nConnection: close\n"
	for _, name := range append(world.Spellings("X-Auth-User"), world.Spellings("X-Auth-Roles")...) {
		if p.exactNames && strings.ContainsAny(name, ".!~") {
			continue // as its page says
		}
		a := send("GET /public/ HTTP/1.1\n" + head + name + ": root\n\n")
		for _, m := range app.All() {
			if got := strings.Join(append(m.Values("X-Auth-User"), m.Values("X-Auth-Roles")...), ""); got != "" {
				t.Errorf("%s reaches the application as %q, with %d", name, m.Head, a.Status)
			}
		}
	}
	for _, header := range []string{
		"X-Original-URL: https://app.example.org/public/", "X-Original-Method: GET", "X-Forwarded-Uri: /public/",
		"X-Forwarded-Method: HEAD",
		"X-Forwarded-Host: auth.example.org", "X-Forwarded-Proto: http", "X_Forwarded_Uri: /public/",
		"X_Original_URL: https://app.example.org/public/", "X-Rewrite-URL: /public/",
		"Connection: X-Forwarded-Uri, X-Original-URL, Cookie",
	} {
		if a := send("GET /secret HTTP/1.1\n" + head + header + "\n\n"); !refused(a) {
			t.Errorf("with %s: %d", header, a.Status)
		}
	}
	for _, header := range []string{
		"X-Forwarded-Uri: /secret", "X-Forwarded-Method: POST", "X-Forwarded-Host: auth.example.org",
	} { // the proxy replaces them
		if a := send("GET /public/ HTTP/1.1\n" + head + header + "\n\n"); a.Status != http.StatusOK {
			t.Errorf("a public page, with %s: %d", header, a.Status)
		}
		app.One(t)
	}
	for _, target := range []string{
		"/public/../secret", "/public/%2e%2e/secret", "/public/..%2fsecret", "/public/%2e%2e%2fsecret", "/public/..;/secret",
		"//secret", "/public//../secret", "/public%2f..%2fsecret",
		"/secret?/public/", "/secret#/public/", `/public/..\secret`, "/public/%00/../secret", "/%73ecret",
		"/.authgate/../secret", "/.authgate/%2e%2e/secret", "/.authgate/..%2fsecret", "/.authgate/..;/secret",
		"/%2eauthgate/../secret", "/%2eauthgate/..;/secret", "/.authgate;/../secret", "/secret;/public/",
		"https://app.example.org/secret", "https://auth.example.org/secret", "/secret/" + strings.Repeat("x", 5000),
	} {
		if a := send("GET " + target + " HTTP/1.1\n" + head + "\n"); !refused(a) && !onlyPublic(app.All()) {
			t.Errorf("%.80s: %d", target, a.Status)
		}
	}
	if a := send("GET https://app.example.org/secret HTTP/1.1\nHost: open.example.org\nConnection: " +
		"close\n\n"); !refused(a) {
		t.Errorf("with two hosts: %d", a.Status)
	}
	app.None(t)
	if log := g.Log.String(); strings.Contains(log, `"status":500`) {
		t.Errorf("the gateway failed:\n%s", log)
	}
}

// refused reports whether an answer is a refusal, or leads to the sign-in page.
func refused(a world.Answer) bool {
	return a.Status >= 400 ||
		a.Status == http.StatusFound && strings.Contains(a.Header.Get("Location"), "/.authgate/signin")
}

// onlyPublic reports whether what reached the application is one public page, in plain
// words: Traefik resolves dot segments before it asks.
func onlyPublic(got []world.Message) bool {
	return len(got) == 1 && got[0].Target() == "/public/secret"
}

// TestForwardAuthByReading: the questions that Traefik and Envoy send, as far as
// their documents tell, are answered. TestForwardAuthPackaged runs these proxies.
func TestForwardAuthByReading(t *testing.T) {
	t.Parallel()
	g := forwardGateway(t, "")
	g.Base = g.HTTP
	c := g.Stranger11()
	sent := g.Do(c, "POST", "/.authgate/login", `{"username":"alice","password":"wonderland"}`,
		"Content-Type", world.TypeJSON, "X-Forwarded-Proto", "https", "X-Forwarded-Host", "app.example.org")
	world.WantStatus(t, "the login", sent, http.StatusOK)
	session := world.CookieOf(sent)
	for name, q := range map[string]struct{ method, more string }{
		"traefik": {"GET", "X-Forwarded-Server"}, // always GET, to its own host
		"envoy":   {"POST", "X-Envoy-Internal"},  // the method of the request, and no body
	} {
		ask := func(target, accept, cookie string) world.Answer {
			return g.Do(c, q.method, "/.authgate/verify", "", "X-Forwarded-Method", "GET", "X-Forwarded-Proto", "https",
				"X-Forwarded-Host", "app.example.org",
				"X-Forwarded-Uri", target, "X-Forwarded-For", "192.0.2.9", q.more, "x", "Accept", accept, "Cookie", cookie)
		}
		a := ask("/office/x?y", world.TypeJSON, session)
		world.WantStatus(t, name, a, http.StatusForbidden) // the network of the test is another
		a = ask("/admin/x?y", world.TypeJSON, session)
		world.WantStatus(t, name, a, http.StatusOK)
		if got := a.Header; got.Get("X-Auth-User") != "alice" || fmt.Sprintf("%q", got["X-Auth-Email"]) != `[""]` {
			t.Errorf("%s: %q", name, got)
		}
		a = ask("/page?a=b", world.AcceptsPage, "")
		world.WantStatus(t, name, a, http.StatusFound)
		to := world.Must(url.Parse(a.Header.Get("Location")))(t)
		if to.Scheme != "https" || !strings.HasSuffix(to.Host, ".example.org") || !strings.HasPrefix(to.Path, "/.authgate/") {
			t.Errorf("%s: a page leads to %s", name, to)
		}
	}
}
