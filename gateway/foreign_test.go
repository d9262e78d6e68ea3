package gateway

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"
)

// On a route whose application has bearer tokens of its own, these go on beside a good
// session, and only there. Tokens of the gateway are never forwarded.
func TestApplicationTokens(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig+`
  - {match: /shared/, name: shared, upstream: app, auth: [session, bearer], authorization: application}
  - {match: /shared-admin/, name: shared-admin, upstream: app, auth: [session, bearer], `+
		`authorization: application, policy: admin}
`)
	alice, bob := r.login(aliceIn), r.login(bobIn)
	jwt := func(header, claims string) string {
		encode := base64.RawURLEncoding.EncodeToString
		return encode([]byte(header)) + "." + encode([]byte(claims)) + ".c2lnbmF0dXJl"
	}
	foreign := []string{
		"opaque", "ghp_1234", "a.b.c", jwt(`{"alg":"HS256"}`, `{"iss":"https://app.example","sub":"alice"}`),
		jwt(`{"alg":"none"}`, `{"sub":"alice"}`), jwt(`[]`, `x`), strings.Repeat("x", 20_000),
	}
	for _, token := range foreign {
		line := "Authorization: Bearer " + token
		r.want(200, "GET", "/shared/", "", alice.cookie, line)
		last := r.upstream.Last()
		if got := last.Header.Get("Authorization"); got != "Bearer "+token ||
			last.Header.Get("X-Auth-Mechanism") != "session" || last.Header.Get("X-Auth-User") != "alice" {
			t.Errorf("%.80s: %.80q reached the upstream, as %v", token, got, last.Header["X-Auth-User"])
		}
		if last.Header.Get("Cookie") != "" {
			t.Errorf("%.80s: the session reached the upstream", token)
		}
		r.want(401, "GET", "/shared/", "", line)
		r.want(401, "GET", "/shared/", "", line, "Cookie: session_id=x")
		r.want(401, "GET", "/any/", "", line, alice.cookie) // the default
		r.want(403, "GET", "/shared-admin/", "", line, bob.cookie)
		r.want(403, "POST", "/shared/", "", line, alice.cookie, "Sec-Fetch-Site: cross-site")
	}
	r.want(200, "GET", "/shared/", "", bob.cookie, alice.bearer) // one of the gateway's counts first
	if last := r.upstream.Last(); last.Header.Get("X-Auth-User") != "alice" || last.Header.Get("Authorization") != "" {
		t.Errorf("the gateway's own token reached the upstream as %v", last.Header)
	}
	parts := strings.Split(alice.access, ".")
	own := []string{
		alice.access[:len(alice.access)-4] + "AAAA", alice.refresh, "",
		parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"https://app.example"}`)) + "." + parts[2],
		jwt(`{"alg":"none"}`, `{"iss":"https://gw.example","sub":"alice"}`),
	}
	for _, token := range own {
		r.want(401, "GET", "/shared/", "", alice.cookie, "Authorization: Bearer "+token)
	}
	r.clock.Advance(16 * time.Minute)
	r.want(401, "GET", "/shared/", "", alice.cookie, alice.bearer) // expired
	r.want(200, "GET", "/shared/", "", alice.cookie)
}
