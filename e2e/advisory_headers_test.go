package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// headerAdvisories are header lines that changed the identity, the address or
// the path of a request.
var headerAdvisories = []advisory{
	// The gateway folds a name before it compares it.
	{"CVE-2025-64484 oauth2-proxy, underscores", []string{
		"X_Forwarded_User: %[1]s\nX_Forwarded_For: %[1]s\nX-Forwarded_Host: %[1]s", "x_auth_user: %[1]s\nX_AUTH-Roles: %[1]s\nX-auth_email: %[1]s",
	}},
	{"CVE-2026-54763 Traefik, underscores after the fix", []string{
		"X_Auth_User: %[1]s", "X-Auth_User: %[1]s\nX_Auth-Subject: %[1]s\nREMOTE_USER: %[1]s\nX.Who_Subject: %[1]s", "X_Forwarded_Proto: %[1]s",
	}},
	// The gateway removes these headers also where it sets none, as for bob, who
	// has neither name nor address.
	{"CVE-2026-30851 Caddy, forward_auth copy_headers", []string{"X-Auth-Email: %[1]s\nX-Auth-Name: %[1]s", "X-Auth-Roles: %[1]s\nX-Auth-Mechanism: %[1]s\nX-Auth-Provider: %[1]s"}},
	{"CVE-2026-33433 Traefik, a header field in another case", []string{
		"Remote-User: %[1]s", "remote-user: %[1]s", "X-Who.subject: %[1]s\nX-Who-Subject: %[1]s", "X-Mail: %[1]s\nX_Mail: %[1]s\nx_mail: %[1]s", "groups: %[1]s",
	}},
	{"CVE-2017-6413 and CVE-2017-6062 mod_auth_openidc, claims from the client", []string{
		"X-Auth-User: %[1]s\nX-Auth-Subject: %[1]s\nX-Auth-Email: %[1]s\nX-Auth-Roles: %[1]s", "X_AUTH_USER: %[1]s\nx-auth-roles: %[1]s",
	}},
	// The gateway removes the headers that Connection names before it sets its own.
	{"CVE-2021-32813 Traefik, Connection removes what middlewares set", []string{
		"Connection: close, X-Important, X-Auth-User, X-Auth-Roles", "Connection: X-Important\nConnection: X-Auth-Subject\nConnection: close",
	}},
	{"CVE-2024-45410 Traefik, Connection removes X-Forwarded", []string{"Connection: close, X-Forwarded-Host, X-Forwarded-For, X-Forwarded-Proto, X-Real-Ip, X-Request-Id"}},
	{"CVE-2026-29054 Traefik, Connection in small letters", []string{"Connection: close, x-forwarded-host, x-forwarded-for, x-forwarded-proto, x-auth-user, x-important"}},
	{"CVE-2022-31813 Apache httpd, Connection removes X-Forwarded", []string{"Connection: close, X-Forwarded-For, X-Forwarded-Host", "Connection: x-forwarded-for\nConnection: close"}},
	{"CVE-2021-33197 Go ReverseProxy, an empty Connection", []string{"Connection: \nConnection: X-Auth-User, X-Forwarded-For, close", "Connection: ,\nConnection: X-Important, close"}},
	{"CVE-2022-1388 F5 BIG-IP, Connection removes a credential", []string{"Connection: close, X-Auth-Subject, X-Auth-Mechanism, Authorization, Cookie"}},
	// The gateway decides on the path that it forwards.
	{"CVE-2026-40575 oauth2-proxy, X-Forwarded-Uri", []string{"X-Forwarded-Uri: /public?%[1]s\nX-Forwarded-Method: GET", "X_Forwarded_Uri: /public?%[1]s", "X-Forwarded-Uri: /session?%[1]s"}},
	{"CVE-2023-27487 Envoy, x-envoy-original-path", []string{"X-Original-URI: /public?%[1]s", "X-Original-Path: /public"}},
	{"CVE-2018-14773 Symfony, X-Original-URL", []string{"X-Original-URL: /public?%[1]s\nX-Rewrite-URL: /public?%[1]s", "X_Original_URL: /public?%[1]s\nx_rewrite_url: /public?%[1]s"}},
	{"CVE-2026-35051 Traefik, X-Forwarded-Prefix", []string{"X-Forwarded-Prefix: /%[1]s", "x-forwarded-prefix: /public/%[1]s\nX_Forwarded_Prefix: /%[1]s"}},
	{"CVE-2026-54764 Traefik, X-Forwarded-Port", []string{"X-Forwarded-Proto: http\nX-Forwarded-Port: 80", "X-Forwarded-Port: %[1]s"}},
	{"CVE-2026-33495 Oathkeeper, X-Forwarded-Proto", []string{"X-Forwarded-Proto: http", "X-Forwarded-Proto: %[1]s", "Forwarded: proto=http;host=%[1]s"}},
	{"CVE-2024-21494 caddy-security, X-Forwarded-For", []string{"X-Forwarded-For: 203.0.113.7", "X-Forwarded-For: 203.0.113.7, 127.0.0.1\nX-Real-IP: 203.0.113.7", "Forwarded: for=203.0.113.7"}},
	{"CVE-2024-21498 caddy-security, X-Forwarded-Host", []string{"X-Forwarded-Host: %[1]s", "X-Forwarded-Host: %[1]s\nX-Original-Host: %[1]s\nForwarded: host=%[1]s"}},
	{"CVE-2022-24112 Apache APISIX, X-Real-IP", []string{"X-Real-IP: 203.0.113.7\nX-Client-IP: 203.0.113.7", "x-real-ip: 203.0.113.7\nX_Real_IP: 203.0.113.7"}},
	{"CVE-2019-16276 Go net/http, a space before the colon", []string{"X-Auth-User : %[1]s", "X-Forwarded-For : %[1]s", "Authorization : Basic c2VydmljZTpzM3J2aWNl"}},
	{"CVE-2023-25725 HAProxy, a header without a name", []string{": x\nX-Auth-User: %[1]s", "X-Auth-User: %[1]s\n:\nX-Auth-Roles: %[1]s"}},
	{"CVE-2026-34457 oauth2-proxy, the user agent of health checks", []string{"User-Agent: GoogleHC/1.0", "User-Agent: kube-probe/1.30", "User-Agent: ELB-HealthChecker/2.0"}},
}

