package places_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"authgate/internal/test/rig"
)

// The expected origin is that of the host that the client used, and no other: another
// host of the gateway is another site, that of public_url too. Behind a trusted proxy,
// the proxy tells the host.
func TestSameOriginOfOtherHosts(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.Edit(t, rig.Base, "https://gw.example",
		"https://gw.example:8443")+"listen: {trusted_proxies: [192.0.2.7]}\ntls: {domains: [app.example]}\n")
	sessions := map[string]string{}
	for _, host := range []string{"gw.example", "app.example"} {
		sessions[host] = rig.ReadLogin(t, r.WantAt(host, 200, "POST", "/login", rig.Alice, rig.JSON)).Cookie
	}
	post := func(host string, want int, header ...string) {
		t.Helper()
		session := sessions["app.example"]
		if strings.HasPrefix(host, "gw.") {
			session = sessions["gw.example"]
		}
		r.WantAt(host, want, "POST", "/session/", "", append(header, session)...)
		r.WantAt(host, want, "GET", "/session/", "", append(append(header, session), rig.WebSocket...)...)
	}
	post("app.example:8443", 200, "Origin: https://app.example:8443")
	post("app.example:8443", 403, "Origin: https://gw.example:8443")
	post("app.example:8443", 403, "Origin: https://gw.example:8443", "Sec-Fetch-Site: same-site")
	post("app.example:8443", 403, "Origin: https://other.example:8443")
	post("gw.example:8443", 200, "Origin: https://gw.example:8443")
	post("gw.example", 200, "Origin: https://gw.example:8443") // a proxy has left the port out
	post("gw.example:8443", 403, "Origin: https://app.example:8443")
	post("gw.example:8443", 403, "Origin: https://app.example:8443", "Sec-Fetch-Site: same-site")
	post("10.0.0.9:8080", 200, "Origin: https://app.example", "X-Forwarded-Host: app.example")
	post("10.0.0.9:8080", 403, "Origin: https://gw.example:8443", "X-Forwarded-Host: app.example")
	post("10.0.0.9:8080", 403, "Origin: https://other.example", "X-Forwarded-Host: app.example")
	post("10.0.0.9:8080", 403, "Origin: https://10.0.0.9:8080", "X-Forwarded-Host: app.example")
	for _, target := range []string{"/logout", "/login"} {
		r.WantAt("app.example", 403, "POST", target, "", "Origin: https://gw.example:8443")
		r.WantAt("gw.example", 403, "POST", target, "", "Origin: https://app.example")
	}
}

// foreignHosts are hosts that are not the gateway's.
var foreignHosts = []string{
	"evil.example", "gw.example.evil.example", "sub.gw.example", "example", "apps.example", "a.b.apps.example",
	"wild.example", "a.b.wild.example", "awild.example", "localhost", "192.0.2.51", "127.0.0.1", "[::1]",
}

// A request for a host that is not the gateway's reaches no route and no own endpoint,
// and its credentials are not checked.
func TestForeignHosts(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.HostsConfig)
	alice := r.Login(rig.Alice)
	for _, host := range []string{
		"gw.example", "GW.Example.:8443", "wiki.example.org", "wiki.example.org:1", "[2001:DB8::0:1]:443",
		"files.example",
		"x.apps.example", "192.0.2.50",
	} {
		r.WantAt(host, 200, "GET", "/public/", "")
	}
	r.WantAt("a.wild.example", 401, "GET", "/public/", "") // which the route for the host has
	logins := r.Sample("authgate_logins_total")
	for _, host := range foreignHosts {
		for _, w := range []*httptest.ResponseRecorder{
			r.WantAt(host, 421, "GET", "/public/", ""),
			r.WantAt(host, 421, "GET", "/session/", "", alice.Cookie),
			r.WantAt(host, 421, "GET", "/session/", "", "Cookie: session_id=a; session_id=b"),
			r.WantAt(host, 421, "GET", "/basic/", "", rig.Basic("service", "wrong")),
			r.WantAt(host, 421, "POST", "/login", rig.Alice, rig.JSON),
			r.WantAt(host, 421, "GET", "/signin", ""),
			r.WantAt(host, 421, "GET", "/nowhere", ""),
		} {
			if w.Header()["Set-Cookie"] != nil || !strings.Contains(rig.DetailOf(t, w), "add a route for the host") {
				t.Errorf("%s: %v %s", host, w.Header(), w.Body)
			}
		}
	}
	if r.Sample("authgate_logins_total") != logins {
		t.Error("credentials for another host were checked")
	}
}

// Load balancers ask for the address that they connect to.
func TestLocalAddressIsAHost(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.HostsConfig)
	ask := func(host, local string, want int) {
		t.Helper()
		q := rig.Request("GET", "/public/", "")
		q.Host = host
		address := &net.TCPAddr{IP: net.ParseIP(local), Port: 8443}
		r.WantOf(want, q.WithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, address)))
	}
	ask("192.0.2.99", "192.0.2.99", 200)
	ask("192.0.2.99:8443", "::ffff:192.0.2.99", 200)
	ask("[2001:db8::99]", "2001:db8::99", 200)
	ask("192.0.2.98", "192.0.2.99", 421)
	ask("192.0.2.99.evil.example", "192.0.2.99", 421)
	refusesOwn(r, "192.0.2.99", func(q *http.Request) *http.Request {
		address := &net.TCPAddr{IP: net.ParseIP("192.0.2.99"), Port: 8443}
		return q.WithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, address))
	})
}

