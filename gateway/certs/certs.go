package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/caddyserver/certmagic"

	"authgate/gateway/acme"
	"authgate/gateway/config"
)

// acmeFolder is where certificates are kept under data_dir, unless instances
// share them.
const acmeFolder = "acme"

// Source gives the listener its certificate.
type Source interface {
	// GetCertificate has the form of tls.Config.GetCertificate.
	GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Refresh looks for a newer certificate; after an error the one at hand
	// is kept.
	Refresh() error
	// Certificates says what there is, for operators.
	Certificates() []acme.Certificate
}

// Open returns what tls.mode names; nil for off. shared is where instances share
// what they get from an authority; nil: in data_dir.
func Open(cfg *config.Config, shared certmagic.Storage, logger *slog.Logger, now func() time.Time) (Source, error) {
	switch cfg.TLS.Mode {
	case config.TLSOff:
		return nil, nil
	case config.TLSInternal:
		return openLocalCA(cfg.DataDir, cfg.TLS.Domains, now)
	case config.TLSFiles:
		files := &certificateFiles{certificate: cfg.TLS.Certificate, key: cfg.TLS.Key}
		return files, files.Refresh()
	case config.TLSACME:
		return openACME(cfg, shared, logger)
	}
	return nil, fmt.Errorf("tls.mode %q is not supported", cfg.TLS.Mode)
}

func openACME(cfg *config.Config, shared certmagic.Storage, logger *slog.Logger) (*acme.Manager, error) {
	options := acme.Options{
		Domains: cfg.TLS.Domains, Email: cfg.TLS.Email, Directory: cfg.TLS.Directory, Storage: shared,
		HTTP: cfg.Listen.HTTP, HTTPS: cfg.Listen.HTTPS, Logger: logger,
	}
	if shared == nil {
		options.Storage = &certmagic.FileStorage{Path: filepath.Join(cfg.DataDir, acmeFolder)}
	}
	if cfg.TLS.TrustedRoots != "" {
		var err error
		if options.Roots, err = rootsWith(cfg.TLS.TrustedRoots); err != nil {
			return nil, fmt.Errorf("tls.trusted_roots: %w", err)
		}
	}
	return acme.Open(context.Background(), options)
}

// rootsWith returns the roots that the system trusts, and those of a file.
func rootsWith(path string) (*x509.CertPool, error) {
	roots, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("reading the system's roots: %w", err)
	}
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if !roots.AppendCertsFromPEM(pem) {
		return nil, errors.New(path + " holds no certificate in PEM")
	}
	return roots, nil
}

// TLSConfig allows TLS 1.2 with forward secrecy and AEAD, and TLS 1.3 (RFC
// 9325, sections 3.1.1 and 4.2).
func TLSConfig(certs Source) *tls.Config {
	protocols := []string{"h2", "http/1.1"}
	if _, ok := certs.(*acme.Manager); ok {
		protocols = append(protocols, acme.Protocol) // which net/http hangs up on after the handshake
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: certs.GetCertificate,
		NextProtos:     protocols,
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
