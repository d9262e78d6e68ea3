// Package acme obtains and renews the gateway's certificates, with certmagic, from
// an authority that implements ACME (RFC 8555), such as Let's Encrypt or a private
// one.
//
// The authority verifies that the gateway controls a name. It requests a file over
// plain HTTP (HTTP-01, RFC 8555, section 8.3) or opens a TLS connection with a
// special protocol (TLS-ALPN-01, RFC 8737). Both arrive at the listeners of the
// gateway. Instances that share their storage can answer each other's challenges,
// continue an order that another has begun, and use the certificates of the others.
//
// By using the package the operator agrees to the authority's terms of service.
//
// # Limits and threats
//
// A certificate that cannot be renewed is used until there is a new one, even if it
// has expired: the client decides whether to trust it. The log and
// Manager.Certificates tell the reason. Two weeks after its expiry it is deleted
// from the storage. A client that asks for a name without a certificate gets the
// certificate of the first name, which it will not trust.
//
// There is no OCSP stapling: certmagic would wait for the responder without a
// deadline, and Let's Encrypt has none.
//
// The package orders certificates only for configured names, and looks up challenges
// only for these, so that a client can cause no call to the authority or the store.
// The exception are names that OnDemand permits, such as those below a wildcard host
// of a route: a client that asks for one causes an order, within bounds. Each name
// gets its own certificate. Wildcard certificates need a challenge by DNS, which no
// address can have (RFC 8738, section 7).
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
	"sync/atomic"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	"authgate/gateway/certs/acme/dnschallenge"
)

// Protocol is the ALPN identifier of the TLS-ALPN-01 challenge; the listener
// must offer it (RFC 8737, section 6.2).
const Protocol = "acme-tls/1"

const (
	// loadTime bounds how long Open waits for the storage.
	loadTime = 5 * time.Second
	// retryAfter is the pause before the storage is read again for a name
	// without a certificate. certmagic has its own pauses between orders.
	retryAfter = 10 * time.Second
	// refusedAfter is the pause before the next order after a refusal.
	refusedAfter = time.Hour
	// maxRefused is how many renewals can wait for an order without the replaced
	// certificate.
	maxRefused = 100
	// closeTime is how long Close waits for work in progress to end, and then
	// how long it may take to release the locks.
	closeTime = 2 * time.Second
)

// Options configure a Manager. Domains, Storage, HTTPS and Logger are required.
type Options struct {
	Domains   []string       // names and addresses; clients that ask for others get the certificate of the first
	Email     string         // for the account at the authority; may be empty
	Directory string         // URL of the authority; default Let's Encrypt
	Profile   string         // of certificates, one of the authority's; empty: it chooses
	Roots     *x509.CertPool // for the authority's own certificate; nil: the system's
	Storage   certmagic.Storage
	OnDemand  OnDemand
	HTTP      string // the address of the plain listener; empty: no HTTP-01
	HTTPS     string // the address of the TLS listener
	Logger    *slog.Logger

	DNS       dnschallenge.Provider // nil: no challenges by DNS, and no wildcards in Domains
	Resolvers []string              // asked for records, HOST:PORT; none: the system's
}

// Manager obtains, renews and serves the certificates of some names. It is safe for
// concurrent use.
type Manager struct {
	domains atomic.Pointer[[]string] // replaced by Manage
	managed chan struct{}            // tells Run that Manage has replaced them
	logger  *slog.Logger
	zap     *zap.Logger
	cache   *certmagic.Cache
	config  *certmagic.Config
	issuer  *certmagic.ACMEIssuer
	dns     *dnschallenge.Solver // nil without Options.DNS
	closing sync.Once

	unrelated *unrelatedOrders
	demand    *demand

	mu       sync.Mutex
	failures map[string]failure // by name
}

// failure is why a certificate could not be obtained, and the expiry of the
// certificate that was in use then.
type failure struct {
	problem string
	had     time.Time
}

// Open returns a Manager with the certificates in the storage, if there are any.
// It reads the storage again only in Run. The caller must call Close.
func Open(ctx context.Context, o Options) (*Manager, error) {
	if len(o.Domains) == 0 {
		return nil, errors.New("no name is configured")
	}
	host, httpPort, httpsPort, err := ports(o.HTTP, o.HTTPS)
	if err != nil {
		return nil, err
	}
	m := &Manager{
		logger: o.Logger, zap: newLogger(o.Logger), failures: map[string]failure{},
		managed: make(chan struct{}, 1),
	}
	m.domains.Store(distinct(o.Domains))
	m.cache = certmagic.NewCache(m.cacheOptions(longestPause))
	template := certmagic.Config{
		OCSP:    certmagic.OCSPConfig{DisableStapling: true},
		Storage: o.Storage, Logger: m.zap, OnEvent: m.notice,
	}
	m.config = certmagic.New(m.cache, template)
	m.issuer = certmagic.NewACMEIssuer(m.config, certmagic.ACMEIssuer{
		CA: o.Directory, Profile: o.Profile, Email: o.Email, Agreed: true, TrustedRoots: o.Roots,
		DisableHTTPChallenge: o.HTTP == "", ListenHost: host, AltHTTPPort: httpPort, AltTLSALPNPort: httpsPort,
		Logger: m.zap,
	})
	m.config.Issuers = []certmagic.Issuer{m.issuer}
	m.useDNS(o)
	m.demand = newDemand(m, o.OnDemand, template)
	m.unrelated = newUnrelatedOrders(m, template)
	ctx, cancel := context.WithTimeout(ctx, loadTime)
	defer cancel()
	for _, domain := range m.names() {
		if err := m.load(ctx, domain); err != nil && !errors.Is(err, fs.ErrNotExist) {
			m.failed(domain, err)
		}
	}
	return m, nil
}

