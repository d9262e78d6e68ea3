package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"authgate/gateway/config/listening"
	"authgate/gateway/people/accounts"
	"authgate/gateway/people/password"
	"authgate/internal/test/logtest"
	"authgate/internal/test/must"
)

// exported compares the settings of configurations.
var exported = cmp.Options{cmpopts.IgnoreUnexported(Config{}, accounts.Account{}), cmpopts.EquateEmpty(),
	cmpopts.EquateComparable(netip.Prefix{}), cmpopts.IgnoreTypes(password.Hash{})}

// parse is Parse with the environment that lookup reads.
func parse(path string, source []byte, lookup func(string) (string, bool)) (*Config, error) {
	cfg, _, err := Environment{Lookup: lookup}.parse(path, &sources{main: source})
	return cfg, err
}

// mustParse parses a valid text.
func mustParse(t testing.TB, source string) *Config {
	t.Helper()
	cfg, err := parse("config.yaml", []byte(source+"\n"), lookup)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// folder has files that a test writes.
type folder struct {
	t   *testing.T
	dir string
}

func (f folder) write(name, content string) string {
	f.t.Helper()
	path := filepath.Join(f.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		f.t.Fatal(err)
	}
	return path
}

func TestLoad(t *testing.T) {
	t.Parallel()
	dir := folder{t, t.TempDir()}
	if _, err := Load(filepath.Join(dir.dir, "none.yaml")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v, want fs.ErrNotExist", err)
	}
	cfg, err := Load(dir.write("good.yaml", "log: {level: warn}\n"))
	if err != nil || cfg.Log.Level != "warn" || cfg.DataDir != filepath.Join(dir.dir, "data") {
		t.Errorf("got %+v, %v", cfg, err)
	}
	_, err = Load(dir.write("bad.yaml", "nonsense: 1\nlog: {level: loud}\n"))
	if diagnostics, ok := errors.AsType[Diagnostics](err); !ok || len(diagnostics) < 2 {
		t.Errorf("a bad file: %v, want several Diagnostics", err)
	}
	large := "# " + strings.Repeat("x", maxConfigSize)
	_, loadErr := Load(dir.write("large.yaml", large))
	_, parseErr := Parse("large.yaml", []byte(large))
	for _, err := range []error{loadErr, parseErr} {
		if err == nil || !strings.Contains(err.Error(), "larger than 8 MiB") {
			t.Errorf("got %.200v, want an error about the size", err)
		}
	}
}

// Reread reads the accounts file again, but not the main file.
func TestReread(t *testing.T) {
	t.Parallel()
	dir := folder{t, t.TempDir()}
	account := "- {username: %s, password_hash: \"" + environment["HASH"] + "\"}\n"
	dir.write("accounts.yaml", fmt.Sprintf(account, "alice"))
	cfg, err := Load(dir.write("config.yaml", "accounts: {file: accounts.yaml}\nlog: {level: warn}\n"))
	if err != nil {
		t.Fatal(err)
	}
	same, err := cfg.Reread()
	if err != nil || !cmp.Equal(cfg, same, exported) {
		t.Fatalf("nothing has changed, but Reread gives %+v (%v)", same, err)
	}
	dir.write("config.yaml", "log: {level: debug}\n")
	for accounts, want := range map[string]int{fmt.Sprintf(account+account, "alice", "bob"): 2, "[]\n": 0} {
		dir.write("accounts.yaml", accounts)
		changed, err := same.Reread()
		if err != nil || len(changed.Accounts.Users) != want || changed.Log.Level != "warn" {
			t.Errorf("got %+v, %v; want %d accounts and the old level", changed, err, want)
		}
	}
	dir.write("accounts.yaml", "")
	if _, err := same.Reread(); err == nil {
		t.Error("a truncated accounts file is accepted")
	}
}

// A Config does not share memory with the argument of Parse.
func TestParseCopiesItsSource(t *testing.T) {
	t.Parallel()
	source := []byte("log: {level: warn}\n")
	cfg, err := Parse("config.yaml", source)
	if err != nil {
		t.Fatal(err)
	}
	clear(source)
	if _, err := cfg.Reread(); err != nil {
		t.Error(err)
	}
}

// In mode acme both listeners have the same host, because both answer challenges.
func TestACMEListen(t *testing.T) {
	t.Parallel()
	for listen, valid := range map[string]bool{
		`{https: ":443", http: ":80"}`: true, `{https: ":443", http: "0.0.0.0:80"}`: true,
		`{https: "[::]:443", http: "0.0.0.0:80"}`:        true,
		`{https: "192.0.2.1:443", http: "192.0.2.1:80"}`: true, `{https: "192.0.2.1:443", http: ""}`: true,
		`{https: "[2001:db8::1]:443", http: "[2001:db8::1]:80"}`: true, `{https: "192.0.2.1:443", http: ":80"}`: false,
		`{https: ":443", http: "127.0.0.1:80"}`: false, `{https: "192.0.2.1:443", http: "192.0.2.2:80"}`: false,
	} {
		_, err := parse("config.yaml", []byte("public_url: https://gw.example\ntls: {mode: acme}\nlisten: "+listen+"\n"),
			lookup)
		if valid != (err == nil) || !valid && !strings.Contains(err.Error(), "listen.http: ") {
			t.Errorf("%s: %v", listen, err)
		}
		mustParse(t, "listen: "+listen) // in mode internal
	}
}

// The shipped files are valid without variables, demoHashes and demoClientHash are what they
// have, their users and their client are known as those of the demonstration, and they have no
// other secrets.
func TestShippedConfig(t *testing.T) {
	t.Parallel()
	cfg, provider := parseShipped(t, "config.yaml"), parseShipped(t, "provider.yaml")
	var hashes []Secret
	for _, u := range cfg.Basic.Users {
		hashes = append(hashes, u.PasswordHash)
	}
	for _, u := range cfg.Accounts.Users {
		hashes = append(hashes, u.PasswordHash)
		if slices.Contains(u.Roles, "admin") != (u.Username == "alice") {
			t.Errorf("%s has the roles %q", u.Username, u.Roles)
		}
	}
	users, clients := cfg.DemoUsers(), provider.DemoClients()
	if !slices.Equal(hashes, demoHashes) || !slices.Equal(users, []string{"service", "alice", "bob"}) ||
		!slices.Equal(provider.DemoUsers(), users[1:]) || !slices.Equal(clients, []string{"authgate"}) {
		t.Errorf("hashes %q, demonstration users %q and clients %q", hashes, users, clients)
	}
	if secret := slices.Concat(cfg.SecretFiles(), provider.SecretFiles()); len(secret) > 0 {
		t.Errorf("%q have secrets that are not those of the demonstration", secret)
	}
	// A user is one of the demonstration by the hash, not by the name.
	cfg.Accounts.Users[0].PasswordHash, cfg.Accounts.Users[1].Username = "$2y$…", "c"
	if got := cfg.DemoUsers(); !slices.Equal(got, []string{"service", "c"}) {
		t.Errorf("with other users: %q", got)
	}
}

// parseShipped parses a shipped file as if the demonstration had run.
func parseShipped(t *testing.T, name string) *Config {
	t.Helper()
	dir, shipped := folder{t, t.TempDir()}, must.Get(os.ReadFile("../../"+name))(t)
	must.Do(t, os.Mkdir(filepath.Join(dir.dir, "data"), 0o700))
	dir.write("data/ca.pem", string(must.Get(os.ReadFile("testdata/files/tls-certificate.pem"))(t)))
	none := func(string) (string, bool) { return "", false }
	return must.Get(parse(filepath.Join(dir.dir, name), shipped, none))(t)
}

// secretive has every kind of secret that a configuration can hold. Each of
// them contains "sesame".
const secretive = `
public_url: https://gw.example
store: {driver: memory, encryption_key: sesame-of-the-store-of-32-bytes-or-more}
token:
  secret: sesame-of-the-tokens-of-32-bytes-or-more
  trusted_issuers:
    - {name: issuer, issuer: "https://issuer.example", audience: [a], ` +
	`introspection: {url: "https://issuer.example/introspect", client_id: c, client_secret: sesame-of-the-introspection}}
providers: [{name: small, issuer: "https://id.example", client_id: gateway, client_secret: sesame-of-the-provider}]
upstreams: {app: {url: "http://app.invalid"}}
routes: [{match: /, upstream: app, auth: [bearer, oidc]}]
`

// A configuration, or a part of it, that is printed, logged or encoded shows no
// secret.
func TestConfigPrintsRedacted(t *testing.T) {
	t.Parallel()
	cfg := mustParse(t, secretive)
	if !strings.Contains(cfg.Token.Secret.Reveal(), "sesame") ||
		!strings.Contains(cfg.Providers[0].ClientSecret.Reveal(), "sesame") {
		t.Fatal("the configuration has no secrets to find")
	}
	for _, part := range []any{*cfg, cfg, cfg.Token, cfg.Store, cfg.Providers, &cfg.Providers[0]} {
		encoded, err := json.Marshal(part)
		if err != nil {
			t.Errorf("%T as JSON: %v", part, err)
		}
		log := &logtest.Buffer{}
		for _, handler := range []slog.Handler{slog.NewJSONHandler(log, nil), slog.NewTextHandler(log, nil)} {
			slog.New(handler).Error("configuration", "part", part, slog.Group("group", "in", part))
		}
		shown := fmt.Sprintf("%v %+v %#v", part, part, part) + fmt.Errorf("bad %v",
			part).Error() + string(encoded) + log.String()
		if strings.Contains(shown, "sesame") {
			t.Errorf("%T shows a secret: %s", part, shown)
		}
	}
}

// Clients reach HTTP/3 at the port of public_url if what maps TCP maps UDP too.
func TestHTTP3Port(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ public, https, http3, want string }{
		{"https://gw.example", ":8443", "", ""},
		{"https://gw.example", ":8443", ":8443", "443"},
		{"https://gw.example:9443", ":8443", "192.0.2.1:8443", "9443"},
		{"https://gw.example", ":8443", ":8444", "8444"},
	} {
		public, err := url.Parse(c.public)
		if err != nil {
			t.Fatal(err)
		}
		if got := (listening.Listen{HTTPS: c.https, HTTP3: c.http3}).HTTP3Port(public); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// The addresses of sockets that the process got take the place of configured ones, with a warning
// where another port is configured; a listener that is off stays off. So changes of those addresses
// need no restart, also when files beside the configuration are read again.
func TestSockets(t *testing.T) {
	t.Parallel()
	from := Environment{Sockets: map[string]string{
		"listen.https": ":443", "listen.http3": ":443", "listen.http": ":80", "listen.admin": "127.0.0.1:9090"}}
	read := func(listen string) *Config {
		t.Helper()
		cfg, _, err := from.parse("config.yaml", &sources{main: []byte("listen: {" + listen + "}\n" + `
endpoints: {prefix: /.authgate/}
accounts: {users: [{username: alice, password_hash: "` + hashForTests + `"}]}
upstreams: {app: {url: "http://127.0.0.1:1"}}
routes: [{match: /, upstream: app, auth: [session]}]
`)})
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	cfg := read(`https: "127.0.0.1:8443", http: "0.0.0.0:80", admin: ""`)
	if got, want := cfg.Listen, (listening.Listen{HTTPS: ":443", HTTP: ":80"}); got.HTTPS != want.HTTPS ||
		got.HTTP != want.HTTP || got.HTTP3 != "" || got.Admin != "" {
		t.Errorf("it listens at %+v", got)
	}
	if w := cfg.Warnings(); len(w) != 1 || w[0].Key != "listen.https" ||
		!strings.HasPrefix(w[0].Message, `"127.0.0.1:8443" is not used: systemd opened ":443"`) {
		t.Errorf("the warnings %v", w)
	}
	again, err := read(`https: ":444", http: ":81", admin: ""`).Reread()
	if err != nil || len(cfg.NeedsRestart(again)) != 0 {
		t.Errorf("other addresses: %v need a restart; %v", cfg.NeedsRestart(again), err)
	}
	if all := read(`http3: ":8443"`).Listen; all.HTTP3 != ":443" || all.Admin != "127.0.0.1:9090" {
		t.Errorf("HTTP/3 and admin are at %+v", all)
	}
}

// An account comes from the file only if the main file does not have it.
func TestAccountInFile(t *testing.T) {
	t.Parallel()
	dir := folder{t, t.TempDir()}
	account := "{username: %s, password_hash: \"" + environment["HASH"] + "\"}"
	dir.write("accounts.yaml", "- "+fmt.Sprintf(account, "alice")+"\n")
	main := "accounts: {file: accounts.yaml, users: [" + fmt.Sprintf(account, "own") + "]}\n"
	cfg, err := Load(dir.write("config.yaml", main))
	if err != nil {
		t.Fatal(err)
	}
	for username, want := range map[string]bool{"alice": true, "own": false, "carol": false, "": false} {
		if got := cfg.AccountInFile(username); got != want {
			t.Errorf("%q: %t, want %t", username, got, want)
		}
	}
}

// Passkeys belong to the host of public_url, or to a domain above it that is configured. An
// address has none.
func TestRelyingParty(t *testing.T) {
	t.Parallel()
	for yaml, want := range map[string]bool{
		"public_url: https://auth.example.org":                                         true,
		"public_url: https://auth.example.org:8443\nfactors: {rp_id: example.org}":     true,
		"public_url: https://localhost:8443":                                           true,
		"public_url: https://gateway":                                                  true,
		"public_url: https://127.0.0.1:8443":                                           false,
		"public_url: https://[::1]:8443":                                               false,
		"public_url: https://auth.example.org\nfactors: {passkeys: false, totp: true}": false,
	} {
		cfg, err := Parse("config.yaml", []byte(yaml+"\n"))
		if err != nil {
			t.Errorf("%s: %v", yaml, err)
		} else if got := cfg.RelyingParty() != nil; got != want {
			t.Errorf("%s: %v, want %v", yaml, got, want)
		}
	}
}
