package issuers

import (
	"crypto/x509"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"authgate/gateway/config/section"
	"authgate/gateway/strictyaml"
	"authgate/policy"
)

// TrustedIssuer is another issuer. Routes with bearer accept its access tokens if it has an audience.
type TrustedIssuer struct {
	Name          string         `yaml:"name"`                      // policy.Identity.Provider of its users
	Issuer        string         `yaml:"issuer" check:"url"`        // the claim iss, and the URL for discovery
	Audience      []string       `yaml:"audience" check:"audience"` // empty: its tokens open no route
	Algorithms    []string       `yaml:"algorithms" words:"RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA"`
	RolesClaim    string         `yaml:"roles_claim" default:"roles" check:"claim"`
	UsernameClaim string         `yaml:"username_claim" default:"preferred_username" check:"claim"`
	Introspection *introspection `yaml:"introspection"`
	Timeout       time.Duration  `yaml:"timeout" default:"10s" min:"1ns"` // for each call to the issuer
	JWKSURL       string         `yaml:"jwks_url" check:"endpoint"`       // of its keys; empty: discovery tells
	TrustedRoots  string         `yaml:"trusted_roots" file:"public"`
	// CredentialFile has the bearer token of calls to the issuer. It is read at each call, and never here:
	// it may be replaced at any time.
	CredentialFile string `yaml:"credential_file" file:"secret"`

	TrustedRootsContent []byte `yaml:"-"` // of the file
}

// Opens reports whether tokens of the issuer open routes.
func (t *TrustedIssuer) Opens() bool { return len(t.Audience) > 0 }

// Service returns the name of the public service that gives everybody tokens for any audience, empty if the issuer is
// none.
func (t *TrustedIssuer) Service() string {
	switch strings.TrimSuffix(t.Issuer, "/") {
	case "https://token.actions.githubusercontent.com":
		return "GitHub Actions"
	case "https://gitlab.com":
		return "GitLab"
	case "https://accounts.google.com":
		return "Google"
	case "https://agent.buildkite.com":
		return "Buildkite"
	case "https://app.terraform.io":
		return "HCP Terraform"
	}
	return ""
}

// Opening returns the issuers whose tokens open routes.
func Opening(issuers []TrustedIssuer) []TrustedIssuer {
	return slices.DeleteFunc(slices.Clone(issuers), func(t TrustedIssuer) bool { return !t.Opens() })
}

// ReadTrusted reads the extra roots for calls to trusted issuers.
func ReadTrusted(s section.Files, issuers []TrustedIssuer) {
	for i := range issuers {
		if t := &issuers[i]; t.TrustedRoots != "" {
			path := fmt.Sprintf("token.trusted_issuers[%d].trusted_roots", i)
			t.TrustedRootsContent = s.Authorities(path, t.TrustedRoots)
		}
	}
}

// Roots returns the authorities that the issuer's certificate may be of, nil for those of the system.
func (t *TrustedIssuer) Roots() (*x509.CertPool, error) {
	return section.RootsWith(t.TrustedRootsContent)
}

// introspection configures the introspection of opaque tokens (RFC 7662).
type introspection struct {
	URL          string            `yaml:"url" check:"endpoint"`
	ClientID     string            `yaml:"client_id"`
	ClientSecret strictyaml.Secret `yaml:"client_secret"`
}

// String keeps fmt from printing the secret for verbs that dereference the
// pointer.
func (in *introspection) String() string {
	if in == nil {
		return "<nil>"
	}
	return fmt.Sprint(*in)
}

// TrustedNames returns the names of trusted issuers.
func TrustedNames(issuers []TrustedIssuer) []string {
	var names []string
	for _, t := range issuers {
		if t.Name != "" {
			names = append(names, t.Name)
		}
	}
	return names
}

// providersOf returns the names of the providers with an issuer.
func providersOf(issuer string, providers []Provider) []string {
	var names []string
	for _, p := range providers {
		if p.Issuer == issuer && issuer != "" && p.Name != "" {
			names = append(names, p.Name)
		}
	}
	return names
}

// Complete sets the name of an issuer that has none. If one provider has this
// issuer, its name is used, so that login and token give the same user. If no
// provider has it, the host is used. If several have it, the name stays empty.
func (t *TrustedIssuer) Complete(providers []Provider) {
	if t.Name != "" {
		return
	}
	switch names := providersOf(t.Issuer, providers); len(names) {
	case 0:
		if u, err := url.Parse(t.Issuer); err == nil {
			t.Name = strings.ToLower(u.Hostname())
		}
	case 1:
		t.Name = names[0]
	}
}

