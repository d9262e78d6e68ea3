package listening

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"authgate/gateway/config/section"
	"authgate/gateway/strictyaml"
)

// Providers of DNS zones.
const (
	DNSRFC2136    = "rfc2136"
	DNSCloudflare = "cloudflare"
	DNSRoute53    = "route53"
	DNSACMEDNS    = "acmedns"
	DNSHTTPReq    = "httpreq"
	DNSExec       = "exec"
)

// portDNS is the default port of servers and resolvers.
const portDNS = "53"

// DNS configures how the gateway answers the challenge by DNS. Each provider has its own keys.
type DNS struct {
	Provider  string   `yaml:"provider" words:"rfc2136 cloudflare route53 acmedns httpreq exec"`
	Resolvers []string `yaml:"resolvers"` // HOST:PORT; none: the system's

	Server string `yaml:"server" of:"rfc2136" need:"the DNS server that takes updates, HOST or HOST:PORT"`
	// The key is one of TSIG (RFC 8945), and Key is in base64.
	KeyName      string            `yaml:"key_name" of:"rfc2136" need:"the name of the TSIG key" check:"key-name"`
	Key          strictyaml.Secret `yaml:"key" of:"rfc2136" need:"the TSIG key, in base64" check:"base64"` // in base64
	KeyAlgorithm string            `yaml:"key_algorithm" of:"rfc2136" default:"hmac-sha256"`

	APIToken strictyaml.Secret `yaml:"api_token" of:"cloudflare" need:""`

	AccessKeyID     string            `yaml:"access_key_id" of:"route53" need:"the identifier of an access key"`
	SecretAccessKey strictyaml.Secret `yaml:"secret_access_key" of:"route53" need:"the secret of the access key"`
	Region          string            `yaml:"region" of:"route53" default:"us-east-1"`
	HostedZoneID    string            `yaml:"hosted_zone_id" of:"route53"`

	URL      string            `yaml:"url" of:"acmedns httpreq" need:"the address of the service" check:"service"`
	Storage  string            `yaml:"storage" of:"acmedns" file:"secret" need:""`
	Username string            `yaml:"username" of:"httpreq"`
	Password strictyaml.Secret `yaml:"password" of:"httpreq"`

	Command string `yaml:"command" of:"exec" file:"program" need:"the program that adds and removes records"`
}

// Why returns what keys are for whose tags have no room for it.
func (DNS) Why() map[string]string {
	return map[string]string{
		"api_token": "a token that may read zones and edit their records",
		"storage":   "the file in which the gateway keeps its accounts at the service",
	}
}

// Words returns the words that no tag has room for.
func (DNS) Words() map[string][]string {
	return map[string][]string{
		"key_algorithm": {"hmac-sha256", "hmac-sha224", "hmac-sha384", "hmac-sha512", "hmac-sha1"},
	}
}

// complete adds the default port to addresses.
func (d *DNS) complete() {
	d.Server = withPortDNS(d.Server)
	for i, resolver := range d.Resolvers {
		d.Resolvers[i] = withPortDNS(resolver)
	}
}

// withPortDNS returns an address with the default port, unless it has one.
func withPortDNS(address string) string {
	if _, _, err := net.SplitHostPort(address); err == nil || address == "" {
		return address
	}
	return net.JoinHostPort(strings.Trim(address, "[]"), portDNS)
}

// checkDNS checks that tls.dns is for tls.mode acme, and its keys.
func (t TLS) checkDNS(r *section.Report) {
	const key = "tls.dns"
	switch {
	case t.DNS == nil:
	case t.Mode != TLSACME && !r.Broken("tls.mode"):
		r.Fault(key, "has no effect with tls.mode %s; set tls.mode: acme, or remove this key", t.Mode)
	default:
		t.DNS.checkProvider(r, key)
	}
}

// checkProvider checks the section at path.
func (d *DNS) checkProvider(r *section.Report, path string) {
	known := r.CheckUnion(path, "provider", *d)
	for i, resolver := range d.Resolvers {
		checkServerDNS(r, fmt.Sprintf("%s.resolvers[%d]", path, i), resolver)
	}
	if known && d.Server != "" {
		checkServerDNS(r, path+".server", d.Server)
	}
	switch {
	case !known:
	case d.Username != "" && d.Password == "" && !r.Broken(path+".password"):
		r.Missing(path+".password", "is needed with username")
	case d.Username == "" && d.Password != "":
		r.Missing(path+".username", "is needed with password")
	}
}

// checkServerDNS checks the address of a DNS server.
func checkServerDNS(r *section.Report, path, address string) {
	host, port, err := net.SplitHostPort(address)
	number, errPort := strconv.ParseUint(port, 10, 16)
	if err != nil || errPort != nil || number == 0 || host == "" || section.CheckHost(host) != nil {
		r.Fault(path, "%q is not the address of a DNS server, HOST or HOST:PORT, like 192.0.2.53:53", address)
	}
}

// Secrets returns the values that no message may show.
func (d *DNS) Secrets() []string {
	var secrets []string
	for _, secret := range []strictyaml.Secret{d.Key, d.APIToken, d.SecretAccessKey, d.Password} {
		if secret != "" {
			secrets = append(secrets, secret.Reveal())
		}
	}
	return secrets
}
