package login

import (
	"encoding/base64"
	"strings"
	"testing"

	"authgate/internal/test/providertest"
)

// Tokens of the gateway are recognized by their checksum or their key, and those of others
// are not. Package mechanism has the spellings.
func TestContainsOwn(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []string{"HS256", "RS256"} {
		r := newRig(t, func(r *rig) { r.keys = testKeys(t, algorithm) })
		s := r.signIn(t, "alice")
		keyless := r.forge(t, s).with(map[string]any{"header kid": nil})
		others := signHS256([]byte("a key of no issuer, as long as the others are"))
		for text, want := range map[string]bool{
			s.access: true, s.refresh: true,
			keyless.token(): true, keyless.with(map[string]any{"exp": 1}).token(): true,
			keyless.with(map[string]any{"header KID": "x"}).token(): true,
			unsigned(s.access, "AAAA"):                              true, // what it was is still told by its key
			basicValue(s.refresh, ""):                               true,
			strings.TrimRight(basicValue("é>?", s.access), "="):     true,
			base64url([]byte("é>?:" + s.refresh)):                   true,
			basicValue("aπ", s.access):                              true, // a + within four characters

			"":                                       false,
			"Bearer " + providertest.JWT(testIssuer): false, // of an application at the same URL
			keyless.by(others).token():               false,
			r.forge(t, s).with(map[string]any{"header kid": "other"}).token(): false,
			s.refresh[1:]: false,
			"Basic " + basicValue("app", strings.Repeat("x", 100)): false,
			strings.Repeat("x", 64<<10):                            false,
		} {
			if got := r.bearers.ContainsOwn(text, nothing); got != want {
				t.Errorf("%s: %.80q: %t, want %t", algorithm, text, got, want)
			}
		}
	}
}

func nothing(string) bool { return false }

func basicValue(username, password string) string {
	return base64.StdEncoding.EncodeToString([]byte(username + ":" + password))
}

// BenchmarkContainsOwn is what Authorization of an application's own costs.
func BenchmarkContainsOwn(b *testing.B) {
	r := newRig(b)
	for name, text := range map[string]string{
		"opaque": "Bearer glsa_0123456789abcdef",
		"basic":  "Basic " + basicValue("app", "a password of the application"),
		"jwt":    "Bearer " + providertest.JWT("https://app.example"),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if r.bearers.ContainsOwn(text, nothing) {
					b.Fatal(name)
				}
			}
		})
	}
}
