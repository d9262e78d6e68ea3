package config

import (
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"authgate/gateway/config/forwarding"
	"authgate/gateway/config/issuers"
	"authgate/gateway/config/listening"
	"authgate/gateway/config/section"
	"authgate/gateway/strictyaml"
	"authgate/policy"
)

// defaults returns the configuration of an empty file.
func defaults() *Config {
	return &Config{
		PublicURL:       &url.URL{Scheme: "https", Host: "localhost:8443"},
		Listen:          listening.DefaultListen(),
		TLS:             listening.DefaultTLS(),
		DataDir:         "data",
		Store:           defaultStore(),
		Endpoints:       endpoints{Prefix: "/"},
		Basic:           basic{Realm: "authgate"},
		Factors:         defaultSecondFactors(),
		Session:         defaultSession(),
		Token:           defaultToken(),
		Delegated:       issuers.DefaultDelegated(),
		IdentityHeaders: forwarding.DefaultIdentityHeaders(),
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
	case *issuers.Provider:
		*element = issuers.DefaultProvider()
	case *issuers.TrustedIssuer:
		*element = issuers.DefaultTrustedIssuer()
	case *forwarding.Upstream:
		*element = forwarding.DefaultUpstream()
	case *Route:
		*element = defaultRoute()
	case *forwarding.Assertion:
		*element = forwarding.DefaultAssertion()
	case *listening.DNS:
		*element = listening.DefaultDNS()
	case *OAuthClient:
		*element = defaultOAuthClient()
	}
}

// resolvePaths resolves relative paths: that of the database against data_dir,
// and all others against the folder of the main file.
func (c *Config) resolvePaths(resolve func(path string) string) {
	for _, path := range []*string{
		&c.DataDir, &c.Token.PrivateKey, &c.Basic.Htpasswd, &c.Accounts.File, &c.Site.Logo, &c.Site.Texts,
		&c.OAuth.MetadataClients.TrustedRoots,
	} {
		*path = resolve(*path)
	}
	c.TLS.ResolvePaths(resolve)
	forwarding.ResolvePaths(c.Upstreams, resolve)
	issuers.ResolvePaths(c.Providers, resolve)
	resolveClients(c.OAuth.Clients, resolve)
	resolveIcons(c.Routes, resolve)
	if c.Store.Path != "" && !filepath.IsAbs(c.Store.Path) {
		c.Store.Path = filepath.Join(c.DataDir, c.Store.Path)
	}
}

func resolveClients(clients []OAuthClient, resolve func(path string) string) {
	for i := range clients {
		clients[i].TrustedRoots = resolve(clients[i].TrustedRoots)
	}
}

// complete sets values that depend on other values.
func (c *Config) complete(r *section.Report) {
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
	if c.TLS.Off() && !r.Given("listen.https") {
		c.Listen.HTTPS = ""
	}
	c.TLS.Complete(c.namedHosts())
	c.hosts = c.allHosts()
	c.Tracing.complete()
	c.OAuth.complete()
	c.Session.Domain = strings.ToLower(c.Session.Domain)
	for i := range c.Providers {
		c.Providers[i].Complete(len(c.Providers) > 1)
	}
	for i := range c.Token.TrustedIssuers {
		c.Token.TrustedIssuers[i].Complete(c.Providers)
	}
	for name, u := range c.Upstreams {
		u.Complete(r, strictyaml.Join("upstreams", name), name, c.IdentityHeaders)
		c.completeHealthHost(name, &u)
		c.Upstreams[name] = u
	}
	for i := range c.Routes {
		c.Routes[i].complete()
	}
	if c.OAuth.Enabled && c.PublicURL != nil {
		if home, err := policy.CanonicalHost(c.PublicURL.Host); err == nil { // else checkPublicURL reports it
			c.wellKnown = newWellKnown(home, c.Token.Issuer, c.Routes)
		}
	}
}
