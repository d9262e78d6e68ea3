package config

import (
	"strings"

	"authgate/gateway/config/forwarding"
	"authgate/policy"
)

// asserts reports whether some upstream gets signed identities.
func asserts(upstreams map[string]forwarding.Upstream) bool {
	for _, u := range upstreams {
		if u.Assertion != nil {
			return true
		}
	}
	return false
}

// PublishesKeys reports whether others verify what the gateway signs with
// token.private_key, whatever signs access tokens.
func (c *Config) PublishesKeys() bool { return c.OAuth.Enabled || asserts(c.Upstreams) }

// completeHealthHost sets the Host of checks where clients choose that of requests:
// applications answer only for hosts that they know.
func (c *Config) completeHealthHost(name string, u *forwarding.Upstream) {
	if u.Health.Path == "" || u.Health.Host != "" || u.Host != forwarding.HostClient {
		return
	}
	for i := range c.Routes {
		host := policy.PatternHost(c.Routes[i].Match)
		if c.Routes[i].Upstream == name && host != "" && !strings.HasPrefix(host, "*") {
			u.Health.Host = host
			return
		}
	}
	if c.PublicURL != nil {
		u.Health.Host = c.PublicURL.Host
	}
}
