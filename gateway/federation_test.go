package gateway

import "testing"

// A provider or issuer whose configuration stays the same is taken over with
// what it knows. One that changes is made anew.
func TestFederationTakesOver(t *testing.T) {
	t.Parallel()
	const both = `
token: {trusted_issuers: [{name: issuer, issuer: "https://issuer.example", audience: [a]}]}
providers:
  - {name: small, issuer: "https://id.example", client_id: gateway}
  - {name: plain, client_id: gateway, scopes: [a], authorization_url: "https://o.example/a", token_url: "https://o.example/t", userinfo_url: "https://o.example/u"}
`
	r := newRig(t, baseConfig)
	build := func(yaml string, before *federation) *federation {
		cfg := parseConfig(t, r.dir, baseConfig+yaml)
		return &federation{parties: newParties(cfg, &r.service, before.parties), issuers: newIssuers(cfg, &r.service, before.issuers)}
	}
	first := build(both, &federation{})
	defer closeAll(first.unused(&federation{}))
	if got := first.parties[1].Issuer(); got != "https://o.example/t" {
		t.Errorf("a provider without an issuer is known as %q", got)
	}
	if same := build(both, first); same.parties[0] != first.parties[0] || same.parties[1] != first.parties[1] || same.issuers[0] != first.issuers[0] {
		t.Error("what stays the same is made anew")
	}
	changed := build(edit(t, edit(t, both, "client_id: gateway}", "client_id: other}"), "audience: [a]", "audience: [b]"), first)
	defer closeAll(changed.unused(first))
	if changed.parties[0] == first.parties[0] || changed.issuers[0] == first.issuers[0] || changed.parties[1] != first.parties[1] {
		t.Error("what has changed is taken over, or what has not is made anew")
	}
}
