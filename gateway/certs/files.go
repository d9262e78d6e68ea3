package certs

import (
	"crypto/tls"
	"fmt"
	"sync/atomic"

	"authgate/gateway/acme"
)

// certificateFiles is a certificate and its key in files that another program
// renews.
type certificateFiles struct {
	certificate, key string
	current          atomic.Pointer[tls.Certificate]
}

func openFiles(certificate, key string) (*certificateFiles, error) {
	f := &certificateFiles{certificate: certificate, key: key}
	return f, f.Refresh()
}

// GetCertificate implements Source.
func (f *certificateFiles) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return f.current.Load(), nil
}

// Refresh implements Source.
func (f *certificateFiles) Refresh() error {
	pair, err := tls.LoadX509KeyPair(f.certificate, f.key)
	if err != nil {
		return fmt.Errorf("reading tls.certificate and tls.key: %w", err)
	}
	f.current.Store(&pair)
	return nil
}

// Certificates implements Source.
func (f *certificateFiles) Certificates() []acme.Certificate {
	leaf := f.current.Load().Leaf
	name := leaf.Subject.CommonName
	switch {
	case len(leaf.DNSNames) > 0:
		name = leaf.DNSNames[0]
	case len(leaf.IPAddresses) > 0:
		name = leaf.IPAddresses[0].String()
	}
	return []acme.Certificate{{Domain: name, Expires: leaf.NotAfter}}
}
