package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"authgate/gateway/config/strictyaml"
	"authgate/policy"
)

// Methods of client authentication at the token endpoint (OpenID Connect Core
// 1.0, section 9). If the method is empty, the provider's metadata decides.
const (
	AuthMethodBasic = "client_secret_basic" // credentials in the header Authorization
	AuthMethodPost  = "client_secret_post"  // credentials in the form
)

// Ways to end a session at a provider.
const (
	LogoutAuto     = "auto"     // the first of the following that the provider supports
	LogoutForm     = "form"     // send a form with the refresh token to the end-session endpoint
	LogoutRevoke   = "revoke"   // revoke the token (RFC 7009)
	LogoutRedirect = "redirect" // redirect the browser to the end-session endpoint (OpenID Connect RP-Initiated Logout 1.0)
)

// Provider is an identity provider: one with OpenID Connect, or one with OAuth
// 2.0 and a userinfo endpoint. Either the four URLs of endpoints are empty, and
// discovery finds them, or AuthorizationURL, TokenURL and UserinfoURL are given.
//
// URLs of a provider are strings, because identifiers of issuers are compared
// byte by byte, and discovery gives the same URLs as strings.
type Provider struct {
	Name                    string            `yaml:"name"`
	Title                   string            `yaml:"title"`         // default: Name
	Issuer                  string            `yaml:"issuer"`        // may be empty without OpenID Connect
	ClientID                string            `yaml:"client_id"`     // never empty
	ClientSecret            Secret            `yaml:"client_secret"` // empty: a public client
	TokenEndpointAuthMethod string            `yaml:"token_endpoint_auth_method"`
	Scopes                  []string          `yaml:"scopes"`
	AuthorizationParams     map[string]string `yaml:"authorization_params"` // in addition to those that the gateway sets
	RolesClaim              string            `yaml:"roles_claim"`
	UsernameClaim           string            `yaml:"username_claim"`
	SubjectClaim            string            `yaml:"subject_claim"` // always sub with OpenID Connect
	Callback                string            `yaml:"callback"`
	Logout                  string            `yaml:"logout"` // auto, form, revoke or redirect
	LogoutURL               string            `yaml:"logout_url"`
	Timeout                 time.Duration     `yaml:"timeout"` // for each call to the provider
	AuthorizationURL        string            `yaml:"authorization_url"`
	TokenURL                string            `yaml:"token_url"`
	UserinfoURL             string            `yaml:"userinfo_url"`
	JWKSURL                 string            `yaml:"jwks_url"`
}

// openIDScope is the scope that requests an ID token (OpenID Connect Core 1.0,
// section 3.1.2.1).
const openIDScope = "openid"

// subjectClaim is the claim that identifies a user permanently (OpenID Connect
// Core 1.0, section 5.7).
const subjectClaim = "sub"

// reservedParams are the parameters of an authorization request that only the
// gateway sets, and those that it does not support: a response that is not in
// the query, a request object, and a maximum age.
var reservedParams = []string{
	"response_type", "response_mode", "client_id", "redirect_uri", "scope", "state", "nonce",
	"code_challenge", "code_challenge_method", "request", "request_uri", "max_age",
}

