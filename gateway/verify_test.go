package gateway

import (
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http/httpguts"

	"authgate/gateway/config"
	ownrig "authgate/internal/test/rig"
	"authgate/policy"
)

// verifyConfig has a proxy that asks, and routes that only the proxy uses.
var verifyConfig = baseConfig + `
  - {match: /near/, name: near, upstream: app, auth: [basic], policy: {networks: [192.0.2.0/24]}}
  - {match: /asked/, name: asked, auth: [session, basic]}
  - {match: /named/, name: named, upstream: named, auth: [session]}
  - {match: wiki.example.org/, name: wiki, upstream: app, auth: [session, bearer]}
listen: {trusted_proxies: [10.0.0.0/8]}
`

// namedUpstream adds an upstream with names of its own for the identity.
func namedUpstream(t testing.TB, yaml string) string {
	return edit(t, yaml, `  app: {url: "http://app.invalid"}`, `  app: {url: "http://app.invalid"}
  named: {url: "http://named.invalid", identity_headers: {user: X_Login, email: ""}}`)
}

func newVerifyRig(t testing.TB) *rig { return newRig(t, namedUpstream(t, verifyConfig)) }

// question is a request of a trusted proxy to verify, as one of its client.
func question(client string, header ...string) *http.Request {
	q := request("GET", "/verify", "", header...)
	q.Host, q.RemoteAddr = "authgate:8443", "10.0.0.1:4711"
	q.Header.Set("X-Forwarded-For", client)
	return q
}

// asTraefik describes a request as Traefik and Caddy do.
func asTraefik(method, host, target string) []string {
	return []string{"X-Forwarded-Method: " + method, "X-Forwarded-Proto: https", "X-Forwarded-Host: " + host,
		"X-Forwarded-Uri: " + target}
}

// asNginx describes a request as nginx does.
func asNginx(method, host, target string) []string {
	return []string{"X-Original-Method: " + method, "X-Original-URL: https://" + host + target}
}

// asks sends the question of a proxy. The answer must have the status, and nothing
// reaches the upstream.
func (r *rig) asks(status int, described []string, header ...string) *httptest.ResponseRecorder {
	r.t.Helper()
	w := r.serve(question("192.0.2.7", slices.Concat(described, header)...))
	if w.Code != status || r.upstream.Reached() != 0 {
		r.t.Errorf("%q with %.200q: %d %.300s, want %d; %d requests reached the upstream", described, header, w.Code, w.Body,
			status, r.upstream.Reached())
	}
	return w
}

// wantIdentity checks the identity headers of an answer, all of which are there once.
func wantIdentity(t *testing.T, w *httptest.ResponseRecorder, want map[string]string) {
	t.Helper()
	for name, value := range want {
		if got := w.Header()[name]; !slices.Equal(got, []string{value}) {
			t.Errorf("%s is %q, want %q", name, got, value)
		}
	}
}

// Both forms of a question get the identity that the request proves, with an empty
// header for each value that is missing.
func TestVerify(t *testing.T) {
	t.Parallel()
	r := newVerifyRig(t)
	alice, bob := r.login(aliceIn), r.login(bobIn)
	none := map[string]string{"X-Auth-User": "", "X-Auth-Subject": "", "X-Auth-Name": "", "X-Auth-Email": "",
		"X-Auth-Roles": "", "X-Auth-Mechanism": "", "X-Auth-Provider": "", "X-Auth-Actor": ""}
	for _, as := range []func(method, host, target string) []string{asTraefik, asNginx} {
		w := r.asks(200, as("GET", "gw.example:8443", "/session/x?y=/z"), alice.cookie, "X-Auth-User: root",
			"X-Auth-Roles: root")
		wantIdentity(t, w, map[string]string{
			"X-Auth-User": "alice", "X-Auth-Subject": "local:alice", "X-Auth-Name": "Alice Example",
			"X-Auth-Email": "alice@example.org",
			"X-Auth-Roles": "user,admin", "X-Auth-Mechanism": "session", "X-Auth-Provider": "local",
		})
		if w.Body.Len() != 0 || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%q %s", w.Header(), w.Body)
		}
		wantIdentity(t, r.asks(200, as("GET", "gw.example", "/session/"), bob.cookie, "X-Auth-Email: a@b"),
			map[string]string{"X-Auth-User": "bob", "X-Auth-Email": "", "X-Auth-Name": ""})
		wantIdentity(t, r.asks(200, as("GET", "gw.example", "/public/"), "X-Auth-User: root"), none)
		wantIdentity(t, r.asks(200, as("PUT", "gw.example", "/bearer/"), alice.bearer),
			map[string]string{"X-Auth-Mechanism": "bearer"})
		w = r.asks(200, as("GET", "gw.example", "/named/"), alice.cookie)
		wantIdentity(t, w, map[string]string{"X_login": "alice", "X-Auth-Subject": "local:alice"})
		for _, name := range []string{"X-Auth-User", "X-Auth-Email"} {
			if got, ok := w.Header()[name]; ok {
				t.Errorf("%s of another upstream: %q", name, got)
			}
		}
		r.asks(200, as("GET", "wiki.example.org", "/"), alice.bearer)
		r.asks(401, as("GET", "wiki.example.org", "/"), alice.cookie) // of another host
		r.asks(200, as("GET", "gw.example", "/asked/"), alice.cookie)
	}
}

