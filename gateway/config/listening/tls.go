package listening

import (
	"crypto/x509"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"authgate/gateway/config/section"
)

// Modes of TLS.
const (
	TLSInternal = "internal"
	TLSFiles    = "files"
	TLSACME     = "acme"
	TLSOff      = "off"
)

// AuthorityFile is the file in data_dir with the certificate of the authority of TLSInternal.
const AuthorityFile = "ca.pem"

// TLS configures the certificate of the gateway.
type TLS struct {
	Mode         string   `yaml:"mode" default:"internal" words:"internal files acme off" reload:"restart"`
	Certificate  string   `yaml:"certificate" file:"public"`
	Key          string   `yaml:"key" file:"secret"`
	Domains      []string `yaml:"domains"`
	Email        string   `yaml:"email" reload:"restart"`
	Directory    string   `yaml:"directory" reload:"restart"`
	Profile      string   `yaml:"profile" reload:"restart"` // of certificates; empty: the authority chooses
	TrustedRoots string   `yaml:"trusted_roots" file:"public" reload:"restart"`

	// ClientCA is ClientCALocal, or a file with those whose certificates clients may present.
	ClientCA string `yaml:"client_ca" file:"public" bare:"local"`
	CRL      string `yaml:"crl" file:"public"` // which of them are revoked

	OnDemand onDemand `yaml:"on_demand" reload:"restart"`
	DNS      *DNS     `yaml:"dns" reload:"restart"` // nil: no challenges by DNS

	HSTS time.Duration `yaml:"hsts" min:"1s" zero:"no header" why:"; a year is 8760h"`

	TrustedRootsContent []byte `yaml:"-" reload:"trusted_roots"` // of the file, in mode acme
	ClientCAContent     []byte `yaml:"-"`                        // of the file; nil with ClientCALocal
	CRLContent          []byte `yaml:"-"`
}

// onDemand bounds the certificates of names below wildcard hosts of routes, which an
// ACME authority issues when a client asks for them.
type onDemand struct {
	Names int           `yaml:"names" default:"100" min:"1"`  // how many names may have one
	Burst int           `yaml:"burst" default:"10" min:"1"`   // orders at once
	Every time.Duration `yaml:"every" default:"6h" min:"1ns"` // then the time between two orders
}

// Complete sets the default of tls.domains, gives all domains the form of hosts, and adds the
// wildcard hosts of routes, each of which gets a certificate with tls.dns. hosts are those of
// public_url and of routes.
func (t *TLS) Complete(hosts []string) {
	if len(t.Domains) == 0 {
		t.Domains = t.defaultDomains(hosts)
	}
	for i, domain := range t.Domains {
		t.Domains[i] = strings.ToLower(domain)
		if addr, err := netip.ParseAddr(domain); err == nil {
			t.Domains[i] = addr.Unmap().String()
		}
	}
	if t.DNS == nil {
		return
	}
	t.DNS.complete()
	for _, host := range hosts {
		if t.Mode == TLSACME && strings.HasPrefix(host, "*.") && !slices.Contains(t.Domains, host) {
			t.Domains = append(t.Domains, host)
		}
	}
}

// defaultDomains returns the default of tls.domains. No public authority certifies local
// names, so only mode internal has them. Mode acme leaves out the addresses of routes, which
// may be private, and without tls.dns their wildcards; names below such a wildcard get their certificates on
// demand. The other modes need no domains.
func (t *TLS) defaultDomains(hosts []string) []string {
	if t.Mode != TLSInternal && t.Mode != TLSACME {
		return nil
	}
	var domains []string
	for i, host := range hosts {
		domain := strings.Trim(host, "[]")
		_, err := netip.ParseAddr(domain)
		omitted := err == nil || strings.HasPrefix(domain, "*.") && t.DNS == nil
		if omitted && t.Mode == TLSACME && i > 0 {
			continue
		}
		domains = append(domains, domain)
	}
	if t.Mode == TLSInternal {
		for _, local := range []string{"localhost", "127.0.0.1", "::1"} {
			if !slices.Contains(domains, local) {
				domains = append(domains, local)
			}
		}
	}
	return domains
}

// Off reports whether a proxy in front has TLS, and the gateway has none.
func (t *TLS) Off() bool { return t.Mode == TLSOff }

// MadeAuthority returns the absolute path of the file that the gateway makes in data_dir for clients to trust, empty if
// it makes none.
func (t *TLS) MadeAuthority(dataDir string) string {
	if t.Mode != TLSInternal {
		return ""
	}
	path, _ := filepath.Abs(filepath.Join(dataDir, AuthorityFile)) // empty without a working directory
	return path
}

