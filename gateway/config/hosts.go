package config

import (
	"slices"
	"strings"

	"authgate/policy"
)

// Hosts returns the hosts that the gateway serves: the host of public_url, then
// the hosts of routes and tls.domains. They have the form of
// policy.CanonicalHost, except that "*.example.org" matches all names with one
// label more than example.org.
func (c *Config) Hosts() []string { return slices.Clone(c.hosts) }

// allHosts computes the result of Hosts.
func (c *Config) allHosts() []string {
	hosts := c.namedHosts()
	for _, domain := range c.TLS.Domains {
		name, wildcard := strings.CutPrefix(domain, "*.")
		if strings.Contains(name, ":") {
			name = "[" + name + "]"
		}
		host, err := policy.CanonicalHost(name)
		if err != nil {
			continue // TLS.Check reports it
		}
		if wildcard {
			host = "*." + host
		}
		hosts = append(hosts, host)
	}
	return unique(hosts)
}

// namedHosts returns the hosts of public_url and of routes.
func (c *Config) namedHosts() []string {
	var hosts []string
	if c.PublicURL != nil {
		if host, err := policy.CanonicalHost(c.PublicURL.Host); err == nil {
			hosts = append(hosts, host)
		}
	}
	for _, r := range c.Routes {
		if host := policy.PatternHost(r.Match); host != "" {
			hosts = append(hosts, host)
		}
	}
	return unique(hosts)
}

// unique returns values without repetitions.
func unique(values []string) []string {
	var once []string
	known := make(map[string]bool, len(values))
	for _, value := range values {
		if !known[value] {
			known[value] = true
			once = append(once, value)
		}
	}
	return once
}
