package gateway

import (
	"encoding/json"
	"strings"
	"testing"

	ownrig "authgate/internal/test/rig"
)

// What a provider claims reaches the application as it was said, from no other source, and a
// proxy that asks gets it too.
func TestClaimHeaders(t *testing.T) {
	t.Parallel()
	p := ownrig.NewProvider(t)
	p.Claims = map[string]any{
		"department": "Einkauf", "number": int64(9007199254740993), "teams": []string{"a", "b"},
		"bad": []string{"private text", "x,y"}, "address": map[string]any{"country": "NL"},
	}
	yaml := edit(t, p.Config(baseConfig, `listen: {trusted_proxies: [10.0.0.0/8]}
identity_headers:
  claims:
    X-Auth-Department: department
    X-Auth-Number: number
    X-Auth-Teams: teams
    X-Auth-Bad: bad
    X-Auth-None: none
`), `  app: {url: "http://app.invalid"}`, `  app:
    url: "http://app.invalid"
    identity_headers: {claims: {x-auth-department: address.country}}`)
	r := newRig(t, yaml)
	p.Now = r.clock.Now
	carol := r.client.Carol()
	want := map[string]string{
		"X-Auth-Department": "NL", "X-Auth-Number": "9007199254740993", "X-Auth-Teams": "a,b",
		"X-Auth-Bad": "", "X-Auth-None": "",
	}
	forged := []string{"X-Auth-Bad: forged", "x_auth.department: forged", "X-Auth-None: forged"}
	r.want(200, "GET", "/delegated/", "", append(forged, carol)...)
	sent := r.upstream.Last().Header
	for name, value := range want {
		if got := strings.Join(sent[name], "|"); got != value {
			t.Errorf("the application gets %s: %q, want %q", name, got, value)
		}
	}
	h := r.serve(question("192.0.2.7", append(asTraefik("GET", "gw.example", "/delegated/"), carol)...)).Header()
	for name, value := range want {
		if got, given := h[name]; !given || strings.Join(got, "|") != value {
			t.Errorf("the proxy gets %s: %q, want %q", name, got, value)
		}
	}
	const line = "a claim is left out: it cannot be written in a header"
	if all := r.log.Records(t, line); len(all) != 1 || all[0]["header"] != "X-Auth-Bad" || all[0]["claim"] != "bad" {
		t.Errorf("the log says %v", all)
	} else if text, _ := json.Marshal(all[0]); strings.Contains(string(text), "private text") {
		t.Errorf("the log has the claim: %s", text)
	}
	// Local accounts have no claims.
	r.want(200, "GET", "/session/", "", append(forged, r.login(aliceIn).cookie)...)
	for name, value := range r.upstream.Last().Header {
		if _, claim := want[name]; claim || strings.Contains(strings.Join(value, "|"), "forged") {
			t.Errorf("with a local account, the application gets %s: %q", name, value)
		}
	}
}
