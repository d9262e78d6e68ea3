package config

import (
	"strings"

	"authgate/gateway/config/forwarding"
	"authgate/policy"
)

// Asserts reports whether some upstream gets signed identities.
func (c *Config) Asserts() bool {
	for _, u := range c.Upstreams {
		if u.Assertion != nil {
			return true
		}
	}
	return false
}

// PublishesKeys reports whether others verify what the gateway signs with
// token.private_key, whatever signs access tokens.
func (c *Config) PublishesKeys() bool { return c.OAuth.Enabled || c.Asserts() }

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
