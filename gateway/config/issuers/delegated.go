package issuers

import (
	"slices"
	"time"

	"authgate/gateway/config/section"
	"authgate/gateway/strictyaml"
)

// Delegated configures the sessions of delegated logins.
type Delegated struct {
	Cookie          string        `yaml:"cookie" default:"session"`
	Lifetime        time.Duration `yaml:"lifetime" default:"1h" min:"1s"`
	DefaultProvider string        `yaml:"default_provider"`
	APITokens       time.Duration `yaml:"api_tokens" min:"1s" zero:""`
}

// Check checks the section. providers are all that there are.
func (d Delegated) Check(r *section.Report, providers []Provider) {
	name, known := d.DefaultProvider, Names(providers)
	if name != "" && !slices.Contains(known, name) && !r.Broken("providers") {
		r.Fault("delegated.default_provider",
			"there is no provider %q; %s", name, strictyaml.Hint(name, "providers", known))
	}
}
