package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"authgate/policy"
)

var providerName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]*$`)

// providerNames are the names of the configured providers.
func (l *loader) providerNames() []string {
	var names []string
	for _, p := range l.cfg.Providers {
		if p.Name != "" {
			names = append(names, p.Name)
		}
	}
	return names
}

// checkProviders checks the OpenID providers, without asking them.
func (l *loader) checkProviders() {
	for i, p := range l.cfg.Providers {
		path := fmt.Sprintf("providers[%d]", i)
		l.checkProviderName(path+".name", p.Name, i)
		if p.ClientID == "" {
			l.fault(l.main, path+".client_id", "the identifier that the provider has given this client is needed")
		}
		for j, scope := range p.Scopes {
			if scope == "" || strings.ContainsFunc(scope, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '"' || r == '\\' }) {
				l.fault(l.main, fmt.Sprintf("%s.scopes[%d]", path, j), "%q is not a scope; write each as an entry of its own", scope)
			}
		}
		if !slices.Contains(p.Scopes, "openid") {
			l.fault(l.main, path+".scopes", "must hold openid (OpenID Connect Core 1.0, section 3.1.2.1)")
		}
		for _, claim := range []struct{ key, name string }{{".roles_claim", p.RolesClaim}, {".username_claim", p.UsernameClaim}} {
			if strings.Trim(claim.name, ".") == "" {
				l.fault(l.main, path+claim.key, "%q is not the name of a claim; expected one like roles or realm_access.roles", claim.name)
			}
		}
		l.oneOf(path+".callback", p.Callback, "/callback", "/auth/callback")
		if p.Timeout == 0 {
			l.fault(l.main, path+".timeout", "must be longer than 0")
		}
		l.checkProviderURLs(path, p)
	}
}

func (l *loader) checkProviderName(path, name string, index int) {
	switch {
	case name == "":
		l.fault(l.main, path, "a name is needed, like keycloak")
	case name == policy.LocalProvider || name == policy.BasicProvider:
		l.fault(l.main, path, "%q is the provider of the gateway's own users; choose another name", name)
	case !providerName.MatchString(name):
		l.fault(l.main, path, "%q is not a name for a provider; use small letters, digits, - and _, with a letter or digit first", name)
	default:
		first := slices.IndexFunc(l.cfg.Providers, func(p Provider) bool { return p.Name == name })
		if first < index {
			l.fault(l.main, path, "%q is the name of providers[%d] already", name, first)
		}
	}
}

// checkProviderURLs checks issuer and endpoints: https, or http where nobody
// can listen in.
func (l *loader) checkProviderURLs(path string, p Provider) {
	byHand := []struct{ key, url string }{
		{".authorization_url", p.AuthorizationURL}, {".token_url", p.TokenURL},
		{".userinfo_url", p.UserinfoURL}, {".jwks_url", p.JWKSURL},
	}
	given := slices.ContainsFunc(byHand, func(e struct{ key, url string }) bool { return e.url != "" })
	for _, e := range byHand {
		if given && e.url == "" {
			l.fault(l.main, path+e.key, "endpoints given by hand must be given all: authorization_url, token_url, userinfo_url and jwks_url")
		}
	}
	if p.Issuer == "" {
		l.fault(l.main, path+".issuer", "the URL of the provider is needed, like https://id.example.org/realms/main")
	}
	for _, e := range append(byHand, struct{ key, url string }{".issuer", p.Issuer}, struct{ key, url string }{".logout_url", p.LogoutURL}) {
		if e.url == "" {
			continue
		}
		u, err := httpURL(e.url)
		if err != nil {
			l.fault(l.main, path+e.key, "%v", err)
		} else if u.Scheme == "http" && !loopback(u.Hostname()) {
			l.fault(l.main, path+e.key, "%q is not https; http is for providers on this machine alone", e.url)
		}
	}
}

// checkDelegated checks the sessions of delegated logins.
func (l *loader) checkDelegated() {
	l.lifetime("delegated.lifetime", l.cfg.Delegated.Lifetime)
	name := l.cfg.Delegated.DefaultProvider
	if name != "" && !slices.Contains(l.providerNames(), name) && !l.main.isBroken("providers") {
		l.fault(l.main, "delegated.default_provider", "there is no provider %q; %s", name, hint(name, "providers", l.providerNames()))
	}
}
