package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// days is a lifetime of certificates that are not renewed during a test.
const days = 90 * 24 * time.Hour

// gated has a public route and one for Basic.
const gated = people + `
routes:
  - {match: /open, upstream: app, auth: [none]}
  - {match: /basic, upstream: app, auth: [basic]}
`

// TestACMEChallenges: each kind of challenge alone gets a certificate, with SQLite
// and with Redis, and the gateway works with that certificate.
func TestACMEChallenges(t *testing.T) {
	t.Parallel()
	for kind, driver := range map[string]string{"http-01": "sqlite", "tls-alpn-01": "redis"} {
		t.Run(kind+" "+driver, func(t *testing.T) {
			t.Parallel()
			p, up := startPebble(t, days), record(t)
			g, config := p.gateway("127.0.0.1", p.http, freePort(t)), gated+app(up.url)
			if driver == "redis" {
				g = p.gateway("127.0.0.1", "", p.https)
				config += onRedis(startRedis(t).Address)
			}
			g.configure(config)
			g.run()
			roots := p.trust()
			certificate := g.obtains(roots)
			if solved := g.solved(); solved[kind] == 0 || len(solved) != 1 {
				t.Errorf("it has solved %v, expected %s alone", solved, kind)
			}
			if got := p.issued(); len(got) != 1 || got[0] != serial(certificate) {
				t.Errorf("pebble has issued %v, and served is %s", got, serial(certificate))
			}
			g.worksOverTLS(t, up, roots)
			g.showsACertificate(t, certificate)
			if kind == "http-01" {
				g.staysPlain(t, up)
			}
			g.keeps(t, driver)
		})
	}
}

// worksOverTLS sends requests over both protocols with a full check of the chain.
func (g *acmeGateway) worksOverTLS(t *testing.T, up *recorder, roots *x509.CertPool) {
	t.Helper()
	for _, protocol := range []string{"http/1.1", "h2"} {
		c := g.visitor(&tls.Config{RootCAs: roots, NextProtos: []string{protocol}}, false)
		if a := g.do(c, "GET", "/basic", "", "Authorization", basicService, "X-Auth-User", "root"); a.status != http.StatusOK {
			t.Errorf("%s: %d %s", protocol, a.status, a.body)
		}
		if user := up.one(t).value(t, "X-Auth-User"); user != "service" {
			t.Errorf("%s: the upstream got the user %q", protocol, user)
		}
		if got := g.status(c, "GET", "/basic"); got != http.StatusUnauthorized {
			t.Errorf("%s, without a credential: %d", protocol, got)
		}
		up.none(t)
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

// showsACertificate: a client that names another host, or none, gets the same
// certificate.
func (g *acmeGateway) showsACertificate(t *testing.T, want *x509.Certificate) {
	t.Helper()
	for _, name := range []string{"unknown.test", ""} {
		conn, err := tls.Dial("tcp", g.secure, &tls.Config{ServerName: name, InsecureSkipVerify: true})
		if err != nil {
			t.Errorf("with the name %q: %v", name, err)
			continue
		}
		if !conn.ConnectionState().PeerCertificates[0].Equal(want) {
			t.Errorf("with the name %q, it shows another certificate", name)
		}
		conn.Close()
	}
}

// staysPlain: listen.http does what it does without challenges, at their path too.
func (g *acmeGateway) staysPlain(t *testing.T, up *recorder) {
	t.Helper()
	for _, target := range []string{"/open", "/.well-known/acme-challenge/x"} {
		request := "GET " + target + " HTTP/1.1\nHost: " + gateName + "\n"
		a := g.plain(t, "127.0.0.1", request+"\n")
		if want := g.public + target; a.status != http.StatusPermanentRedirect || a.header.Get("Location") != want {
			t.Errorf("%s: %d to %q, expected to %q", target, a.status, a.header.Get("Location"), want)
		}
		if a = g.plain(t, "127.0.0.1", request+"Authorization: "+basicService+"\n\n"); a.status != http.StatusForbidden {
			t.Errorf("%s with a credential: %d", target, a.status)
		}
	}
	up.none(t)
}

// keeps checks where the certificate is: in files that only the owner can read, or
// in no files.
func (g *acmeGateway) keeps(t *testing.T, driver string) {
	t.Helper()
	folder, keys := filepath.Join(g.dir, "data", "acme"), 0
	if driver == "redis" {
		if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("with Redis, there is %s: %v", folder, err)
		}
		return
	}
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		if entry.Name() == gateName+".key" {
			keys++
		}
		return err
	})
	if err != nil || keys != 1 {
		t.Errorf("%s has %d keys of certificates: %v", folder, keys, err)
	}
}
