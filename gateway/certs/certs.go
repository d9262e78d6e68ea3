package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"

	"authgate/gateway/certs/acme"
	"authgate/gateway/config"
	"authgate/gateway/config/listening"
	"authgate/gateway/config/section"
)

// acmeFolder is the folder in data_dir for certificates from an authority.
const acmeFolder = "acme"

// Source provides the certificate of a listener. It is safe for concurrent use.
type Source interface {
	// GetCertificate is for tls.Config.GetCertificate.
	GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// Refresh makes the certificates those of a configuration with the same tls.mode, and
	// reads files again. After an error the present ones stay. Connections go on.
	Refresh(*config.Config) error
	// Certificates describes the certificates, for operators.
	Certificates() []acme.Certificate
}

// Options are the parts of a Source. Config is required, and so are Logger and Now
// for the modes that use them.
type Options struct {
	Config *config.Config
	Shared certmagic.Storage // for certificates from an authority; nil: a folder in data_dir
	// Below reports whether a name is below a wildcard host of the running
	// configuration. Such a name gets a certificate from an authority when a client
	// asks for it. Nil: none is.
	Below  func(name string) bool
	Logger *slog.Logger
	Now    func() time.Time
}

// Open returns the certificates that tls.mode names, or nil if it is off.
func Open(o Options) (Source, error) {
	cfg := o.Config
	switch cfg.TLS.Mode {
	case listening.TLSOff:
		return nil, nil
	case listening.TLSInternal:
		return sourceOf(openLocalCA(cfg.DataDir, cfg.TLS.Domains, o.Now, o.Logger))
	case listening.TLSFiles:
		return sourceOf(openFiles(cfg))
	case listening.TLSACME:
		return openACME(o)
	}
	return nil, fmt.Errorf("tls.mode %q is not supported", cfg.TLS.Mode)
}

// sourceOf returns a nil Source after an error.
func sourceOf[S Source](s S, err error) (Source, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

// authority provides the certificates of an ACME authority.
type authority struct{ *acme.Manager }

// Refresh implements Source. The Manager orders certificates of new names, and renews
// all, by itself.
func (a authority) Refresh(cfg *config.Config) error {
	a.Manage(cfg.TLS.Domains)
	return nil
}

func openACME(o Options) (Source, error) {
	cfg := o.Config
	demand := cfg.TLS.OnDemand
	options := acme.Options{
		Domains: cfg.TLS.Domains, Email: cfg.TLS.Email, Directory: cfg.TLS.Directory, Profile: cfg.TLS.Profile,
		Storage:  o.Shared,
		OnDemand: acme.OnDemand{Permits: o.Below, Names: demand.Names, Burst: demand.Burst, Every: demand.Every},
		HTTP:     cfg.Listen.HTTP, HTTPS: cfg.Listen.HTTPS, Logger: o.Logger,
		DNS: dnsProvider(cfg.TLS.DNS, o.Logger),
	}
	if cfg.TLS.DNS != nil {
		options.Resolvers = cfg.TLS.DNS.Resolvers
	}
	if o.Shared == nil {
		options.Storage = &certmagic.FileStorage{Path: filepath.Join(cfg.DataDir, acmeFolder)}
	}
	var err error
	if options.Roots, err = section.RootsWith(cfg.TLS.TrustedRootsContent); err != nil {
		return nil, fmt.Errorf("tls.trusted_roots: %w", err)
	}
	m, err := acme.Open(context.Background(), options)
	if err != nil {
		return nil, err
	}
	return authority{m}, nil
}

// TLSConfig returns the configuration of a listener for HTTP/1.1 and HTTP/2. It
// allows TLS 1.2 with forward secrecy and AEAD, and TLS 1.3 (RFC 9325, sections
// 3.1.1 and 4.2). clients returns whose certificates a client is asked for that names a
// host in the handshake, nil if it is asked for none; nil asks none.
func TLSConfig(certs Source, clients func(serverName string) *x509.CertPool) *tls.Config {
	protocols := []string{"h2", "http/1.1"}
	if _, ok := certs.(authority); ok {
		protocols = append(protocols, acme.Protocol) // net/http closes such a connection after the handshake
	}
	cfg := &tls.Config{
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
	if clients == nil {
		return cfg
	}
	asking := &asking{base: cfg.Clone(), clients: clients}
	cfg.GetConfigForClient = asking.configFor
	return cfg
}

// asking makes the configuration of handshakes that ask for a certificate. They accept every one,
// and none: the route of a request decides.
type asking struct {
	base    *tls.Config
	clients func(serverName string) *x509.CertPool

	mu     sync.Mutex
	recent *tls.Config // one for each reload, so that its connections can be resumed over QUIC
}

// configFor is for tls.Config.GetConfigForClient.
func (a *asking) configFor(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	pool := a.clients(hello.ServerName)
	if pool == nil {
		return nil, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.recent == nil || a.recent.ClientCAs != pool {
		a.recent = a.base.Clone()
		a.recent.ClientAuth, a.recent.ClientCAs = tls.RequestClientCert, pool
	}
	return a.recent, nil
}
