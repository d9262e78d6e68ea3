// Package acme gets the gateway's certificates from an authority that speaks
// ACME (RFC 8555), such as Let's Encrypt or one of one's own, and renews them,
// with certmagic.
//
// The authority looks whether this is the server of the name it certifies: it
// asks for a file over plain HTTP (HTTP-01, RFC 8555, section 8.3) or opens a
// TLS connection of a special kind (TLS-ALPN-01, RFC 8737). Either comes to the
// listeners that the gateway has anyway, and where instances share their
// Storage, any of them answers for all, takes over what another has begun, and
// uses what another has got.
//
// # Limits and threats
//
// A certificate that cannot be renewed is used until there is another, be it
// expired: whether to trust it is for the client to say. Why it cannot is in
// the log and in Manager.Certificates. Two weeks after it has expired it leaves
// the storage. A client that asks for a name without a certificate is shown that
// of the first name, which it will not trust.
//
// There is no OCSP stapling: certmagic would wait for the responder without a
// deadline, and Let's Encrypt has none.
//
// Only configured names are asked for, and challenges are looked up for these
// alone, so that what clients ask for reaches neither the authority nor the
// store. Names are certified one by one; wildcards need a challenge by DNS,
// which is not supported.
//
// To use it is to agree to the authority's terms of service.
package acme

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"
)

// Protocol is the ALPN identifier of the TLS-ALPN-01 challenge; the listener
// must offer it (RFC 8737, section 6.2).
const Protocol = "acme-tls/1"

const (
	// loadTime bounds how long Open waits for the storage.
	loadTime = 5 * time.Second
	// retryAfter is when the storage is looked at again for a name without a
	// certificate. certmagic itself waits between questions to the authority.
	retryAfter = 10 * time.Second
	// refusedAfter is when the authority is asked again that has refused.
	refusedAfter = time.Hour
	// closeTime is for what is under way to end, and once more to give back the
	// locks of what has not.
	closeTime = 2 * time.Second
)

// Options say what to certify and how. Domains, Storage, HTTPS and Logger are
// needed.
type Options struct {
	Domains   []string       // the first one also serves clients that name none of them
	Email     string         // for the account at the authority; may be empty
	Directory string         // URL of the authority; default Let's Encrypt
	Roots     *x509.CertPool // that the authority's own certificate leads to; nil: the system's
	Storage   certmagic.Storage
	HTTP      string // address that the plain listener has; empty: no HTTP-01
	HTTPS     string // address that the TLS listener has
	Logger    *slog.Logger
}

// Manager has the certificates of some names. It is safe for concurrent use.
type Manager struct {
	domains []string
	logger  *slog.Logger
	zap     *zap.Logger
	cache   *certmagic.Cache
	config  *certmagic.Config
	issuer  *certmagic.ACMEIssuer
	closing sync.Once

	unrelated *certmagic.Config // renews without naming the replaced certificate
	refused   chan string       // domains to renew so

	mu       sync.Mutex
	failures map[string]failure // by name
}

// failure is why a certificate was not to be had, while there was one with
// that expiry.
type failure struct {
	problem string
	had     time.Time
}

