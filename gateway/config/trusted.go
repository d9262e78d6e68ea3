package config

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"authgate/policy"
)

// TrustedIssuer is another issuer whose access tokens routes with bearer accept.
type TrustedIssuer struct {
	Name          string         `yaml:"name"`   // policy.Identity.Provider of its users
	Issuer        string         `yaml:"issuer"` // the claim iss, and the URL for discovery
	Audience      []string       `yaml:"audience"`
	Algorithms    []string       `yaml:"algorithms"` // of asymmetricAlgorithms; empty: those in the metadata of the issuer
	RolesClaim    string         `yaml:"roles_claim"`
	UsernameClaim string         `yaml:"username_claim"`
	Introspection *Introspection `yaml:"introspection"` // nil: opaque tokens are not accepted; at most one issuer has it
	Timeout       time.Duration  `yaml:"timeout"`       // for each call to the issuer
}

// Introspection configures the introspection of opaque tokens (RFC 7662).
type Introspection struct {
	URL          string `yaml:"url"` // empty: introspection_endpoint in the metadata of the issuer
	ClientID     string `yaml:"client_id"`
	ClientSecret Secret `yaml:"client_secret"`
}

// String keeps fmt from printing the secret for verbs that dereference the
// pointer.
func (in *Introspection) String() string {
	if in == nil {
		return "<nil>"
	}
	return fmt.Sprint(*in)
}

// asymmetricAlgorithms verify with a public key (RFC 7518, section 3.1, and RFC
// 8037, section 3.1), which cannot make tokens.
var asymmetricAlgorithms = []string{
	"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
}

// trustedName matches names without a colon, which separates the parts of
// PROVIDER:username.
var trustedName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// trustedNames returns the names of the trusted issuers.
func (l *loader) trustedNames() []string {
	var names []string
	for _, t := range l.cfg.Token.TrustedIssuers {
		if t.Name != "" {
			names = append(names, t.Name)
		}
	}
	return names
}

// providersOf returns the names of the providers with an issuer.
func (l *loader) providersOf(issuer string) []string {
	var names []string
	for _, p := range l.cfg.Providers {
		if p.Issuer == issuer && issuer != "" && p.Name != "" {
			names = append(names, p.Name)
		}
	}
	return names
}

// completeTrusted sets the name of an issuer that has none. If one provider has
// this issuer, its name is used, so that login and token give the same user. If
// no provider has it, the host is used. If several have it, the name stays
// empty.
func (l *loader) completeTrusted(t *TrustedIssuer) {
	if t.Name != "" {
		return
	}
	switch names := l.providersOf(t.Issuer); len(names) {
	case 0:
		if u, err := url.Parse(t.Issuer); err == nil {
			t.Name = strings.ToLower(u.Hostname())
		}
	case 1:
		t.Name = names[0]
	}
}

// checkTrustedIssuers checks token.trusted_issuers. It makes no request to them.
func (l *loader) checkTrustedIssuers() {
	introspected := -1
	for i, t := range l.cfg.Token.TrustedIssuers {
		path := fmt.Sprintf("token.trusted_issuers[%d]", i)
		l.checkTrustedIssuer(path+".issuer", t.Issuer, i)
		l.checkTrustedName(path+".name", t, i)
		if len(t.Audience) == 0 {
			l.fault(path+".audience", "is needed, so that the gateway refuses tokens for other audiences")
		}
		l.checkAudience(path+".audience", t.Audience)
		for j, algorithm := range t.Algorithms {
			l.oneOf(fmt.Sprintf("%s.algorithms[%d]", path, j), algorithm, asymmetricAlgorithms...)
		}
		l.checkClaim(path+".roles_claim", t.RolesClaim)
		l.checkClaim(path+".username_claim", t.UsernameClaim)
		l.checkTimeout(path+".timeout", t.Timeout)
		if t.Introspection == nil {
			continue
		}
		l.checkIntrospection(path+".introspection", t.Introspection)
		if introspected >= 0 {
			l.fault(path+".introspection", "token.trusted_issuers[%d] already has it; with two, the issuer of an opaque token would be unknown", introspected)
			continue
		}
		introspected = i
	}
}

// checkTrustedIssuer checks that the claim iss identifies one issuer.
func (l *loader) checkTrustedIssuer(path, issuer string, index int) {
	first := slices.IndexFunc(l.cfg.Token.TrustedIssuers, func(t TrustedIssuer) bool { return t.Issuer == issuer })
	switch {
	case issuer == "":
		l.fault(path, "the claim iss of its tokens is needed, like https://id.example.org/realms/main")
	case issuer == l.cfg.Token.Issuer:
		l.fault(path, "%q is the issuer of the gateway's own tokens (token.issuer)", issuer)
	case first < index:
		l.fault(path, "%q is already the issuer of token.trusted_issuers[%d]", issuer, first)
	default:
		l.checkProviderURL(path, issuer)
	}
}

// checkTrustedName checks that a name belongs to one issuer only. Names must not
// differ only in case.
func (l *loader) checkTrustedName(path string, t TrustedIssuer, index int) {
	first := slices.IndexFunc(l.cfg.Token.TrustedIssuers, func(other TrustedIssuer) bool { return strings.EqualFold(other.Name, t.Name) })
	other := slices.IndexFunc(l.cfg.Providers, func(p Provider) bool { return strings.EqualFold(p.Name, t.Name) && p.Issuer != t.Issuer })
	switch {
	case l.main.Broken("providers"): // the name may come from there
	case t.Name == "":
		if names := l.providersOf(t.Issuer); len(names) > 1 {
			l.fault(path, "a name is needed, because several providers have this issuer: %s; give one of these or another name", strings.Join(names, ", "))
		}
	case strings.EqualFold(t.Name, policy.LocalProvider) || strings.EqualFold(t.Name, policy.BasicProvider):
		l.fault(path, "%q is the provider of the gateway's own users; choose another name", t.Name)
	case !trustedName.MatchString(t.Name):
		l.fault(path, "%q is not a valid name; use letters, digits, dots, - and _, and begin with a letter or digit", t.Name)
	case first < index:
		l.fault(path, "%q is already the name of token.trusted_issuers[%d]; choose another name", t.Name, first)
	case other >= 0:
		l.fault(path, "%q is the name of providers[%d], which has another issuer; choose another name", t.Name, other)
	}
}

func (l *loader) checkIntrospection(path string, in *Introspection) {
	if in.ClientID == "" {
		l.fault(path+".client_id", "the client identifier is needed, which the issuer assigns")
	}
	l.checkProviderURL(path+".url", in.URL)
}
