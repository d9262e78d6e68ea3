package listening

import (
	"encoding/base64"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"authgate/gateway/config/section"
	"authgate/gateway/strictyaml"
	"authgate/policy"
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
	Provider  string   `yaml:"provider"`
	Resolvers []string `yaml:"resolvers"` // HOST:PORT; none: the system's

	Server       string            `yaml:"server"` // HOST:PORT
	KeyName      string            `yaml:"key_name"`
	Key          strictyaml.Secret `yaml:"key"` // in base64
	KeyAlgorithm string            `yaml:"key_algorithm"`

	APIToken strictyaml.Secret `yaml:"api_token"`

	AccessKeyID     string            `yaml:"access_key_id"`
	SecretAccessKey strictyaml.Secret `yaml:"secret_access_key"`
	Region          string            `yaml:"region"`
	HostedZoneID    string            `yaml:"hosted_zone_id"`

	URL      string            `yaml:"url"`
	Storage  string            `yaml:"storage"`
	Username string            `yaml:"username"`
	Password strictyaml.Secret `yaml:"password"`

	Command string `yaml:"command"`
}

// Words returns the words that keys of the section take.
func (DNS) Words() map[string][]string {
	return map[string][]string{
		"provider":      {DNSRFC2136, DNSCloudflare, DNSRoute53, DNSACMEDNS, DNSHTTPReq, DNSExec},
		"key_algorithm": {"hmac-sha256", "hmac-sha224", "hmac-sha384", "hmac-sha512", "hmac-sha1"},
	}
}

// DefaultDNS returns the section without its required keys.
func DefaultDNS() DNS { return DNS{KeyAlgorithm: "hmac-sha256", Region: "us-east-1"} }

// dnsOptions has the keys of each provider, and whether they are required.
var dnsOptions = map[string]map[string]bool{
	DNSRFC2136:    {"server": true, "key_name": true, "key": true, "key_algorithm": false},
	DNSCloudflare: {"api_token": true},
	DNSRoute53: {
		"access_key_id": true, "secret_access_key": true, "region": false, "hosted_zone_id": false,
	},
	DNSACMEDNS: {"url": true, "storage": true},
	DNSHTTPReq: {"url": true, "username": false, "password": false},
	DNSExec:    {"command": true},
}

// resolvePaths resolves the paths of a section. A command without a slash is one of $PATH.
func (d *DNS) resolvePaths(resolve func(path string) string) {
	d.Storage = resolve(d.Storage)
	if strings.ContainsRune(d.Command, filepath.Separator) {
		d.Command = resolve(d.Command)
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
		t.DNS.check(r, key)
	}
}

// check checks the section at path.
func (d *DNS) check(r *section.Report, path string) {
	options, known := dnsOptions[d.Provider]
	switch {
	case d.Provider == "" && !r.Broken(path+".provider"):
		r.Missing(path+".provider", "is needed: rfc2136, cloudflare, route53, acmedns, httpreq or exec")
	case known:
		d.checkOptions(r, path, options)
	}
	for i, resolver := range d.Resolvers {
		checkServerDNS(r, fmt.Sprintf("%s.resolvers[%d]", path, i), resolver)
	}
}

// checkOptions checks that the provider has the keys that it needs and no others, and their
// values.
func (d *DNS) checkOptions(r *section.Report, path string, options map[string]bool) {
	for _, option := range d.values() {
		at := path + "." + option.name
		required, taken := options[option.name]
		switch {
		case r.Given(at) && !taken:
			r.Fault(at, "is no option of the provider %s, which has %s; remove this key", d.Provider,
				optionList(options))
		case required && option.value == "" && !r.Broken(at):
			r.Missing(at, "is needed with the provider %s: %s", d.Provider, option.what)
		}
	}
	if d.Server != "" {
		checkServerDNS(r, path+".server", d.Server)
	}
	if _, err := base64.StdEncoding.DecodeString(d.Key.Reveal()); err != nil {
		r.Fault(path+".key", "is not in base64, as tsig-keygen writes it")
	}
	if name := strings.TrimSuffix(d.KeyName, "."); name != "" && section.CheckHost(name) != nil {
		r.Fault(path+".key_name", "%q is not the name of a key, like authgate-key", d.KeyName)
	}
	d.checkCalled(r, path)
}

// checkCalled checks how a service is called.
func (d *DNS) checkCalled(r *section.Report, path string) {
	if d.URL != "" {
		if u, err := section.HTTPURL(d.URL); err != nil {
			r.Fault(path+".url", "%v", err)
		} else if u.Scheme == "http" && !policy.Loopback(u.Hostname()) {
			r.Fault(path+".url", "%q is not https; http is for services on this machine only", d.URL)
		}
	}
	switch {
	case d.Username != "" && d.Password == "" && !r.Broken(path+".password"):
		r.Missing(path+".password", "is needed with username")
	case d.Username == "" && d.Password != "":
		r.Missing(path+".username", "is needed with password")
	}
}

// dnsOption is an option of providers with its value.
type dnsOption struct{ name, value, what string }

// values returns the options of all providers.
func (d *DNS) values() []dnsOption {
	return []dnsOption{
		{"server", d.Server, "the DNS server that takes updates, HOST or HOST:PORT"},
		{"key_name", d.KeyName, "the name of the TSIG key"},
		{"key", d.Key.Reveal(), "the TSIG key, in base64"},
		{"key_algorithm", d.KeyAlgorithm, ""},
		{"api_token", d.APIToken.Reveal(), "a token that may read zones and edit their records"},
		{"access_key_id", d.AccessKeyID, "the identifier of an access key"},
		{"secret_access_key", d.SecretAccessKey.Reveal(), "the secret of the access key"},
		{"region", d.Region, ""},
		{"hosted_zone_id", d.HostedZoneID, ""},
		{"url", d.URL, "the address of the service"},
		{"storage", d.Storage, "the file in which the gateway keeps its accounts at the service"},
		{"username", d.Username, ""},
		{"password", d.Password.Reveal(), ""},
		{"command", d.Command, "the program that adds and removes records"},
	}
}

// optionList lists options for a message.
func optionList(options map[string]bool) string {
	names := make([]string, 0, len(options))
	for name := range options {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
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
