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

// How a client proves who it is at the token endpoint (OpenID Connect Core
// 1.0, section 9). The empty method is the one that the provider announces.
const (
	AuthMethodBasic = "client_secret_basic" // in the header Authorization
	AuthMethodPost  = "client_secret_post"  // in the form
)

// How a session at a provider is ended.
const (
	LogoutAuto     = "auto"     // the first of the others that the provider offers
	LogoutForm     = "form"     // a form with the refresh token, to the end-session endpoint
	LogoutRevoke   = "revoke"   // token revocation (RFC 7009)
	LogoutRedirect = "redirect" // the browser goes to the end-session endpoint (OpenID Connect RP-Initiated Logout 1.0)
)

// Provider is an identity provider that people log in at: one with OpenID
// Connect, or one with plain OAuth 2.0 that tells of the person at UserinfoURL.
// Either the four URLs of endpoints are empty, and discovery finds them, or
// AuthorizationURL, TokenURL and UserinfoURL are given.
type Provider struct {
	Name                    string            `yaml:"name"`
	Title                   string            `yaml:"title"`         // default: Name
	Issuer                  string            `yaml:"issuer"`        // may be empty without OpenID Connect
	ClientID                string            `yaml:"client_id"`     // never empty
	ClientSecret            Secret            `yaml:"client_secret"` // empty: a public client
	TokenEndpointAuthMethod string            `yaml:"token_endpoint_auth_method"`
	Scopes                  []string          `yaml:"scopes"`
	AuthorizationParams     map[string]string `yaml:"authorization_params"` // further ones, none that the gateway sets itself
	RolesClaim              string            `yaml:"roles_claim"`
	UsernameClaim           string            `yaml:"username_claim"`
	SubjectClaim            string            `yaml:"subject_claim"` // always sub with OpenID Connect
	Callback                string            `yaml:"callback"`
	Logout                  string            `yaml:"logout"` // auto, form, revoke or redirect
	LogoutURL               string            `yaml:"logout_url"`
	Timeout                 time.Duration     `yaml:"timeout"` // of each call to the provider
	AuthorizationURL        string            `yaml:"authorization_url"`
	TokenURL                string            `yaml:"token_url"`
	UserinfoURL             string            `yaml:"userinfo_url"`
	JWKSURL                 string            `yaml:"jwks_url"`
}

// openIDScope makes an authorization request one of OpenID Connect (OpenID
// Connect Core 1.0, section 3.1.2.1).
const openIDScope = "openid"

// subjectClaim is the claim by which an OpenID provider names a person for
// good (OpenID Connect Core 1.0, section 5.7).
const subjectClaim = "sub"

// reservedParams are the parameters of an authorization request that the
// gateway sets itself, and those whose consequences it does not deal with: an
// answer that is not in the query, a request object, an age to be checked.
var reservedParams = []string{
	"response_type", "response_mode", "client_id", "redirect_uri", "scope", "state", "nonce",
	"code_challenge", "code_challenge_method", "request", "request_uri", "max_age",
}

