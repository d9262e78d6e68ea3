package config

import (
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"authgate/gateway/config/strictyaml"
)

// defaults returns the configuration of an empty file.
func defaults() *Config {
	return &Config{
		PublicURL:       &url.URL{Scheme: "https", Host: "localhost:8443"},
		Listen:          defaultListen(),
		TLS:             defaultTLS(),
		DataDir:         "data",
		Store:           defaultStore(),
		Endpoints:       endpoints{Prefix: "/"},
		Basic:           basic{Realm: "authgate"},
		Factors:         defaultSecondFactors(),
		Session:         defaultSession(),
		Token:           defaultToken(),
		Delegated:       defaultDelegated(),
		IdentityHeaders: defaultIdentityHeaders(),
		OAuth:           defaultOAuth(),
		Limits:          defaultLimits(),
		ShutdownTimeout: 30 * time.Second,
		Log:             defaultLog(),
		Tracing:         defaultTracing(),
	}
}

// setDefaults sets the defaults of an element of a list or a map.
func setDefaults(element any) {
	switch element := element.(type) {
	case *Provider:
		*element = defaultProvider()
	case *TrustedIssuer:
		*element = defaultTrustedIssuer()
	case *Upstream:
		*element = defaultUpstream()
	case *Route:
		*element = defaultRoute()
	case *assertion:
		*element = defaultAssertion()
	case *DNS:
		*element = defaultDNS()
	case *OAuthClient:
		*element = defaultOAuthClient()
	}
}

// resolvePaths resolves relative paths: that of the database against data_dir,
// and all others against the folder of the main file.
func (c *Config) resolvePaths(resolve func(path string) string) {
	for _, path := range []*string{
		&c.DataDir, &c.TLS.Certificate, &c.TLS.Key, &c.TLS.TrustedRoots, &c.Token.PrivateKey,
		&c.Basic.Htpasswd, &c.Accounts.File, &c.Site.Logo, &c.Site.Texts, &c.OAuth.MetadataClients.TrustedRoots,
	} {
		*path = resolve(*path)
	}
	c.TLS.CRL = resolve(c.TLS.CRL)
	if c.TLS.ClientCA != ClientCALocal {
		c.TLS.ClientCA = resolve(c.TLS.ClientCA)
	}
	if c.TLS.DNS != nil {
		c.TLS.DNS.resolvePaths(resolve)
	}
	resolveUpstreams(c.Upstreams, resolve)
	resolveProviders(c.Providers, resolve)
	resolveClients(c.OAuth.Clients, resolve)
	resolveIcons(c.Routes, resolve)
	if c.Store.Path != "" && !filepath.IsAbs(c.Store.Path) {
		c.Store.Path = filepath.Join(c.DataDir, c.Store.Path)
	}
}

func resolveUpstreams(upstreams map[string]Upstream, resolve func(path string) string) {
	for name, u := range upstreams {
		u.TLS.CA, u.TLS.Certificate, u.TLS.Key = resolve(u.TLS.CA), resolve(u.TLS.Certificate), resolve(u.TLS.Key)
		upstreams[name] = u
	}
}

func resolveProviders(providers []Provider, resolve func(path string) string) {
	for i := range providers {
		providers[i].TrustedRoots = resolve(providers[i].TrustedRoots)
	}
}

func resolveClients(clients []OAuthClient, resolve func(path string) string) {
	for i := range clients {
		clients[i].TrustedRoots = resolve(clients[i].TrustedRoots)
	}
}

// complete sets values that depend on other values.
func (c *Config) complete(r *report) {
	if c.PublicURL != nil {
		canonicalOrigin(c.PublicURL)
		if c.Token.Issuer == "" {
			c.Token.Issuer = c.PublicURL.String()
		}
		if c.Site.Title == "" {
			c.Site.Title = c.PublicURL.Hostname()
		}
	}
	c.Session.Cookie = c.Session.CookieName(c.Session.Cookie)
	c.Delegated.Cookie = c.Session.CookieName(c.Delegated.Cookie)
	if c.TLS.Mode == TLSOff && !r.Given("listen.https") {
		c.Listen.HTTPS = ""
	}
	if len(c.TLS.Domains) == 0 {
		c.TLS.Domains = c.defaultDomains()
	}
	for i, domain := range c.TLS.Domains {
		c.TLS.Domains[i] = strings.ToLower(domain)
	}
	for _, wildcard := range c.wildcardDomains() {
		if !slices.Contains(c.TLS.Domains, wildcard) {
			c.TLS.Domains = append(c.TLS.Domains, wildcard)
		}
	}
	if c.TLS.DNS != nil {
		c.TLS.DNS.complete()
	}
	c.Tracing.complete()
	c.OAuth.complete()
	c.Session.Domain = strings.ToLower(c.Session.Domain)
	for i := range c.Providers {
		c.Providers[i].complete(len(c.Providers) > 1)
	}
	for i := range c.Token.TrustedIssuers {
		c.Token.TrustedIssuers[i].complete(c.Providers)
	}
	for name, u := range c.Upstreams {
		u.complete(r, strictyaml.Join("upstreams", name), name, c.IdentityHeaders)
		u.completeHealthHost(name, c)
		c.Upstreams[name] = u
	}
	for i := range c.Routes {
		if c.Routes[i].Name == "" {
			c.Routes[i].Name = c.Routes[i].Match
		}
	}
}
