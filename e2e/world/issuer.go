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
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// Issuer is a gateway that is the OpenID provider of another one, with People as its users.
type Issuer struct{ *Instance }

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
	p := &Issuer{Prepare(t)}
	p.Base = strings.Replace(p.Base, "localhost", "127.0.0.1", 1) // another site, with other cookies
	certify(t, key, append(gateway, p.Instance)...)
	people, client := People, gateway[0].Public
	if strings.Contains(more, "accounts:") {
		people = ""
	}
	if client == "" {
		client = gateway[0].Base
	}
	p.Configure(fmt.Sprintf(`
oauth:
  enabled: true
  clients:
    - id: gateway
      secret: %q
      redirect_uris: [%[2]s/callback]
      post_logout_redirect_uris: [%[2]s/]
      backchannel_logout_uri: %[2]s/backchannel-logout/demo
      trusted_roots: certificate.pem
      consent: skip
`, IssuerSecret, client) + people + more)
	return p
}

// Entry returns the section providers of the gateway. more is added to the one entry, as
// ", key: value".
func (p *Issuer) Entry(more string) string {
	return fmt.Sprintf("providers:\n  - {name: demo, issuer: %q, trusted_roots: certificate.pem, client_id: gateway, "+
		"client_secret: %q, scopes: [openid, profile, email, groups], roles_claim: groups%s}\n", p.Base, IssuerSecret, more)
}

// SignIn does what the browser of a user does at the provider, from an authorization request
// on. It returns where the provider sends the browser back.
func (p *Issuer) SignIn(c *http.Client, authorization, user string) (callback string) {
	p.T.Helper()
	method, address, body := "GET", authorization, ""
	var page Answer
	for range 10 {
		path, here := strings.CutPrefix(address, p.Base)
		if !here {
			return address
		}
		page = p.Do(c, method, path, body, "Content-Type", TypeForm, "Accept", AcceptsPage, "Origin", p.Base)
		method, body = "GET", ""
		if page.Status/100 == 3 {
			next := Must(url.Parse(page.Header.Get("Location")))(p.T)
			address = Must(url.Parse(address))(p.T).ResolveReference(next).String()
			continue
		}
		fields := hiddenFields(p.T, page.Body)
		fields.Set("username", user)
		fields.Set("password", Passwords[user])
		method, address, body = "POST", p.Base+"/login", fields.Encode()
	}
	p.T.Fatalf("%s does not get through the provider: %d %s", user, page.Status, page.Body)
	return ""
}

// hiddenFields returns those of the first form of a page.
func hiddenFields(t testing.TB, page string) url.Values {
	t.Helper()
	fields := url.Values{}
	for node := range Must(html.Parse(strings.NewReader(page)))(t).Descendants() {
		attributes := map[string]string{}
		for _, a := range node.Attr {
			attributes[a.Key] = a.Val
		}
		if name := attributes["name"]; attributes["type"] == "hidden" && !fields.Has(name) {
			fields.Set(name, attributes["value"])
		}
	}
	return fields
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
