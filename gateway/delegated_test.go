package gateway

import (
	"strings"
	"testing"

	ownrig "authgate/internal/test/rig"
)

// What does not say who it is, and proves nothing, refuses no user and no token: a claim
// that cannot be used is absent.
func TestDecorationRefusesNoUser(t *testing.T) {
	t.Parallel()
	p := ownrig.NewProvider(t)
	r := delegatedRigOf(t, p, trusting(t, asIssuer(p, "small")), "")
	for _, changes := range []map[string]any{
		{"preferred_username": ""}, {"preferred_username": 5}, {"preferred_username": "carol "},
		{"preferred_username": "ca\u200brol"}, {"preferred_username": "boss@example.org"},
		{"name": map[string]any{"first": "C"}}, {"name": strings.Repeat("x", 2_000)},
		{"email": "carol"}, {"email": []string{"c@example.org"}}, {"email": "c@example.org", "email_verified": "True"},
		{"roles": "admin"}, {"roles": 5}, {"iat": nil}, {"iat": "now"}, {"sid": ""}, {"scope": 5},
		{"azp": nil}, {"azp": ""}, {"at_hash": nil}, {"at_hash": ""},
	} {
		p.Claims = changes
		for path, credential := range map[string]string{"/delegated/": r.client.Carol(), "/bearer/": p.Bearer(changes)} {
			r.want(200, "GET", path, "", credential)
			h := r.upstream.Last().Header
			want := [...]string{"carol", "", "user"}
			if changes["preferred_username"] != nil {
				want[0] = "1"
			}
			switch changes["roles"] {
			case "admin":
				want[2] = "admin"
			case 5:
				want[2] = ""
			}
			got, name := [...]string{h.Get("X-Auth-User"), h.Get("X-Auth-Email"), h.Get("X-Auth-Roles")}, h.Get("X-Auth-Name")
			if got != want || name != "" {
				t.Errorf("%.100v at %s: the upstream gets %v and the name %.20q, want %v", changes, path, got, name, want)
			}
		}
	}
	for _, changes := range []map[string]any{{"sub": ""}, {"sub": 5}, {"exp": 1}, {"aud": "another"}} {
		before := r.upstream.Reached()
		w := r.want(401, "GET", "/bearer/", "", p.Bearer(changes))
		if r.upstream.Reached() != before || !strings.Contains(w.Header().Get("WWW-Authenticate"), "invalid_token") {
			t.Errorf("%v: %v, %d requests reached the upstream", changes, w.Header(), r.upstream.Reached()-before)
		}
	}
}
