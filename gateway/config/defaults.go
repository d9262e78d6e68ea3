package config

import (
	"path/filepath"
	"strings"

	"authgate/gateway/config/forwarding"
	"authgate/gateway/config/section"
	"authgate/gateway/strictyaml"
	"authgate/policy"
)

// defaults returns the configuration of an empty file.
func defaults() *Config {
	c := &Config{IdentityHeaders: forwarding.DefaultIdentityHeaders()}
	strictyaml.SetDefaults(c)
	return c
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
	if c.Store.Path != "" && !filepath.IsAbs(c.Store.Path) {
		c.Store.Path = filepath.Join(c.DataDir, c.Store.Path)
	}
	if c.Log.AuditFile != "" && !filepath.IsAbs(c.Log.AuditFile) {
		c.Log.AuditFile = filepath.Join(c.DataDir, c.Log.AuditFile)
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