var providerName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]*$`)

// openID reports whether the gateway requests an ID token.
func (p *Provider) openID() bool { return slices.Contains(p.Scopes, openIDScope) }

// byHand reports whether an endpoint is given. The gateway then makes no
// discovery.
func (p *Provider) byHand() bool {
	return p.AuthorizationURL != "" || p.TokenURL != "" || p.UserinfoURL != "" || p.JWKSURL != ""
}

// providerNames returns the names of the configured providers.
func (l *loader) providerNames() []string {
	var names []string
	for _, p := range l.cfg.Providers {
		if p.Name != "" {
			names = append(names, p.Name)
		}
	}
	return names
}

// checkProviders checks the section providers. It makes no request to them.
func (l *loader) checkProviders() {
	for i := range l.cfg.Providers {
		p, path := &l.cfg.Providers[i], fmt.Sprintf("providers[%d]", i)
		l.checkProviderName(path+".name", p.Name, i)
		l.checkClient(path, p)
		l.checkScopes(path+".scopes", p.Scopes)
		l.checkParams(path+".authorization_params", p.AuthorizationParams)
		l.checkClaim(path+".roles_claim", p.RolesClaim)
		l.checkClaim(path+".username_claim", p.UsernameClaim)
		l.oneOf(path+".callback", p.Callback, "/callback", "/auth/callback")
		l.oneOf(path+".logout", p.Logout, LogoutAuto, LogoutForm, LogoutRevoke, LogoutRedirect)
		l.checkTimeout(path+".timeout", p.Timeout)
		for _, e := range []struct{ key, url string }{
			{".issuer", p.Issuer}, {".logout_url", p.LogoutURL}, {".authorization_url", p.AuthorizationURL},
			{".token_url", p.TokenURL}, {".userinfo_url", p.UserinfoURL}, {".jwks_url", p.JWKSURL},
		} {
			l.checkProviderURL(path+e.key, e.url)
		}
		if !l.main.Broken(path) { // these checks need several keys
			l.checkKind(path, p)
			l.checkProviderLogout(path, p)
		}
	}
}

func (l *loader) checkProviderName(path, name string, index int) {
	switch {
	case name == "":
		l.fault(path, "a name is needed, for example keycloak")
	case name == policy.LocalProvider || name == policy.BasicProvider:
		l.fault(path, "%q is the name for the gateway's own users; choose another name", name)
	case !providerName.MatchString(name):
		l.fault(path, "%q is not a valid name; use lower-case letters, digits, - and _, and begin with a letter or digit", name)
	default:
		first := slices.IndexFunc(l.cfg.Providers, func(p Provider) bool { return p.Name == name })
		if first < index {
			l.fault(path, "%q is already the name of providers[%d]", name, first)
		}
	}
}

// checkClient checks the credentials of the gateway as a client.
func (l *loader) checkClient(path string, p *Provider) {
	if p.ClientID == "" {
		l.fault(path+".client_id", "the client identifier is needed, which the provider assigns")
	}
	if p.TokenEndpointAuthMethod == "" {
		return
	}
	method := path + ".token_endpoint_auth_method"
	l.oneOf(method, p.TokenEndpointAuthMethod, AuthMethodBasic, AuthMethodPost)
	if p.ClientSecret == "" && !l.main.Broken(path+".client_secret") {
		l.fault(method, "has no effect without client_secret, because this is a public client; give client_secret, or remove this key")
	}
}

func (l *loader) checkScopes(path string, scopes []string) {
	for i, scope := range scopes {
		if err := policy.CheckScope(scope); err != nil {
			l.fault(fmt.Sprintf("%s[%d]", path, i), "%q %v", scope, err)
		}
	}
}

// checkParams checks additional parameters of the authorization request. An
// empty parameter counts as omitted (RFC 6749, section 3.1).
func (l *loader) checkParams(path string, params map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(params)) {
		at := strictyaml.Join(path, name)
		switch {
		case slices.Contains(reservedParams, name):
			l.fault(at, "only the gateway sets this parameter; remove it")
		case policy.CheckName(name) != nil:
			l.fault(at, "the name of the parameter %v", policy.CheckName(name))
		case params[name] == "":
			l.fault(at, "is empty, which counts as omitted; give a value, or remove it")
		}
	}
}

// checkClaim checks the name of a claim, which may be a dotted path.
func (l *loader) checkClaim(path, name string) {
	if err := policy.CheckClaim(name); err != nil {
		l.fault(path, "%q %v", name, err)
	}
}

func (l *loader) checkTimeout(path string, timeout time.Duration) {
	if timeout == 0 {
		l.fault(path, "must be longer than 0")
	}
}

// checkProviderURL checks a URL, if one is given, to which the gateway or a
// browser sends secrets. It must be https, or http on this machine.
func (l *loader) checkProviderURL(path, raw string) {
	if raw == "" {
		return
	}
	u, err := httpURL(raw)
	if err != nil {
		l.fault(path, "%v", err)
	} else if u.Scheme == "http" && !policy.Loopback(u.Hostname()) {
		l.fault(path, "%q is not https; http is for providers on this machine only", raw)
	}
}

// checkKind checks that a provider is one of three kinds: OpenID Connect with
// discovery, OpenID Connect with given endpoints, or OAuth 2.0 with given
// endpoints and no ID token.
func (l *loader) checkKind(path string, p *Provider) {
	switch {
	case p.byHand():
		l.checkByHand(path, p)
	case !p.openID():
		l.fault(path+".scopes", "must contain openid (OpenID Connect Core 1.0, section 3.1.2.1); a provider without OpenID Connect needs authorization_url, token_url and userinfo_url")
	}
	if p.Issuer == "" && (p.openID() || !p.byHand()) {
		l.fault(path+".issuer", "the URL of the provider is needed, like https://id.example.org/realms/main")
	}
	if !p.openID() {
		l.checkClaim(path+".subject_claim", p.SubjectClaim)
	} else if p.SubjectClaim != subjectClaim {
		l.fault(path+".subject_claim", "%q is not sub, the only claim that identifies a user permanently with OpenID Connect; remove this key", p.SubjectClaim)
	}
}

// checkByHand checks that the given endpoints are complete.
func (l *loader) checkByHand(path string, p *Provider) {
	for _, e := range []struct{ key, url string }{
		{".authorization_url", p.AuthorizationURL}, {".token_url", p.TokenURL}, {".userinfo_url", p.UserinfoURL},
	} {
		if e.url == "" {
			l.fault(path+e.key, "is needed, because another endpoint is given; give all endpoints or none")
		}
	}
	switch {
	case p.openID() && p.JWKSURL == "":
		l.fault(path+".jwks_url", "is needed, because it verifies the ID token that the scope openid requests; remove openid for a provider without ID tokens")
	case !p.openID() && p.JWKSURL != "":
		l.fault(path+".jwks_url", "has no effect without openid in scopes, because there is no ID token to verify; add openid, or remove this key")
	}
}

// checkProviderLogout checks that the way to log out is possible. With given
// endpoints there is no metadata with a logout endpoint.
func (l *loader) checkProviderLogout(path string, p *Provider) {
	switch p.Logout {
	case LogoutForm, LogoutRedirect:
		if p.byHand() && p.LogoutURL == "" {
			l.fault(path+".logout_url", "is needed for logout: %s, because endpoints are given", p.Logout)
		}
	case LogoutRevoke:
		if p.byHand() {
			l.fault(path+".logout", "revoke needs discovery; because endpoints are given, expected auto, form or redirect")
		}
		if p.LogoutURL != "" {
			l.fault(path+".logout_url", "has no effect with logout: revoke; set logout to form or redirect, or remove this key")
		}
	}
}

// checkDelegated checks the section delegated.
func (l *loader) checkDelegated() {
	l.lifetime("delegated.lifetime", l.cfg.Delegated.Lifetime)
	name := l.cfg.Delegated.DefaultProvider
	if name != "" && !slices.Contains(l.providerNames(), name) && !l.main.Broken("providers") {
		l.fault("delegated.default_provider", "there is no provider %q; %s", name, strictyaml.Hint(name, "providers", l.providerNames()))
	}
}
