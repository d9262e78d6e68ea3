package config

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

const acmeBase = "public_url: https://Gateway.Example.org\n"

// Domains are in lower case, because names in TLS handshakes are compared with
// them.
func TestACMEDomains(t *testing.T) {
	t.Parallel()
	for yaml, want := range map[string][]string{
		"tls: {mode: acme}":                                          {"gateway.example.org"},
		"tls: {mode: acme, domains: [WWW.example.org]}":              {"www.example.org"},
		"tls: {mode: acme, domains: [b.example.org, A.example.org]}": {"b.example.org", "a.example.org"},
	} {
		if got := mustParse(t, acmeBase+yaml).TLS.Domains; !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", yaml, got, want)
		}
	}
	_, err := parse("config.yaml", []byte("public_url: https://192.0.2.1\ntls: {mode: acme}\n"), lookup)
	if _, ok := errors.AsType[Diagnostics](err); !ok || !strings.Contains(err.Error(), "tls.domains") {
		t.Errorf("an address for public_url: %v", err)
	}
	mustParse(t, "tls: {domains: [a.example.org, A.example.org]}") // mode internal has no authority
}

// The certificate is for all hosts of the gateway, and tls.domains adds hosts.
func TestHosts(t *testing.T) {
	t.Parallel()
	base := acmeBase + `
accounts: {users: [{username: alice, password_hash: "$2a$05$Cj2Uz06dB9glrWi2CkzdLOgicT5SRMqoxdycGqW2on5R3QOFP1nBy"}]}
upstreams: {app: {url: "http://127.0.0.1:9000"}}
routes:
  - {match: /, upstream: app, auth: [session]}
  - {match: "GET Wiki.example.org./", upstream: app, auth: [session]}
  - {match: "POST wiki.example.org/", upstream: app, auth: [session]}
  - {match: "[2001:DB8::0:1]/", upstream: app, auth: [session]}
  - {match: "gateway.example.org/x", upstream: app, auth: [session]}
`
	named := []string{"gateway.example.org", "wiki.example.org", "[2001:db8::1]"}
	for _, c := range []struct {
		yaml           string
		domains, hosts []string
	}{
		{
			"tls: {mode: internal}", []string{"gateway.example.org", "wiki.example.org", "2001:db8::1", "localhost", "127.0.0.1", "::1"},
			append(slices.Clone(named), "localhost", "127.0.0.1", "[::1]"),
		},
		{"tls: {mode: acme}", []string{"gateway.example.org", "wiki.example.org"}, named},
		{"tls: {mode: \"off\"}\nlisten: {trusted_proxies: [127.0.0.1]}", nil, named},
		{
			"tls: {domains: [A.example.org, \"*.b.example.org\", \"::2\"]}", []string{"a.example.org", "*.b.example.org", "::2"},
			append(slices.Clone(named), "a.example.org", "*.b.example.org", "[::2]"),
		},
	} {
		cfg := mustParse(t, base+c.yaml)
		if got := cfg.TLS.Domains; !slices.Equal(got, c.domains) {
			t.Errorf("%s: the certificate is for %q, want %q", c.yaml, got, c.domains)
		}
		if got := cfg.Hosts(); !slices.Equal(got, c.hosts) {
			t.Errorf("%s: the hosts are %q, want %q", c.yaml, got, c.hosts)
		}
	}
}

// Both listeners must have the same host, because both answer challenges.
func TestACMEListen(t *testing.T) {
	t.Parallel()
	for listen, valid := range map[string]bool{
		`{https: ":443", http: ":80"}`:                           true,
		`{https: ":443", http: "0.0.0.0:80"}`:                    true,
		`{https: "[::]:443", http: "0.0.0.0:80"}`:                true,
		`{https: "192.0.2.1:443", http: "192.0.2.1:80"}`:         true,
		`{https: "[2001:db8::1]:443", http: "[2001:db8::1]:80"}`: true,
		`{https: "192.0.2.1:443", http: ""}`:                     true,
		`{https: "192.0.2.1:443", http: ":80"}`:                  false,
		`{https: ":443", http: "127.0.0.1:80"}`:                  false,
		`{https: "192.0.2.1:443", http: "192.0.2.2:80"}`:         false,
	} {
		_, err := parse("config.yaml", []byte(acmeBase+"tls: {mode: acme}\nlisten: "+listen+"\n"), lookup)
		if valid != (err == nil) || !valid && !strings.Contains(err.Error(), "listen.http: ") {
			t.Errorf("%s: %v", listen, err)
		}
		if _, err := parse("config.yaml", []byte("listen: "+listen+"\n"), lookup); err != nil {
			t.Errorf("%s in mode internal: %v", listen, err)
		}
	}
}
