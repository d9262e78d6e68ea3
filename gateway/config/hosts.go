package config

import (
	"net/netip"
	"slices"
	"strings"

	"authgate/policy"
)

// Hosts are the hosts that the gateway serves: that of public_url, those that
// routes name, and tls.domains. They have the form of policy.CanonicalHost,
// but for "*.example.org", which means all names with one label more than
// example.org. The host of public_url comes first.
func (c *Config) Hosts() []string { return slices.Clone(c.hosts) }

// allHosts is what Hosts returns.
func (c *Config) allHosts() []string {
	hosts := c.namedHosts()
	for _, domain := range c.TLS.Domains {
		name, wildcard := strings.CutPrefix(domain, "*.")
		if strings.Contains(name, ":") {
			name = "[" + name + "]"
		}
		host, err := policy.CanonicalHost(name)
		if err != nil {
			continue // checkDomain reports it
		}
		if wildcard {
			host = "*." + host
		}
		hosts = append(hosts, host)
	}
	return unique(hosts)
}

// namedHosts are the hosts of public_url and of routes.
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

// defaultDomains are the names and addresses that the certificate is for. No
// public authority certifies the local ones, and an address in a route cannot
// have a certificate of an authority. With the other modes nothing needs the
// names.
func (c *Config) defaultDomains() []string {
	if c.TLS.Mode != TLSInternal && c.TLS.Mode != TLSACME {
		return nil
	}
	var domains []string
	for i, host := range c.namedHosts() {
		domain := strings.Trim(host, "[]")
		if _, err := netip.ParseAddr(domain); err == nil && c.TLS.Mode == TLSACME && i > 0 {
			continue
		}
		domains = append(domains, domain)
	}
	if c.TLS.Mode == TLSInternal {
		domains = append(domains, "localhost", "127.0.0.1", "::1")
	}
	return unique(domains)
}

// unique returns the values without those that are there already.
func unique(values []string) []string {
	var once []string
	for _, value := range values {
		if !slices.Contains(once, value) {
			once = append(once, value)
		}
	}
	return once
}
