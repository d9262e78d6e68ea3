package gateway

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/caddyserver/certmagic"

	"authgate/gateway/acme"
	"authgate/gateway/config"
	"authgate/gateway/store"
)

// acmeFolder is where certificates are kept under data_dir, unless instances
// share them.
const acmeFolder = "acme"

// certificates gives the listener its certificate.
type certificates interface {
	// GetCertificate has the form of tls.Config.GetCertificate.
	GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Refresh looks for a newer certificate; after an error the one at hand
	// is kept.
	Refresh() error
	// Certificates says what there is, for operators.
	Certificates() []acme.Certificate
}

// openCertificates returns what tls.mode names; nil for off. Instances on
// Redis share what they get from an authority in shared, whose clock is
// sharedNow; now is the local one.
func openCertificates(cfg *config.Config, shared store.Store, sharedNow func() time.Time, logger *slog.Logger, now func() time.Time) (certificates, error) {
	switch cfg.TLS.Mode {
	case config.TLSOff:
		return nil, nil
	case config.TLSInternal:
		return openLocalCA(cfg.DataDir, cfg.TLS.Domains, now)
	case config.TLSFiles:
		files := &certificateFiles{certificate: cfg.TLS.Certificate, key: cfg.TLS.Key}
		return files, files.Refresh()
	case config.TLSACME:
		return openACME(cfg, shared, sharedNow, logger)
	}
	return nil, fmt.Errorf("tls.mode %q is not supported", cfg.TLS.Mode)
}

func openACME(cfg *config.Config, shared store.Store, sharedNow func() time.Time, logger *slog.Logger) (*acme.Manager, error) {
	options := acme.Options{
		Domains: cfg.TLS.Domains, Email: cfg.TLS.Email, Directory: cfg.TLS.Directory,
		Storage: &certmagic.FileStorage{Path: filepath.Join(cfg.DataDir, acmeFolder)},
		HTTP:    cfg.Listen.HTTP, HTTPS: cfg.Listen.HTTPS, Logger: logger,
	}
	if cfg.Store.Driver == config.StoreRedis {
		box, err := storeBox(cfg)
		if err != nil {
			return nil, err
		}
		options.Storage = acme.NewStorage(shared, box, sharedNow)
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

// tlsConfig allows TLS 1.2 with forward secrecy and AEAD, and TLS 1.3 (RFC
// 9325, sections 3.1.1 and 4.2).
func tlsConfig(certs certificates) *tls.Config {
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

// Certificates implements certificates.
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

// Refresh implements certificates: the authority renews by itself.
func (ca *localCA) Refresh() error { return nil }

// Certificates implements certificates.
func (ca *localCA) Certificates() []acme.Certificate {
	c := acme.Certificate{Domain: ca.domains[0]}
	if leaf, err := ca.GetCertificate(nil); err != nil {
		c.Problem = err.Error()
	} else {
		c.Expires = leaf.Leaf.NotAfter
	}
	return []acme.Certificate{c}
}
