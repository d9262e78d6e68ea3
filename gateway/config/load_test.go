package config

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"authgate/policy"
)

// exported compares configurations by what they say.
var exported = cmp.Options{cmpopts.IgnoreUnexported(Config{}), cmpopts.EquateEmpty(), cmpopts.EquateComparable(netip.Prefix{})}

// mustParse parses a text that has to be valid.
func mustParse(t testing.TB, source string) *Config {
	t.Helper()
	cfg, err := parse("config.yaml", []byte(source+"\n"), lookup)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// The block of the design and one without the keys whose values it calls
// defaults say the same.
func TestDefaultsAreThoseOfTheDesign(t *testing.T) {
	t.Parallel()
	written, err := parseTestdata(t, "testdata/design/whole.yaml")
	if err != nil {
		t.Fatal(err)
	}
	short, err := parseTestdata(t, "testdata/design/without-defaults.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(written, short, exported); diff != "" {
		t.Errorf("defaults differ from the design (-design +defaults):\n%s", diff)
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	got := mustParse(t, "{}")
	want := &Config{
		PublicURL: &url.URL{Scheme: "https", Host: "localhost:8443"},
		Listen:    Listen{HTTPS: ":8443", HTTP: ":8080", Admin: "127.0.0.1:9090"},
		TLS:       TLS{Mode: "internal", Domains: []string{"localhost", "127.0.0.1", "::1"}},
		DataDir:   "data",
		Store: Store{
			Driver: "sqlite", Path: "data/authgate.db", Addresses: []string{"127.0.0.1:6379"},
			KeyPrefix: "authgate:", MaxStaleness: 2 * time.Second,
		},
		Endpoints: Endpoints{Prefix: "/"},
		Basic:     Basic{Realm: "authgate"},
		Session:   Session{Cookie: "session_id", Lifetime: time.Hour, SameSite: "lax"},
		Token: Token{
			Algorithm: "HS256", Issuer: "https://localhost:8443", Audience: []string{"authgate"},
			AccessLifetime: 15 * time.Minute, RefreshLifetime: 168 * time.Hour,
			ReuseLeeway: 10 * time.Second, Delivery: "body",
		},
		Delegated: Delegated{Cookie: "session", Lifetime: time.Hour},
		IdentityHeaders: IdentityHeaders{
			User: "X-Auth-User", Subject: "X-Auth-Subject", Name: "X-Auth-Name", Email: "X-Auth-Email",
			Roles: "X-Auth-Roles", Mechanism: "X-Auth-Mechanism", Provider: "X-Auth-Provider",
		},
		Limits: Limits{LoginFailures: 10, LoginWindow: 5 * time.Minute, MaxHeaderBytes: 65536, BodyPause: 2 * time.Minute},
		Log:    Log{Level: "info", Format: "json"},

		ShutdownTimeout: 30 * time.Second,
	}
	if diff := cmp.Diff(want, got, exported); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
}

func TestEveryKey(t *testing.T) {
	t.Parallel()
	got, err := parseTestdata(t, "testdata/good/every-key.yaml")
	if err != nil {
		t.Fatal(err)
	}
	hash := Secret(environment["HASH"])
	headers := IdentityHeaders{
		User: "X-User", Subject: "X-Subject", Email: "X-Email", Roles: "X-Roles",
		Mechanism: "X-Mechanism", Provider: "X-Provider",
	}
	own := headers
	own.User, own.Provider = "Remote-User", ""
	want := &Config{
		PublicURL: &url.URL{Scheme: "https", Host: "gateway.example.org"},
		Listen: Listen{
			HTTPS: "192.0.2.1:443", HTTP: "[2001:db8::1]:80", Admin: "127.0.0.1:9191",
			TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::1/128")},
			ProxyProtocol:  []netip.Prefix{netip.MustParsePrefix("192.0.2.8/32"), netip.MustParsePrefix("2001:db8:1::/48")},
		},
		TLS: TLS{
			Mode: "internal", Domains: []string{"gateway.example.org", "*.gateway.example.org", "192.0.2.1"},
			Email: "admin@example.org", Directory: "https://acme.example.org/directory",
			TrustedRoots: "testdata/good/roots.pem", HSTS: 365 * 24 * time.Hour,
		},
		DataDir: "testdata/good/state",
		Store: Store{
			Driver: "sqlite", Path: "testdata/good/state/other.db", Addresses: []string{"127.0.0.1:6380"},
			SentinelMaster: "main", Username: "store", Password: "store password",
			SentinelUsername: "watcher", SentinelPassword: "a secret of its own that is long enough", TLS: true,
			KeyPrefix: "gateway:", MaxStaleness: time.Second, EncryptionKey: "a secret of its own that is long enough",
		},
		Endpoints: Endpoints{Prefix: "/auth/"},
		Basic: Basic{Realm: "Example", Htpasswd: "testdata/files/htpasswd", Users: []BasicUser{
			{"service", "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHRzYWx0$aGFzaGhhc2hoYXNoaGFzaGhhc2hoYXNoaGFzaGhhc2g"},
			{"machine", "$2a$05$ebKtSGOsbHPwO19iJdInQ.pi5nrMxHqfn0dD/EIK4d7/1kjEHtwr6"},
			{"printer", "$2a$05$MCC/PeEeN.a8onjl/BrZLuiXACegYW.JZY5XnLM0ivTbk2L4aPcOK"},
		}},
		Accounts: Accounts{File: "testdata/files/accounts.yaml", Users: []Account{
			{Username: "alice", PasswordHash: hash, Name: "Alice Example", Email: "alice@example.org", Roles: []string{"user", "admin"}},
			{Username: "bob", PasswordHash: hash},
			{Username: "carol", PasswordHash: hash, Roles: []string{"user"}},
			{Username: "dave", PasswordHash: hash, Disabled: true},
		}},
		Session: Session{Cookie: "__Host-id", Lifetime: 2 * time.Hour, IdleTimeout: 10 * time.Minute, SameSite: "strict", CSRFToken: true},
		Token: Token{
			Algorithm: "HS256", Secret: "a secret of its own that is long enough", Issuer: "https://issuer.example.org",
			Audience: []string{"one", "two"}, AccessLifetime: 20 * time.Minute, RefreshLifetime: 720 * time.Hour,
			Delivery: "cookie", BindRefresh: []string{"user_agent", "ip"},
			TrustedIssuers: []TrustedIssuer{{
				Name: "partner", Issuer: "https://partner.example.org", Audience: []string{"app", "api"},
				Algorithms: []string{"ES256", "EdDSA"}, RolesClaim: "groups", UsernameClaim: "email",
				Introspection: &Introspection{
					URL: "https://partner.example.org/introspect", ClientID: "gateway", ClientSecret: "introspection secret",
				},
				Timeout: 3 * time.Second,
			}},
		},
		Providers: []Provider{{
			Name: "company", Title: "Company account", Issuer: "https://id.example.org",
			ClientID: "gateway", ClientSecret: "provider secret", TokenEndpointAuthMethod: "client_secret_basic",
			Scopes: []string{"openid", "groups"}, AuthorizationParams: map[string]string{"prompt": "login"},
			RolesClaim: "groups", UsernameClaim: "email", SubjectClaim: "sub", Callback: "/auth/callback",
			Logout: "form", LogoutURL: "https://id.example.org/logout", Timeout: 4 * time.Second,
			AuthorizationURL: "https://id.example.org/authorize", TokenURL: "https://id.example.org/token",
			UserinfoURL: "https://id.example.org/userinfo", JWKSURL: "https://id.example.org/keys",
		}},
		Delegated: Delegated{Cookie: "__Host-delegated", Lifetime: 3 * time.Hour, DefaultProvider: "company"},
		Upstreams: map[string]Upstream{"resources": {
			URLs: []*url.URL{{Scheme: "http", Host: "127.0.0.1:9000"}, {Scheme: "https", Host: "[::1]:9001"}}, Timeout: 10 * time.Second,
			ConnectTimeout: time.Second, IdentityHeaders: &own,
		}},
		IdentityHeaders: headers,
		Policies: map[string]*policy.Spec{
			"admin": {Roles: []string{"admin"}},
			"office": {
				AllRoles: []string{"user", "staff"}, Users: []string{"alice", "basic:service"},
				EmailDomains: []string{"example.org"}, Scopes: []string{"read"}, Mechanisms: []string{"session"},
				Providers: []string{"local"}, Networks: []string{"192.0.2.0/24"}, Methods: []string{"GET"},
				Claims: map[string][]string{"department": {"sales"}},
				Any:    []policy.Ref{{Name: "admin"}, {Spec: &policy.Spec{Roles: []string{"staff"}}}},
				All:    []policy.Ref{{Name: "admin"}},
				None:   []policy.Ref{{Spec: &policy.Spec{Roles: []string{"guest"}}}},
			},
		},
		Routes: []Route{
			{
				Match: "GET api.example.org/v1/{rest...}", Name: "api", Upstream: "resources",
				Auth:   []policy.Mechanism{policy.Session, policy.Bearer},
				Policy: []policy.Ref{{Name: "admin"}, {Name: "office"}}, Timeout: 5 * time.Second,
				Unauthenticated: "challenge", CrossOrigin: "allow", StripPrefix: "/v1",
				Headers:            RouteHeaders{Set: map[string]string{"X-Source": "gateway"}, Remove: []string{"Accept-Language"}},
				ForwardCredentials: true, MaxBody: 1048576,
			},
			{Match: "/login", Name: "/login", Upstream: "resources", Auth: []policy.Mechanism{policy.None}, Unauthenticated: "auto", CrossOrigin: "deny"},
			{
				Match: "/place", Name: "/place", Upstream: "resources", Auth: []policy.Mechanism{policy.Basic}, Unauthenticated: "auto", CrossOrigin: "deny",
				Policy: []policy.Ref{{Spec: &policy.Spec{Any: []policy.Ref{{Name: "office"}, {Spec: &policy.Spec{Roles: []string{"user"}}}}}}},
			},
		},
		Limits: Limits{LoginFailures: 5, LoginWindow: 10 * time.Minute, MaxHeaderBytes: 8192, InFlight: 500, BodyPause: 30 * time.Second},
		Log:    Log{Level: "debug", Format: "text"},

		ShutdownDelay: 15 * time.Second, ShutdownTimeout: time.Minute,
	}
	if diff := cmp.Diff(want, got, exported); diff != "" {
		t.Errorf("every-key.yaml (-want +got):\n%s", diff)
	}
	wantFiles := []string{
		"testdata/files/accounts.yaml", "testdata/files/hash.txt", "testdata/files/htpasswd", "testdata/files/secret.txt",
	}
	if diff := cmp.Diff(wantFiles, got.SideFiles()); diff != "" {
		t.Errorf("side files (-want +got):\n%s", diff)
	}
}

// What a provider and an issuer are without the keys that may be left out.
func TestDefaultsOfProviders(t *testing.T) {
	t.Parallel()
	cfg := mustParse(t, `
providers: [{name: keycloak, issuer: "https://id.example.org", client_id: authgate}]
token: {trusted_issuers: [{issuer: "https://partner.example.org", audience: [app]}]}
`)
	wantProviders := []Provider{{
		Name: "keycloak", Title: "keycloak", Issuer: "https://id.example.org", ClientID: "authgate",
		Scopes: []string{"openid", "profile", "email"}, RolesClaim: "roles", UsernameClaim: "preferred_username",
		SubjectClaim: "sub", Callback: "/callback", Logout: "auto", Timeout: 10 * time.Second,
	}}
	if diff := cmp.Diff(wantProviders, cfg.Providers); diff != "" {
		t.Errorf("providers (-want +got):\n%s", diff)
	}
	wantIssuers := []TrustedIssuer{{
		Name: "partner.example.org", Issuer: "https://partner.example.org", Audience: []string{"app"},
		RolesClaim: "roles", UsernameClaim: "preferred_username", Timeout: 10 * time.Second,
	}}
	if diff := cmp.Diff(wantIssuers, cfg.Token.TrustedIssuers); diff != "" {
		t.Errorf("trusted issuers (-want +got):\n%s", diff)
	}
}

// The people of an issuer that is a provider too are those of the provider.
func TestNamesOfTrustedIssuers(t *testing.T) {
	t.Parallel()
	cfg, err := parseTestdata(t, "testdata/good/trusted-issuers.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, issuer := range cfg.Token.TrustedIssuers {
		got = append(got, issuer.Name)
	}
	if diff := cmp.Diff([]string{"keycloak", "partner.example.org", "shop", "Dex_2"}, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

func TestSideFilesOfTLS(t *testing.T) {
	t.Parallel()
	cfg, err := parseTestdata(t, "testdata/good/tls-files.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"testdata/files/tls-certificate.pem", "testdata/files/tls-key.pem"}
	if diff := cmp.Diff(want, cfg.SideFiles()); diff != "" {
		t.Errorf("side files (-want +got):\n%s", diff)
	}
}

func TestTLSOffListensWithoutHTTPS(t *testing.T) {
	t.Parallel()
	cfg, err := parseTestdata(t, "testdata/good/behind-a-proxy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := Listen{HTTP: ":8000", TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/32")}}
	if diff := cmp.Diff(want, cfg.Listen, exported); diff != "" {
		t.Errorf("listen (-want +got):\n%s", diff)
	}
}

func TestVariables(t *testing.T) {
	t.Parallel()
	cfg, err := parseTestdata(t, "testdata/good/variables.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got := []any{
		cfg.PublicURL.String(), cfg.DataDir, cfg.Limits.LoginFailures, cfg.Limits.LoginWindow, cfg.Store.TLS,
		cfg.Accounts.Users[0].PasswordHash.Reveal(), cfg.Accounts.Users[0].Name, cfg.Token.Secret.Reveal(),
	}
	want := []any{
		"https://gateway.example.org:8443", "/srv/state", 7, 90 * time.Second, true,
		environment["HASH"], "costs $5, ${NOT_SET} and info, format: text}", environment["SECRET"],
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
}

func TestAnchors(t *testing.T) {
	t.Parallel()
	cfg, err := parseTestdata(t, "testdata/good/anchors.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if two := cfg.Upstreams["two"]; two.Timeout != 7*time.Second || two.URLs[0].Host != "127.0.0.1:9001" {
		t.Errorf("upstream two: %+v; want the timeout merged in and its own address", two)
	}
	if cfg.Accounts.Users[1].PasswordHash != cfg.Accounts.Users[0].PasswordHash {
		t.Error("an alias of a secret is not the secret")
	}
	type short struct {
		match   string
		timeout time.Duration
		auth    int
	}
	var got []short
	for _, r := range cfg.Routes {
		got = append(got, short{r.Match, r.Timeout, len(r.Auth)})
	}
	want := []short{{"/one", 3 * time.Second, 2}, {"/two", 3 * time.Second, 2}, {"/three", 9 * time.Second, 2}, {"/four", 0, 2}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("routes: %v, want %v", got, want)
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	if _, err := Load(filepath.Join(t.TempDir(), "none.yaml")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v, want fs.ErrNotExist", err)
	}
	cfg, err := Load("testdata/good/minimal.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Routes[0].Name != "/" || cfg.DataDir != filepath.Join("testdata", "good", "data") {
		t.Errorf("got the route %q and data_dir %q", cfg.Routes[0].Name, cfg.DataDir)
	}
	_, err = Load("testdata/bad/unknown-key.yaml")
	if diagnostics, ok := errors.AsType[Diagnostics](err); !ok || len(diagnostics) < 2 {
		t.Errorf("a bad file: %v, want several Diagnostics", err)
	}
}

func TestTooLarge(t *testing.T) {
	t.Parallel()
	source := []byte("# " + strings.Repeat("x", maxConfigSize))
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, source, 0o600); err != nil {
		t.Fatal(err)
	}
	_, loadErr := Load(path)
	_, parseErr := Parse(path, source)
	for _, err := range []error{loadErr, parseErr} {
		if err == nil || !strings.Contains(err.Error(), "larger than 1 MiB") {
			t.Errorf("got %.200v, want an error about the size", err)
		}
	}
}

// A changed accounts file shows in Reread, while the main file is what it was.
func TestReread(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	account := "- {username: %s, password_hash: \"" + environment["HASH"] + "\"}\n"
	write("config.yaml", "accounts: {file: accounts.yaml}\nlog: {level: warn}\n")
	write("accounts.yaml", fmt.Sprintf(account, "alice"))
	cfg, err := Load(filepath.Join(dir, "config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	same, err := cfg.Reread()
	if err != nil || !cmp.Equal(cfg, same, exported) {
		t.Fatalf("nothing has changed, but Reread gives %+v (%v)", same, err)
	}
	write("config.yaml", "log: {level: debug}\n")
	write("accounts.yaml", fmt.Sprintf(account, "alice")+fmt.Sprintf(account, "bob"))
	changed, err := same.Reread()
	if err != nil {
		t.Fatal(err)
	}
	if len(changed.Accounts.Users) != 2 || changed.Log.Level != "warn" {
		t.Errorf("got %d accounts and level %s; want the new accounts and the old level", len(changed.Accounts.Users), changed.Log.Level)
	}
	write("accounts.yaml", "")
	if _, err := changed.Reread(); err == nil {
		t.Error("a truncated accounts file is accepted")
	}
	write("accounts.yaml", "[]\n")
	none, err := changed.Reread()
	if err != nil || len(none.Accounts.Users) != 0 {
		t.Errorf("an empty list: %d accounts (%v), want none", len(none.Accounts.Users), err)
	}
}

// A caller that changes its slice afterwards does not change the Config.
func TestParseCopiesItsSource(t *testing.T) {
	t.Parallel()
	source := []byte("log: {level: warn}\n")
	cfg, err := Parse("config.yaml", source)
	if err != nil {
		t.Fatal(err)
	}
	copy(source, strings.Repeat("x", len(source)))
	if _, err := cfg.Reread(); err != nil {
		t.Error(err)
	}
}

func TestCRLF(t *testing.T) {
	t.Parallel()
	cfg := mustParse(t, "log:\r\n  level: warn\r\n  format: text\r\n")
	if cfg.Log != (Log{Level: "warn", Format: "text"}) {
		t.Errorf("got %+v", cfg.Log)
	}
}

func TestOriginIsCanonical(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"https://Gateway.Example.ORG:443": "https://gateway.example.org",
		"https://localhost:8443":          "https://localhost:8443",
		"https://[2001:DB8::1]:443":       "https://[2001:db8::1]",
	} {
		if got := mustParse(t, "public_url: "+raw).PublicURL.String(); got != want {
			t.Errorf("%s becomes %s, want %s", raw, got, want)
		}
	}
}
