package certs

import (
	"crypto/tls"
	"fmt"
	"sync/atomic"

	"authgate/gateway/certs/acme"
	"authgate/gateway/config"
)

// certificateFiles is a certificate and its key in files that another program
// renews.
type certificateFiles struct {
	current atomic.Pointer[tls.Certificate]
}

func openFiles(cfg *config.Config) (*certificateFiles, error) {
	f := &certificateFiles{}
	return f, f.Refresh(cfg)
}

// GetCertificate implements Source.
func (f *certificateFiles) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return f.current.Load(), nil
}

// Refresh implements Source.
func (f *certificateFiles) Refresh(cfg *config.Config) error {
	pair, err := tls.LoadX509KeyPair(cfg.TLS.Certificate, cfg.TLS.Key)
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
	return []acme.Certificate{{Domain: name, Begins: leaf.NotBefore, Expires: leaf.NotAfter}}
}
