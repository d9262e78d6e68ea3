package gateway

import (
	"net/http"
	"strings"
	"testing"
	"time"

	ownrig "authgate/internal/test/rig"
)

// delegatedTokens returns a rig whose provider's users may have API tokens for two hours
// after the last sign-in or renewal, and its configuration. A renewal says roles.
func delegatedTokens(t *testing.T, roles *[]string) (r *rig, yaml string) {
	t.Helper()
	p := ownrig.NewProvider(t)
	const more = "delegated: {lifetime: 1h, api_tokens: 2h}\n"
	r = delegatedRigOf(t, p, baseConfig, more)
	p.Renewed = func(w http.ResponseWriter, _ *http.Request) {
		p.Reply(w, p.Tokens(p.Key, map[string]any{"roles": *roles}))
	}
	return r, p.Config(baseConfig, more)
}

// A user of a provider has API tokens if the configuration says so. They have the roles
// that the provider said last, and work until so long after that.
func TestAPITokensOfProviderUsers(t *testing.T) {
	t.Parallel()
	roles := []string{"user"}
	r, _ := delegatedTokens(t, &roles)
	session := r.client.Carol()
	made := r.client.NewToken(session, `,"roles":["user"]`)
	all := ownrig.ReadToken(t, r.want(201, "POST", "/account/tokens", `{"name":"long","expires_in":86400}`, jsonType,
		session))
	bearer := "Authorization: Bearer " + made.Token
	for _, line := range []string{bearer, basicHeader("carol", made.Token)} {
		r.want(200, "GET", "/bearer/", "", line)
		h := r.upstream.Last().Header
		if h.Get("X-Auth-User") != "carol" || h.Get("X-Auth-Mechanism") != "bearer" || h.Get("X-Auth-Roles") != "user" ||
			h.Get("X-Auth-Provider") != "small" || h.Get("X-Auth-Subject") != "small:1" || h["Authorization"] != nil {
			t.Errorf("the upstream sees %v", h)
		}
	}
	r.want(401, "GET", "/bearer/", "", basicHeader("alice", made.Token))
	r.want(401, "GET", "/delegated/", "", bearer)
	r.want(403, "POST", "/account/tokens", `{"name":"x","expires_in":60}`, jsonType, bearer)
	r.want(400, "POST", "/account/tokens", `{"name":"x","expires_in":60,"roles":["admin"]}`, jsonType, session)
	list := r.want(200, "GET", "/account/tokens", "", session).Body.String()
	if !strings.Contains(list, made.ID) || !strings.Contains(list, all.ID) {
		t.Errorf("the list is %s", list)
	}
	page := r.want(200, "GET", "/account?part=programs", "", session, "Accept: text/html").Body.String()
	if !strings.Contains(page, made.ID) || !strings.Contains(page, `action="/account/tokens"`) {
		t.Errorf("the page shows no tokens: %s", page)
	}
	list = r.want(200, "GET", "/account/tokens", "", r.login(aliceIn).cookie).Body.String()
	if strings.Contains(list, made.ID) {
		t.Errorf("another user's list is %s", list)
	}

	r.want(200, "POST", "/account/tokens/revoke", `{"id":"`+made.ID+`"}`, jsonType, session)
	r.want(401, "GET", "/bearer/", "", bearer)

	bearer = "Authorization: Bearer " + all.Token
	r.clock.Advance(50 * time.Minute)
	roles = []string{"other"} // the renewal takes the role from the token
	r.want(200, "GET", "/delegated/", "", session)
	if got := r.upstream.Last().Header.Get("X-Auth-Roles"); got != "other" {
		t.Fatalf("after the renewal the user has the roles %q", got)
	}
	r.want(200, "GET", "/bearer/", "", bearer)
	if got := r.upstream.Last().Header.Get("X-Auth-Roles"); got != "" {
		t.Errorf("the token has the roles %q, which the user did not have when it was made", got)
	}
	r.want(200, "POST", "/logout", "", session) // tokens outlive the login
	r.clock.Advance(2*time.Hour - time.Second)
	r.want(200, "GET", "/bearer/", "", bearer)
	r.clock.Advance(time.Second)
	r.want(401, "GET", "/bearer/", "", bearer) // two hours after the renewal
	r.client.Carol()
	r.want(200, "GET", "/bearer/", "", bearer) // and again after a sign-in
}

// Signing out everywhere ends these tokens. Without the key they open nothing, and
// neither do they if the provider's name belongs to another issuer.
func TestAPITokensOfProviderUsersEnd(t *testing.T) {
	t.Parallel()
	roles := []string{"user"}
	r, yaml := delegatedTokens(t, &roles)
	session := r.client.Carol()
	bearer := "Authorization: Bearer " + r.client.NewToken(session, "").Token
	r.want(200, "GET", "/bearer/", "", bearer)
	end := r.want(200, "POST", "/account/sessions/end", `{"others":true,"tokens":true}`, jsonType, session)
	if !strings.Contains(end.Body.String(), `"tokens":1`) {
		t.Errorf("signing out everywhere answers %s", end.Body)
	}
	r.want(401, "GET", "/bearer/", "", bearer)

	bearer = "Authorization: Bearer " + r.client.NewToken(session, "").Token
	r.mustReload(edit(t, yaml, "api_tokens: 2h", "api_tokens: 0s"))
	r.want(401, "GET", "/bearer/", "", bearer)
	r.want(403, "POST", "/account/tokens", `{"name":"x","expires_in":60}`, jsonType, session)
	r.mustReload(yaml)
	r.want(200, "GET", "/bearer/", "", bearer)
	r.mustReload(edit(t, yaml, `issuer: "http://127.0.0.1`, `issuer: "http://localhost`))
	r.want(401, "GET", "/bearer/", "", bearer)
}
