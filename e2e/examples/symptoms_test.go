package examples

import (
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"authgate/e2e/world"
)

// symptomRoutes has what TestSymptoms needs, without upstreams.
const symptomRoutes = world.People + `
limits: {login_failures: 3}
policies: {admin: {roles: [admin]}, office: {networks: [192.0.2.0/24]}}
routes:
  - {match: /, upstream: app, auth: [session, bearer]}
  - {match: /basic, upstream: app, auth: [basic]}
  - {match: /tokens, upstream: app, auth: [bearer]}
  - {match: /admin, upstream: app, auth: [session], policy: admin}
  - {match: /office, upstream: app, auth: [session], policy: office}
  - {match: /small, upstream: app, auth: [none], max_body: 10}
  - {match: /rate, upstream: app, auth: [none], rate: {requests: 1, per: 1h}}
  - {match: /cors, upstream: app, auth: [session], cors: {origins: ["https://spa.example"]}}
  - {match: /asked, auth: [session]}
  - {match: /dead, upstream: dead, auth: [none]}
  - {match: /closes, upstream: closes, auth: [none]}
  - {match: /slow, upstream: slow, auth: [none]}
  - {match: /tls, upstream: tls, auth: [none]}
`

// caused is a request that causes a symptom.
type caused struct {
	logged       string // as docs/troubleshooting.md has it
	method, path string
	header       []string
	body         string
}

// TestSymptoms causes symptoms of docs/troubleshooting.md: the client gets the status and
// the text that a row has, and the log has the words of this row.
func TestSymptoms(t *testing.T) {
	t.Parallel()
	g := world.Prepare(t)
	closes := world.Listen(t, func(c net.Conn) { _, _ = c.Read(make([]byte, 4096)) })
	release := make(chan struct{})
	slow := world.Listen(t, func(net.Conn) { <-release })
	t.Cleanup(func() { close(release) })
	config := symptomRoutes + fmt.Sprintf("upstreams: {app: {url: %q}, dead: {url: %q}, closes: {url: %q}, slow: {url: "+
		"%q, timeout: 100ms}, tls: {url: %q}}\n",
		world.Record(t).URL, "http://"+world.FreeAddress(t), closes, slow,
		"https://127.0.0.1"+g.Base[strings.LastIndexByte(g.Base, ':'):])
	g.Configure(config + "token: {secret: '" + world.EncryptionKey + "'}\n")
	g.Run()
	rows, c := symptoms(t), g.Stranger()
	cause := func(all ...caused) {
		t.Helper()
		for _, one := range all {
			cause(t, g, c, rows, one)
		}
	}
	alice, bob, gone := g.SignIn(c, "alice"), g.SignIn(c, "bob"), g.SignIn(c, "bob")
	cause(requestSymptoms(g, bob)...)
	cause(credentialSymptoms(g, alice, bob, g.APIToken("alice"))...)
	g.Do(c, "POST", "/logout", "", "Authorization", gone.Access)
	cause(caused{logged: "access token: revoked", path: "/tokens", header: []string{"Authorization", gone.Access}})
	g.Configure(config + "token: {secret: another-secret-of-32-bytes-or-more}\n")
	g.Signal(syscall.SIGHUP)
	world.Until(t, "the other key", func() bool {
		return g.Status(c, "GET", "/tokens", "Authorization", alice.Access) == http.StatusUnauthorized
	})
	cause(caused{logged: "kid names another key", path: "/tokens", header: []string{"Authorization", alice.Access}})
	for range 3 {
		g.Do(c, "POST", "/login", `{"username":"eve","password":"guess"}`, "Content-Type", world.TypeJSON)
	}
	cause(caused{logged: "auth: too many failed logins, refused for …", method: "POST", path: "/login",
		header: []string{"Content-Type", world.TypeJSON}, body: `{"username":"eve","password":"guess"}`})
}

// requestSymptoms are those of requests and applications.
func requestSymptoms(g *world.Instance, bob world.Login) []caused {
	cookie := func(more ...string) []string { return append([]string{"Cookie", bob.Session}, more...) }
	return []caused{
		{logged: "needs one of …", path: "/admin", header: cookie()},
		{logged: "needs a client in one of …", path: "/office", header: cookie()},
		{logged: "cross-origin request detected", method: "POST", path: "/x",
			header: cookie("Origin", "https://evil.example")},
		{logged: "the Origin is not https", method: "POST", path: "/x",
			header: cookie("Origin", strings.Replace(g.Base, "https:", "http:", 1))},
		{logged: "the origin of the preflight is not in cors.origins", method: "OPTIONS", path: "/cors",
			header: []string{"Origin", "https://evil.example", "Access-Control-Request-Method", "PUT"}},
		{logged: "the request does not come from one of listen.trusted_proxies", path: "/verify"},
		{logged: "the path holds an encoded slash", path: "/a%2Fb"},
		{logged: "the path holds an empty segment", path: "/a//b"},
		{logged: `the path holds a segment "." or ".."`, path: "/a/%2e%2e/b"},
		{logged: "the path holds a backslash", path: `/a\b`},
		{logged: "methods are case-sensitive", method: "get", path: "/x"},
		{logged: "the route has no upstream, so it is for … only", path: "/asked"},
		{logged: "http: request body too large", method: "POST", path: "/small", body: "more than ten bytes"},
		{logged: "connection refused", path: "/dead"},
		{logged: "the upstream closed the connection without a response: …", method: "POST", path: "/closes"},
		{logged: "i/o timeout", path: "/slow"},
		{logged: "certificate signed by unknown authority", path: "/tls"},
		{logged: "", path: "/rate"}, // the one request that may pass
		{logged: "more than … requests in …", path: "/rate"},
		{logged: "the host is not one of the gateway's: that of public_url, those in routes, tls.domains", path: "/x",
			header: []string{"Host", "other.example"}},
	}
}