// Open returns a manager with what the storage has, which may be nothing yet
// and is not looked at for newer ones before Run. Close ends it.
func Open(ctx context.Context, o Options) (*Manager, error) {
	if len(o.Domains) == 0 {
		return nil, errors.New("there is no name to have a certificate for")
	}
	host, httpPort, httpsPort, err := ports(o.HTTP, o.HTTPS)
	if err != nil {
		return nil, err
	}
	m := &Manager{
		logger: o.Logger, zap: newLogger(o.Logger), failures: map[string]failure{},
	}
	for _, domain := range o.Domains {
		if !m.manages(domain) {
			m.domains = append(m.domains, strings.ToLower(domain))
		}
	}
	m.cache = certmagic.NewCache(m.cacheOptions(longestPause))
	template := certmagic.Config{
		DefaultServerName: m.domains[0], FallbackServerName: m.domains[0],
		OCSP:    certmagic.OCSPConfig{DisableStapling: true},
		Storage: o.Storage, Logger: m.zap, OnEvent: m.notice,
	}
	m.config = certmagic.New(m.cache, template)
	m.issuer = certmagic.NewACMEIssuer(m.config, certmagic.ACMEIssuer{
		CA: o.Directory, Email: o.Email, Agreed: true, TrustedRoots: o.Roots,
		DisableHTTPChallenge: o.HTTP == "", ListenHost: host, AltHTTPPort: httpPort, AltTLSALPNPort: httpsPort,
		Logger: m.zap,
	})
	m.config.Issuers = []certmagic.Issuer{m.issuer}
	template.OnEvent = m.noticeUnrelated
	m.unrelated = certmagic.New(m.cache, template)
	m.unrelated.Issuers = []certmagic.Issuer{unrelated{m.issuer}}
	m.refused = make(chan string, len(m.domains))
	ctx, cancel := context.WithTimeout(ctx, loadTime)
	defer cancel()
	for _, domain := range m.domains {
		if err := m.load(ctx, domain); err != nil && !errors.Is(err, fs.ErrNotExist) {
			m.failed(domain, err)
		}
	}
	return m, nil
}

// ports returns where the listeners are in certmagic's terms: it knows one
// host for both. It finds the ports in use, and leaves the answers to us.
func ports(plain, secure string) (host string, plainPort, securePort int, err error) {
	for _, listener := range []struct {
		address string
		port    *int
	}{{plain, &plainPort}, {secure, &securePort}} {
		if listener.address == "" {
			continue
		}
		var port string
		if host, port, err = net.SplitHostPort(listener.address); err == nil {
			*listener.port, err = strconv.Atoi(port)
		}
		if err != nil {
			return "", 0, 0, fmt.Errorf("the listener %q: %w", listener.address, err)
		}
	}
	return host, plainPort, securePort, nil
}

func (m *Manager) cacheOptions(pause time.Duration) certmagic.CacheOptions {
	return certmagic.CacheOptions{
		GetConfigForCert:   m.configFor,
		RenewCheckInterval: pause,
		Logger:             m.zap,
	}
}

// configFor says how to renew a certificate.
func (m *Manager) configFor(certificate certmagic.Certificate) (*certmagic.Config, error) {
	if len(certificate.Names) == 0 || !m.manages(certificate.Names[0]) { // which certmagic would order, see load
		return nil, fmt.Errorf("%q are none of the names to have a certificate for", certificate.Names)
	}
	return m.config, nil
}

// Close ends what Open began, after Run. Certificates can be had still.
func (m *Manager) Close() {
	m.closing.Do(func() {
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			m.cache.Stop()
		}()
		ctx, cancel := context.WithTimeout(context.Background(), closeTime)
		defer cancel()
		select {
		case <-stopped:
		case <-ctx.Done(): // it waits for the authority, which may not answer
		}
		if s, ok := m.config.Storage.(*Storage); ok {
			s.wait(ctx) // certmagic renews beside Run, and needs the store to end what it does
		}
		ctx, cancel = context.WithTimeout(context.Background(), closeTime)
		defer cancel()
		certmagic.CleanUpOwnLocks(ctx, m.zap)
	})
}

// GetCertificate has the form of tls.Config.GetCertificate. It answers the
// TLS-ALPN-01 challenge too.
func (m *Manager) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	challenge := slices.Equal(hello.SupportedProtos, []string{Protocol})
	if challenge && !m.manages(hello.ServerName) {
		return nil, fmt.Errorf("a challenge for %q, which is none of tls.domains", hello.ServerName)
	}
	return m.config.GetCertificate(hello)
}

// Refresh does nothing: certificates are renewed without being told.
func (m *Manager) Refresh() error { return nil }

// AnswerChallenge answers a request that is a HTTP-01 challenge under way, and
// reports whether it did.
func (m *Manager) AnswerChallenge(w http.ResponseWriter, r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	return m.manages(host) && m.issuer.HandleHTTPChallenge(w, r)
}

// manages reports whether name is one to have a certificate for.
func (m *Manager) manages(name string) bool {
	return slices.Contains(m.domains, strings.ToLower(name))
}
