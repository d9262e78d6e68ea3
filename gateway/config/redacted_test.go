package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
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
// secret: neither as text nor as the numbers of its bytes. Verbs for text apply to
// text only; go vet finds other uses.
func TestConfigPrintsRedacted(t *testing.T) {
	t.Parallel()
	cfg, err := Parse("config.yaml", []byte(secretive))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(cfg.Token.Secret.Reveal(), "sesame") || !strings.Contains(cfg.Providers[0].ClientSecret.Reveal(), "sesame") {
		t.Fatal("the configuration has no secrets to find")
	}
	parts := map[string]any{
		"Config": *cfg, "*Config": cfg, "Token": cfg.Token, "Store": cfg.Store, "Providers": cfg.Providers, "*Provider": &cfg.Providers[0],
		"Secret": cfg.Token.Secret, "*Secret": &cfg.Token.Secret, "[]Secret": []Secret{cfg.Token.Secret}, "map of Secret": map[string]Secret{"x": cfg.Token.Secret},
	}
	for name, part := range parts {
		verbs := []string{"%v", "%+v", "%#v"}
		if strings.Contains(name, "Secret") {
			verbs = append(verbs, "%s", "%q", "%x", "%X")
		}
		for _, verb := range verbs {
			wantRedacted(t, name+" by "+verb, fmt.Sprintf(verb, part))
		}
		wantRedacted(t, name+" by Errorf", fmt.Errorf("bad configuration %v", part).Error())
		encoded, err := json.Marshal(part)
		if err != nil {
			t.Errorf("%s as JSON: %v", name, err)
		}
		wantRedacted(t, name+" as JSON", string(encoded))
		var log bytes.Buffer
		for _, handler := range []slog.Handler{slog.NewJSONHandler(&log, nil), slog.NewTextHandler(&log, nil)} {
			slog.New(handler).Error("configuration", "part", part, slog.Any("any", part), slog.Group("group", slog.Any("in", part)))
		}
		wantRedacted(t, name+" in a log", log.String())
	}
}

func wantRedacted(t *testing.T, what, text string) {
	t.Helper()
	word := []byte("sesame")
	for form, secret := range map[string]string{
		"text": "sesame", "hexadecimal": fmt.Sprintf("%x", word), "numbers": strings.Trim(fmt.Sprint(word), "[]"),
		"numbers as in Go": strings.Trim(strings.TrimPrefix(fmt.Sprintf("%#v", word), "[]byte"), "{}"),
	} {
		if strings.Contains(strings.ToLower(text), secret) {
			t.Errorf("%s shows a secret, as %s", what, form)
		}
	}
}
