package issuers

import (
	"cmp"
	"crypto/x509"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"authgate/gateway/config/section"
	"authgate/gateway/strictyaml"
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
	LogoutRedirect = "redirect" // redirect the browser to the end-session endpoint (RP-Initiated Logout 1.0)
)

// Provider is an identity provider: one with OpenID Connect, or one with OAuth
// 2.0 and a userinfo endpoint. Either the four URLs of endpoints are empty, and
// discovery finds them, or AuthorizationURL, TokenURL and UserinfoURL are given.
//
// URLs of a provider are strings, because identifiers of issuers are compared
// byte by byte, and discovery gives the same URLs as strings.
type Provider struct {
	Name         string            `yaml:"name"`
	Title        string            `yaml:"title"`              // default: Name
	Issuer       string            `yaml:"issuer" check:"url"` // may be empty without OpenID Connect
	ClientID     string            `yaml:"client_id"`          // never empty
	ClientSecret strictyaml.Secret `yaml:"client_secret"`      // empty: a public client
	// AuthMethod: the metadata of the provider decides if it is empty.
	AuthMethod string `yaml:"token_endpoint_auth_method" words:"client_secret_basic client_secret_post"`
	// Scopes has openid, unless the provider has no ID tokens.
	Scopes              []string          `yaml:"scopes" default:"openid profile email" check:"scope"`
	AuthorizationParams map[string]string `yaml:"authorization_params"`
	RolesClaim          string            `yaml:"roles_claim" default:"roles" check:"claim"`
	UsernameClaim       string            `yaml:"username_claim" default:"preferred_username" check:"claim"`
	SubjectClaim        string            `yaml:"subject_claim" default:"sub"`
	// Callback is empty in the file: see Complete.
	Callback         string        `yaml:"callback"`
	Logout           string        `yaml:"logout" default:"auto" words:"auto form revoke redirect"`
	LogoutURL        string        `yaml:"logout_url" check:"endpoint"`
	Timeout          time.Duration `yaml:"timeout" default:"10s" min:"1ns"` // for each call to the provider
	TrustedRoots     string        `yaml:"trusted_roots" file:"public"`
	AuthorizationURL string        `yaml:"authorization_url" check:"endpoint"`
	TokenURL         string        `yaml:"token_url" check:"endpoint"`
	UserinfoURL      string        `yaml:"userinfo_url" check:"endpoint"`
	JWKSURL          string        `yaml:"jwks_url" check:"endpoint"`
	TwoFactors       twoFactors    `yaml:"two_factors"`
	StepUp           stepUp        `yaml:"step_up"`

	TrustedRootsContent []byte `yaml:"-"` // of the file
}

// twoFactors are the values of ID tokens that count as two factors.
type twoFactors struct {
	AMR []string `yaml:"amr" default:"mfa" check:"proof"` // any of these methods (RFC 8176)
	ACR []string `yaml:"acr" check:"proof"`               // any of these classes
}

// stepUp is how a provider is asked for a sign-in that proves more.
type stepUp struct {
	ACRValues string `yaml:"acr_values" check:"proofs"` // when two factors are needed; empty: the parameter is not sent
}

// Service returns the name of the service at which everybody can have an account, empty for any other provider.
func (p *Provider) Service() string {
	place, err := url.Parse(cmp.Or(p.AuthorizationURL, p.Issuer))
	if err != nil {
		return ""
	}
	switch place.Host {
	case "accounts.google.com":
		return "Google"
	case "github.com":
		return "GitHub"
	case "gitlab.com":
		return "GitLab"
	case "appleid.apple.com":
		return "Apple"
	case "discord.com":
		return "Discord"
	case "www.linkedin.com":
		return "LinkedIn"
	case "id.twitch.tv":
		return "Twitch"
	}
	return ""
}

// Read reads the extra roots for calls to providers.
func Read(s section.Files, providers []Provider) {
	for i := range providers {
		if p := &providers[i]; p.TrustedRoots != "" {
			p.TrustedRootsContent = s.Authorities(fmt.Sprintf("providers[%d].trusted_roots", i), p.TrustedRoots)
		}
	}
}

// OpenIDScope is the scope that requests an ID token (OpenID Connect Core 1.0,
// section 3.1.2.1).
const OpenIDScope = "openid"

// subjectClaim is the claim that identifies a user permanently (OpenID Connect
// Core 1.0, section 5.7).
const subjectClaim = "sub"

// reservedParams are the parameters of an authorization request that only the
// gateway sets, and those that it does not support: a response that is not in
// the query, and a request object. It sets a maximum age when a policy demands one.
var reservedParams = []string{
	"response_type", "response_mode", "client_id", "redirect_uri", "scope", "state", "nonce",
	"code_challenge", "code_challenge_method", "request", "request_uri", "max_age",
}