// useDNS makes DNS the only way by which the authority is answered, if there is a provider.
func (m *Manager) useDNS(o Options) {
	if o.DNS == nil {
		return
	}
	_, shared := o.Storage.(*storage)
	m.dns = dnschallenge.New(dnschallenge.Options{
		Provider: o.DNS, Resolvers: dnschallenge.NewResolvers(o.Resolvers),
		Storage: o.Storage, Shared: shared, Logger: o.Logger,
	})
	m.issuer.DNS01Solver = m.dns
}

// ports returns the addresses of the listeners for certmagic, which has one host for
// both. Because the ports are in use, certmagic does not listen itself.
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

// configFor returns the configuration for the renewal of a certificate.
func (m *Manager) configFor(certificate certmagic.Certificate) (*certmagic.Config, error) {
	switch {
	case len(certificate.Names) > 0 && m.manages(certificate.Names[0]):
		return m.config, nil
	case len(certificate.Names) > 0 && m.demand.Permits != nil:
		return m.demand.config, nil // which renews nothing by itself
	}
	return nil, fmt.Errorf("%q are none of the configured names",
		certificate.Names) // which certmagic would order, see load
}

// Close stops the Manager after Run has returned. GetCertificate still works.
func (m *Manager) Close() {
	m.closing.Do(func() {
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			m.demand.stop()
			m.cache.Stop()
		}()
		ctx, cancel := context.WithTimeout(context.Background(), closeTime)
		defer cancel()
		select {
		case <-stopped:
		case <-ctx.Done(): // the authority may not answer
		}
		if m.dns != nil {
			m.dns.Settle(ctx) // orders that end remove their records
		}
		if s, ok := m.config.Storage.(*storage); ok {
			s.wait(ctx) // certmagic also renews outside of Run, and needs the store to finish
		}
		ctx, cancel = context.WithTimeout(context.Background(), closeTime)
		defer cancel()
		certmagic.CleanUpOwnLocks(ctx, m.zap)
	})
}

// GetCertificate is for tls.Config.GetCertificate. It also answers TLS-ALPN-01
// challenges.
func (m *Manager) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	name := strings.ToLower(hello.ServerName)
	challenge := slices.Equal(hello.SupportedProtos, []string{Protocol})
	managed := m.manages(name) || challenge && m.managesReverse(name)
	wildcard := wildcardOf(name)
	covered := !managed && m.manages(wildcard)
	permitted := !managed && !covered && m.demand.permits(name)
	address := m.ofAddress(hello)
	switch {
	case address != nil && !challenge:
		return address, nil
	case challenge && !managed && !permitted:
		return nil, fmt.Errorf("a challenge for %q, which is none of tls.domains", hello.ServerName)
	case permitted && !challenge:
		return m.demand.certify(hello, name)
	case challenge || managed && m.current(name) != nil, m.manages(wildcard) && m.current(wildcard) != nil:
		return m.config.GetCertificate(hello)
	}
	first := *hello
	first.ServerName = m.names()[0]
	return m.config.GetCertificate(&first)
}

// wildcardOf returns the wildcard that covers a name.
func wildcardOf(name string) string {
	_, parent, _ := strings.Cut(name, ".")
	return "*." + parent
}

// Manage replaces the configured names. Run obtains certificates of new names, unless
// the storage has them, and renews those of removed names no more. They stay in the
// storage until they have expired: a name may come back.
func (m *Manager) Manage(domains []string) {
	if len(domains) == 0 {
		return // Open refuses that
	}
	before, now := m.names(), distinct(domains)
	m.domains.Store(now)
	for _, domain := range before {
		if !m.manages(domain) {
			m.forgetName(domain)
		}
	}
	if slices.Equal(before, *now) {
		return
	}
	select {
	case m.managed <- struct{}{}:
	default:
	}
}

// forgetName drops the memory of a name that is configured no more.
func (m *Manager) forgetName(domain string) {
	m.cache.RemoveManaged([]certmagic.SubjectIssuer{{Subject: domain}})
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.failures, domain)
}

// names returns the configured names. They do not change.
func (m *Manager) names() []string { return *m.domains.Load() }

// distinct returns the domains in lower case, without repetitions.
func distinct(domains []string) *[]string {
	names := make([]string, 0, len(domains))
	for _, domain := range domains {
		if name := strings.ToLower(domain); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return &names
}

// AnswerChallenge answers r if it is an HTTP-01 challenge in progress, and reports
// whether it did.
func (m *Manager) AnswerChallenge(w http.ResponseWriter, r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil { // it has no port
		host, _, err = net.SplitHostPort(r.Host + ":80")
	}
	if err != nil || !m.manages(host) && !m.demand.permits(strings.ToLower(host)) {
		return false
	}
	return m.issuer.HandleHTTPChallenge(w, r)
}

// manages reports whether name is configured.
func (m *Manager) manages(name string) bool {
	return slices.Contains(m.names(), strings.ToLower(name))
}
