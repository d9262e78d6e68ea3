package oidc

import (
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	"authgate/e2e/world"
)

// TestAdvisoriesToken: an access token of another issuer needs a signature by its
// key. The tests of gateway/login and gateway/identity/provider have all other faults.
func TestAdvisoriesToken(t *testing.T) {
	t.Parallel()
	h, up := newHostile(t, "one"), world.Record(t)
	g := world.Start(t, world.App(up.URL)+fmt.Sprintf("token: {trusted_issuers: [{name: one, issuer: %q, audience: "+
		"[api]}]}\nroutes: [{match: /, upstream: app, auth: [bearer]}]\n", h.issuer))
	c := g.Stranger()
	good := "Bearer " + h.sign("JWT", map[string]any{
		"iss": h.issuer, "sub": "alice", "aud": "api", "iat": time.Now().Unix(),
		"exp": time.Now().Add(10 * time.Minute).Unix(), "jti": "1",
	})
	t.Run("CVE-2022-21449 Java, a signature of zeros", func(t *testing.T) {
		for _, zeros := range []int{0, 1, 63, 64, 65, 96, 132} {
			g.Do(c, "GET", "/", "", "Authorization", unsigned(good)+base64.RawURLEncoding.EncodeToString(make([]byte, zeros)))
			up.None(t)
		}
	})
	g.Do(c, "GET", "/", "", "Authorization", good)
	up.One(t) // otherwise the attacks would prove nothing
}
