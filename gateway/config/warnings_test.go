package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// warnings returns the warnings of a valid configuration, each as its key and
// message, in one text.
func warnings(t *testing.T, path, source string) string {
	t.Helper()
	cfg, err := parse(path, []byte(source), lookup)
	if err != nil {
		t.Fatalf("%v\n%s", err, source)
	}
	var lines []string
	for _, w := range cfg.Warnings() {
		if w.Line < 1 || w.Source == "" {
			t.Errorf("a warning without its place: %+v", w)
		}
		lines = append(lines, w.Key+": "+w.Message)
	}
	return strings.Join(lines, "\n")
}

// checkWarning checks that a configuration has one warning, with a beginning and a
// part, or none if begins is empty.
func checkWarning(t *testing.T, name, got, begins, part string) {
	t.Helper()
	wrong := begins != "" && (!strings.HasPrefix(got, begins) || !strings.Contains(got, part) || strings.Contains(got, "\n"))
	if wrong || begins == "" && got != "" {
		t.Errorf("%s: got the warnings %q; want %q with %q", name, got, begins, part)
	}
}

// Networks that leave out no address of the internet are a warning, in one or more
// parts.
func TestWarningsOfAllAddresses(t *testing.T) {
	t.Parallel()
	const key = "listen.trusted_proxies: "
	for networks, want := range map[string]string{
		"0.0.0.0/0": "IPv4", "::/0": "IPv6", "::ffff:0:0/96": "IPv4",
		"0.0.0.0/1, 128.0.0.0/1":                       "IPv4",
		"128.0.0.0/1, 10.0.0.1, 64.0.0.0/2, 0.0.0.0/2": "IPv4",
		"0.0.0.0/1, 128.0.0.0/2, 192.0.0.0/3":          "IPv4", // all but multicast
		"::/1, 8000::/1":                               "IPv6", "2000::/3": "IPv6", "2000::/4, 3000::/4": "IPv6",
		"": "", "127.0.0.1, ::1": "", "10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, fc00::/7, fe80::/10": "",
		"0.0.0.0/1": "", "0.0.0.0/1, 128.0.0.0/2": "", "2000::/4": "", "4000::/2, 8000::/1": "",
	} {
		list := `"` + strings.ReplaceAll(networks, ", ", `", "`) + `"`
		if networks == "" {
			list = ""
		}
		got := warnings(t, "c.yaml", "listen: {trusted_proxies: ["+list+"]}\n")
		begins := ""
		if want != "" {
			begins = key
		}
		checkWarning(t, networks, got, begins, want)
	}
	got := warnings(t, "c.yaml", "listen: {proxy_protocol: [0.0.0.0/0]}\n")
	checkWarning(t, "proxy_protocol", got, "listen.proxy_protocol: ", "IPv4")
}

