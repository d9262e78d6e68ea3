package section

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"
)

// Pair reads a certificate and its key, if they are given, and checks that they belong
// together. path is that of the section with the keys certificate and key.
func (s Files) Pair(path, certificate, key string) (chain, secret []byte) {
	read := func(at, file string) (content []byte, ok bool) {
		if file == "" {
			return nil, false
		}
		return s.Read(at, file, MaxPEM)
	}
	at := path + ".certificate"
	chain, foundChain := read(at, certificate)
	secret, foundKey := read(path+".key", key)
	if !foundChain || !foundKey {
		return nil, nil
	}
	if _, err := tls.X509KeyPair(chain, secret); err != nil {
		s.Main.Fault(at, "%s and %s are not a certificate and its key: %v", certificate, key, err)
		return nil, nil
	}
	s.Main.warnOfDates(at, CertificatesIn(chain), s.Now)
	return chain, secret
}

// Authorities reads a file of certificate authorities, which the key at path names.
func (s Files) Authorities(path, file string) []byte {
	content, err := s.Reader.ReadSide(path, file, MaxPEM)
	absolute, _ := filepath.Abs(file) // empty without a working directory
	switch {
	case errors.Is(err, fs.ErrNotExist) && s.Made != "" && s.Made == absolute:
	case err != nil:
		s.Main.Missing(path, "%v", err)
	case !x509.NewCertPool().AppendCertsFromPEM(content):
		s.Main.Fault(path, "%s contains no certificate in PEM", file)
	}
	s.Main.WarnOfAuthorities(path, CertificatesIn(content), s.Now)
	return content
}

// RootsWith returns the roots of the system and those in pem. Without any in pem it is nil, by
// which package tls means those of the system.
func RootsWith(pem []byte) (*x509.CertPool, error) {
	if len(pem) == 0 {
		return nil, nil
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("reading the system's roots: %w", err)
	}
	if !roots.AppendCertsFromPEM(pem) {
		return nil, errors.New("no certificate in PEM")
	}
	return roots, nil
}

// CertificatesIn returns the certificates in a PEM file, and leaves out what is none.
func CertificatesIn(content []byte) []*x509.Certificate {
	var list []*x509.Certificate
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		if certificate, err := x509.ParseCertificate(block.Bytes); err == nil && block.Type == "CERTIFICATE" {
			list = append(list, certificate)
		}
	}
	return list
}

// outOfDate returns why a certificate is not valid at a time, or "".
func outOfDate(certificate *x509.Certificate, now time.Time) string {
	of := certificate.Subject.String()
	if of == "" {
		of = strings.Join(certificate.DNSNames, ", ")
	}
	switch {
	case now.After(certificate.NotAfter):
		until := certificate.NotAfter.UTC().Format(time.RFC3339)
		return fmt.Sprintf("the certificate of %q expired at %s", of, until)
	case now.Before(certificate.NotBefore):
		from := certificate.NotBefore.UTC().Format(time.RFC3339)
		return fmt.Sprintf("the certificate of %q is not valid before %s", of, from)
	}
	return ""
}

// warnOfDates warns about each certificate of a chain that is not valid now.
func (r *Report) warnOfDates(path string, chain []*x509.Certificate, now time.Time) {
	for _, certificate := range chain {
		if why := outOfDate(certificate, now); why != "" {
			r.Warn(path, "%s, so that the other side refuses it; renew it", why)
		}
	}
}

// WarnOfAuthorities warns about a file of authorities of which none is valid now.
func (r *Report) WarnOfAuthorities(path string, authorities []*x509.Certificate, now time.Time) {
	for _, certificate := range authorities {
		if outOfDate(certificate, now) == "" {
			return
		}
	}
	if len(authorities) > 0 {
		r.Warn(path, "no certificate in the file is valid: %s; get the present one", outOfDate(authorities[0], now))
	}
}
