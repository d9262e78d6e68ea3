package e2e

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// manyHosts is more than the 100 hosts from which on the router of the advisory
// differed.
const manyHosts = 150

// hostAdvisories are Host headers that two programs read as different hosts.
var hostAdvisories = []advisory{
	// The gateway compares hosts in one canonical form.
	{"CVE-2026-27588 Caddy, capitals among many hosts", []string{"HOST42.EXAMPLE", "Host149.Example", "hOST0.eXAMPLE:443", "HOST7.example."}},
	{"CVE-2022-23632 Traefik, a name with its last dot", []string{"admin.example.", "admin.example.:8443", "ADMIN.example.:", "admin.example.."}},
	{"CVE-2019-18802 Envoy, space behind the host", []string{"admin.example ", " admin.example\t", "\tadmin.example \t ", "admin.example :443"}},
}

func hosts(up string) string {
	var b strings.Builder
	b.WriteString(people + app(up) + "tls: {domains: [localhost, other.example]}\nroutes:\n  - {match: /, upstream: app, auth: [none]}\n  - {match: admin.example/, upstream: app, auth: [session]}\n")
	for i := range manyHosts {
		fmt.Fprintf(&b, "  - {match: host%d.example/, upstream: app, auth: [session]}\n", i)
	}
	return b.String()
}

// TestAdvisoriesHost: the upstream gets the host that the gateway decided on, and
// hosts that need a session get no request without one.
func TestAdvisoriesHost(t *testing.T) {
	t.Parallel()
	up := record(t)
	g := start(t, hosts(up.url))
	s := g.signIn(g.stranger(), "alice").session
	for _, a := range hostAdvisories {
		t.Run(a.name, func(t *testing.T) {
			for _, host := range a.attacks {
				g.raw(t, "GET /x HTTP/1.1\nHost: "+host+"\n\n")
				wantNoPrivateHost(t, up, host)
			}
			if a := g.raw(t, "GET /x HTTP/1.1\nHost: "+a.attacks[0]+"\nCookie: "+s+"\n\n"); a.status == http.StatusOK {
				up.one(t) // the same host, with a session
			}
		})
	}
	t.Run("CVE-2018-21246 Caddy, CVE-2026-48491 Traefik, another name by TLS", func(t *testing.T) { anotherServerName(t, g, up) })
	t.Run("HTTP/2", func(t *testing.T) { hostsByHTTP2(t, g, up) })
	if a := g.raw(t, "GET /x HTTP/1.1\nHost: other.example\n\n"); a.status != http.StatusOK {
		t.Errorf("a public host: %d", a.status)
	}
	up.one(t)
}

// wantNoPrivateHost fails the test if the upstream gets a host that needs a
// session.
func wantNoPrivateHost(t *testing.T, up *recorder, attack string) {
	t.Helper()
	for _, m := range up.all() {
		for _, host := range m.values("Host") {
			name, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(host)), ":")
			name = strings.TrimRight(strings.TrimSpace(name), ".")
			if name == "admin.example" || strings.HasPrefix(name, "host") {
				t.Errorf("%q reached the upstream for the host %q", attack, host)
			}
		}
		if len(m.values("Host")) != 1 {
			t.Errorf("%q reached the upstream with the hosts %q", attack, m.values("Host"))
		}
	}
}

// anotherServerName sends other names in the TLS handshake than in Host. Only Host
// counts.
func anotherServerName(t *testing.T, g *instance, up *recorder) {
	for _, name := range []string{"", "localhost", "other.example", "ADMIN.EXAMPLE"} {
		conn, err := tls.Dial("tcp", authority(g.base), &tls.Config{ServerName: name, InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
		if err != nil {
			t.Fatal(err)
		}
		limit(t, conn)
		_, err = io.WriteString(conn, "GET /x HTTP/1.1\r\nHost: admin.example\r\n\r\n")
		if err == nil {
			_, err = readAnswer(bufio.NewReader(conn))
		}
		if err != nil {
			t.Errorf("with the server name %q: %v", name, err)
		}
		conn.Close()
		wantNoPrivateHost(t, up, "server name "+name)
	}
}

// hostsByHTTP2 sends hosts in the pseudo-header fields of HTTP/2.
func hostsByHTTP2(t *testing.T, g *instance, up *recorder) {
	get := func(more ...field) []field { return append([]field{{":method", "GET"}, {":scheme", "https"}}, more...) }
	for _, test := range []struct {
		name   string
		fields []field
	}{
		{"CVE-2021-39242 HAProxy, Host and authority", get(field{":authority", "other.example"}, field{":path", "/x"}, field{"host", "admin.example"})},
		{"CVE-2021-39242 HAProxy, the other way", get(field{":authority", "admin.example"}, field{":path", "/x"}, field{"host", "other.example"})},
		{"CVE-2021-39242 HAProxy, two hosts", get(field{":path", "/x"}, field{"host", "other.example"}, field{"host", "admin.example"})},
		{"CVE-2021-39240 HAProxy, a path in the authority", get(field{":authority", "other.example/admin"}, field{":path", "/x"}, field{"host", "admin.example"})},
		{"CVE-2021-39240 HAProxy, an authority in the scheme", []field{{":method", "GET"}, {":scheme", "https://admin.example/?"}, {":authority", "other.example"}, {":path", "/x"}}},
		{"CVE-2021-39240 HAProxy, a user in the authority", get(field{":authority", "other.example@admin.example"}, field{":path", "/x"})},
		{"CVE-2021-39241 HAProxy, a target in the method", []field{{":method", "GET http://admin.example/x HTTP/1.1\r\nHost: admin.example\r\n\r\nGET"}, {":scheme", "https"}, {":authority", "other.example"}, {":path", "/x"}}},
		{"CVE-2021-39241 HAProxy, spaces in the method", []field{{":method", "GET /secrets?"}, {":scheme", "https"}, {":authority", "other.example"}, {":path", "/x"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, _ = g.raw2(t, test.fields...) // or the gateway resets the stream
			for _, m := range up.all() {
				if m.line != "GET /x HTTP/1.1" || strings.Join(m.values("Host"), " ") != "other.example" {
					t.Errorf("the upstream got %q for the hosts %q", m.line, m.values("Host"))
				}
			}
		})
	}
}
