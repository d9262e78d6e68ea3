package config

import (
	"cmp"
	"net/url"

	"authgate/gateway/config/section"
	"authgate/gateway/people/factors"
)

// secondFactors configures what users may add to their accounts beside the password.
type secondFactors struct {
	Passkeys bool   `yaml:"passkeys" default:"true"`
	TOTP     bool   `yaml:"totp" default:"true"`
	RPID     string `yaml:"rp_id"` // for passkeys; empty: the host of public_url
}

// checkRPID checks factors.rp_id. Without it, a host that cannot have passkeys has none.
func (s secondFactors) checkRPID(r *section.Report, public *url.URL) {
	if s.RPID == "" || public == nil {
		return
	}
	if err := factors.CheckRPID(s.RPID, public.Hostname()); err != nil {
		r.Fault("factors.rp_id", "%v", err)
	}
}

// RelyingParty returns the site where users sign in with passkeys. It is nil if
// factors.passkeys is off, and if public_url is an address: passkeys need a name.
func (c *Config) RelyingParty() *factors.RelyingParty {
	if !c.Factors.Passkeys {
		return nil
	}
	id := cmp.Or(c.Factors.RPID, c.PublicURL.Hostname())
	site, err := factors.NewRelyingParty(id, c.Site.Title, c.PublicURL.String())
	if err != nil {
		return nil
	}
	return site
}