// ownEndpoints are requests for own endpoints, each of which would succeed at the gateway's
// own hosts, for a user with a session there and for one without.
var ownEndpoints = []struct{ method, target, body, header string }{
	{"POST", "/login", rig.Alice, rig.JSON}, {"POST", "/login", rig.AliceForm, rig.Form},
	{"POST", "/login", "", rig.Basic("alice", "wonderland")},
	{"GET", "/me", "", ""}, {"GET", "/me", "", rig.Browser}, {"GET", "/logout", "", ""}, {"POST", "/logout", "", ""},
	{"GET", "/account", "", ""}, {"GET", "/account/sessions", "", ""},
	{"POST", "/account/sessions/end", `{"others": true}`, rig.JSON},
	{"POST", "/account/tokens", `{"name": "a", "expires_in": 60}`, rig.JSON}, {"GET", "/account/tokens", "", ""},
	{"POST", "/account/password", `{"current": "wonderland", "new": "a-new-password"}`, rig.JSON},
	{"POST", "/refresh", "{}", rig.JSON},
	{"GET", "/signin/complete?ticket=" + strings.Repeat("A", 43), "", rig.Browser},
	{"GET", "/callback?code=a&state=b", "", rig.Browser},
	{"GET", "/.well-known/jwks.json", "", ""}, {"DELETE", "/signin", "", ""}, {"POST", "/signin", "", ""},
}

// refusesOwn fails the test unless own endpoints are 421 for requests that to prepares, except
// those that redirect to public_url.
func refusesOwn(r *rig.Rig, host string, to func(*http.Request) *http.Request) {
	r.T.Helper()
	alice := r.Login(rig.Alice)
	logins := r.Sample("authgate_logins_total")
	for _, e := range ownEndpoints {
		for _, credential := range []string{"", alice.Cookie, alice.Bearer} {
			if credential == alice.Bearer && strings.HasPrefix(e.header, "Authorization") {
				continue
			}
			q := rig.Request(e.method, e.target, e.body, e.header, credential, "Origin: https://"+host)
			q.Host = host
			w := r.WantOf(421, to(q))
			if w.Header()["Set-Cookie"] != nil {
				r.T.Errorf("%s %s%s sets %q", e.method, host, e.target, w.Header()["Set-Cookie"])
			}
		}
	}
	for target, want := range map[string]string{
		"/signin?return_to=/public": "https://gw.example/signin?return_to=%2Fpublic",
		"/login":                    "https://gw.example/login",
		"/signin?reason=signed_out": "https://gw.example/signin?reason=signed_out",
	} {
		q := rig.Request("GET", target, "", rig.Browser)
		q.Host = host
		if w := r.WantOf(302, to(q)); w.Header().Get("Location") != want || w.Header()["Set-Cookie"] != nil {
			r.T.Errorf("%s%s: to %q with %q, want %q", host, target, w.Header().Get("Location"),
				w.Header()["Set-Cookie"], want)
		}
	}
	if r.Sample("authgate_logins_total") != logins {
		r.T.Error("credentials for another host were checked")
	}
	r.Want(200, "GET", "/me", "", alice.Cookie) // nothing has ended
}

// With listen.any_host, routes without a host serve every host. Users cannot
// sign in at a host that is not the gateway's, and do nothing else of their own there.
func TestAnyHost(t *testing.T) {
	t.Parallel()
	r := rig.New(t, rig.HostsConfig+"listen: {any_host: true}\n")
	for _, host := range foreignHosts {
		r.WantAt(host, 200, "GET", "/public/", "")
		r.WantAt(host, 404, "GET", "/page", "") // which wiki.example.org has
		r.WantAt(host, 401, "GET", "/session/", "")
		for target, want := range map[string]string{
			"/session/x?y":              "https://gw.example/signin?return_to=%2Fsession%2Fx%3Fy",
			"/signin?return_to=/public": "https://gw.example/signin?return_to=%2Fpublic",
			"/login":                    "https://gw.example/login",
		} {
			if got := r.WantAt(host, 302, "GET", target, "", rig.Browser).Header().Get("Location"); got != want {
				t.Errorf("%s%s: to %q, want %q", host, target, got, want)
			}
		}
	}
	refusesOwn(r, "evil.example", func(q *http.Request) *http.Request { return q })
	r.WantAt("wiki.example.org", 200, "GET", "/page", "")
	const waiting = "https://gw.example/signin?return_to=https%3A%2F%2Ffiles.example%2Fsession%2F&binding="
	if got := r.WantAt("files.example", 302, "GET", "/session/", "",
		rig.Browser).Header().Get("Location"); !strings.HasPrefix(got, waiting) {
		t.Errorf("a host of the gateway: sign-in at %q", got)
	}
}