// What a proxy asks about is the resource that a token opens, not the host where it asks.
func TestVerifyResources(t *testing.T) {
	t.Parallel()
	r := newRig(t, ownrig.OAuthConfig)
	token := r.client.Credentials("read", "https://tools.example:8443/mcp")
	w := r.asks(200, asTraefik("GET", "tools.example:8443", "/mcp/x"), token)
	wantIdentity(t, w, map[string]string{"X-Auth-User": "client:job"})
	r.asks(401, asTraefik("GET", "tools.example:8443", "/api/x"), token)
	r.asks(401, asTraefik("GET", "gw.example:8443", "/api/x"), token)
}

// A question in more than one meaning is refused, with a login too. TestOriginalInOneMeaning of package
// peer has all headers.
func TestVerifyAmbiguous(t *testing.T) {
	t.Parallel()
	r := newVerifyRig(t)
	alice := r.login(aliceIn).cookie
	traefik, nginx := asTraefik("GET", "gw.example", "/session/"), asNginx("GET", "gw.example", "/session/")
	r.asks(400, traefik[1:], alice)
	r.asks(400, append(slices.Clone(traefik), traefik[0]), alice)
	r.asks(400, traefik, alice, "X_Forwarded_Uri: /public/")
	r.asks(400, nginx[1:], alice)
	r.asks(400, nil, alice)
	r.asks(200, append(slices.Clone(nginx), traefik...), alice)
	r.asks(400, nginx, alice, "X-Forwarded-Host: wiki.example.org")
	for _, url := range []string{"/session/", "gw.example/session/", "https:/session/", "https:///session/",
		"https://gw.example", "https://gw.example?x", "https://u:p@gw.example/session/",
		"ftp://gw.example/session/", "https://gw.example#/session/"} {
		r.asks(400, []string{"X-Original-Method: GET", "X-Original-URL: " + url}, alice)
	}
	for _, target := range []string{"https://gw.example/session/", "session/", "/session/#x", "/session/../public/",
		"/session/%2e%2e/public/", "/session//x", "/session%2fx", `/session\x`, "/session/%00", "/session/\x01",
		"/session/%zz", "*"} {
		r.asks(400, asTraefik("GET", "gw.example", target), alice)
	}
	for _, method := range []string{"GE T", "get", "G(T"} {
		r.asks(400, asTraefik(method, "gw.example", "/session/"), alice)
	}
	for _, host := range []string{"gw.example, gw.example", "gw.example/x", "gw.example:x", "u@gw.example"} {
		r.asks(400, asTraefik("GET", host, "/session/"), alice)
	}
	r.asks(400, traefik, "Cookie: session_id=a; session_id=b")
	r.asks(421, asTraefik("GET", "evil.example", "/session/"), alice)
}

// Only a proxy that the gateway trusts may ask, and only about requests over https.
func TestVerifyRefused(t *testing.T) {
	t.Parallel()
	r := newVerifyRig(t)
	alice := r.login(aliceIn).cookie
	for _, described := range [][]string{asTraefik("GET", "gw.example", "/session/"),
		asNginx("GET", "gw.example", "/session/"), nil} {
		for _, target := range []string{"/verify", "/%76erify?x"} {
			q := request("GET", target, "", append(slices.Clone(described), alice)...)
			r.wantOf(403, q)
		}
	}
	r.asks(403, []string{"X-Forwarded-Method: GET", "X-Forwarded-Proto: http", "X-Forwarded-Host: gw.example",
		"X-Forwarded-Uri: /session/"}, alice)
	r.asks(403, []string{"X-Original-Method: GET", "X-Original-URL: http://gw.example/session/"}, alice)
	off := newRig(t, edit(t, namedUpstream(t, verifyConfig), "store:", "tls: {mode: \"off\"}\nstore:"))
	off.asks(200, asNginx("GET", "gw.example", "/public/"))
	off.asks(403, []string{"X-Original-Method: GET", "X-Original-URL: http://gw.example/public/"})
	off.wantOf(403, request("GET", "/verify", "",
		append(asTraefik("GET", "gw.example", "/public/"), "X-Forwarded-For: 10.0.0.1")...))
}