// CheckTrusted checks token.trusted_issuers. It makes no request to them. own is the issuer
// of the gateway's own tokens.
func CheckTrusted(r *section.Report, issuers []TrustedIssuer, own string, providers []Provider) {
	introspected := -1
	for i, issuer := range issuers {
		path := fmt.Sprintf("token.trusted_issuers[%d]", i)
		checkTrustedIssuer(r, path+".issuer", issuers, i, own)
		checkTrustedName(r, path+".name", issuers, i, providers)
		issuer.checkKeys(r, path)
		switch {
		case issuer.Introspection == nil:
		case introspected >= 0:
			r.Fault(path+".introspection",
				"token.trusted_issuers[%d] already has it; with two, the issuer of an opaque token would be unknown",
				introspected)
		default:
			introspected = i
		}
	}
}

// checkKeys checks the keys of one issuer without those that identify it.
func (t *TrustedIssuer) checkKeys(r *section.Report, path string) {
	if len(t.Audience) == 0 && r.Given(path+".audience") {
		r.Fault(path+".audience", "must not be empty; name the audience of tokens that open routes, or remove this "+
			"key: then its tokens only prove clients, by their federation")
	}
	if t.Introspection != nil {
		t.checkIntrospection(r, path+".introspection")
	}
}

// checkIntrospection checks how the issuer is asked about tokens. Where it is asked must be known: discovery
// is not made beside jwks_url, and it must not choose who gets the token of credential_file.
func (t *TrustedIssuer) checkIntrospection(r *section.Report, path string) {
	in := t.Introspection
	switch {
	case t.CredentialFile == "":
		r.ClientID(path+".client_id", in.ClientID, "the issuer")
	case in.ClientID != "":
		r.Fault(path+".client_id", "has no effect beside credential_file, whose token authenticates each call; "+
			"remove this key")
	case in.ClientSecret != "":
		r.Fault(path+".client_secret", "has no effect beside credential_file, whose token authenticates each call; "+
			"remove this key")
	}
	switch {
	case in.URL != "":
	case t.CredentialFile != "":
		r.Fault(path+".url", "is needed beside credential_file, whose token goes to configured hosts alone")
	case t.JWKSURL != "":
		r.Fault(path+".url", "is needed beside jwks_url, because discovery is not asked")
	}
	if !t.Opens() && !r.Broken(path) {
		r.Warn(path, "has no effect without audience, because tokens of this issuer open no route; give audience, "+
			"or remove this key")
	}
}

// checkTrustedIssuer checks that the claim iss identifies one trusted issuer.
func checkTrustedIssuer(r *section.Report, path string, issuers []TrustedIssuer, index int, own string) {
	issuer := issuers[index].Issuer
	first := slices.IndexFunc(issuers, func(other TrustedIssuer) bool { return other.Issuer == issuer })
	switch {
	case issuer == "":
		r.Fault(path, "the claim iss of its tokens is needed, like https://id.example.org/realms/main")
	case issuer == own:
		r.Fault(path, "%q is the issuer of the gateway's own tokens (token.issuer)", issuer)
	case first < index:
		r.Fault(path, "%q is already the issuer of token.trusted_issuers[%d]", issuer, first)
	}
}

// checkTrustedName checks that a name belongs to one issuer only. Names must not
// differ only in case.
func checkTrustedName(r *section.Report, path string, issuers []TrustedIssuer, index int, providers []Provider) {
	t := issuers[index]
	first := slices.IndexFunc(issuers, func(other TrustedIssuer) bool { return strings.EqualFold(other.Name, t.Name) })
	other := slices.IndexFunc(providers, func(p Provider) bool {
		return strings.EqualFold(p.Name, t.Name) && p.Issuer != t.Issuer
	})
	switch {
	case r.Broken("providers"): // the name may come from there
	case t.Name == "":
		if names := providersOf(t.Issuer, providers); len(names) > 1 {
			r.Fault(path,
				"a name is needed, because several providers have this issuer: %s; give one of these or another name",
				strings.Join(names, ", "))
		}
	case strings.EqualFold(t.Name, policy.LocalProvider) || strings.EqualFold(t.Name, policy.BasicProvider):
		r.Fault(path, "%q is the provider of the gateway's own users; choose another name", t.Name)
	case strings.EqualFold(t.Name, policy.ClientProvider):
		r.Fault(path, "%q is the provider of OAuth clients that act for themselves; choose another name", t.Name)
	case section.CheckName(t.Name) != nil:
		r.Fault(path, "%q %v", t.Name, section.CheckName(t.Name))
	case first < index:
		r.Fault(path, "%q is already the name of token.trusted_issuers[%d]; choose another name", t.Name, first)
	case other >= 0:
		r.Fault(path, "%q is the name of providers[%d], which has another issuer; choose another name", t.Name, other)
	}
}