var providerName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]*$`)

// openID reports whether the provider is asked for an ID token.
func (p *Provider) openID() bool { return slices.Contains(p.Scopes, openIDScope) }

// byHand reports whether any endpoint is given, which leaves nothing to
// discovery.
func (p *Provider) byHand() bool {
	return p.AuthorizationURL != "" || p.TokenURL != "" || p.UserinfoURL != "" || p.JWKSURL != ""
}

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

// checkProviders checks the identity providers, without asking them.
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
		if !l.main.Broken(path) { // what follows takes several keys together
			l.checkKind(path, p)
			l.checkProviderLogout(path, p)
		}
	}
}

func (l *loader) checkProviderName(path, name string, index int) {
	switch {
	case name == "":
		l.fault(path, "a name is needed, like keycloak")
	case name == policy.LocalProvider || name == policy.BasicProvider:
		l.fault(path, "%q is the provider of the gateway's own users; choose another name", name)
	case !providerName.MatchString(name):
		l.fault(path, "%q is not a name for a provider; use small letters, digits, - and _, with a letter or digit first", name)
	default:
		first := slices.IndexFunc(l.cfg.Providers, func(p Provider) bool { return p.Name == name })
		if first < index {
			l.fault(path, "%q is the name of providers[%d] already", name, first)
		}
	}
}

// checkClient checks what the gateway is to the provider.
func (l *loader) checkClient(path string, p *Provider) {
	if p.ClientID == "" {
		l.fault(path+".client_id", "the identifier that the provider has given this client is needed")
	}
	if p.TokenEndpointAuthMethod == "" {
		return
	}
	method := path + ".token_endpoint_auth_method"
	l.oneOf(method, p.TokenEndpointAuthMethod, AuthMethodBasic, AuthMethodPost)
	if p.ClientSecret == "" && !l.main.Broken(path+".client_secret") {
		l.fault(method, "would not be used: without client_secret this is a public client; give client_secret or remove this key")
	}
}

func (l *loader) checkScopes(path string, scopes []string) {
	for i, scope := range scopes {
		if err := policy.CheckScope(scope); err != nil {
			l.fault(fmt.Sprintf("%s[%d]", path, i), "%q %v", scope, err)
		}
	}
}

// checkParams checks further parameters of the authorization request. An
// empty one counts as left out (RFC 6749, section 3.1).
func (l *loader) checkParams(path string, params map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(params)) {
		at := strictyaml.Join(path, name)
		switch {
		case slices.Contains(reservedParams, name):
			l.fault(at, "the gateway alone decides on this parameter; remove it")
		case policy.CheckName(name) != nil:
			l.fault(at, "the name of the parameter %v", policy.CheckName(name))
		case params[name] == "":
			l.fault(at, "is empty, which counts as left out; give a value or remove it")
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

// checkProviderURL checks a URL, if there is one, that the gateway or a
// browser goes to with something secret: https, or http where nobody can
// listen in.
func (l *loader) checkProviderURL(path, raw string) {
	if raw == "" {
		return
	}
	u, err := httpURL(raw)
	if err != nil {
		l.fault(path, "%v", err)
	} else if u.Scheme == "http" && !policy.Loopback(u.Hostname()) {
		l.fault(path, "%q is not https; http is for providers on this machine alone", raw)
	}
}

// checkKind checks that a provider is one of three kinds: OpenID Connect with
// discovery, OpenID Connect by hand, or plain OAuth 2.0, which is by hand and
// has no ID token.
func (l *loader) checkKind(path string, p *Provider) {
	switch {
	case p.byHand():
		l.checkByHand(path, p)
	case !p.openID():
		l.fault(path+".scopes", "must hold openid (OpenID Connect Core 1.0, section 3.1.2.1); a provider without OpenID Connect needs authorization_url, token_url and userinfo_url")
	}
	if p.Issuer == "" && (p.openID() || !p.byHand()) {
		l.fault(path+".issuer", "the URL of the provider is needed, like https://id.example.org/realms/main")
	}
	if !p.openID() {
		l.checkClaim(path+".subject_claim", p.SubjectClaim)
	} else if p.SubjectClaim != subjectClaim {
		l.fault(path+".subject_claim", "%q is not sub, the only claim that names a person for good with OpenID Connect; remove this key", p.SubjectClaim)
	}
}

// checkByHand checks that the endpoints given are those that are needed.
func (l *loader) checkByHand(path string, p *Provider) {
	for _, e := range []struct{ key, url string }{
		{".authorization_url", p.AuthorizationURL}, {".token_url", p.TokenURL}, {".userinfo_url", p.UserinfoURL},
	} {
		if e.url == "" {
			l.fault(path+e.key, "is needed: endpoints are given by hand all or none")
		}
	}
	switch {
	case p.openID() && p.JWKSURL == "":
		l.fault(path+".jwks_url", "is needed: it verifies the ID token that the scope openid asks for; leave out openid for a provider that has none")
	case !p.openID() && p.JWKSURL != "":
		l.fault(path+".jwks_url", "would not be used: without openid in scopes there is no ID token to verify; add openid or remove this key")
	}
}

// checkProviderLogout checks that the way to log out can be gone. Endpoints
// given by hand leave nothing that a provider could announce.
func (l *loader) checkProviderLogout(path string, p *Provider) {
	switch p.Logout {
	case LogoutForm, LogoutRedirect:
		if p.byHand() && p.LogoutURL == "" {
			l.fault(path+".logout_url", "is needed for logout: %s where endpoints are given by hand", p.Logout)
		}
	case LogoutRevoke:
		if p.byHand() {
			l.fault(path+".logout", "revoke needs a provider that announces where to; with endpoints given by hand expected auto, form or redirect")
		}
		if p.LogoutURL != "" {
			l.fault(path+".logout_url", "would not be used with logout: revoke; set logout to form or redirect, or remove this key")
		}
	}
}

// checkDelegated checks the sessions of delegated logins.
func (l *loader) checkDelegated() {
	l.lifetime("delegated.lifetime", l.cfg.Delegated.Lifetime)
	name := l.cfg.Delegated.DefaultProvider
	if name != "" && !slices.Contains(l.providerNames(), name) && !l.main.Broken("providers") {
		l.fault("delegated.default_provider", "there is no provider %q; %s", name, strictyaml.Hint(name, "providers", l.providerNames()))
	}
}
