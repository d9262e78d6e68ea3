package chain

import (
	"strings"

	"authgate/gateway/config"
	"authgate/gateway/identity/auth"
	"authgate/gateway/login/grants"
	"authgate/policy"
)

// protected are the bearer tokens of a route, also those of grants, and the challenge that tells
// clients where to get one (RFC 9728, section 5.1).
type protected struct {
	*grants.Bearers
	site     Site
	resource config.Resource
	scope    string
}

// protect returns the mechanism for the bearer tokens of a route that accepts them, in front of
// that for tokens of others.
func protect(o *Options, route *config.Route, rule *policy.Route, others auth.Authenticator) *protected {
	resource, _ := route.Resource() // it accepts bearer
	p := &protected{site: o.Site, resource: resource, scope: strings.Join(rule.Scopes(), " ")}
	p.Bearers = o.Grants.At(grants.Target{Shared: route.SharedResource, At: p.at}, o.Config.Token.Audience, others)
	return p
}

// at returns the resource as tokens have it, for a request to a host.
func (p *protected) at(host string) string { return p.site.Origin(p.host(host)) + p.resource.Path }

func (p *protected) host(host string) string {
	if p.resource.Host != "" && !strings.HasPrefix(p.resource.Host, "*.") {
		return p.resource.Host
	}
	return p.site.HostOrHome(host)
}

// metadata returns the address of the document about the resource, for a request to a host.
func (p *protected) metadata(host string) string {
	return p.site.Origin(p.host(host)) + config.WellKnownResource + p.resource.Path
}

// Challenge implements auth.Authenticator.
func (p *protected) Challenge(creds *auth.Credentials) auth.Challenge {
	c := p.Bearers.Challenge(creds).With("resource_metadata", p.metadata(creds.Host))
	if p.scope != "" {
		c = c.With("scope", p.scope)
	}
	return c
}
