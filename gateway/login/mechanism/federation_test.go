package mechanism

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"authgate/gateway/config"
	"authgate/gateway/identity/provider"
	"authgate/internal/test/must"
)

// A provider or issuer whose configuration stays the same is taken over with
// what it knows. One that changes is made anew.
func TestFederationTakesOver(t *testing.T) {
	t.Parallel()
	const both = `
public_url: https://gw.example
upstreams: {app: {url: "http://app.invalid"}}
routes: [{match: /, upstream: app, auth: [none]}]
token: {trusted_issuers: [{name: issuer, issuer: "https://issuer.example", audience: [a]}]}
providers:
  - {name: small, issuer: "https://id.example", client_id: gateway}
  - {name: plain, client_id: gateway, scopes: [a], ` +
		`authorization_url: "https://o.example/a", token_url: "https://o.example/t", userinfo_url: "https://o.example/u"}
  - {name: private, issuer: "https://id.internal", client_id: gateway, trusted_roots: roots.pem}
`
	dir := t.TempDir()
	build := func(yaml string, roots int, before *Federation) *Federation {
		root := must.Get(os.ReadFile("../../config/testdata/files/tls-certificate.pem"))(t)
		must.Do(t, os.WriteFile(filepath.Join(dir, "roots.pem"), bytes.Repeat(root, roots), 0o600))
		cfg := must.Get(config.Parse(filepath.Join(dir, "config.yaml"), []byte(yaml)))(t)
		return &Federation{Providers: must.Get(newProviders(options(cfg), before.Providers))(t),
			issuers: must.Get(newIssuers(options(cfg), before.issuers))(t)}
	}
	first := build(both, 1, &Federation{})
	defer closeAll(first.Unused(&Federation{}))
	if got := first.Providers[1].Issuer(); got != "https://o.example/t" {
		t.Errorf("a provider without an issuer is known as %q", got)
	}
	same := build(both, 1, first)
	if same.Providers[0] != first.Providers[0] || same.Providers[1] != first.Providers[1] ||
		same.Providers[2] != first.Providers[2] || same.issuers[0] != first.issuers[0] {
		t.Error("what stays the same is made anew")
	}
	other := strings.NewReplacer("client_id: gateway}", "client_id: other}", "audience: [a]",
		"audience: [b]").Replace(both)
	changed := build(other, 2, first)
	defer closeAll(changed.Unused(first))
	if changed.Providers[0] == first.Providers[0] || changed.issuers[0] == first.issuers[0] ||
		changed.Providers[1] != first.Providers[1] || changed.Providers[2] == first.Providers[2] {
		t.Error("what has changed is taken over, or what has not is made anew")
	}
}

// A provider with a certificate of a private authority is reached with trusted_roots, and not
// without.
func TestTrustedRoots(t *testing.T) {
	t.Parallel()
	var server *httptest.Server
	server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"issuer": %[1]q, "authorization_endpoint": "%[1]s/authorize", "token_endpoint": "%[1]s/token",
			"jwks_uri": "%[1]s/keys"}`, server.URL)
	}))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	root := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	must.Do(t, os.WriteFile(filepath.Join(dir, "roots.pem"), root, 0o600))
	for more, reached := range map[string]bool{"": false, ", trusted_roots: roots.pem": true} {
		cfg := must.Get(config.Parse(filepath.Join(dir, "config.yaml"), []byte(`
public_url: https://gw.example
upstreams: {app: {url: "http://app.invalid"}}
routes: [{match: /, upstream: app, auth: [none]}]
providers: [{name: private, issuer: "`+server.URL+`", client_id: gateway`+more+`}]
`)))(t)
		p := must.Get(newProviders(options(cfg), nil))(t)[0]
		t.Cleanup(p.Close)
		_, err := p.AuthorizationURL(t.Context(), provider.Attempt{State: "s", Nonce: "n", Verifier: strings.Repeat("v", 43)})
		if (err == nil) != reached {
			t.Errorf("with %q: %v", more, err)
		}
	}
}

// options are those of a configuration, for connections that nothing measures.
func options(cfg *config.Config) *Options {
	unmeasured := func(string) func(string, time.Duration, error) { return func(string, time.Duration, error) {} }
	return &Options{Config: cfg, LocalNow: time.Now, Logger: slog.Default(), Observe: unmeasured}
}

func closeAll(closes []func()) {
	for _, end := range closes {
		end()
	}
}
