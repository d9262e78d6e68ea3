package acme

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"testing"
	"time"

	"authgate/e2e/world"
)

// days is a lifetime of certificates that are not renewed during a test.
const days = 90 * 24 * time.Hour

// gated has a public route and one for Basic.
const gated = world.People + `
routes:
  - {match: /open, upstream: app, auth: [none]}
  - {match: /basic, upstream: app, auth: [basic]}
`

// TestACMEChallenges: each kind of challenge alone gets a certificate, with SQLite
// and with Redis, and the gateway works with that certificate. The tests of
// gateway/certs/acme have challenges that belong to no order.
func TestACMEChallenges(t *testing.T) {
	t.Parallel()
	for kind, driver := range map[string]string{"http-01": "sqlite", "tls-alpn-01": "redis"} {
		t.Run(kind+" "+driver, func(t *testing.T) {
			t.Parallel()
			p, up := startPebble(t, days), world.Record(t)
			g, config := p.gateway("127.0.0.1", p.http, world.FreePort(t)), gated+world.App(up.URL)
			if driver == "redis" {
				g = p.gateway("127.0.0.1", "", p.https)
				config += world.OnRedis(world.StartRedis(t).Address)
			}
			g.configure(config)
			g.Run()
			roots := p.trust()
			certificate := g.obtains(roots)
			if solved := g.solved(); solved[kind] == 0 || len(solved) != 1 {
				t.Errorf("it has solved %v, expected %s alone", solved, kind)
			}
			if got := p.issued(); len(got) != 1 || got[0] != serial(certificate) {
				t.Errorf("pebble has issued %v, and served is %s", got, serial(certificate))
			}
			g.worksOverTLS(t, up, roots)
			g.speaksNothing(t, up)
		})
	}
}

// worksOverTLS sends requests over both protocols with a full check of the chain.
func (g *acmeGateway) worksOverTLS(t *testing.T, up *world.Recorder, roots *x509.CertPool) {
	t.Helper()
	for _, protocol := range []string{"http/1.1", "h2"} {
		c := g.visitor(&tls.Config{RootCAs: roots, NextProtos: []string{protocol}}, false)
		if a := g.Do(c, "GET", "/basic", "", "Authorization", world.BasicService, "X-Auth-User",
			"root"); a.Status != http.StatusOK {
			t.Errorf("%s: %d %s", protocol, a.Status, a.Body)
		}
		if user := up.One(t).Value(t, "X-Auth-User"); user != "service" {
			t.Errorf("%s: the upstream got the user %q", protocol, user)
		}
		if got := g.Status(c, "GET", "/basic"); got != http.StatusUnauthorized {
			t.Errorf("%s, without a credential: %d", protocol, got)
		}
		up.None(t)
	}
	conn, err := g.shake(roots, gateName, "h2", "http/1.1")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	state := conn.ConnectionState()
	if state.NegotiatedProtocol != "h2" || state.Version != tls.VersionTLS13 || len(state.PeerCertificates) < 2 {
		t.Errorf("protocol %s, TLS %x, a chain of %d", state.NegotiatedProtocol, state.Version, len(state.PeerCertificates))
	}
}

// speaksNothing: a connection for challenges (RFC 8737) serves no request.
func (g *acmeGateway) speaksNothing(t *testing.T, up *world.Recorder) {
	t.Helper()
	const protocol = "acme-tls/1"
	for _, text := range []string{
		"GET /open HTTP/1.1\r\nHost: " + gateName + "\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
	} {
		conn, err := tls.Dial("tcp", g.secure, &tls.Config{ServerName: gateName, NextProtos: []string{protocol, "other"},
			InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		world.Limit(t, conn)
		_, _ = io.WriteString(conn, text) // the gateway may have closed it
		answer, _ := io.ReadAll(conn)
		if got := conn.ConnectionState().NegotiatedProtocol; got != protocol || len(answer) > 0 {
			t.Errorf("over %q, it answers %q", got, answer)
		}
	}
	up.None(t)
}
