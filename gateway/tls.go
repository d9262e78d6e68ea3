package gateway

import (
	"crypto/tls"
	"fmt"
	"sync/atomic"
	"time"

	"authgate/gateway/config"
)

// certificates gives the listener its certificate.
type certificates interface {
	// GetCertificate has the form of tls.Config.GetCertificate.
	GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Refresh looks for a newer certificate; after an error the one at hand
	// is kept.
	Refresh() error
}

// openCertificates returns what tls.mode names; nil for off.
func openCertificates(cfg *config.Config, now func() time.Time) (certificates, error) {
	switch cfg.TLS.Mode {
	case config.TLSOff:
		return nil, nil
	case config.TLSInternal:
		return openLocalCA(cfg.DataDir, cfg.TLS.Domains, now)
	case config.TLSFiles:
		files := &certificateFiles{certificate: cfg.TLS.Certificate, key: cfg.TLS.Key}
		return files, files.Refresh()
	}
	return nil, fmt.Errorf("tls.mode %q is not supported", cfg.TLS.Mode)
}

// tlsConfig allows TLS 1.2 with forward secrecy and AEAD, and TLS 1.3 (RFC
// 9325, sections 3.1.1 and 4.2).
func tlsConfig(certs certificates) *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: certs.GetCertificate,
		NextProtos:     []string{"h2", "http/1.1"},
		CipherSuites: []uint16{
			tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
			tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
			tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
			tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
			tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
			tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
		},
	}
}

// certificateFiles is a certificate and key that somebody else keeps fresh.
type certificateFiles struct {
	certificate, key string
	current          atomic.Pointer[tls.Certificate]
}

// GetCertificate implements certificates.
func (f *certificateFiles) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return f.current.Load(), nil
}

// Refresh implements certificates.
func (f *certificateFiles) Refresh() error {
	pair, err := tls.LoadX509KeyPair(f.certificate, f.key)
	if err != nil {
		return fmt.Errorf("reading tls.certificate and tls.key: %w", err)
	}
	f.current.Store(&pair)
	return nil
}

// Refresh implements certificates: the authority renews by itself.
func (ca *localCA) Refresh() error { return nil }
