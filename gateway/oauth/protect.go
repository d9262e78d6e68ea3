package oauth

import (
	"strings"

	"authgate/gateway/auth"
	"authgate/gateway/config"
	"authgate/gateway/grants"
	"authgate/gateway/web"
	"authgate/policy"
)

// Protected are the bearer tokens of a route, also those of grants, and the challenge that tells
// clients where to get one (RFC 9728, section 5.1).
type Protected struct {
	auth.Authenticator
	site     *web.Site
	resource config.Resource
	scope    string
}

// Protect returns the mechanism for the bearer tokens of a route that accepts them, in front of
// that for tokens of others.
func Protect(
	g *grants.Grants, site *web.Site, cfg *config.Config, route *config.Route, rule *policy.Route,
	others auth.Authenticator,
) *Protected {
	resource, _ := route.Resource() // it accepts bearer
	p := &Protected{site: site, resource: resource, scope: strings.Join(rule.Scopes(), " ")}
	p.Authenticator = g.At(p.at, cfg.Token.Audience, others)
	return p
}

// at returns the resource as tokens have it, for a request to a host.
func (p *Protected) at(host string) string { return p.site.Origin(p.host(host)) + p.resource.Path }

func (p *Protected) host(host string) string {
	switch {
	case p.resource.Host != "" && !strings.HasPrefix(p.resource.Host, "*."):
		return p.resource.Host
	case p.site.Hosts.Has(host):
		return host
	}
	return p.site.Home()
}

// Metadata returns the address of the document about the resource, for a request to a host.
func (p *Protected) Metadata(host string) string {
	return p.site.Origin(p.host(host)) + config.WellKnownResource + p.resource.Path
}

// Challenge implements auth.Authenticator.
func (p *Protected) Challenge(creds *auth.Credentials) auth.Challenge {
	c := p.Authenticator.Challenge(creds).With("resource_metadata", p.Metadata(creds.Host))
	if p.scope != "" {
		c = c.With("scope", p.scope)
	}
	return c
}
