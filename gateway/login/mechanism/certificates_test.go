package mechanism_test

import (
	"crypto/tls"
	"testing"

	"authgate/internal/test/certtest"
	"authgate/internal/test/rig"
)

// certificateRig is a rig that accepts certificates of an authority.
type certificateRig struct {
	*rig.Rig
	*rig.Certificates
}

func newCertificateRig(t *testing.T) *certificateRig {
	t.Helper()
	c := rig.NewCertificates(t)
	return &certificateRig{rig.New(t, c.YAML), c}
}

// A certificate opens the routes that accept it for the account that it names, and nothing else.
func TestCertificates(t *testing.T) {
	t.Parallel()
	c := newCertificateRig(t)
	alice, bob := c.Named("alice"), c.Named("bob")
	w := c.WantOf(200, c.With(alice, "GET", "/cert/"))
	got := c.LastHeader()
	if got.Get("X-Auth-User") != "alice" || got.Get("X-Auth-Mechanism") != "certificate" ||
		got.Get("X-Auth-Subject") != "local:alice" || got.Get("X-Auth-Provider") != "local" ||
		len(w.Header()["Set-Cookie"]) > 0 {
		t.Errorf("the upstream gets %v, and the client %v", got, w.Header())
	}
	for _, path := range []string{"/both/", "/staff/", "/only/"} {
		c.WantOf(200, c.With(alice, "GET", path))
	}
	c.WantOf(403, c.With(bob, "GET", "/staff/"))
	for _, path := range []string{"/session/", "/bearer/", "/me", "/account/sessions"} {
		c.WantOf(401, c.With(alice, "GET", path))
	}
	for _, target := range []string{"/cert/", "/both/"} {
		c.WantOf(401, c.With(tls.Certificate{}, "GET", target))
	}
}

// Authorization comes first, then cookies, then the certificate.
func TestCertificateOrder(t *testing.T) {
	t.Parallel()
	c := newCertificateRig(t)
	alice, in := c.Named("alice"), c.Login(rig.Bob)
	for _, header := range []string{in.Cookie, in.Bearer} {
		c.WantOf(200, c.With(alice, "GET", "/both/", header))
		if user := c.LastUser(); user != "bob" {
			t.Errorf("with %.20s it is %s", header, user)
		}
	}
	c.WantOf(401, c.With(alice, "GET", "/both/", "Authorization: Bearer wrong"))
	c.WantOf(401, c.With(alice, "GET", "/both/", "Cookie: session_id=dead"))
	c.WantOf(200, c.With(alice, "GET", "/both/", "Cookie: session_id=dead", rig.Browser, "Sec-Fetch-Mode: navigate"))
	if user := c.LastUser(); user != "alice" {
		t.Errorf("a page load with a dead cookie is of %s", user)
	}
}

// Only a trusted proxy says which certificate its client has, and its own is not its client's.
func TestProxiedCertificates(t *testing.T) {
	t.Parallel()
	c := newCertificateRig(t)
	alice, none := certtest.Fields(c.Named("alice")), tls.Certificate{}
	below := certtest.Fields(c.CA.Intermediate("between").Client(certtest.Named("alice")))
	c.WantOf(200, c.Proxied(none, "/cert/", alice...))
	if user := c.LastUser(); user != "alice" {
		t.Errorf("it is %s", user)
	}
	c.WantOf(200, c.Proxied(none, "/cert/", below...))
	c.WantOf(200, c.Proxied(c.Named("bob"), "/cert/", alice...))
	if user := c.LastUser(); user != "alice" {
		t.Errorf("the certificate of the proxy counts, for %s", user)
	}
	c.WantOf(401, c.Proxied(none, "/cert/", below[0]))
	c.WantOf(401, c.Proxied(c.Named("alice"), "/cert/"))
	c.WantOf(401, c.Proxied(c.Named("alice"), "/cert/", "Client-Cert: "))
	c.WantOf(401, c.Proxied(none, "/cert/", "Client-Cert: :bm9uZQ==:"))
	c.WantOf(400, c.Proxied(none, "/cert/", append(alice, alice...)...))
	c.WantOf(401, c.Proxied(none, "/cert/", certtest.Fields(c.Named("mallory"))...))
	c.WantOf(401, c.With(none, "GET", "/cert/", alice...))
}