// The gateway answers a question as it answers the request itself, except that no
// redirect goes through nginx.
func TestVerifyAnswers(t *testing.T) {
	t.Parallel()
	r := newVerifyRig(t)
	page := asTraefik("GET", "gw.example:8443", "/session/a?b=c")
	alice := r.login(aliceIn)
	r.clock.Advance(r.Config().Session.Lifetime)
	bob := r.login(bobIn)
	for cookie, reason := range map[string]string{
		"": "", "Cookie: session_id=" + strings.Repeat("A", 43): "", alice.cookie: "&reason=ended",
	} {
		w := r.asks(302, page, browser, cookie)
		want := "https://gw.example:8443/signin?return_to=%2Fsession%2Fa%3Fb%3Dc" + reason
		if got := w.Header().Get("Location"); got != want {
			t.Errorf("the sign-in page is at %q", got)
		}
		n := r.asks(401, asNginx("GET", "gw.example:8443", "/session/a?b=c"), browser, cookie)
		if got := n.Header().Get("Location"); got != w.Header().Get("Location") {
			t.Errorf("for nginx the sign-in page is at %q", got)
		}
		if cleared := cookie != ""; cleared != (len(w.Header()["Set-Cookie"]) == 1) ||
			cleared != (len(n.Header()["Set-Cookie"]) == 1) {
			t.Errorf("with %q: %q and %q", cookie, w.Header()["Set-Cookie"], n.Header()["Set-Cookie"])
		}
	}
	w := r.asks(401, asTraefik("GET", "gw.example", "/any/"))
	if got := w.Header()["Www-Authenticate"]; len(got) != 2 || detailOf(t, w) != "Not signed in." ||
		w.Header()["Location"] != nil {
		t.Errorf("%q %s", w.Header(), w.Body)
	}
	if w := r.asks(401, asTraefik("POST", "wiki.example.org", "/"), browser); !strings.Contains(w.Body.String(),
		` href="https://gw.example/signin"`) {
		t.Errorf("the page for a host of the proxy does not lead to the sign-in:\n%s", w.Body)
	}
	r.asks(401, page, "Authorization: Bearer x", "Cookie: session_id=x")
	r.asks(403, asTraefik("GET", "gw.example", "/admin/"), bob.cookie)
	r.asks(404, asTraefik("GET", "gw.example", "/nowhere"), bob.cookie)
	service := basicHeader("service", "s3rvice")
	near := asNginx("GET", "gw.example", "/near/")
	r.asks(200, near, service)
	if w := r.serve(question("198.51.100.1", append(near, service)...)); w.Code != 403 {
		t.Errorf("from another network: %d", w.Code)
	}
	for range 10 { // by the client, not by the proxy
		r.serve(question("203.0.113.9", append(asTraefik("GET", "gw.example", "/basic/"),
			basicHeader("service", "wrong"))...))
	}
	if w := r.serve(question("203.0.113.9", append(asTraefik("GET", "gw.example", "/basic/"),
		service)...)); w.Code != 429 || w.Header().Get("Retry-After") == "" {
		t.Errorf("after ten failures: %d %q", w.Code, w.Header())
	}
	r.asks(200, asTraefik("GET", "gw.example", "/basic/"), service)
	r.store.breakIf(func(string, int64, string) bool { return true })
	if w := r.asks(503, page, bob.cookie); w.Header().Get("Retry-After") == "" {
		t.Errorf("without the store: %q", w.Header())
	}
}

// A question about an own endpoint has no effect.
func TestVerifyOwnEndpoints(t *testing.T) {
	t.Parallel()
	r := newVerifyRig(t)
	alice := r.login(aliceIn)
	for path := range r.state.Load().own.ByPath {
		for _, method := range []string{"GET", "POST"} {
			if w := r.asks(404, asTraefik(method, "gw.example", path), alice.cookie); w.Header()["Set-Cookie"] != nil {
				t.Errorf("%s %s sets cookies", method, path)
			}
		}
	}
	r.asks(404, asTraefik("GET", "gw.example", "/verify"), alice.cookie)
	r.asks(404, asNginx("POST", "gw.example", "/%76erify"), alice.cookie)
	r.asks(200, asTraefik("GET", "gw.example", "/session/"), alice.cookie)
}

