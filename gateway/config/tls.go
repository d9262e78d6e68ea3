package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"authgate/gateway/config/strictyaml"
)

// checkTLS checks the section tls and the certificate, if one is given.
func (l *loader) checkTLS() {
	t := l.cfg.TLS
	l.oneOf("tls.mode", t.Mode, TLSInternal, TLSFiles, TLSACME, TLSOff)
	switch t.Mode {
	case TLSFiles:
		l.checkCertificate()
	case TLSInternal, TLSACME, TLSOff:
		for _, f := range []struct{ key, path string }{{"tls.certificate", t.Certificate}, {"tls.key", t.Key}} {
			if f.path != "" {
				l.fault(f.key, "has no effect with tls.mode %s; set tls.mode: files, or remove this key", t.Mode)
			}
		}
	}
	for i, domain := range t.Domains {
		if err := checkDomain(domain, t.Mode); err != nil {
			l.fault(fmt.Sprintf("tls.domains[%d]", i), "%v", err)
		}
	}
	if t.HSTS > 0 && t.HSTS < time.Second {
		l.fault("tls.hsts", "must be at least 1s, or 0s for no header; a year is 8760h")
	}
	if t.Mode == TLSACME {
		l.checkACME()
	}
}

// checkCertificate loads the certificate and its key.
func (l *loader) checkCertificate() {
	t := l.cfg.TLS
	for _, f := range []struct{ key, path string }{{"tls.certificate", t.Certificate}, {"tls.key", t.Key}} {
		if f.path == "" {
			l.missing(f.key, "is needed with tls.mode files: the path of a PEM file")
			continue
		}
		if _, err := l.ReadSide(f.path, maxConfigSize); err != nil {
			l.missing(f.key, "%v", err)
		}
	}
	if l.main.Broken("tls.certificate") || l.main.Broken("tls.key") {
		return
	}
	if _, err := tls.LoadX509KeyPair(t.Certificate, t.Key); err != nil {
		l.fault("tls.certificate", "%s and %s are not a certificate and its key: %v", t.Certificate, t.Key, err)
	}
}

// checkDomain checks a name or an address for the certificate.
func checkDomain(domain, mode string) error {
	_, err := netip.ParseAddr(domain)
	address := err == nil
	name, wildcard := strings.CutPrefix(domain, "*.")
	switch {
	case address && mode == TLSACME:
		return fmt.Errorf("%q is an address; tls.mode acme needs a name", domain)
	case address:
		return nil
	case wildcard && mode == TLSACME:
		return fmt.Errorf("%q is a wildcard, which tls.mode acme does not support", domain)
	case strings.ContainsAny(domain, ":/"):
		return fmt.Errorf("%q is not a domain; expected only a name or an address, like www.example.org", domain)
	}
	if err := checkHost(name); err != nil {
		return fmt.Errorf("%q is not a domain: %w", domain, err)
	}
	return nil
}

// checkACME checks the keys that only mode acme uses.
func (l *loader) checkACME() {
	t := l.cfg.TLS
	for i, domain := range t.Domains {
		if slices.Index(t.Domains, domain) < i {
			l.fault(fmt.Sprintf("tls.domains[%d]", i), "%q is listed twice", domain)
		}
	}
	if t.Email != "" && (strings.Count(t.Email, "@") != 1 || strings.ContainsAny(t.Email, " \t\r\n")) {
		l.fault("tls.email", "%q is not an address; expected one like admin@example.org", t.Email)
	}
	if t.Directory != "" {
		if u, err := httpURL(t.Directory); err != nil {
			l.fault("tls.directory", "%v", err)
		} else if u.Scheme != "https" {
			l.fault("tls.directory", "%q is not https", t.Directory)
		}
	}
	if t.TrustedRoots != "" {
		if err := checkRoots(t.TrustedRoots); err != nil {
			l.fault("tls.trusted_roots", "%v", err)
		}
	}
	l.checkACMEListen()
}

// checkACMEListen checks that the listeners can answer the challenges of the
// certificate authority.
func (l *loader) checkACMEListen() {
	listen := l.cfg.Listen
	if listen.HTTP == "" || checkListenAddress(listen.HTTP) != nil || checkListenAddress(listen.HTTPS) != nil {
		return
	}
	if plain, secure := listenHost(listen.HTTP), listenHost(listen.HTTPS); plain != secure {
		l.fault("listen.http", "%q has another host than listen.https; with tls.mode acme both must have the same host, or none", listen.HTTP)
	}
}

// listenHost returns the host of an address to listen on, empty for all.
func listenHost(address string) string {
	host, _, _ := net.SplitHostPort(address)
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		return ""
	}
	return host
}

func checkRoots(path string) error {
	content, err := strictyaml.ReadFile(path, maxConfigSize)
	if err != nil {
		return err
	}
	if !x509.NewCertPool().AppendCertsFromPEM(content) {
		return errors.New(path + " contains no certificate in PEM")
	}
	return nil
}
