package gateway

import (
	"strings"
	"testing"
)

const workersConfig = baseConfig + `
  - {match: /app/, name: app, upstream: app, auth: [session], service_workers: allow}
  - {match: /open-app/, name: open-app, upstream: app, auth: [none], service_workers: allow}
  - {match: /asked/, name: asked, auth: [none]}
  - {match: /asked-app/, name: asked-app, auth: [none], service_workers: allow}
listen: {trusted_proxies: [10.0.0.0/8]}
`

// The script of a service worker is asked for as a browser does.
var workerScripts = []string{"Service-Worker: script", "Service-Worker: SCRIPT", "Sec-Fetch-Dest: serviceworker"}

// The script of a service worker reaches no application that the operator does not allow
// to have one, whether the route is public or not, and whoever asks.
func TestServiceWorkersAreRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, workersConfig)
	alice := r.login(aliceIn)
	for _, script := range workerScripts {
		for _, target := range []string{"/public/sw.js", "/session/sw.js", "/any/sw.js", "/bearer/sw.js", "/basic/sw.js"} {
			for _, credential := range []string{"", alice.cookie, alice.bearer, "Cookie: session_id=unknown"} {
				w := r.want(403, "GET", target, "", script, credential)
				if !strings.Contains(detailOf(t, w), "service worker") {
					t.Errorf("%s: %s", target, w.Body)
				}
				r.want(403, "HEAD", target, "", script, credential)
			}
		}
		for _, target := range []string{
			"/signin", "/me", "/signin/complete?ticket=x", "/login", "/.well-known/jwks.json", "/logout",
		} {
			r.want(403, "GET", target, "", script, alice.cookie)
		}
		r.want(404, "GET", "/nowhere/sw.js", "", script)
		if r.upstream.Reached() != 0 {
			t.Fatalf("%d requests reached the upstream", r.upstream.Reached())
		}
		r.asks(403, asTraefik("GET", "gw.example", "/asked/sw.js"), script)
		r.asks(403, asNginx("GET", "gw.example", "/session/sw.js"), script, alice.cookie)
		r.asks(200, asTraefik("GET", "gw.example", "/asked-app/sw.js"), script)
	}
	if n := r.sample("authgate_requests_total", "route=public", "decision=forbid"); n == 0 {
		t.Error("the refusals are not counted as such")
	}
	r.want(200, "GET", "/session/sw.js", "", alice.cookie) // a script like any other
}

// A route that allows service workers asks for what it asks for in any case.
func TestServiceWorkersAreAllowed(t *testing.T) {
	t.Parallel()
	r := newRig(t, workersConfig)
	alice := r.login(aliceIn)
	for _, script := range workerScripts {
		r.want(200, "GET", "/open-app/sw.js", "", script)
		r.want(200, "GET", "/app/sw.js", "", script, alice.cookie)
		r.want(401, "GET", "/app/sw.js", "", script)
	}
}
