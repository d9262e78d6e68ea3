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
	"slices"
	"strings"
	"testing"
	"time"

	"authgate/internal/test/must"
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

// checkWarning checks that a configuration has one warning, of a key and with a part, or
// none if it is not wanted.
func checkWarning(t *testing.T, name, got string, wanted bool, key, part string) {
	t.Helper()
	switch one := strings.HasPrefix(got, key+": ") && !strings.Contains(got, "\n"); {
	case wanted && !(one && strings.Contains(got, part)):
		t.Errorf("%s: got the warnings %q; want one of %s with %q", name, got, key, part)
	case !wanted && got != "":
		t.Errorf("%s: got the warnings %q; want none", name, got)
	}
}

// Networks that leave out no address of the internet are a warning, in one or more
// parts.
func TestWarningsOfAllAddresses(t *testing.T) {
	t.Parallel()
	for networks, want := range map[string]string{
		"0.0.0.0/0": "IPv4", "::/0": "IPv6", "::ffff:0:0/96": "IPv4",
		"0.0.0.0/1, 128.0.0.0/1":                       "IPv4",
		"128.0.0.0/1, 10.0.0.1, 64.0.0.0/2, 0.0.0.0/2": "IPv4",
		"0.0.0.0/1, 128.0.0.0/2, 192.0.0.0/3":          "IPv4", // all but multicast
		"::/1, 8000::/1":                               "IPv6", "2000::/3": "IPv6", "2000::/4, 3000::/4": "IPv6",
		"": "", "127.0.0.1, ::1": "", "10.0.0.0/8, 172.16.0.0/12, 192.168.0.0/16, fc00::/7, fe80::/10": "",
		"0.0.0.0/1": "", "0.0.0.0/1, 128.0.0.0/2": "", "2000::/4": "", "4000::/2, 8000::/1": "",
		"0.0.0.0/2, 128.0.0.0/1": "", "64.0.0.0/2, 128.0.0.0/1": "", "0.0.0.0/1, 192.0.0.0/2": "",
	} {
		list := `"` + strings.ReplaceAll(networks, ", ", `", "`) + `"`
		if networks == "" {
			list = ""
		}
		got := warnings(t, "c.yaml", "listen: {trusted_proxies: ["+list+"]}\n")
		checkWarning(t, networks, got, want != "", "listen.trusted_proxies", want)
	}
	got := warnings(t, "c.yaml", "listen: {proxy_protocol: [0.0.0.0/0]}\n")
	checkWarning(t, "proxy_protocol", got, true, "listen.proxy_protocol", "IPv4")
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
			source := section + ":\n  users:\n    - {username: alice, password_hash: \"" + c.hash + "\"}\n"
			got := warnings(t, "c.yaml", source)
			checkWarning(t, section+" "+c.name, got, c.weak, section+".users[0].password_hash", "alice")
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
	source := "accounts:\n  file: accounts.yaml\n  users:\n" +
		"    - {username: alice, password_hash: \"" + bcrypt("10") + "\"}\n"
	got := warnings(t, filepath.Join(dir, "c.yaml"), source)
	checkWarning(t, "a file", got, true, "accounts.file[0].password_hash", "of user0 is weak, and so are 19 more")
}

func TestWarningsOfGuessableKeys(t *testing.T) {
	t.Parallel()
	for secret, weak := range map[string]bool{
		strings.Repeat("x", 40): true, strings.Repeat("secret", 6): true, strings.Repeat("ab", 20): true,
		"0123456789 0123456789 0123456789": false, "3q2+7wABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGho=": false,
	} {
		for _, key := range []string{"token.secret", "store.encryption_key"} {
			section, name, _ := strings.Cut(key, ".")
			got := warnings(t, "c.yaml", section+": {"+name+": "+secret+"}\n")
			checkWarning(t, secret, got, weak, key, "different characters")
		}
	}
}