// Hashes that cost an attacker little are one warning for each list of users.
func TestWarningsOfWeakHashes(t *testing.T) {
	t.Parallel()
	bcrypt := func(cost string) string {
		return "$2y$" + cost + "$c4WoMPo3SXsafkva.HHa6uXQZWr7oboPiC2bT/r7q1BB8I2s0BRqC"
	}
	argon2id := func(memory string) string {
		return "$argon2id$v=19$m=" + memory + ",t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4"
	}
	for _, c := range []struct {
		name, hash string
		weak       bool
	}{
		{"bcrypt 4", bcrypt("04"), true},
		{"bcrypt 9", bcrypt("09"), true},
		{"bcrypt 10", bcrypt("10"), false},
		{"argon2id 8 KiB", argon2id("8"), true},
		{"argon2id under 19 MiB", argon2id("19455"), true},
		{"argon2id 19 MiB", argon2id("19456"), false},
	} {
		for _, section := range []string{"basic", "accounts"} {
			begins := ""
			if c.weak {
				begins = section + ".users[0].password_hash: "
			}
			source := section + ":\n  users:\n    - {username: alice, password_hash: \"" + c.hash + "\"}\n"
			checkWarning(t, section+" "+c.name, warnings(t, "c.yaml", source), begins, "alice")
		}
	}
	dir := t.TempDir()
	var list strings.Builder
	for i := range 20 {
		fmt.Fprintf(&list, "- {username: user%d, password_hash: %q}\n", i, bcrypt("04"))
	}
	if err := os.WriteFile(filepath.Join(dir, "accounts.yaml"), []byte(list.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	source := "accounts:\n  file: accounts.yaml\n  users:\n    - {username: alice, password_hash: \"" + bcrypt("10") + "\"}\n"
	got := warnings(t, filepath.Join(dir, "c.yaml"), source)
	checkWarning(t, "a file", got, "accounts.file[0].password_hash: ", "of user0")
	if !strings.Contains(got, "19 more") {
		t.Errorf("a file: %q does not count the others", got)
	}
}

func TestWarningsOfGuessableKeys(t *testing.T) {
	t.Parallel()
	for secret, weak := range map[string]bool{
		strings.Repeat("x", 40): true, strings.Repeat("secret", 6): true, strings.Repeat("ab", 20): true,
		"0123456789 0123456789 0123456789": false, "3q2+7wABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGho=": false,
	} {
		for _, key := range []string{"token.secret", "store.encryption_key"} {
			section, name, _ := strings.Cut(key, ".")
			begins := ""
			if weak {
				begins = key + ": "
			}
			checkWarning(t, secret, warnings(t, "c.yaml", section+": {"+name+": "+secret+"}\n"), begins, "different characters")
		}
	}
}

// A rule under none that a user of a provider can take away is a warning.
func TestWarningsOfNone(t *testing.T) {
	t.Parallel()
	const head = `store: {driver: memory}
accounts: {file: accounts.jsonl}
providers: [{name: company, issuer: https://id.example.org, client_id: authgate}]
upstreams: {app: {url: "http://127.0.0.1:9000"}}
`
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "accounts.jsonl"), []byte("# none\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, policies, route, key, part string }{
		{"in place", "", "auth: [oidc], policy: {none: [{email_domains: [contractor.example]}]}", "routes[0].policy.none[0].email_domains", "list who may pass"},
		{"claims", "", "auth: [session, oidc], policy: {none: [{claims: {kind: [guest]}}]}", "routes[0].policy.none[0].claims", "list who may pass"},
		{"beside roles", "", "auth: [oidc], policy: {roles: [staff], none: {email_domains: [contractor.example]}}", "routes[0].policy.none[0].email_domains", ""},
		{"deeper", "", "auth: [oidc], policy: {any: [{all: [{none: [{any: [{email_domains: [a.example]}]}]}]}]}", "routes[0].policy.any[0].all[0].none[0].any[0].email_domains", ""},
		{"by name", "{outside: {none: [{email_domains: [a.example]}]}}", "auth: [oidc], policy: outside", "policies.outside.none[0].email_domains", ""},
		{"a name under none", "{guests: {claims: {kind: [guest]}}, staff: {none: [guests]}}", "auth: [oidc], policy: staff", "policies.guests.claims", ""},
		{"a list of policies", "{a: {roles: [x]}, b: {none: [{email_domains: [a.example]}]}}", "auth: [oidc], policy: [a, b]", "policies.b.none[0].email_domains", ""},
		{"bearer", "", "auth: [bearer], policy: {none: [{email_domains: [a.example]}]}", "routes[0].policy.none[0].email_domains", ""},

		{"not under none", "", "auth: [oidc], policy: {email_domains: [staff.example], claims: {kind: [staff]}}", "", ""},
		{"under none twice", "", "auth: [oidc], policy: {none: [{none: [{email_domains: [a.example]}]}]}", "", ""},
		{"local accounts", "", "auth: [session], policy: {none: [{email_domains: [a.example]}]}", "", ""},
		{"not used", "{outside: {none: [{email_domains: [a.example]}]}}", "auth: [oidc]", "", ""},
		{"what nobody takes away", "", "auth: [oidc], policy: {none: [{users: [\"company:bob\"]}, {methods: [DELETE]}, {networks: [192.0.2.1]}]}", "", ""},
	} {
		source := head
		if c.policies != "" {
			source += "policies: " + c.policies + "\n"
		}
		source += "routes: [{match: /, upstream: app, " + c.route + "}]\n"
		begins := ""
		if c.key != "" {
			begins = c.key + ": "
		}
		checkWarning(t, c.name, warnings(t, filepath.Join(dir, "c.yaml"), source), begins, c.part)
	}
}

// certified writes a certificate for names and its key to a folder.
func certified(t *testing.T, dir string, from, until time.Time, names ...string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "gate.example.org"}, NotBefore: from, NotAfter: until,
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
			continue
		}
		template.DNSNames = append(template.DNSNames, name)
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: certificate}, "key.pem": {Type: "PRIVATE KEY", Bytes: encoded},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// A certificate that clients refuse is a warning: it is not valid now, or for a host of
// the gateway.
func TestWarningsOfCertificates(t *testing.T) {
	t.Parallel()
	const host, other = "gate.example.org", "wiki.example.org"
	now := time.Now()
	long, hour := 1000*time.Hour, time.Hour
	for _, c := range []struct {
		name        string
		from, until time.Duration
		names       []string
		hosts       string // of routes
		want        string
	}{
		{"valid", -hour, long, []string{host}, "", ""},
		{"expired", -long, -hour, []string{host}, "", "expired"},
		{"not yet valid", hour, long, []string{host}, "", "not valid before"},
		{"another host", -hour, long, []string{"wrong.example.org"}, "", "does not cover " + host},
		{"no names", -hour, long, nil, "", "does not cover " + host},
		{"a host of a route", -hour, long, []string{host}, other, "does not cover " + other},
		{"both hosts", -hour, long, []string{host, other}, other, ""},
		{"a wildcard for both", -hour, long, []string{"*.example.org"}, other, ""},
		{"a wildcard for one label", -hour, long, []string{"*.example.org"}, "a.b.example.org", "does not cover a.b.example.org"},
		{"a wildcard route", -hour, long, []string{"*.example.org"}, "*.example.org", ""},
		{"a wildcard route and names", -hour, long, []string{host, "x.example.org"}, "*.example.org", "does not cover *.example.org"},
		{"an address", -hour, long, []string{host, "192.0.2.1", "2001:db8::1"}, "192.0.2.1 [2001:db8::1]", ""},
		{"another address", -hour, long, []string{host, "192.0.2.1"}, "192.0.2.2", "does not cover 192.0.2.2"},
	} {
		dir := t.TempDir()
		certified(t, dir, now.Add(c.from), now.Add(c.until), c.names...)
		source := "public_url: https://" + host + "\ntls: {mode: files, certificate: cert.pem, key: key.pem}\nupstreams: {app: {url: \"http://127.0.0.1:9000\"}}\n"
		if c.hosts != "" {
			source += "routes:\n"
		}
		for _, host := range strings.Fields(c.hosts) {
			source += "  - {match: \"" + host + "/\", upstream: app, auth: [none]}\n"
		}
		begins := ""
		if c.want != "" {
			begins = "tls.certificate: "
		}
		checkWarning(t, c.name, warnings(t, filepath.Join(dir, "c.yaml"), source), begins, c.want)
	}
}

// A certificate of the gateway as a client is checked too, and an authority of which
// nothing is valid any more.
func TestWarningsOfUpstreamCertificates(t *testing.T) {
	t.Parallel()
	const source = "upstreams: {app: {url: \"https://127.0.0.1:9000\", tls: {%s}}}\n"
	for expired, until := range map[bool]time.Duration{true: -time.Hour, false: 1000 * time.Hour} {
		dir := t.TempDir()
		certified(t, dir, time.Now().Add(-2000*time.Hour), time.Now().Add(until))
		for key, files := range map[string]string{
			"upstreams.app.tls.certificate: ": "certificate: cert.pem, key: key.pem", "upstreams.app.tls.ca: ": "ca: cert.pem",
		} {
			if !expired {
				key = ""
			}
			checkWarning(t, files, warnings(t, filepath.Join(dir, "c.yaml"), fmt.Sprintf(source, files)), key, "expired")
		}
	}
}
