package rig

import (
	"crypto/tls"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"authgate/internal/test/certtest"
	"authgate/internal/test/must"
)

// certificateRoutes are the routes of Certificates, after those of Base.
const certificateRoutes = `
  - {match: /cert/, name: cert, upstream: app, auth: [certificate]}
  - {match: /both/, name: both, upstream: app, auth: [certificate, session, bearer]}
  - {match: /staff/, name: staff, upstream: app, auth: [certificate, session], policy: admin}
  - {match: /two/, name: two, upstream: app, auth: [certificate, session], policy: {factors: 2}}
  - {match: /only/, name: only, upstream: app, auth: [certificate, session], policy: {mechanisms: [certificate]}}
  - {match: /passes/, name: passes, upstream: app, auth: [none], headers: {pass: [Client-Cert, Client-Cert-Chain]}}
  - {match: vpn.example/, name: vpn, upstream: app, auth: [certificate]}
  - {match: wiki.example/, name: wiki, upstream: app, auth: [session]}
  - {match: mail.example/, name: mail, upstream: app, auth: [session]}
`

// Certificates are an authority for clients, and what its clients ask for.
type Certificates struct {
	CA     *certtest.CA
	Folder string
	YAML   string // a configuration that accepts them
	t      testing.TB
}

// NewCertificates returns a new authority.
func NewCertificates(t testing.TB) *Certificates {
	t.Helper()
	c := &Certificates{CA: certtest.New(t, "clients", time.Now()), Folder: t.TempDir(), t: t}
	c.Write("ca.pem", certtest.PEM(c.CA))
	c.YAML = Edit(t, Base, "store:", "tls: {client_ca: "+filepath.Join(c.Folder, "ca.pem")+"}\n"+
		"certificates: {username: cn}\nlisten: {trusted_proxies: [10.0.0.1]}\nstore:") + certificateRoutes
	return c
}

// Write writes a file that the configuration may name.
func (c *Certificates) Write(name, content string) {
	c.t.Helper()
	must.Do(c.t, os.WriteFile(filepath.Join(c.Folder, name), []byte(content), 0o600))
}

// With is a request on a connection that was opened for gw.example, with a certificate.
func (c *Certificates) With(issued tls.Certificate, method, target string, lines ...string) *http.Request {
	q := Request(method, target, "", lines...)
	q.TLS = &tls.ConnectionState{ServerName: "gw.example"}
	if len(issued.Certificate) > 0 {
		q.TLS.PeerCertificates = certtest.Chain(c.t, issued)
	}
	return q
}

// Proxied is a request of a trusted proxy, which has a certificate of its own.
func (c *Certificates) Proxied(own tls.Certificate, target string, lines ...string) *http.Request {
	q := c.With(own, "GET", target, append(lines, "X-Forwarded-For: 192.0.2.9", "X-Forwarded-Proto: https")...)
	q.RemoteAddr = "10.0.0.1:4711"
	return q
}

// Named returns a certificate for these names.
func (c *Certificates) Named(names ...string) tls.Certificate {
	return c.CA.Client(certtest.Named(names...))
}
