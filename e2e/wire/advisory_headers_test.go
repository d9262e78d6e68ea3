package wire

import (
	"net/http"
	"strings"
	"testing"

	"authgate/e2e/world"
)

// headerAdvisories are header lines that decided, or that hid other headers. The
// tests of gateway/proxy/upstream and gateway/wire/peer have identity and origin headers.
var headerAdvisories = map[string]string{
	// The gateway decides on the path that it forwards, and no header names another.
	"CVE-2026-40575 oauth2-proxy, X-Forwarded-Uri": "X-Forwarded-Uri: " +
		"/public?evil\nX-Forwarded-Method: GET\nX_Forwarded_Uri: /public",
	"CVE-2023-27487 Envoy, x-envoy-original-path": "X-Envoy-Original-Path: " +
		"/public?evil\nX-Original-Path: /public",
	"CVE-2026-34457 oauth2-proxy, the user agent of health checks": "User-Agent: GoogleHC/1.0",
	// The gateway removes the headers that Connection names before it sets its own.
	"CVE-2021-33197 Go ReverseProxy, an empty Connection": "Connection: \nConnection: X-Auth-User, X-Forwarded-For, " +
		"close",
	"CVE-2019-16276 Go net/http, a space before the colon": "X-Auth-User : evil\nX-Forwarded-For : evil",
	"CVE-2023-25725 HAProxy, a header without a name":      ": x\nX-Auth-User: evil\nX-Forwarded-For: evil",
	"CVE-2026-30852 Caddy, placeholders": "X-Input: " +
		"${PATH} $PATH {env.PATH} {$PATH} %PATH% {{.Env.PATH}} {file./etc/passwd}",
}

// TestAdvisoriesHeaders: no header opens a route, and the upstream gets the identity
// and the origin that the gateway found.
func TestAdvisoriesHeaders(t *testing.T) {
	t.Parallel()
	up := world.Record(t)
	g := world.Start(t, world.People+world.App(up.URL)+"routes: [{match: /public, upstream: app, auth: "+
		"[none]}, {match: /secure, upstream: app, auth: [session]}]\n")
	session := "Cookie: " + g.SignIn(g.Stranger(), "alice").Session + "\n"
	for name, lines := range headerAdvisories {
		t.Run(name, func(t *testing.T) {
			g.Raw(t, "GET /secure HTTP/1.1\nHost: localhost\n"+lines+"\n\n")
			up.None(t)
			for _, path := range []string{"/public", "/secure"} {
				a := g.Raw(t, "GET "+path+" HTTP/1.1\nHost: localhost\n"+session+lines+"\n\n")
				if a.Status != http.StatusOK {
					up.None(t)
					continue
				}
				m := up.One(t)
				user, from := m.Value(t, "X-Auth-User"), m.Value(t, "X-Forwarded-For")
				if m.Target() != path || user != map[string]string{"/secure": "alice"}[path] || from != "127.0.0.1" {
					t.Errorf("%s: the upstream gets %s for %q, from %q", path, m.Line, user, from)
				}
				if input, sent := strings.CutPrefix(lines, "X-Input: "); sent && m.Value(t, "X-Input") != input {
					t.Errorf("%s: the upstream gets %q", path, m.Head)
				}
			}
		})
	}
}
