package config

import (
	"crypto/x509"
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// TLS modes.
const (
	TLSInternal = "internal"
	TLSFiles    = "files"
	TLSACME     = "acme"
	TLSOff      = "off"
)

// TLS configures the certificate of the gateway.
type TLS struct {
	Mode         string   `yaml:"mode"`
	Certificate  string   `yaml:"certificate"`
	Key          string   `yaml:"key"`
	Domains      []string `yaml:"domains"`
	Email        string   `yaml:"email"`
	Directory    string   `yaml:"directory"`
	TrustedRoots string   `yaml:"trusted_roots"`

	// ClientCA is ClientCALocal, or a file with those whose certificates clients may present.
	ClientCA string `yaml:"client_ca"`
	CRL      string `yaml:"crl"` // which of them are revoked

	OnDemand onDemand `yaml:"on_demand"`
	DNS      *DNS     `yaml:"dns"` // nil: no challenges by DNS

	HSTS time.Duration `yaml:"hsts"` // max-age of Strict-Transport-Security; 0: no header

	TrustedRootsContent []byte `yaml:"-"` // of the file, in mode acme
	ClientCAContent     []byte `yaml:"-"` // of the file; nil with ClientCALocal
	CRLContent          []byte `yaml:"-"`
}

// Words returns the words that keys of the section take.
func (TLS) Words() map[string][]string {
	return map[string][]string{"mode": {TLSInternal, TLSFiles, TLSACME, TLSOff}}
}

// onDemand bounds the certificates of names below wildcard hosts of routes, which an
// ACME authority issues when a client asks for them.
type onDemand struct {
	Names int           `yaml:"names"` // how many names may have one
	Burst int           `yaml:"burst"` // orders at once
	Every time.Duration `yaml:"every"` // then the time between two orders
}

func defaultTLS() TLS {
	return TLS{Mode: TLSInternal, OnDemand: onDemand{Names: 100, Burst: 10, Every: 6 * time.Hour}}
}

// check checks everything except the content of files, which sideReader checks.
func (t TLS) check(r *report) {
	switch t.Mode {
	case TLSInternal, TLSACME, TLSOff:
		for _, f := range []struct{ key, path string }{{"tls.certificate", t.Certificate}, {"tls.key", t.Key}} {
			if f.path != "" {
				r.Fault(f.key, "has no effect with tls.mode %s; set tls.mode: files, or remove this key", t.Mode)
			}
		}
	}
	for i, domain := range t.Domains {
		if err := t.checkDomain(domain); err != nil {
			r.Fault(fmt.Sprintf("tls.domains[%d]", i), "%v", err)
		} else if r.Given("tls.domains") {
			checkWildcard(r, fmt.Sprintf("tls.domains[%d]", i), domain)
		}
	}
	if t.HSTS > 0 && t.HSTS < time.Second {
		r.Fault("tls.hsts", "must be at least 1s, or 0s for no header; a year is 8760h")
	}
	t.OnDemand.check(r)
	t.checkDNS(r)
	if t.Mode == TLSACME {
		t.checkACME(r)
	}
}

// check checks the bounds, which only mode acme uses.
func (o onDemand) check(r *report) {
	const key = "tls.on_demand"
	for _, bound := range []struct {
		name string
		n    int
	}{{"names", o.Names}, {"burst", o.Burst}} {
		if bound.n < 1 {
			r.Fault(key+"."+bound.name, "must be at least 1")
		}
	}
	r.positive(key+".every", o.Every)
}

// checkDomain checks a name or an address for the certificate.
func (t TLS) checkDomain(domain string) error {
	_, err := netip.ParseAddr(domain)
	address := err == nil
	name, wildcard := strings.CutPrefix(domain, "*.")
	switch {
	case address && t.Mode == TLSACME:
		return fmt.Errorf("%q is an address; tls.mode acme needs a name", domain)
	case address:
		return nil
	case wildcard && t.Mode == TLSACME && t.DNS == nil:
		return fmt.Errorf("%q is a wildcard, which tls.mode acme supports only with tls.dns", domain)
	case strings.ContainsAny(domain, ":/"):
		return fmt.Errorf("%q is not a domain; expected only a name or an address, like www.example.org", domain)
	}
	if err := checkHost(name); err != nil {
		return fmt.Errorf("%q is not a domain: %w", domain, err)
	}
	return nil
}

// checkACME checks the keys that only mode acme uses.
func (t TLS) checkACME(r *report) {
	listed := make(map[string]bool, len(t.Domains))
	for i, domain := range t.Domains {
		if listed[domain] {
			r.Fault(fmt.Sprintf("tls.domains[%d]", i), "%q is listed twice", domain)
		}
		listed[domain] = true
	}
	if t.Email != "" && (strings.Count(t.Email, "@") != 1 || strings.ContainsAny(t.Email, " \t\r\n")) {
		r.Fault("tls.email", "%q is not an address; expected one like admin@example.org", t.Email)
	}
	if t.Directory != "" {
		if u, err := httpURL(t.Directory); err != nil {
			r.Fault("tls.directory", "%v", err)
		} else if u.Scheme != "https" {
			r.Fault("tls.directory", "%q is not https", t.Directory)
		}
	}
}

// certificate reads the certificate and its key, and returns the certificate with its
// chain.
func (s sideReader) certificate(t TLS) []*x509.Certificate {
	if t.Mode != TLSFiles {
		return nil
	}
	for _, f := range []struct{ key, path string }{{"tls.certificate", t.Certificate}, {"tls.key", t.Key}} {
		if f.path == "" {
			s.main.Missing(f.key, "is needed with tls.mode files: the path of a PEM file")
		}
	}
	certificate, _ := s.pair("tls", t.Certificate, t.Key)
	return certificatesIn(certificate)
}

// trustedRoots reads the extra roots for the ACME server.
func (s sideReader) trustedRoots(t *TLS) {
	if t.Mode == TLSACME && t.TrustedRoots != "" {
		t.TrustedRootsContent = s.authorities("tls.trusted_roots", t.TrustedRoots)
	}
}
