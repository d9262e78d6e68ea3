package world

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
)

// Issuer is a gateway that is the OpenID provider of another one, with People as its users.
type Issuer struct {
	*Instance
	gateway string // public_url of the other one
}

// IssuerSecret is the secret of the client of an Issuer.
const IssuerSecret = "the secret of the gateway"

// StartIssuer is PrepareIssuer, and runs the provider.
func StartIssuer(t testing.TB, key crypto.Signer, more string, gateway ...*Instance) *Issuer {
	t.Helper()
	p := PrepareIssuer(t, key, more, gateway...)
	p.Run()
	return p
}

// PrepareIssuer returns the provider of a gateway that does not run yet and may have several
// instances, of which the first has the address of the client. All get one certificate, of
// this key; nil: of a new one. more is added to the configuration of the provider; it may
// have accounts of its own.
func PrepareIssuer(t testing.TB, key crypto.Signer, more string, gateway ...*Instance) *Issuer {
	t.Helper()
	p := &Issuer{Instance: Prepare(t), gateway: gateway[0].Public}
	p.Base = strings.Replace(p.Base, "localhost", "127.0.0.1", 1) // another site, with other cookies
	certify(t, key, append(gateway, p.Instance)...)
	if p.gateway == "" {
		p.gateway = gateway[0].Base
	}
	people := People
	if strings.Contains(more, "accounts:") {
		people = ""
	}
	p.Configure(fmt.Sprintf(`
oauth:
  enabled: true
  clients:
    - id: gateway
      secret: %q
      redirect_uris: ["%[2]s/callback", "%[2]s/.authgate/callback", "%[2]s/oauth2/callback"]
      post_logout_redirect_uris: [%[2]s/]
      backchannel_logout_uri: %[2]s/backchannel-logout/demo
      trusted_roots: certificate.pem
      consent: skip
`, IssuerSecret, p.gateway) + people + more)
	return p
}

// Entry returns the section providers of the gateway. more is added to the one entry, as
// ", key: value".
func (p *Issuer) Entry(more string) string {
	return fmt.Sprintf("providers:\n  - {name: demo, issuer: %q, trusted_roots: certificate.pem, client_id: gateway, "+
		"client_secret: %q, scopes: [openid, profile, email, groups], roles_claim: groups%s}\n", p.Base, IssuerSecret, more)
}

// SignIn acts as the browser of a user at the provider, from an authorization request on. It
// returns where the provider sends the browser back.
func (p *Issuer) SignIn(c *http.Client, authorization, user string) (callback string) {
	p.T.Helper()
	b := &Browser{T: p.T, Client: c, StopAt: p.gateway}
	b.Open(authorization)
	if b.Next == "" {
		b.Send(map[string]string{"username": user, "password": Passwords[user]})
	}
	if b.Next == "" {
		p.T.Fatalf("%s does not get through the provider: %s", user, b.Describe())
	}
	return b.Next
}

// certify gives gateways one certificate for this machine, which is its own authority.
func certify(t testing.TB, key crypto.Signer, gateways ...*Instance) {
	t.Helper()
	if key == nil {
		key = Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	}
	certificate, private := SelfSigned(t, &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}, key)
	for _, g := range gateways {
		g.Write("certificate.pem", certificate)
		g.Write("certificate-key.pem", private)
		g.CA = "certificate.pem"
		g.Listen += "tls: {mode: files, certificate: certificate.pem, key: certificate-key.pem}\n"
	}
}