// A route without an upstream does not exist for direct requests: their credentials
// are not checked.
func TestVerifyOnlyRoute(t *testing.T) {
	t.Parallel()
	r := newVerifyRig(t)
	alice := r.login(aliceIn)
	before := r.sample("authgate_logins_total")
	r.want(404, "GET", "/asked/", "", alice.cookie)
	r.want(404, "GET", "/asked/", "", browser)
	r.want(404, "GET", "/asked/", "", basicHeader("service", "wrong"))
	if r.sample("authgate_logins_total") != before {
		t.Error("the credentials of a direct request were checked")
	}
	r.want(200, "GET", "/session/", "", alice.cookie)
	w := r.serve(question("192.0.2.7", append(asTraefik("POST", "gw.example", "/asked/x"),
		basicHeader("service", "s3rvice"))...))
	wantIdentity(t, w, map[string]string{"X-Auth-User": "service", "X-Auth-Email": ""})
}

// Another site cannot make a browser change something, nor open a WebSocket, of
// which the proxy passes on only what belongs to more than one connection.
func TestVerifyCrossSite(t *testing.T) {
	t.Parallel()
	r := newVerifyRig(t)
	alice := r.login(aliceIn)
	for _, site := range ownrig.Sites {
		change, socket := 200, 200
		if site.Foreign {
			change, socket = 403, 403
		}
		get, post := asTraefik("GET", "gw.example", "/session/"), asNginx("POST", "gw.example", "/session/")
		r.asks(200, get, append(site.Headers, alice.cookie)...)
		r.asks(change, post, append(site.Headers, alice.cookie)...)
		for _, sign := range []string{"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13",
			"Sec-Fetch-Mode: websocket"} {
			r.asks(socket, get, append(site.Headers, alice.cookie, sign)...)
		}
		get[1] = "X-Forwarded-Proto: wss"
		r.asks(socket, get, append(site.Headers, alice.cookie)...)
	}
}

// The gateway answers a preflight itself, but not for a proxy, which would take the
// answer for a permission.
func TestVerifyPreflight(t *testing.T) {
	t.Parallel()
	const policy = `auth: [session, bearer], cors: {origins: ["https://spa.example"], credentials: true}}`
	r := newRig(t, edit(t, namedUpstream(t, verifyConfig), "listen:",
		"  - {match: /shared/, upstream: app, "+policy+"\n  - {match: /own/, "+policy+"\nlisten:"))
	alice := r.login(aliceIn)
	preflight := []string{"Origin: https://spa.example", "Access-Control-Request-Method: GET"}
	for _, target := range []string{"/shared/", "/own/"} {
		w := r.asks(401, asTraefik("OPTIONS", "gw.example", target), preflight...)
		if w.Header().Get("Access-Control-Allow-Origin") != "https://spa.example" {
			t.Errorf("%s: %q", target, w.Header())
		}
		r.asks(200, asTraefik("POST", "gw.example", target), alice.cookie, preflight[0], "Sec-Fetch-Site: cross-site")
		r.asks(403, asTraefik("POST", "gw.example", target), alice.cookie, "Origin: https://evil.example",
			"Sec-Fetch-Site: cross-site")
	}
	r.want(204, "OPTIONS", "/shared/", "", preflight...)
	r.want(404, "OPTIONS", "/own/", "", preflight...)
}

// A header that an application could read as an identity, and that the proxy does not
// overwrite, is refused.
func TestVerifyImitations(t *testing.T) {
	t.Parallel()
	r := newVerifyRig(t)
	alice := r.login(aliceIn)
	for _, name := range []string{"X_Auth_User", "x-auth_roles", "X.Auth.Subject", "X!Auth!Provider", "X-Auth-Assertion"} {
		r.asks(400, asTraefik("GET", "gw.example", "/session/"), alice.cookie, name+": root")
		r.asks(400, asNginx("GET", "gw.example", "/public/"), name+": root")
	}
	named := asTraefik("GET", "gw.example", "/named/")
	r.asks(200, named, alice.cookie, "X_Login: root")
	for _, name := range []string{"X-Login", "X-Auth-User", "X-Auth-Email"} { // the proxy copies others there
		r.asks(400, named, alice.cookie, name+": root")
	}
	r.asks(200, asTraefik("GET", "gw.example", "/session/"), alice.cookie, "X-Author-User: a", "X_Request: b")
	r.mustReload(namedUpstream(t, verifyConfig+"identity_headers: {user: X-Remote}\n"))
	r.asks(400, asTraefik("GET", "gw.example", "/session/"), alice.cookie, "X-Auth-User: root")
}