// Check checks everything except the content of files, which Read checks.
func (t TLS) Check(r *section.Report) {
	switch t.Mode {
	case TLSInternal, TLSACME, TLSOff:
		for _, f := range []struct{ key, path string }{{"tls.certificate", t.Certificate}, {"tls.key", t.Key}} {
			if f.path != "" {
				r.Fault(f.key, "has no effect with tls.mode %s; set tls.mode: files, or remove this key", t.Mode)
			}
		}
	}
	given := r.Given("tls.domains") // else they are hosts of routes, which report it
	for i, domain := range t.Domains {
		err := t.checkDomain(domain)
		if err == nil && given {
			err = section.CheckWildcard(domain)
		}
		if err != nil {
			r.Fault(fmt.Sprintf("tls.domains[%d]", i), "%v", err)
		}
	}
	t.checkDNS(r)
	if t.Mode == TLSACME {
		t.checkACME(r)
	}
}

// checkDomain checks a name or an address for the certificate.
func (t TLS) checkDomain(domain string) error {
	addr, err := netip.ParseAddr(domain)
	address := err == nil
	name, wildcard := strings.CutPrefix(domain, "*.")
	switch {
	case addr.Zone() != "":
		return fmt.Errorf("%q has a zone, which has a meaning on one machine only; remove the zone", domain)
	case address && t.Mode == TLSACME && t.DNS != nil:
		return fmt.Errorf("%q is an address, which no DNS record can prove (RFC 8738); "+
			"list only names, or remove tls.dns", domain)
	case address:
		return nil
	case wildcard && t.Mode == TLSACME && t.DNS == nil:
		return fmt.Errorf("%q is a wildcard, which tls.mode acme supports only with tls.dns", domain)
	case strings.ContainsAny(domain, ":/"):
		return fmt.Errorf("%q is not a domain; expected only a name or an address, like www.example.org", domain)
	}
	if err := section.CheckHost(name); err != nil {
		return fmt.Errorf("%q is not a domain: %w", domain, err)
	}
	return nil
}

// checkACME checks the keys that only mode acme uses.
func (t TLS) checkACME(r *section.Report) {
	listed := make(map[string]bool, len(t.Domains))
	letsEncrypt := t.Directory == "" || strings.Contains(t.Directory, ".letsencrypt.org/")
	for i, domain := range t.Domains {
		if addr, err := netip.ParseAddr(domain); err == nil && letsEncrypt {
			t.warnOfAddress(r, fmt.Sprintf("tls.domains[%d]", i), addr)
		}
		if listed[domain] {
			r.Fault(fmt.Sprintf("tls.domains[%d]", i), "%q is listed twice", domain)
		}
		listed[domain] = true
	}
	if t.Email != "" && (strings.Count(t.Email, "@") != 1 || strings.ContainsAny(t.Email, " \t\r\n")) {
		r.Fault("tls.email", "%q is not an address; expected one like admin@example.org", t.Email)
	}
	if t.Directory != "" {
		if u, err := section.HTTPURL(t.Directory); err != nil {
			r.Fault("tls.directory", "%v", err)
		} else if u.Scheme != "https" {
			r.Fault("tls.directory", "%q is not https", t.Directory)
		}
	}
}

// warnOfAddress warns of an address that Let's Encrypt does not certify.
func (t TLS) warnOfAddress(r *section.Report, key string, addr netip.Addr) {
	switch {
	case !addr.IsGlobalUnicast() || addr.IsPrivate():
		r.Warn(key, "Let's Encrypt certifies public addresses only, and %s is none; "+
			"name a public one, or set tls.mode: internal", addr)
	case t.Profile == "":
		r.Warn(key, "Let's Encrypt certifies the address %s only with its profile shortlived; "+
			"set tls.profile: shortlived", addr)
	}
}

// Read reads the files of the section, and returns the certificate with its chain in mode
// files.
func (t *TLS) Read(s section.Files, dataDir string) []*x509.Certificate {
	if t.Mode == TLSACME && t.TrustedRoots != "" {
		t.TrustedRootsContent = s.Authorities("tls.trusted_roots", t.TrustedRoots)
	}
	t.readClients(s, dataDir)
	if t.Mode != TLSFiles {
		return nil
	}
	for _, f := range []struct{ key, path string }{{"tls.certificate", t.Certificate}, {"tls.key", t.Key}} {
		if f.path == "" {
			s.Main.Missing(f.key, "is needed with tls.mode files: the path of a PEM file")
		}
	}
	certificate, _ := s.Pair("tls", t.Certificate, t.Key)
	return section.CertificatesIn(certificate)
}

// WarnOfUncovered warns about hosts of the gateway that its certificate does not cover.
func WarnOfUncovered(r *section.Report, chain []*x509.Certificate, hosts []string) {
	if len(chain) == 0 {
		return
	}
	leaf := chain[0]
	missing := slices.DeleteFunc(slices.Clone(hosts), func(host string) bool {
		if strings.HasPrefix(host, "*.") {
			return slices.ContainsFunc(leaf.DNSNames, func(name string) bool { return strings.EqualFold(name, host) })
		}
		return leaf.VerifyHostname(host) == nil
	})
	if len(missing) > 0 {
		r.Warn("tls.certificate", "the certificate does not cover %s, so that browsers refuse it there; "+
			"get one for all hosts of the gateway", strings.Join(missing, ", "))
	}
}