// A key without an effect, or with another one than in other programs, is a warning. A default that is
// written out is none.
func TestWarningsOfNoEffect(t *testing.T) {
	t.Parallel()
	route := func(match, more string) string {
		return "endpoints: {prefix: /.authgate/}\nupstreams: {app: {url: \"http://127.0.0.1:9000\"}}\n" +
			"routes: [{match: " + match + ", upstream: app, auth: [none], " + more + "}]\n"
	}
	set := func(value string) string { return route("/", "headers: {set: {X-User: "+value+"}}") }
	const at, user = "routes[0].headers.set.X-User", "the application gets the user in identity headers"
	for _, c := range []struct{ source, key, part string }{
		{"oauth: {clients: [{id: app, redirect_uris: [\"https://a.example/\"]}]}\n", "oauth", "without enabled: true"},
		{"oauth: {enabled: false, scopes: {a: []}}\n", "", ""},
		{"store: {addresses: [\"10.0.0.1:6379\"]}\n", "store.addresses", "without driver: redis"},
		{"store: {driver: memory, password: 5aa7c1d2e3f40b}\n", "store.password", "without driver: redis"},
		{"store: {driver: sqlite, addresses: [\"127.0.0.1:6379\"], password: \"\"}\n", "", ""},
		{"tracing: {sample: 0.1}\n", "tracing", "without endpoint"},
		{"tracing: {sample: 1.0, service_name: authgate}\n", "", ""},
		{route("/files/*", ""), "routes[0].match", `"*" matches the character * alone`},
		{route("\"*.example.org/{rest...}\"", ""), "", ""},
		{set(`"{user}"`), at, "{user} is sent as it is, because the value is the same for all requests; " + user},
		{set(`"Bearer {{ .Token }}"`), at, "{{ .Token }} is sent as it is"},
		{set(`"%{REMOTE_USER}"`), at, "%{REMOTE_USER} is sent as it is"},
		{set(`"Bearer $token"`), at, "write an environment variable as ${NAME}"},
		{set(`"{\"a\": 1}"`), "", ""},
		{set(`"p4$sword7a"`), "", ""},
		{set(`"$${user}"`), at, "{user} is sent"},
	} {
		checkWarning(t, c.source, warnings(t, "config.yaml", c.source), c.key != "", c.key, c.part)
	}
}

