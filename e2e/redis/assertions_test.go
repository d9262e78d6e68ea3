package redis

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"authgate/e2e/world"
)

// wantBearer checks what a token opens on both instances, at the latest after a while.
func (p *pair) wantBearer(t *testing.T, token string, want int) {
	t.Helper()
	for name, g := range p.both() {
		world.Until(t, fmt.Sprintf("%s to answer %d", name, want), func() bool {
			return g.Status(p.client(g), "GET", "/secure-resource", "Authorization", "Bearer "+token) == want
		})
	}
}

// byAssertion asks an instance for a token by an assertion.
func (p *pair) byAssertion(t *testing.T, g *world.Instance, status int, assertion string, more url.Values) string {
	t.Helper()
	form := url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:jwt-bearer"}, "assertion": {assertion}}
	maps.Copy(form, more)
	a := g.Do(p.client(g), "POST", "/oauth/token", form.Encode(), "Content-Type", "application/x-www-form-urlencoded")
	world.WantStatus(t, "an assertion", a, status)
	var answer struct {
		Access string `json:"access_token"`
	}
	world.NoError(t, json.Unmarshal([]byte(a.Body), &answer))
	return answer.Access
}

// TestRedisAssertions: a CI job and a company's agent get in by assertions at one instance, and what ends
// them at one ends them at the other: the operator, a used assertion, and a reload.
func TestRedisAssertions(t *testing.T) {
	t.Parallel()
	issuer := world.StartPlatform(t)
	p := preparePair(t, world.StartRedis(t))
	config := shared + world.App(p.up.URL) + world.OnRedis(p.redis.Address) + `
oauth:
  enabled: true
  clients:
    - {id: deploy, grants: [jwt_bearer], federation: [{issuer: okta, claims: {repository_id: ["7"]}}]}
    - {id: agent, secret: "4dae4b72f33a40dcb9d0d7c1d2f3a98e", grants: [device_code]}
  cross_app: [{provider: okta, clients: [agent]}]
providers: [{name: okta, issuer: "` + issuer.URL + `", client_id: gateway}]
`
	trusted := `token: {private_key: own.pem, trusted_issuers: [{name: okta, issuer: "` + issuer.URL +
		`", audience: [api]}], `
	config = strings.Replace(config, "token: {", trusted, 1)
	own := ownKey(t)
	for _, g := range p.both() {
		g.Write("own.pem", own)
		g.Configure(config)
	}
	p.run()
	asAgent := url.Values{"client_id": {"agent"}, "client_secret": {"4dae4b72f33a40dcb9d0d7c1d2f3a98e"}}
	vouch := func() string {
		return issuer.Sign("oauth-id-jag+jwt", map[string]any{
			"aud": p.a.Base, "sub": "1", "preferred_username": "carol", "client_id": "agent",
		})
	}
	given, early := vouch(), vouch()
	token := p.byAssertion(t, p.a, http.StatusOK, given, asAgent)
	p.wantBearer(t, token, http.StatusOK)
	p.byAssertion(t, p.b, http.StatusBadRequest, given, asAgent)
	p.endSessions(t, p.b, "okta:carol")
	p.wantBearer(t, token, http.StatusUnauthorized)
	p.byAssertion(t, p.a, http.StatusBadRequest, early, asAgent)

	job := issuer.Sign("JWT", map[string]any{"aud": p.a.Base, "sub": "job", "repository_id": 7})
	token = p.byAssertion(t, p.b, http.StatusOK, job, nil)
	p.wantBearer(t, token, http.StatusOK)
	for _, g := range p.both() {
		g.Configure(strings.Replace(config, `repository_id: ["7"]`, `repository_id: ["8"]`, 1))
		g.Signal(syscall.SIGHUP)
	}
	p.wantBearer(t, token, http.StatusUnauthorized)
}
