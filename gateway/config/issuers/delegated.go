package issuers

import (
	"slices"
	"time"

	"authgate/gateway/config/section"
	"authgate/gateway/strictyaml"
)

// Delegated configures the sessions of delegated logins.
type Delegated struct {
	Cookie          string        `yaml:"cookie"`
	Lifetime        time.Duration `yaml:"lifetime"`
	DefaultProvider string        `yaml:"default_provider"`
	APITokens       time.Duration `yaml:"api_tokens"` // how long after the last word of the provider; 0: none
}

// DefaultDelegated returns the section of an empty file.
func DefaultDelegated() Delegated { return Delegated{Cookie: "session", Lifetime: time.Hour} }

// Check checks the section. providers are all that there are.
func (d Delegated) Check(r *section.Report, providers []Provider) {
	r.Lifetime("delegated.lifetime", d.Lifetime)
	if d.APITokens != 0 {
		r.Lifetime("delegated.api_tokens", d.APITokens)
	}
	name, known := d.DefaultProvider, Names(providers)
	if name != "" && !slices.Contains(known, name) && !r.Broken("providers") {
		r.Fault("delegated.default_provider", "there is no provider %q; %s", name, strictyaml.Hint(name, "providers", known))
	}
}
