package trusted

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"authgate/internal/test/must"
	"authgate/internal/test/providertest"
	"authgate/policy"
)

// Tokens that name another issuer or none, that are too long, or that are secrets of the
// gateway are not accepted. No issuer is asked.
func TestAccepts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	encode := func(part string) string { return base64.RawURLEncoding.EncodeToString([]byte(part)) }
	long := providertest.JWT(r.plain.Identifier)
	long += strings.Repeat("x", maxBytes-len(long))
	const secret = "a secret of the gateway"
	isSecret := func(text string) bool { return text == secret }
	for token, want := range map[string]bool{
		providertest.JWT("https://attacker.example"): false, providertest.JWT(""): false,
		providertest.JWT(r.plain.Identifier + "/"):                               false,
		providertest.JWT(strings.ToUpper(r.plain.Identifier)):                    false,
		encode(`{"alg":"ES256"}`) + "." + encode(`{"sub":"7"}`) + ".x":           false,
		encode(`{}`) + "." + encode(`{"iss":7}`) + ".x":                          false,
		encode(`{}`) + "." + encode(`{"iss":["`+r.plain.Identifier+`"]}`) + ".x": false,
		encode(`{}`) + "." + encode(`null`) + ".x":                               false,
		"a.!.c": false, "a." + encode("x") + ".c": false, "..": false,
		long + "x": false, strings.Repeat("x", maxBytes+1): false, secret: false,

		long: true, providertest.JWT(r.plain.Identifier): true, "opaque": true, strings.Repeat("x", maxBytes): true,
		"a.b": true, "a.b.c.d.e": true,
	} {
		if got := r.tokens.Accepts(token, isSecret); got != want {
			t.Errorf("%.80q: accepted is %t, want %t", token, got, want)
		}
	}
	r.wantAsked(t, 0, 0)
}

// A token has the identity that its issuer tells. It has no login.
func TestIdentity(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.asked.Knows("opaque", r.access(""))
	for token, name := range map[string]string{r.jwt(): "plain", "opaque": "asked"} {
		want := &policy.Identity{
			Username: "carol", Subject: name + ":7", Name: "Carol", Email: "carol@example.org",
			Roles: []string{"user"}, Scopes: []string{"read", "write"}, Claims: map[string]any{"a": "b"},
			Mechanism: policy.Bearer, Provider: name, Expires: r.clock.Now().Add(time.Hour),
		}
		got := must.Get(r.tokens.Authenticate(t.Context(), token))(t)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
