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

// TrustedIssuer is an outside issuer whose access tokens a route with bearer
// accepts.
type TrustedIssuer struct {
	Name          string         `yaml:"name"`   // policy.Identity.Provider of who presents its tokens
	Issuer        string         `yaml:"issuer"` // the claim iss, and where discovery finds the keys
	Audience      []string       `yaml:"audience"`
	Algorithms    []string       `yaml:"algorithms"` // any of asymmetricAlgorithms; empty: those that the issuer announces
	RolesClaim    string         `yaml:"roles_claim"`
	UsernameClaim string         `yaml:"username_claim"`
	Introspection *Introspection `yaml:"introspection"` // nil: opaque tokens are not accepted; given for one issuer at most
	Timeout       time.Duration  `yaml:"timeout"`       // of each call to the issuer
}

// Introspection says how to ask an issuer about an opaque token (RFC 7662).
type Introspection struct {
	URL          string `yaml:"url"` // empty: the introspection_endpoint that the issuer announces
	ClientID     string `yaml:"client_id"`
	ClientSecret Secret `yaml:"client_secret"`
}

// String keeps fmt from showing what the pointer leads to as it is, where a
// verb is none for pointers.
func (in *Introspection) String() string {
	if in == nil {
		return "<nil>"
	}
	return fmt.Sprint(*in)
}

// asymmetricAlgorithms verify by a public key (RFC 7518, section 3.1, and RFC
// 8037, section 3.1), so that who verifies a token cannot make one.
var asymmetricAlgorithms = []string{
	"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
}

// trustedName has no colon, which ends the name in PROVIDER:username.
var trustedName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// trustedNames are the names of the trusted issuers.
func (l *loader) trustedNames() []string {
	var names []string
	for _, t := range l.cfg.Token.TrustedIssuers {
		if t.Name != "" {
			names = append(names, t.Name)
		}
	}
	return names
}

// providersOf are the names of the providers with an issuer.
func (l *loader) providersOf(issuer string) []string {
	var names []string
	for _, p := range l.cfg.Providers {
		if p.Issuer == issuer && issuer != "" && p.Name != "" {
			names = append(names, p.Name)
		}
	}
	return names
}

// completeTrusted gives an issuer without a name that of the provider which it
// is too, so that a person is the same by login and by token; else that of its
// host. It has none where several providers are that issuer.
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

// checkTrustedIssuers checks the outside issuers, without asking them.
func (l *loader) checkTrustedIssuers() {
	introspected := -1
	for i, t := range l.cfg.Token.TrustedIssuers {
		path := fmt.Sprintf("token.trusted_issuers[%d]", i)
		l.checkTrustedIssuer(path+".issuer", t.Issuer, i)
		l.checkTrustedName(path+".name", t, i)
		if len(t.Audience) == 0 {
			l.fault(path+".audience", "is needed; a token for somebody else must not open anything here")
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
			l.fault(path+".introspection", "token.trusted_issuers[%d] has it already; with two, nobody could say whom an opaque token belongs to", introspected)
			continue
		}
		introspected = i
	}
}

// checkTrustedIssuer checks that the claim iss says for certain who has issued
// a token.
func (l *loader) checkTrustedIssuer(path, issuer string, index int) {
	first := slices.IndexFunc(l.cfg.Token.TrustedIssuers, func(t TrustedIssuer) bool { return t.Issuer == issuer })
	switch {
	case issuer == "":
		l.fault(path, "the claim iss of its tokens is needed, like https://id.example.org/realms/main")
	case issuer == l.cfg.Token.Issuer:
		l.fault(path, "%q is the issuer of the gateway's own tokens (token.issuer)", issuer)
	case first < index:
		l.fault(path, "%q is the issuer of token.trusted_issuers[%d] already", issuer, first)
	default:
		l.checkProviderURL(path, issuer)
	}
}

// checkTrustedName checks that a name stands for the people of one issuer
// alone. Names that differ only in case would look like one.
func (l *loader) checkTrustedName(path string, t TrustedIssuer, index int) {
	first := slices.IndexFunc(l.cfg.Token.TrustedIssuers, func(other TrustedIssuer) bool { return strings.EqualFold(other.Name, t.Name) })
	other := slices.IndexFunc(l.cfg.Providers, func(p Provider) bool { return strings.EqualFold(p.Name, t.Name) && p.Issuer != t.Issuer })
	switch {
	case l.main.Broken("providers"): // which the name may come from
	case t.Name == "":
		if names := l.providersOf(t.Issuer); len(names) > 1 {
			l.fault(path, "a name is needed, because several providers have this issuer: %s; give one of these or another name", strings.Join(names, ", "))
		}
	case strings.EqualFold(t.Name, policy.LocalProvider) || strings.EqualFold(t.Name, policy.BasicProvider):
		l.fault(path, "%q is the provider of the gateway's own users; choose another name", t.Name)
	case !trustedName.MatchString(t.Name):
		l.fault(path, "%q is not a name for an issuer; use letters, digits, dots, - and _, with a letter or digit first", t.Name)
	case first < index:
		l.fault(path, "%q is the name of token.trusted_issuers[%d] already; choose another name", t.Name, first)
	case other >= 0:
		l.fault(path, "%q is the name of providers[%d], which has another issuer; choose another name", t.Name, other)
	}
}

func (l *loader) checkIntrospection(path string, in *Introspection) {
	if in.ClientID == "" {
		l.fault(path+".client_id", "the identifier that the issuer has given this client is needed")
	}
	l.checkProviderURL(path+".url", in.URL)
}