// credentialSymptoms are those of credentials. apiToken is one of alice.
func credentialSymptoms(g *world.Instance, alice, bob world.Login, apiToken string) []caused {
	basic := func(user, password string) []string {
		return []string{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))}
	}
	refresh := caused{method: "POST", path: "/refresh", header: []string{"Content-Type", world.TypeJSON},
		body: `{"refresh_token":"` + bob.Refresh + `"}`}
	again := refresh
	again.logged = "refresh token: used again within the leeway"
	return []caused{
		{logged: "auth: ambiguous credentials", path: "/x", header: []string{"Cookie", "session_id=a; session_id=b"}},
		{logged: "; the session that the browser sent is unknown, expired or ended", path: "/x",
			header: []string{"Cookie", "session_id=" + strings.Repeat("A", 43), "Accept", world.AcceptsPage}},
		{logged: "auth: no identity is proved; accepts …", path: "/tokens", header: []string{"Cookie", alice.Session}},
		{logged: "token signature is invalid", path: "/tokens",
			header: []string{"Authorization", alice.Access[:len(alice.Access)-8] + "AAAAAAAA"}},
		{logged: "not whole: its length or its checksum is wrong", path: "/tokens",
			header: []string{"Authorization", "Bearer " + apiToken[:len(apiToken)-1]}},
		{logged: "presented with the user name of another account", path: "/tokens", header: basic("bob", apiToken)},
		{logged: "wrong Basic username or password", path: "/basic", header: basic("service", "guess")},
		refresh, again,
	}
}

// cause sends a request, and compares the answer and the log with a row.
func cause(t *testing.T, g *world.Instance, c *http.Client, rows []symptom, one caused) {
	t.Helper()
	id := fmt.Sprintf("symptom-%d", time.Now().UnixNano())
	q := world.Must(http.NewRequest(one.method, g.Base, strings.NewReader(one.body)))(t)
	q.URL.Opaque = one.path // as it is
	q.Header.Set("X-Request-Id", id)
	for i := 0; i+1 < len(one.header); i += 2 {
		q.Header.Set(one.header[i], one.header[i+1])
	}
	if host := q.Header.Get("Host"); host != "" {
		q.Host = host
		q.Header.Del("Host")
	}
	a := send(t, c, q)
	if one.logged == "" {
		return
	}
	logged := ""
	world.Until(t, "the line of "+one.logged, func() bool {
		for _, entry := range g.Log.Records(t, "request") {
			if entry["request_id"] == id {
				logged = fmt.Sprint(entry["reason"], entry["error"])
				return true
			}
		}
		return false
	})
	words := regexp.MustCompile(strings.ReplaceAll(regexp.QuoteMeta(one.logged), "…", ".*"))
	if !words.MatchString(logged) {
		t.Errorf("%s %s: the log has %q, expected %q", one.method, one.path, logged, one.logged)
	}
	if !slices.ContainsFunc(rows, func(row symptom) bool {
		return slices.Contains(row.logged, one.logged) &&
			row.shows(a)
	}) {
		t.Errorf("%s %s: no row of docs/troubleshooting.md has %q with %d %s", one.method, one.path, one.logged, a.Status,
			a.Body)
	}
}

// shows reports whether a row is about such an answer: its texts are those of the answer,
// and so is its status, if it begins with one. A redirect has no text.
func (s *symptom) shows(a world.Answer) bool {
	if status := regexp.MustCompile(`^\d{3}`).FindString(s.see); status != "" && status != fmt.Sprint(a.Status) {
		return false
	}
	return a.Status == http.StatusFound || !slices.ContainsFunc(s.quoted, func(text string) bool {
		return !regexp.MustCompile(strings.ReplaceAll(regexp.QuoteMeta(text), "…", ".*")).MatchString(a.Body)
	})
}

// send sends a request and reads the answer.
func send(t *testing.T, c *http.Client, q *http.Request) world.Answer {
	t.Helper()
	r := world.Must(c.Do(q))(t)
	defer r.Body.Close()
	body := make([]byte, 4096)
	n, _ := r.Body.Read(body)
	return world.Answer{Status: r.StatusCode, Header: r.Header, Body: string(body[:n])}
}