// TestAdvisoriesHeaders: identity and origin headers come from the gateway only,
// and no header changes the decision.
func TestAdvisoriesHeaders(t *testing.T) {
	t.Parallel()
	up := record(t)
	g := start(t, spoofing(up.url)+`
  - {match: /set, upstream: app, auth: [none], headers: {set: {X-Important: "yes"}}}
  - {match: /office, upstream: app, auth: [basic], policy: {networks: [203.0.113.0/24]}}
`)
	c := g.stranger()
	all := append(askers(g.signIn(c, "alice"), g.signIn(c, "bob")), asker{"/set", "X-Nothing: 1", nil})
	for _, a := range headerAdvisories {
		t.Run(a.name, func(t *testing.T) {
			for _, attack := range a.attacks {
				lines := attack
				if strings.Contains(attack, "%") {
					lines = fmt.Sprintf(attack, spoofed)
				}
				for _, who := range all {
					wantNoWord(t, g, up, who, lines)
				}
				for _, closed := range []string{"/session HTTP/1.1", "/office HTTP/1.1\nAuthorization: " + basicService} {
					g.raw(t, "GET "+closed+"\nHost: localhost\n"+lines+"\n\n")
					up.none(t)
				}
			}
		})
	}
	t.Run("CVE-2026-88004 Traefik, trailers", func(t *testing.T) {
		for _, who := range all {
			a := g.raw(t, "POST "+who.path+" HTTP/1.1\nHost: localhost\n"+who.credential+"\nTransfer-Encoding: chunked\n"+
				"Trailer: X_Auth_User, X-Auth-Roles\n\n1\nx\n0\nX_Auth_User: "+spoofed+"\nX-Auth-Roles: "+spoofed+"\n\n")
			if a.status != http.StatusOK {
				t.Fatalf("%s: %d", who.path, a.status)
			}
			wantOwnWord(t, up.one(t), who)
		}
	})
	t.Run("CVE-2026-41181 Traefik, credentials of the request", func(t *testing.T) {
		for _, who := range all[:len(all)-1] {
			g.raw(t, "GET "+who.path+" HTTP/1.1\nHost: localhost\n"+who.credential+"\n\n")
			if m := up.one(t); who.path != "/kept" && len(slices.Concat(m.values("Authorization"), m.values("Cookie"))) > 0 {
				t.Errorf("%s: the upstream gets the credential: %q", who.path, m.head)
			}
		}
	})
}