// A rule under none that a user of a provider can take away is a warning.
func TestWarningsOfNone(t *testing.T) {
	t.Parallel()
	const head = `store: {driver: memory}
endpoints: {prefix: /.authgate/}
accounts: {file: accounts.jsonl}
providers: [{name: company, issuer: https://id.example.org, client_id: authgate}]
upstreams: {app: {url: "http://127.0.0.1:9000"}}
`
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "accounts.jsonl"), []byte("# none\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, policies, auth, policy, key string }{
		{
			"in place", "{}", "[oidc]", "{none: [{email_domains: [a.example]}]}",
			"routes[0].policy.none[0].email_domains",
		},
		{
			"claims", "{}", "[session, oidc]", "{none: [{claims: {kind: [guest]}}]}",
			"routes[0].policy.none[0].claims",
		},
		{
			"beside roles", "{}", "[oidc]", "{roles: [staff], none: {email_domains: [a.example]}}",
			"routes[0].policy.none[0].email_domains",
		},
		{
			"deeper", "{}", "[oidc]", "{any: [{all: [{none: [{any: [{email_domains: [a.example]}]}]}]}]}",
			"routes[0].policy.any[0].all[0].none[0].any[0].email_domains",
		},
		{
			"by name", "{outside: {none: [{email_domains: [a.example]}]}}", "[oidc]", "outside",
			"policies.outside.none[0].email_domains",
		},
		{
			"a name under none", "{guests: {claims: {kind: [guest]}}, staff: {none: [guests]}}", "[oidc]", "staff",
			"policies.guests.claims",
		},
		{
			"a list of policies", "{a: {roles: [x]}, b: {none: [{email_domains: [a.example]}]}}", "[oidc]", "[a, b]",
			"policies.b.none[0].email_domains",
		},
		{
			"in place in a list", "{a: {roles: [x]}}", "[oidc]", "[a, {none: [{email_domains: [a.example]}]}]",
			"routes[0].policy[1].none[0].email_domains",
		},
		{
			"bearer", "{}", "[bearer]", "{none: [{email_domains: [a.example]}]}",
			"routes[0].policy.none[0].email_domains",
		},

		{"factors", "{}", "[session]", "{none: [{factors: 2}]}", "routes[0].policy.none[0].factors"},
		{"an age, by name", "{new: {max_age: 1h}}", "[oidc]", "{none: [new]}", "policies.new.max_age"},
		{"factors twice under none", "{}", "[session]", "{none: [{none: [{factors: 2}]}]}", ""},
		{"factors not under none", "{}", "[session]", "{factors: 2, max_age: 1h}", ""},

		{"not under none", "{}", "[oidc]", "{email_domains: [staff.example], claims: {kind: [staff]}}", ""},
		{"under none twice", "{}", "[oidc]", "{none: [{none: [{email_domains: [a.example]}]}]}", ""},
		{"local accounts", "{}", "[session]", "{none: [{email_domains: [a.example]}]}", ""},
		{"not used", "{outside: {none: [{email_domains: [a.example]}]}}", "[oidc]", "{methods: [GET]}", ""},
		{"an own name", "{}", "[oidc]", "{none: [{users: [\"company:bob\"]}]}", ""},
		{"the request", "{}", "[oidc]", "{none: [{methods: [DELETE]}, {networks: [192.0.2.1]}]}", ""},
	} {
		source := head + "policies: " + c.policies + "\n" +
			"routes: [{match: /, upstream: app, auth: " + c.auth + ", policy: " + c.policy + "}]\n"
		got := warnings(t, filepath.Join(dir, "c.yaml"), source)
		checkWarning(t, c.name, got, c.key != "", c.key, "list who may pass")
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
	const host, other, deep, wildcard = "gate.example.org", "wiki.example.org", "a.b.example.org", "*.example.org"
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
		{"a wildcard for one label", -hour, long, []string{"*.example.org"}, deep, "does not cover " + deep},
		{"a wildcard route", -hour, long, []string{wildcard}, wildcard, ""},
		{"a wildcard route and names", -hour, long, []string{host, "x.example.org"}, wildcard, "does not cover " + wildcard},
		{"an address", -hour, long, []string{host, "192.0.2.1", "2001:db8::1"}, "192.0.2.1 [2001:db8::1]", ""},
		{"another address", -hour, long, []string{host, "192.0.2.1"}, "192.0.2.2", "does not cover 192.0.2.2"},
	} {
		dir := t.TempDir()
		certified(t, dir, now.Add(c.from), now.Add(c.until), c.names...)
		source := "public_url: https://" + host + "\nendpoints: {prefix: /.authgate/}\n" +
			"tls: {mode: files, certificate: cert.pem, key: key.pem}\n" +
			"upstreams: {app: {url: \"http://127.0.0.1:9000\"}}\n"
		if c.hosts != "" {
			source += "routes:\n"
		}
		for _, host := range strings.Fields(c.hosts) {
			source += "  - {match: \"" + host + "/\", upstream: app, auth: [none]}\n"
		}
		got := warnings(t, filepath.Join(dir, "c.yaml"), source)
		checkWarning(t, c.name, got, c.want != "", "tls.certificate", c.want)
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
			"certificate": "certificate: cert.pem, key: key.pem", "ca": "ca: cert.pem",
		} {
			got := warnings(t, filepath.Join(dir, "c.yaml"), fmt.Sprintf(source, files))
			checkWarning(t, files, got, expired, "upstreams.app.tls."+key, "expired")
		}
	}
}

