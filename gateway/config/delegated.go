package config

import (
	"slices"
	"time"

	"authgate/gateway/config/strictyaml"
)

// delegated configures the sessions of delegated logins.
type delegated struct {
	Cookie          string        `yaml:"cookie"`
	Lifetime        time.Duration `yaml:"lifetime"`
	DefaultProvider string        `yaml:"default_provider"`
	APITokens       time.Duration `yaml:"api_tokens"` // how long after the last word of the provider; 0: none
}

func defaultDelegated() delegated { return delegated{Cookie: "session", Lifetime: time.Hour} }

func (d delegated) check(r *report, providers []Provider) {
	r.lifetime("delegated.lifetime", d.Lifetime)
	if d.APITokens != 0 {
		r.lifetime("delegated.api_tokens", d.APITokens)
	}
	name, known := d.DefaultProvider, providerNames(providers)
	if name != "" && !slices.Contains(known, name) && !r.Broken("providers") {
		r.Fault("delegated.default_provider", "there is no provider %q; %s", name, strictyaml.Hint(name, "providers", known))
	}
}