// The ends of redirect URIs. A provider can have one of them, or one of its own.
const (
	callback     = "/callback"
	authCallback = "/auth/callback"
)

// ownCallback is the end of the redirect URI that only this provider can have.
func (p *Provider) ownCallback() string { return callback + "/" + p.Name }

// Complete sets what the file leaves out. oneOfSeveral tells that there are other
// providers.
func (p *Provider) Complete(oneOfSeveral bool) {
	if p.Title == "" {
		p.Title = p.Name
	}
	switch {
	case p.Callback != "":
	case oneOfSeveral:
		p.Callback = p.ownCallback()
	default:
		p.Callback = callback
	}
}

var providerName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]*$`)

// Roots returns the authorities that the provider's certificate may be of, nil for those of the system.
func (p *Provider) Roots() (*x509.CertPool, error) { return section.RootsWith(p.TrustedRootsContent) }

// openID reports whether the gateway requests an ID token.
func (p *Provider) openID() bool { return slices.Contains(p.Scopes, OpenIDScope) }

// byHand reports whether an endpoint is given. The gateway then makes no
// discovery.
func (p *Provider) byHand() bool {
	return p.AuthorizationURL != "" || p.TokenURL != "" || p.UserinfoURL != "" || p.JWKSURL != ""
}

// Names returns the names of providers.
func Names(providers []Provider) []string {
	var names []string
	for _, p := range providers {
		if p.Name != "" {
			names = append(names, p.Name)
		}
	}
	return names
}

// Check checks the section providers. It makes no request to them.
func Check(r *section.Report, providers []Provider) {
	for i := range providers {
		path := fmt.Sprintf("providers[%d]", i)
		checkProviderName(r, path+".name", providers, i)
		providers[i].checkProvider(r, path)
		checkCallback(r, path+".callback", providers, i)
	}
}

// checkCallback checks that no two providers share a redirect URI. An answer there
// could be of either, and a dishonest provider could pass off an answer of another
// as its own (RFC 9700, section 4.4).
func checkCallback(r *section.Report, path string, providers []Provider, index int) {
	own := providers[index].Callback
	first := slices.IndexFunc(providers, func(p Provider) bool { return p.Callback == own })
	if first < index && r.Given(path) && !r.Broken(path) {
		r.Fault(path, "%q is already the redirect URI of providers[%d], and an answer there must be of one provider; "+
			"remove this key, and register the redirect URI that ends in %s", own, first,
			providers[index].ownCallback())
	}
}

// checkProvider checks everything except the name.
func (p *Provider) checkProvider(r *section.Report, path string) {
	p.checkClient(r, path)
	p.checkParams(r, path+".authorization_params")
	if own := p.ownCallback(); !slices.Contains([]string{callback, authCallback, own}, p.Callback) {
		r.Fault(path+".callback", "%q is not a valid value; expected %s, %s or %s",
			p.Callback, callback, authCallback, own)
	}
	checkOwnQuery(r, path+".authorization_url", p.AuthorizationURL)
	if !r.Broken(path) { // these checks need several keys
		p.checkKind(r, path)
		p.checkLogout(r, path)
		p.checkProof(r, path)
	}
}

// checkProof checks that ID tokens can tell how a login at the provider proves two factors.
func (p *Provider) checkProof(r *section.Report, path string) {
	for _, key := range []string{".two_factors", ".step_up"} {
		if !p.openID() && r.Given(path+key) {
			r.Fault(path+key,
				"has no effect without openid in scopes, because there is no ID token that tells how the "+
					"user signed in; add openid, or remove this key")
		}
	}
}

// Tells reports what the provider can tell of a login: its time, and that the user has proved two factors.
func (p *Provider) Tells() (age, twoFactors bool) {
	return p.openID(), p.openID() && len(p.TwoFactors.AMR)+len(p.TwoFactors.ACR) > 0
}

func checkProviderName(r *section.Report, path string, providers []Provider, index int) {
	switch name := providers[index].Name; {
	case name == "":
		r.Fault(path, "a name is needed, for example keycloak")
	case name == policy.LocalProvider || name == policy.BasicProvider:
		r.Fault(path, "%q is the name for the gateway's own users; choose another name", name)
	case name == policy.ClientProvider:
		r.Fault(path, "%q is the name for OAuth clients that act for themselves; choose another name", name)
	case !providerName.MatchString(name):
		r.Fault(path,
			"%q is not a valid name; use lower-case letters, digits, - and _, and begin with a letter or digit", name)
	default:
		first := slices.IndexFunc(providers, func(p Provider) bool { return p.Name == name })
		if first < index {
			r.Fault(path, "%q is already the name of providers[%d]", name, first)
		}
	}
}

// checkClient checks the credentials of the gateway as a client.
func (p *Provider) checkClient(r *section.Report, path string) {
	r.ClientID(path+".client_id", p.ClientID, "the provider")
	if p.AuthMethod == "" {
		return
	}
	if p.ClientSecret == "" && !r.Broken(path+".client_secret") {
		r.Fault(path+".token_endpoint_auth_method",
			"has no effect without client_secret, because this is a public client; give client_secret, "+
				"or remove this key")
	}
}

// checkParams checks additional parameters of the authorization request. An
// empty parameter counts as omitted (RFC 6749, section 3.1).
func (p *Provider) checkParams(r *section.Report, path string) {
	for _, name := range slices.Sorted(maps.Keys(p.AuthorizationParams)) {
		at := strictyaml.Join(path, name)
		switch {
		case slices.Contains(reservedParams, name):
			r.Fault(at, "only the gateway sets this parameter; remove it")
		case policy.CheckName(name) != nil:
			r.Fault(at, "the name of the parameter %v", policy.CheckName(name))
		case p.AuthorizationParams[name] == "":
			r.Fault(at, "is empty, which counts as omitted; give a value, or remove it")
		}
	}
}

// checkOwnQuery checks that the query of the authorization endpoint has no parameter
// that the gateway adds: it would come twice.
func checkOwnQuery(r *section.Report, path, raw string) {
	_, query, _ := strings.Cut(raw, "?")
	parameters, _ := url.ParseQuery(query) // section.EndpointURL has checked it
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		if slices.Contains(reservedParams, name) {
			r.Fault(path, "%q has the parameter %s, which only the gateway sets; remove it", raw, name)
		}
	}
}

// checkKind checks that a provider is one of three kinds: OpenID Connect with
// discovery, OpenID Connect with given endpoints, or OAuth 2.0 with given
// endpoints and no ID token.
func (p *Provider) checkKind(r *section.Report, path string) {
	switch {
	case p.byHand():
		p.checkByHand(r, path)
	case !p.openID():
		r.Fault(path+".scopes",
			"must contain openid (OpenID Connect Core 1.0, section 3.1.2.1); "+
				"a provider without OpenID Connect needs authorization_url, token_url and userinfo_url")
	}
	if p.Issuer == "" && (p.openID() || !p.byHand()) {
		r.Fault(path+".issuer", "the URL of the provider is needed, like https://id.example.org/realms/main")
	}
	if !p.openID() {
		if err := policy.CheckClaim(p.SubjectClaim); err != nil {
			r.Fault(path+".subject_claim", "%q %v", p.SubjectClaim, err)
		}
	} else if p.SubjectClaim != subjectClaim {
		r.Fault(path+".subject_claim",
			"%q is not sub, the only claim that identifies a user permanently with OpenID Connect; remove this key",
			p.SubjectClaim)
	}
}

// checkByHand checks that the given endpoints are complete.
func (p *Provider) checkByHand(r *section.Report, path string) {
	for _, e := range []struct {
		key, url string
		needed   bool
	}{
		{".authorization_url", p.AuthorizationURL, true}, {".token_url", p.TokenURL, true},
		{".userinfo_url", p.UserinfoURL, !p.openID()}, // an ID token names the user
	} {
		if e.url == "" && e.needed {
			r.Fault(path+e.key, "is needed, because another endpoint is given; give all endpoints or none")
		}
	}
	switch {
	case p.openID() && p.JWKSURL == "":
		r.Fault(path+".jwks_url",
			"is needed, because it verifies the ID token that the scope openid requests; "+
				"remove openid for a provider without ID tokens")
	case !p.openID() && p.JWKSURL != "":
		r.Fault(path+".jwks_url",
			"has no effect without openid in scopes, because there is no ID token to verify; add openid, "+
				"or remove this key")
	}
}

// checkLogout checks that the way to log out is possible. With given
// endpoints there is no metadata with a logout endpoint.
func (p *Provider) checkLogout(r *section.Report, path string) {
	switch p.Logout {
	case LogoutForm, LogoutRedirect:
		if p.byHand() && p.LogoutURL == "" {
			r.Fault(path+".logout_url", "is needed for logout: %s, because endpoints are given", p.Logout)
		}
	case LogoutRevoke:
		if p.byHand() {
			r.Fault(path+".logout",
				"revoke needs discovery; because endpoints are given, expected auto, form or redirect")
		}
		if p.LogoutURL != "" {
			r.Fault(path+".logout_url",
				"has no effect with logout: revoke; set logout to form or redirect, or remove this key")
		}
	}
}
