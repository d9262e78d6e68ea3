package mechanism

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"authgate/gateway/config"
	"authgate/gateway/web"
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
  - {name: plain, client_id: gateway, scopes: [a], authorization_url: "https://o.example/a", token_url: "https://o.example/t", userinfo_url: "https://o.example/u"}
`
	metrics := must.Get(web.NewMetrics(prometheus.NewRegistry(), slog.Default(), "test", nil))(t)
	service := &web.Service{Logger: slog.Default(), Metrics: metrics, Now: time.Now}
	build := func(yaml string, before *Federation) *Federation {
		cfg := must.Get(config.Parse(filepath.Join(t.TempDir(), "config.yaml"), []byte(yaml)))(t)
		return &Federation{Providers: newProviders(cfg, service, before.Providers),
			issuers: newIssuers(cfg, service, before.issuers)}
	}
	first := build(both, &Federation{})
	defer closeAll(first.Unused(&Federation{}))
	if got := first.Providers[1].Issuer(); got != "https://o.example/t" {
		t.Errorf("a provider without an issuer is known as %q", got)
	}
	same := build(both, first)
	if same.Providers[0] != first.Providers[0] || same.Providers[1] != first.Providers[1] ||
		same.issuers[0] != first.issuers[0] {
		t.Error("what stays the same is made anew")
	}
	other := strings.NewReplacer("client_id: gateway}", "client_id: other}", "audience: [a]",
		"audience: [b]").Replace(both)
	changed := build(other, first)
	defer closeAll(changed.Unused(first))
	if changed.Providers[0] == first.Providers[0] || changed.issuers[0] == first.issuers[0] ||
		changed.Providers[1] != first.Providers[1] {
		t.Error("what has changed is taken over, or what has not is made anew")
	}
}

func closeAll(closes []func()) {
	for _, end := range closes {
		end()
	}
}
