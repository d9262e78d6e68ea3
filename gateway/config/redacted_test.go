package config

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"authgate/gateway/logtest"
)

// secretive has every kind of secret that a configuration can hold. Each of
// them contains "sesame".
const secretive = `
public_url: https://gw.example
store: {driver: memory, encryption_key: sesame-of-the-store-of-32-bytes-or-more}
token:
  secret: sesame-of-the-tokens-of-32-bytes-or-more
  trusted_issuers:
    - {name: issuer, issuer: "https://issuer.example", audience: [a], introspection: {url: "https://issuer.example/introspect", client_id: c, client_secret: sesame-of-the-introspection}}
providers: [{name: small, issuer: "https://id.example", client_id: gateway, client_secret: sesame-of-the-provider}]
upstreams: {app: {url: "http://app.invalid"}}
routes: [{match: /, upstream: app, auth: [bearer, oidc]}]
`

// A configuration, or a part of it, that is printed, logged or encoded shows no
// secret.
func TestConfigPrintsRedacted(t *testing.T) {
	t.Parallel()
	cfg := mustParse(t, secretive)
	if !strings.Contains(cfg.Token.Secret.Reveal(), "sesame") || !strings.Contains(cfg.Providers[0].ClientSecret.Reveal(), "sesame") {
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
		shown := fmt.Sprintf("%v %+v %#v", part, part, part) + fmt.Errorf("bad %v", part).Error() + string(encoded) + log.String()
		if strings.Contains(shown, "sesame") {
			t.Errorf("%T shows a secret: %s", part, shown)
		}
	}
}
