package oauth_test

import (
	"encoding/json"
	"slices"
	"testing"

	"authgate/internal/test/must"
	"authgate/internal/test/rig"
)

// document reads a document as the page of another site does.
func document(t *testing.T, r *rig.Rig, host, path string) map[string]any {
	t.Helper()
	w := r.WantAt(host, 200, "GET", path, "", "Origin: https://spa.example.net", "Sec-Fetch-Site: cross-site")
	if got := w.Header().Get("Access-Control-Allow-Origin"); got != "*" {
		t.Errorf("%s%s: Access-Control-Allow-Origin is %q", host, path, got)
	}
	var m map[string]any
	must.Do(t, json.Unmarshal(w.Body.Bytes(), &m))
	return m
}

// A client finds everything by the issuer alone (RFC 8414; OpenID Connect Discovery 1.0).
func TestServerMetadata(t *testing.T) {
	t.Parallel()
	r := rig.New(t, configuration+"endpoints: {prefix: /auth/}\ntoken: {issuer: https://gw.example/tenant}\n")
	for _, path := range []string{
		"/.well-known/oauth-authorization-server/tenant", "/.well-known/openid-configuration/tenant",
		"/tenant/.well-known/openid-configuration",
	} {
		m := document(t, r, "gw.example", path)
		for name, want := range map[string]string{
			"issuer":                        "https://gw.example/tenant",
			"authorization_endpoint":        "https://gw.example/auth/oauth/authorize",
			"token_endpoint":                "https://gw.example/auth/oauth/token",
			"device_authorization_endpoint": "https://gw.example/auth/oauth/device",
			"userinfo_endpoint":             "https://gw.example/auth/oauth/userinfo",
			"end_session_endpoint":          "https://gw.example/auth/oauth/logout",
			"jwks_uri":                      "https://gw.example/auth/.well-known/jwks.json",
		} {
			if m[name] != want {
				t.Errorf("%s: %s is %v, want %s", path, name, m[name], want)
			}
		}
		for _, name := range []string{"token", "revocation", "introspection"} { // RFC 8414, section 2
			name += "_endpoint_auth_signing_alg_values_supported"
			if algorithms, _ := m[name].([]any); !slices.Equal(algorithms, []any{"RS256", "ES256"}) {
				t.Errorf("%s: %s is %v", path, name, m[name])
			}
		}
		if m["registration_endpoint"] != nil || m["authorization_response_iss_parameter_supported"] != true {
			t.Errorf("%s: %v", path, m)
		}
	}
	// ID tokens are signed with a public key, whatever the access tokens are signed with.
	var keys struct{ Keys []struct{ Alg string } }
	must.Do(t, json.Unmarshal(r.Want(200, "GET", "/auth/.well-known/jwks.json", "").Body.Bytes(), &keys))
	if len(keys.Keys) != 1 || keys.Keys[0].Alg != "RS256" {
		t.Errorf("the published keys are %v", keys.Keys)
	}
	r.Want(404, "POST", "/auth/oauth/register", `{}`, rig.JSON) // off
}

// Each route that accepts bearer tokens is a resource with a document at its host (RFC 9728).
func TestResourceMetadata(t *testing.T) {
	t.Parallel()
	r := rig.New(t, configuration+"  scopes: {read: [user], write: []}\n")
	for _, c := range []struct{ host, path, resource string }{
		{"mcp.example.org", "/mcp", "https://mcp.example.org/mcp"},
		{"gw.example", "/api", "https://gw.example/api"},
		{"mcp.example.org", "/api", "https://mcp.example.org/api"},
		{"gw.example", "/bearer", "https://gw.example/bearer"},
		{"gw.example", "/any", "https://gw.example/any"},
	} {
		m := document(t, r, c.host, "/.well-known/oauth-protected-resource"+c.path)
		servers, _ := m["authorization_servers"].([]any)
		scopes, _ := m["scopes_supported"].([]any)
		if m["resource"] != c.resource || !slices.Equal(servers, []any{"https://gw.example"}) ||
			!slices.Equal(scopes, []any{"read", "write"}) {
			t.Errorf("%s%s: %v", c.host, c.path, m)
		}
	}
	for _, place := range [][2]string{{"gw.example", "/mcp"}, {"gw.example", "/basic"}, {"gw.example", "/session"},
		{"gw.example", ""}, {"gw.example", "/api/x"}} {
		r.WantAt(place[0], 404, "GET", "/.well-known/oauth-protected-resource"+place[1], "")
	}
}

// WebFinger names the issuer for any name at its host, so that it tells no stranger who has
// an account.
func TestWebFinger(t *testing.T) {
	t.Parallel()
	r := rig.New(t, configuration)
	for _, name := range []string{"alice", "nobody", "a.b+c"} {
		m := document(t, r, "gw.example", "/.well-known/webfinger?resource=acct:"+name+
			"@gw.example&rel=http://openid.net/specs/connect/1.0/issuer")
		links, _ := m["links"].([]any)
		if len(links) != 1 || links[0].(map[string]any)["href"] != "https://gw.example" {
			t.Errorf("%s: %v", name, m)
		}
	}
	avatars := document(t, r, "gw.example", "/.well-known/webfinger?resource=acct:a@gw.example&rel=avatar")
	if len(avatars["links"].([]any)) != 0 {
		t.Errorf("another relation: %v", avatars)
	}
	document(t, r, "gw.example", "/.well-known/webfinger?resource=acct:a@GW.example:443")
	for _, resource := range []string{
		"acct:alice@gw.example:8443", "acct:alice@evil.example", "acct:@gw.example", "https://gw.example/", "alice",
	} {
		r.Want(404, "GET", "/.well-known/webfinger?resource="+resource, "")
	}
	r.Want(400, "GET", "/.well-known/webfinger", "")
	r.Want(400, "GET", "/.well-known/webfinger?resource=acct:a@gw.example&resource=acct:b@gw.example", "")
}
