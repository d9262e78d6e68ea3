package config

import (
	"net/netip"
	"slices"
	"strings"

	"authgate/gateway/config/listening"
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
			continue // TLS.check has reported it
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

// defaultDomains returns the default of tls.domains. No public authority
// certifies local names, so only mode internal has them. Mode acme leaves out the
// addresses of routes, and without tls.dns their wildcards; names below such a wildcard
// get their certificates on demand. The other modes need no domains.
func (c *Config) defaultDomains() []string {
	if c.TLS.Mode != listening.TLSInternal && c.TLS.Mode != listening.TLSACME {
		return nil
	}
	var domains []string
	for i, host := range c.namedHosts() {
		domain := strings.Trim(host, "[]")
		_, err := netip.ParseAddr(domain)
		uncertified := err == nil || strings.HasPrefix(domain, "*.") && c.TLS.DNS == nil
		if uncertified && c.TLS.Mode == listening.TLSACME && i > 0 {
			continue
		}
		domains = append(domains, domain)
	}
	if c.TLS.Mode == listening.TLSInternal {
		domains = append(domains, "localhost", "127.0.0.1", "::1")
	}
	return unique(domains)
}

// wildcardDomains returns the wildcard hosts of routes, each of which gets a certificate with
// tls.dns, also if tls.domains lists other names.
func (c *Config) wildcardDomains() []string {
	var wildcards []string
	for _, host := range c.namedHosts() {
		if strings.HasPrefix(host, "*.") && c.TLS.Mode == listening.TLSACME && c.TLS.DNS != nil {
			wildcards = append(wildcards, host)
		}
	}
	return wildcards
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
