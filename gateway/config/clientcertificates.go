package config

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"slices"
	"time"

	"authgate/gateway/clientcert"
	"authgate/gateway/config/strictyaml"
	"authgate/policy"
)

// ClientCALocal is the value of tls.client_ca for the gateway's own authority for clients.
const ClientCALocal = "local"

// maxListSize is how large a file of revoked certificates may be, in bytes.
const maxListSize = 32 << 20

// certificates configures the mechanism certificate.
type certificates struct {
	Username string `yaml:"username"` // the kind of name that names the account
}

// Words returns the words that keys of the section take.
func (certificates) Words() map[string][]string {
	return map[string][]string{
		"username": {clientcert.Email, clientcert.URI, clientcert.DNS, clientcert.CommonName},
	}
}

// clientAuthorities reads whose certificates clients may present, and which of them are revoked.
// The local authority has no file before the gateway has started once.
func (s sideReader) clientAuthorities(c *Config) {
	const key = "tls.client_ca"
	t, local := &c.TLS, filepath.Join(s.reader.Resolve(c.DataDir), clientcert.AuthorityFile)
	var content []byte
	given := false
	switch t.ClientCA {
	case "":
	case ClientCALocal:
		if _, err := os.Stat(local); err == nil && t.CRL != "" {
			content, given = s.read(key, local, maxPEMSize)
		}
	default:
		content, given = s.read(key, t.ClientCA, maxPEMSize)
		t.ClientCAContent = content
	}
	authorities, err := clientcert.ReadAuthorities(content)
	if given && err != nil {
		s.main.Fault(key, "%s is no list of certificates in PEM: %v", t.ClientCA, err)
	}
	s.main.warnOfAuthorities(key, authorities, s.now)
	if t.CRL == "" {
		return
	}
	lists, ok := s.read("tls.crl", t.CRL, maxListSize)
	if !ok || t.ClientCA == "" || s.main.Broken(key) {
		return
	}
	s.revoked(t, lists, authorities)
}

// revoked checks the lists of revoked certificates.
func (s sideReader) revoked(t *TLS, content []byte, authorities []*x509.Certificate) {
	const key = "tls.crl"
	lists, err := clientcert.ReadLists(content, authorities)
	if err != nil {
		s.main.Fault(key, "%s is no list of revoked certificates: %v", t.CRL, err)
		return
	}
	t.CRLContent = content
	for _, list := range lists {
		if list.Stale(s.now) {
			s.main.Warn(key, "the list of %q is stale since %s: it still revokes, but may lack certificates that are "+
				"revoked since; get the present one", list.Issuer, list.NextUpdate.UTC().Format(time.RFC3339))
		}
	}
}

// checkCertificates checks which keys belong together.
func (c *Config) checkCertificates(r *report) {
	const username = "certificates.username"
	asks := c.TLS.ClientCA != "" || r.Broken("tls.client_ca")
	switch {
	case asks && c.Certificates.Username == "" && !r.Broken(username):
		r.Missing(username, "is needed with tls.client_ca: which name in a certificate names the account; "+
			"san_email, san_uri, san_dns or cn")
	case !asks && c.Certificates.Username != "":
		r.Fault(username, "has no effect without tls.client_ca, whose certificates clients may present; "+
			"set it, or remove this key")
	}
	if !asks && c.TLS.CRL != "" {
		r.Fault("tls.crl", "has no effect without tls.client_ca, whose certificates it revokes; "+
			"set it, or remove this key")
	}
	accepts := func(route Route) bool { return slices.Contains(route.Auth, policy.Certificate) }
	if asks && !slices.ContainsFunc(c.Routes, accepts) && !r.Broken("routes") {
		r.Warn("tls.client_ca", "no route accepts certificates, so that no client is asked for one; "+
			"add certificate to auth of a route")
	}
}

// checkHasCertificates checks that the mechanism certificate, which the key at path names, has users.
func (c *Config) checkHasCertificates(r *report, path string, noAccounts bool) {
	if c.TLS.ClientCA == "" && !r.Broken("tls.client_ca") {
		r.Fault(path, "certificate needs tls.client_ca: a file with the authorities of clients, or local")
	}
	if noAccounts {
		r.Fault(path, "certificate has no users; give accounts.users or accounts.file")
	}
}

// ClientIssuer is what the gateway's own authority for clients needs to know.
type ClientIssuer struct {
	DataDir  string
	Username string // the kind of name that names the account
	ClientCA string // tls.client_ca
}

// ClientIssuerOf returns that of the configuration file at path, also if it has other mistakes. The
// error is Diagnostics or a *ReadError.
func ClientIssuerOf(path string) (*ClientIssuer, error) {
	source, _, err := strictyaml.ReadFile(path, maxConfigSize)
	if err != nil {
		return nil, &ReadError{err}
	}
	c := defaults()
	reader := c.environment.reader(path)
	main := &report{reader.Read(path, source, maxConfigSize, "", c)}
	const key = "certificates.username"
	if main.Unreadable("") || main.Broken("data_dir") || main.Broken(key) || main.Broken("tls.client_ca") {
		return nil, reader.Err()
	}
	if kind := c.Certificates.Username; !slices.Contains(c.Certificates.Words()["username"], kind) {
		main.Fault(key, "%q does not say which name in a certificate names the account; expected san_email, san_uri, "+
			"san_dns or cn", kind)
		return nil, reader.Err()
	}
	return &ClientIssuer{reader.Resolve(c.DataDir), c.Certificates.Username, c.TLS.ClientCA}, nil
}
