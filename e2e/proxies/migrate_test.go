package proxies

import (
	"crypto/x509"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"authgate/e2e/world"
)

// TestMigrateFromOAuth2Proxy runs nginx as docs/migrate/oauth2-proxy.md shows it: people
// sign in once at a provider for all hosts, and applications get the headers that nginx
// copied before.
func TestMigrateFromOAuth2Proxy(t *testing.T) {
	t.Parallel()
	g := world.Prepare(t)
	g.Public = "https://auth.example.org"
	provider := world.StartIssuer(t, nil, "accounts:\n  users:\n"+
		"    - {username: alice, email: alice@example.org, roles: [staff], password_hash: \""+world.WonderlandHash+"\"}\n"+
		"    - {username: bob, roles: [staff, ops], password_hash: \""+world.BuilderHash+"\"}\n", g)
	config := ""
	for _, b := range world.ReadDocument(t, "docs/migrate/oauth2-proxy.md").Blocks {
		if text := b.Text(); b.Info == "yaml" && strings.Contains(text, "trusted_proxies") {
			config = text
		}
	}
	g.Write("config.yaml", world.Substituted(t, config,
		`http: "127.0.0.1:8080"`, fmt.Sprintf("http: %q, admin: %q", world.Authority(g.HTTP), world.Authority(g.Admin)),
		"https://id.example.org/realms/main",
		provider.Base+"\n    trusted_roots: certificate.pem\n    scopes: [openid, email, groups]",
		"${CLIENT_SECRET}", world.IssuerSecret))
	g.Run()

	wiki, metrics := world.Record(t), world.Record(t)
	migrated := forwardProxy{document: "../migrate/oauth2-proxy.md", command: func(
		t *testing.T, files map[string]string, dir, address string,
	) *exec.Cmd {
		t.Helper()
		files["nginx.conf"] = world.Substituted(t, files["nginx.conf"], "127.0.0.1:4000", world.Authority(metrics.URL))
		return nginx(t, files, dir, address)
	}}
	address, roots := migrated.start(t, g, wiki.URL)
	if !roots.AppendCertsFromPEM([]byte(world.ReadFile(t, filepath.Join(provider.Dir, provider.CA)))) {
		t.Fatal("the provider has no certificate")
	}
	migratedSignIn(t, wiki, metrics, world.Surf(t, "127.0.0.1", address, roots))
	migratedRefusals(t, wiki, address, roots)
	if a, at := world.Surf(t, "127.0.0.1", address, roots).SignIn("https://metrics.example.org/", "bob"); a.Status !=
		http.StatusOK || at.Host != "metrics.example.org" {
		t.Errorf("a user with both groups: %d at %s", a.Status, at)
	}
	metrics.One(t)
}

// migratedSignIn: one sign-in is for all hosts, and each asks for its own groups.
func migratedSignIn(t *testing.T, wiki, metrics *world.Recorder, v world.Surfer) {
	t.Helper()
	const page = "https://wiki.example.org/page?a=%2Fb"
	if a, at := v.SignIn(page, "alice"); a.Status != http.StatusOK || at.String() != page {
		t.Fatalf("after the sign-in: %d at %s\n%s", a.Status, at, a.Body)
	}
	m := wiki.One(t)
	for name, want := range map[string]string{"X-User": "alice", "X-Email": "alice@example.org", "X-Groups": "staff"} {
		if got := m.Value(t, name); got != want {
			t.Errorf("%s is %q, expected %q", name, got, want)
		}
	}
	a, _ := v.Visit("GET", "https://metrics.example.org/", "", "Accept", world.TypeJSON) // a script, which is led nowhere
	world.WantStatus(t, "the other host, with the same cookie", a, http.StatusForbidden)
	metrics.None(t)
	a, _ = v.Visit("POST", "https://wiki.example.org/oauth2/logout", "", "Origin", "https://wiki.example.org",
		"Sec-Fetch-Site", "same-origin", "Accept", world.TypeJSON)
	world.WantStatus(t, "the logout", a, http.StatusOK)
	a, _ = v.Visit("GET", page, "", "Accept", world.TypeJSON)
	world.WantStatus(t, "after the logout", a, http.StatusUnauthorized)
	wiki.None(t)
}

// migratedRefusals: a stranger gets what is public, without the headers that they claim.
func migratedRefusals(t *testing.T, wiki *world.Recorder, address string, roots *x509.CertPool) {
	t.Helper()
	v := world.Surf(t, "127.0.0.1", address, roots)
	a, _ := v.Visit("GET", "https://wiki.example.org/page", "", "X-User", "root", "X-Auth-Request-User", "root")
	world.WantStatus(t, "a program", a, http.StatusUnauthorized)
	for _, own := range []string{"/oauth2/auth", "/oauth2/verify"} {
		a, _ = v.Visit("GET", "https://wiki.example.org"+own, "", "X-Original-URL", "https://wiki.example.org/public/")
		world.WantStatus(t, own, a, http.StatusNotFound)
	}
	wiki.None(t)
	a, _ = v.Visit("GET", "https://wiki.example.org/public/x", "", "X-User", "root", "X-Groups", "staff")
	world.WantStatus(t, "a public page", a, http.StatusOK)
	m := wiki.One(t)
	if user, groups := m.Value(t, "X-User"), m.Value(t, "X-Groups"); user+groups != "" {
		t.Errorf("a stranger is %q in %q", user, groups)
	}
}