// Each host that forwards all paths while the gateway's own endpoints hide some is a warning.
func TestWarningsOfHiddenPaths(t *testing.T) {
	t.Parallel()
	const head = "upstreams: {app: {url: \"http://127.0.0.1:9000\"}}\nroutes:\n"
	const root = "  - {match: /, upstream: app, auth: [none]}\n"
	const wiki = "  - {match: wiki.example/, upstream: app, auth: [none]}\n"
	for name, c := range map[string]struct {
		source string
		want   []string
	}{
		"no host":   {head + root, []string{"routes[0].match"}},
		"two hosts": {head + root + wiki, []string{"routes[0].match", "routes[1].match"}},
		"one host twice": {head + "  - {match: GET wiki.example/, upstream: app, auth: [none]}\n" +
			"  - {match: POST wiki.example/, upstream: app, auth: [none]}\n", []string{"routes[0].match"}},
		"another prefix":   {"endpoints: {prefix: /.authgate/}\n" + head + root + wiki, nil},
		"a part of a host": {head + "  - {match: /app/, upstream: app, auth: [none]}\n", nil},
		"the front page":   {head + "  - {match: \"/{$}\", upstream: app, auth: [none]}\n", nil},
	} {
		var got []string
		cfg := must.Get(parse("c.yaml", []byte("public_url: https://gw.example\n"+c.source), lookup))(t)
		for _, w := range cfg.Warnings() {
			got = append(got, w.Key)
			if !strings.Contains(w.Message, "/account and below, /auth/callback, /callback, /login, /logout,") {
				t.Errorf("%s: %s", name, w.Message)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: warnings at %q, want %q", name, got, c.want)
		}
	}
}

// Claims that everybody can have, the name of a repository without its identifier, and an issuer whose
// tokens open routes, too, are warnings.
func TestWarningsOfFederation(t *testing.T) {
	t.Parallel()
	for claims, key := range map[string]string{
		`repository_id: ["7"], ref: [main]`:       "",
		`repository: [a/b], repository_id: ["7"]`: "",
		`sub: [job]`: "",
		`ref: [refs/heads/main], environment: [prod]`:  ".claims",
		`repository: [a/b], ref: [refs/heads/main]`:    ".claims.repository",
		`repository_owner: [a]`:                        ".claims.repository_owner",
		`project_path: [a/b], ref_protected: ["true"]`: ".claims.project_path",
	} {
		got := warnings(t, "config.yaml", `
public_url: https://gw.example.org
token: {trusted_issuers: [{name: ci, issuer: "https://ci.example.org", audience: [api]}]}
oauth:
  enabled: true
  clients: [{id: a, grants: [jwt_bearer], federation: [{issuer: ci, claims: {`+claims+`}}]}]
`)
		const at = "oauth.clients[0].federation[0]"
		mixed, rest, _ := strings.Cut(got, "\n")
		if !strings.HasPrefix(mixed, at+".issuer: token.trusted_issuers[0] in line 3 has an audience too") {
			t.Errorf("%s: %s", claims, got)
		}
		checkWarning(t, claims, rest, key != "", at+key, "")
	}
}

// A route that any account of a public service opens is a warning. A company's provider, a policy, and a route that a
// request without a credential opens too are none.
func TestWarningsOfSignUps(t *testing.T) {
	t.Parallel()
	const google = `issuer: "https://accounts.google.com"`
	const hub = `scopes: [user], authorization_url: "https://github.com/login/oauth/authorize", ` +
		`token_url: "https://github.com/login/oauth/access_token", userinfo_url: "https://api.github.com/user"`
	for _, c := range []struct{ provider, route, want string }{
		{google, "auth: [oidc]", "everybody can have an account at Google, and any account opens /app/; give"},
		{google, "auth: [session, oidc]", "{providers: [idp]} if everybody may"},
		{hub, "auth: [oidc]", "GitHub"},
		{google, "auth: [oidc], policy: {providers: [idp]}", ""},
		{google, "auth: [oidc, none]", ""},
		{`issuer: "https://id.example.org"`, "auth: [oidc]", ""},
		{`issuer: "https://gitlab.example.org"`, "auth: [oidc]", ""},
	} {
		got := warnings(t, "config.yaml", "public_url: https://gw.example\n"+withoutFile+
			"providers: [{name: idp, client_id: a, "+c.provider+"}]\n"+
			"upstreams: {app: {url: \"http://127.0.0.1:1\"}}\n"+
			"routes: [{match: /app/, upstream: app, "+c.route+"}]\n")
		checkWarning(t, c.provider+" "+c.route, got, c.want != "", "providers[0].name", c.want)
	}
}
