package listening

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"slices"
	"time"

	"authgate/gateway/config/section"
	"authgate/gateway/wire/clientcert"
)

// ClientCALocal is the value of tls.client_ca for the gateway's own authority for clients.
const ClientCALocal = "local"

// maxListSize is how large a file of revoked certificates may be, in bytes.
const maxListSize = 32 << 20

// Certificates configures the mechanism certificate.
type Certificates struct {
	Username string `yaml:"username" words:"san_email san_uri san_dns cn"` // the kind of name that names the account
}

// NamesAccounts reports whether Username is a kind of name.
func (c Certificates) NamesAccounts() bool {
	kinds := []string{clientcert.Email, clientcert.URI, clientcert.DNS, clientcert.CommonName}
	return slices.Contains(kinds, c.Username)
}

// readClients reads whose certificates clients may present, and which of them are revoked.
// The local authority has no file before the gateway has started once.
func (t *TLS) readClients(s section.Files, dataDir string) {
	const key = "tls.client_ca"
	local := filepath.Join(dataDir, clientcert.AuthorityFile)
	var content []byte
	given := false
	switch t.ClientCA {
	case "":
	case ClientCALocal:
		if _, err := os.Stat(local); err == nil && t.CRL != "" {
			content, given = s.Read(key, local, section.MaxPEM)
		}
	default:
		content, given = s.Read(key, t.ClientCA, section.MaxPEM)
		t.ClientCAContent = content
	}
	authorities, err := clientcert.ReadAuthorities(content)
	if given && err != nil {
		s.Main.Fault(key, "%s is no list of certificates in PEM: %v", t.ClientCA, err)
	}
	s.Main.WarnOfAuthorities(key, authorities, s.Now)
	if t.CRL == "" {
		return
	}
	lists, ok := s.Read("tls.crl", t.CRL, maxListSize)
	if !ok || t.ClientCA == "" || s.Main.Broken(key) {
		return
	}
	t.readRevoked(s, lists, authorities)
}

// readRevoked checks the lists of revoked certificates.
func (t *TLS) readRevoked(s section.Files, content []byte, authorities []*x509.Certificate) {
	const key = "tls.crl"
	lists, err := clientcert.ReadLists(content, authorities)
	if err != nil {
		s.Main.Fault(key, "%s is no list of revoked certificates: %v", t.CRL, err)
		return
	}
	t.CRLContent = content
	for _, list := range lists {
		if list.Stale(s.Now) {
			s.Main.Warn(key, "the list of %q is stale since %s: it still revokes, but may lack certificates that are "+
				"revoked since; get the present one", list.Issuer, list.NextUpdate.UTC().Format(time.RFC3339))
		}
	}
}

// CheckClients checks which keys belong together. accepted says that some route accepts
// certificates of clients.
func (t *TLS) CheckClients(r *section.Report, names Certificates, accepted bool) {
	const username = "certificates.username"
	asks := t.ClientCA != "" || r.Broken("tls.client_ca")
	switch {
	case asks && names.Username == "" && !r.Broken(username):
		r.Missing(username, "is needed with tls.client_ca: which name in a certificate names the account; "+
			"san_email, san_uri, san_dns or cn")
	case !asks && names.Username != "":
		r.Fault(username, "has no effect without tls.client_ca, whose certificates clients may present; "+
			"set it, or remove this key")
	}
	if !asks && t.CRL != "" {
		r.Fault("tls.crl", "has no effect without tls.client_ca, whose certificates it revokes; "+
			"set it, or remove this key")
	}
	if asks && !accepted && !r.Broken("routes") {
		r.Warn("tls.client_ca", "no route accepts certificates, so that no client is asked for one; "+
			"add certificate to auth of a route")
	}
}

// CheckHasClients checks that the mechanism certificate, which the key at path names, has users.
func (t *TLS) CheckHasClients(r *section.Report, path string, noAccounts bool) {
	if t.ClientCA == "" && !r.Broken("tls.client_ca") {
		r.Fault(path, "certificate needs tls.client_ca: a file with the authorities of clients, or local")
	}
	if noAccounts {
		r.Fault(path, "certificate has no users; give accounts.users or accounts.file")
	}
}