// wantNoWord sends header lines. The gateway must refuse the request, or the
// upstream must get the headers of the gateway.
func wantNoWord(t *testing.T, g *instance, up *recorder, who asker, lines string) {
	t.Helper()
	a := g.raw(t, "GET "+who.path+" HTTP/1.1\nHost: localhost\n"+who.credential+"\n"+lines+"\n\n")
	if a.status != http.StatusOK {
		up.none(t)
		return
	}
	m := up.one(t)
	wantOwnWord(t, m, who)
	if m.target() != who.path {
		t.Errorf("%s with %q: the upstream is asked for %q", who.path, lines, m.target())
	}
	if who.path == "/set" && m.value(t, "X-Important") != "yes" {
		t.Errorf("with %q the upstream does not get what the route sets", lines)
	}
	if got := m.values("X-Request-Id"); len(got) != 1 {
		t.Errorf("%s with %q: the upstream gets the request ids %q", who.path, lines, got)
	}
	if strings.Contains(strings.Join(m.head, "\n"), spoofed) && !named(lines, ownNames) {
		t.Errorf("%s with %q: the upstream gets %q", who.path, lines, m.head)
	}
}

// named reports whether a line has one of names. These are ordinary headers for
// an upstream with other identity headers.
func named(lines string, names []string) bool {
	for line := range strings.Lines(lines) {
		field, _, _ := strings.Cut(line, ":")
		if slices.ContainsFunc(names, func(name string) bool { return foldName(name) == foldName(field) }) {
			return true
		}
	}
	return false
}

// TestAdvisoriesProxies: the gateway does not take what a client says through a
// trusted proxy for what the proxy says.
func TestAdvisoriesProxies(t *testing.T) {
	t.Parallel()
	up := record(t)
	g := startBehindProxy(t, `["127.0.0.1"]`, people+app(up.url)+`
policies:
  office: {networks: [203.0.113.0/24]}
  not-banned: {none: [{networks: [198.51.100.0/24]}]}
routes:
  - {match: /office, upstream: app, auth: [basic], policy: office}
  - {match: /open, upstream: app, auth: [basic], policy: not-banned}
`)
	const https = "X-Forwarded-Proto: https\n"
	for _, test := range []struct {
		name, path, from, lines string
		reaches                 bool
	}{
		{"as it should be", "/office", "127.0.0.1", https + "X-Forwarded-For: 203.0.113.7", true},
		{"as it should be, from anywhere", "/open", "127.0.0.1", https + "X-Forwarded-For: 192.0.2.1", true},
		{"GHSA-9g5q-2w5x-hmxf chi, the leftmost address", "/office", "127.0.0.1", https + "X-Forwarded-For: 203.0.113.7, 198.51.100.7", false},
		{"GHSA-9g5q-2w5x-hmxf chi, other headers", "/office", "127.0.0.1", https + "X-Forwarded-For: 198.51.100.7\nX-Real-IP: 203.0.113.7\nTrue-Client-IP: 203.0.113.7", false},
		{"CVE-2024-24790 Go, GHSA-7jmw-8259-q9jx Traefik, IPv4-mapped", "/open", "127.0.0.1", https + "X-Forwarded-For: ::ffff:198.51.100.7", false},
		{"CVE-2024-24790 Go, IPv4-mapped in hexadecimal", "/open", "127.0.0.1", https + "X-Forwarded-For: ::ffff:c633:6407", false},
		{"CVE-2024-24790 Go, IPv4-mapped with a zone and a port", "/open", "127.0.0.1", https + "X-Forwarded-For: [::ffff:198.51.100.7%eth0]:80", false},
		{"CVE-2021-32777 Envoy, CVE-2021-39206 Pomerium, several lines", "/office", "127.0.0.1", https + "X-Forwarded-For: 198.51.100.7, 203.0.113.7\nX-Forwarded-For: 198.51.100.7", false},
		{"CVE-2021-32777 Envoy, two credentials", "/office", "127.0.0.1", https + "X-Forwarded-For: 203.0.113.7\nAuthorization: Basic eDp5", false},
		{"CVE-2026-33495 Oathkeeper, the scheme from a stranger", "/open", "127.0.0.2", https + "X-Forwarded-For: 192.0.2.1", false},
		{"CVE-2026-39858 Traefik, the scheme in another spelling", "/open", "127.0.0.1", "X_Forwarded_Proto: https\nX-Forwarded-For: 192.0.2.1", false},
		{"CVE-2026-39858 Traefik, both spellings", "/open", "127.0.0.1", "X-Forwarded-Proto: http\nX_Forwarded_Proto: https\nx.forwarded.proto: https", false},
		{"CVE-2026-39858 Traefik, the address in another spelling", "/office", "127.0.0.1", https + "X-Forwarded-For: 192.0.2.1\nX_Forwarded_For: 203.0.113.7", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			g.plain(t, test.from, "GET "+test.path+" HTTP/1.1\nHost: localhost\nAuthorization: "+basicService+"\n"+test.lines+"\n\n")
			if test.reaches {
				up.one(t)
				return
			}
			up.none(t)
		})
	}
}