// failingBody fails the test if it is read.
type failingBody struct{ t *testing.T }

func (b failingBody) Read([]byte) (int, error) {
	b.t.Error("the body was read")
	return 0, io.EOF
}
func (failingBody) Close() error { return nil }

// Verify answers before the body of the question arrives, and does not wait for it.
func TestVerifyReadsNoBody(t *testing.T) {
	t.Parallel()
	r := newRig(t, edit(t, namedUpstream(t, verifyConfig), "store:", "session: {csrf_token: true}\nstore:"))
	alice := r.login(aliceIn)
	for _, c := range []struct {
		target string
		status int
	}{{"/session/", 403}, {"/public/", 200}, {"/nowhere", 404}} { // the token could be in the form
		q := question("192.0.2.7", append(asTraefik("POST", "gw.example", c.target), alice.cookie, formType)...)
		q.Method, q.Body, q.ContentLength = "POST", failingBody{t}, 100
		if w := r.serve(q); w.Code != c.status || w.Header().Get("Connection") != "close" {
			t.Errorf("%s: %d %q %s", c.target, w.Code, w.Header(), w.Body)
		}
	}
}

// The log tells of the request that the proxy asks about, by the address of its client.
func TestVerifyLog(t *testing.T) {
	t.Parallel()
	r := newVerifyRig(t)
	r.asks(200, asNginx("PUT", "gw.example", "/public/x?secret"))
	for _, part := range []string{`"method":"PUT"`, `"host":"gw.example"`, `"path":"/public/x"`, `"client":"192.0.2.7"`,
		`"route":"public"`, `"verify":true`} {
		if !strings.Contains(r.log.String(), part) {
			t.Errorf("the log does not have %s:\n%s", part, r.log)
		}
	}
	if strings.Contains(r.log.String(), "secret") {
		t.Error("the log has the query")
	}
}

// comparable are header lines for FuzzVerifyAsDirect, each chosen by a bit. $ is
// what alice's login issued.
var comparable = []string{
	"$cookie", "$bearer", "Authorization: Basic c2VydmljZTpzM3J2aWNl", "Authorization: Basic c2VydmljZTp3cm9uZw==",
	"Cookie: session_id=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", browser, "Accept: application/problem+json",
	"Sec-Fetch-Site: cross-site", "Origin: https://evil.example", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Mode: cors",
	"Connection: Upgrade", "X-Auth-User: root", "X-Auth-Roles: admin", "X-Forwarded-Prefix: /x",
	"Origin: https://gw.example",
}

// For each request, verify decides as the gateway decides about the same request when
// it comes directly, and tells the same identity.
func FuzzVerifyAsDirect(f *testing.F) {
	for i, target := range []string{
		"/session/", "/session/x?y", "/basic/", "/bearer/", "/any/a;b=c", "/admin/", "/public/", "/near/", "/named/",
		"/nowhere", "/session", "/%73ession/", "/session/%2e%2e/public/", "/public/..;/session/",
		"/", "/public/%2fx", "//session/", "/session/#f", "https://gw.example/session/", "/logout", "/verify", "*",
		"/session/\xff", "/public/%c0%ae", "/a%25%32%66b", "/session/?a#b", "/public/;x/", "/public;/x",
	} {
		for bits := range len(comparable) {
			f.Add("GET", "gw.example", target, uint16(1<<bits|i), i%2 == 0)
		}
		f.Add("POST", "wiki.example.org:443", target, uint16(1), true)
		f.Add("HEAD", "GW.example.", target, uint16(1<<5), false)
		f.Add("POST", "GW.example", target, uint16(1<<5), i%2 == 0)
		f.Add("brew", "evil.example", target, uint16(2), true)
		f.Add("0", "gw.eXAmple", target, uint16(16305), true) // a page about two cookies of one name
	}
	r := newRig(f, edit(f, namedUpstream(f, verifyConfig), "store:", "limits: {login_failures: 1000000000}\nstore:"))
	alice := r.login(aliceIn)
	f.Fuzz(func(t *testing.T, method, host, target string, bits uint16, traefik bool) {
		for _, part := range []string{method, host, target} {
			if part == "" || !httpguts.ValidHeaderFieldValue(part) {
				return // no server passes it on
			}
		}
		if !httpguts.ValidHeaderFieldName(method) || !traefik &&
			(!strings.HasPrefix(target, "/") || strings.Contains(host, "/")) {
			return // nor this
		}
		var header []string
		for i, line := range comparable {
			if bits&(1<<i) != 0 {
				header = append(header, strings.NewReplacer("$cookie", alice.cookie, "$bearer", alice.bearer).Replace(line))
			}
		}
		client := []string{"192.0.2.7", "198.51.100.7"}[bits%2]
		header = append(header, "X-Request-Id: same")
		wantSameDecision(t, r, client, method, host, target, header, traefik)
	})
}

// toSignIn is what of a page leads to the sign-in, and the forms that remove a cookie of the same name and choose the
// language. They differ, because at the host of a proxy the gateway has no pages; see TestVerifyAnswers.
var toSignIn = regexp.MustCompile(`href="(https://gw\.example)?/signin[^"]*"` +
	`|(?s)<form method="post" action="/signin/cookies">.*?</form>` +
	`|<footer>\s*<details class="languages">.*?</details>\s*</footer>`)

// withoutSignIn returns the page of an answer without what leads to the sign-in.
func withoutSignIn(w *httptest.ResponseRecorder) string {
	return strings.Join(strings.Fields(toSignIn.ReplaceAllString(w.Body.String(), "")), " ")
}

func wantSameDecision(t *testing.T, r *rig, client, method, host, target string, header []string, traefik bool) {
	t.Helper()
	q := request(method, target, "", header...)
	q.Host, q.RemoteAddr = host, client+":4711"
	socket := slices.Contains(header, "Connection: Upgrade")
	if socket {
		q.Header.Set("Upgrade", "websocket")
		q.Header.Set("Sec-WebSocket-Key", "x")
	}
	reached := r.upstream.Reached()
	direct := r.serve(q)
	passed := r.upstream.Reached() > reached
	described := asNginx(method, host, target)
	if traefik {
		described = asTraefik(method, host, target)
	}
	hop := slices.DeleteFunc(slices.Clone(header), func(line string) bool { return line == "Connection: Upgrade" })
	if socket {
		hop = append(hop, "Sec-WebSocket-Key: x")
	}
	asked := question(client, slices.Concat(described, hop)...)
	verify := r.serve(asked)
	what := method + " " + host + target
	path, err := policy.ParseTarget(target)
	if strings.HasPrefix(path.Decoded, "/named") && asked.Header.Get("X-Auth-User") != "" {
		return // see TestVerifyImitations
	}
	own := err == nil && (r.state.Load().own.ByPath[path.Decoded] != nil || path.Decoded == "/"+config.EndpointVerify)
	own = own || direct.Code == http.StatusOK && !passed // the start page
	switch {
	case own:
		if verify.Code < 400 || verify.Header()["Set-Cookie"] != nil {
			t.Errorf("%s is an own endpoint, and verify answers %d", what, verify.Code)
		}
	case passed:
		if verify.Code != http.StatusOK {
			t.Errorf("%s with %q reaches the upstream, and verify answers %d %s", what, header, verify.Code, verify.Body)
		}
		for name, values := range verify.Header() {
			if got := r.upstream.Last().Header[name]; strings.HasPrefix(name, "X-Auth-") &&
				strings.Join(values, "") != strings.Join(got, "") {
				t.Errorf("%s: %s is %q for the upstream and %q for the proxy", what, name, got, values)
			}
		}
	case direct.Code == http.StatusFound:
		if want := map[bool]int{true: 302, false: 401}[traefik]; verify.Code != want ||
			verify.Header().Get("Location") != "https://"+host+direct.Header().Get("Location") {
			t.Errorf("%s is redirected to %q, and verify answers %d to %q", what, direct.Header()["Location"], verify.Code,
				verify.Header()["Location"])
		}
	case verify.Code != direct.Code, withoutSignIn(verify) != withoutSignIn(direct),
		!slices.Equal(verify.Header()["Www-Authenticate"], direct.Header()["Www-Authenticate"]),
		!slices.Equal(verify.Header()["Set-Cookie"], direct.Header()["Set-Cookie"]):
		t.Errorf("%s with %q: %d %s, and verify answers %d %s", what, header, direct.Code, direct.Body, verify.Code,
			verify.Body)
	}
}
