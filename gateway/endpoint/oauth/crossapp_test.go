package oauth_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"authgate/internal/test/must"
	"authgate/internal/test/rig"
)

// crossApp has clients at which the provider small vouches for its users.
const crossApp = rig.Base + `
  - {match: /api/, name: api, upstream: app, auth: [bearer]}
  - {match: /two/, name: two, upstream: app, auth: [bearer], policy: {factors: 2}}
  - {match: /delegated/, upstream: app, auth: [oidc]}
oauth:
  enabled: true
  scopes: {read: [user, admin], write: [user]}
  clients:
    - {id: agent, name: Agent, secret: "` + wikiSecret + `", grants: [device_code, refresh_token]}
    - {id: strict, secret: "` + wikiSecret + `", grants: [device_code], policy: admin}
    - {id: other, secret: "` + wikiSecret + `", grants: [device_code]}
    - {id: open, grants: [device_code]}
  cross_app:
    - {provider: small, clients: [agent, strict]}
`

// company is a server with a provider that vouches for its users.
type company struct {
	*platform
}

func newCompany(t *testing.T) *company {
	t.Helper()
	p := rig.NewProvider(t)
	yaml := crossApp + "providers:\n  - {name: small, issuer: \"" + p.Issuer + "\", client_id: gateway}\n"
	c := &company{&platform{&server{Rig: rig.New(t, yaml)}, p, yaml}}
	p.Now = c.Clock.Now
	return c
}

// vouch returns an assertion about the user 1 with changes.
func (c *company) vouch(change map[string]any) string {
	c.T.Helper()
	return c.vouchAs("oauth-id-jag+jwt", change)
}

func (c *company) vouchAs(typ string, change map[string]any) string {
	c.T.Helper()
	now := c.Clock.Now()
	claims := map[string]any{
		"iss": c.ci.Issuer, "aud": issuer, "sub": "1", "client_id": "agent", "jti": now.String() + typ,
		"iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(), "preferred_username": "carol", "roles": []string{"user"},
	}
	for name, value := range change {
		if claims[name] = value; value == nil {
			delete(claims, name)
		}
	}
	header := map[string]any{}
	if typ != "" {
		header["typ"] = typ
	}
	return c.sign(claims, header)
}

// asAgent exchanges an assertion for a token, as the client agent unless a parameter says otherwise.
func (c *company) asAgent(status int, assertion string, more ...string) answer {
	c.T.Helper()
	more = append([]string{"client_id", "agent", "client_secret", wikiSecret}, more...)
	return c.byAssertion(status, assertion, more...)
}

// wantOpen checks whether a token opens a route.
func (c *company) wantOpen(a answer, open bool) {
	c.T.Helper()
	status := map[bool]int{true: 200, false: 401}[open]
	c.Want(status, "GET", "/bearer/", "", "Authorization: Bearer "+a.Access)
}

// A client acts for the user whom the provider vouches for: one factor, no login, no refresh token.
func TestCrossApp(t *testing.T) {
	c := newCompany(t)
	for _, typ := range []string{"oauth-id-jag+jwt", "OAuth-ID-JAG+JWT", "application/oauth-id-jag+jwt"} {
		a := c.asAgent(200, c.vouchAs(typ, nil))
		if a.Refresh != "" || a.ID != "" || a.ExpiresIn != int(c.Config.Token.AccessLifetime.Seconds()) {
			t.Errorf("%s: %+v", typ, a)
		}
		c.wantOpen(a, true)
		if c.LastUser() != "small:carol" && c.LastUser() != "carol" {
			t.Errorf("the user is %q", c.LastUser())
		}
		c.Want(401, "GET", "/two/", "", "Authorization: Bearer "+a.Access)
	}
	form := url.Values{"token": {c.asAgent(200, c.vouch(map[string]any{"jti": "i"})).Access}}
	w := c.Want(200, "POST", "/oauth/introspect", form.Encode(), rig.Form, rig.Basic("agent", wikiSecret))
	var told map[string]any
	must.Do(t, json.Unmarshal(w.Body.Bytes(), &told))
	if told["sub"] != "small:1" || told["client_id"] != "agent" || told["active"] != true {
		t.Errorf("introspection: %v", told)
	}
	if act, _ := told["act"].(map[string]any); act["sub"] != "client:agent" {
		t.Errorf("the actor: %v", told["act"])
	}
	if n := c.Sample("authgate_logins_total"); n != 0 {
		t.Errorf("%v logins", n)
	}
}

// What is wrong with a cross-app assertion, or its client, is refused.
func TestCrossAppRefusals(t *testing.T) {
	now := rig.New(t, rig.Base).Clock.Now()
	for _, r := range []struct {
		name   string
		typ    string
		change map[string]any
		more   []string
		status int
		code   string
	}{
		{"another typ", "JWT", nil, nil, 400, "invalid_grant"},
		{"no typ", "", nil, nil, 400, "invalid_grant"},
		{"another audience", "", map[string]any{"aud": "gateway"}, nil, 400, "invalid_grant"},
		{"two audiences", "x", map[string]any{"aud": []string{issuer, "b"}}, nil, 400, "invalid_grant"},
		{"another client", "x", map[string]any{"client_id": "strict"}, nil, 400, "invalid_grant"},
		{"no client", "x", map[string]any{"client_id": nil}, nil, 400, "invalid_grant"},
		{"no sub", "x", map[string]any{"sub": nil}, nil, 400, "invalid_grant"},
		{"no jti", "x", map[string]any{"jti": nil}, nil, 400, "invalid_grant"},
		{"no iat", "x", map[string]any{"iat": nil}, nil, 400, "invalid_grant"},
		{"no exp", "x", map[string]any{"exp": nil}, nil, 400, "invalid_grant"},
		{"too long", "x", map[string]any{"exp": now.Add(time.Hour + time.Minute).Unix()}, nil, 400, "invalid_grant"},
		{"another issuer", "x", map[string]any{"iss": "https://evil.example"}, nil, 400, "invalid_grant"},
		{"a wrong secret", "x", nil, []string{"client_secret", "wrong"}, 401, "invalid_client"},
		{"a public client", "x", nil, []string{"client_id", "open", "client_secret", ""}, 401, "invalid_client"},
		{"no authentication", "x", nil, []string{"client_secret", ""}, 401, "invalid_client"},
		{"an unlisted client", "x", map[string]any{"client_id": "other"}, []string{"client_id", "other"}, 400,
			"unauthorized_client"},
		{"the policy", "x", map[string]any{"client_id": "strict"}, []string{"client_id", "strict"}, 400, "access_denied"},
		{"a scope beyond", "x", map[string]any{"scope": "read"}, []string{"scope", "read write"}, 400, "invalid_scope"},
		{"a resource beyond", "x", map[string]any{"resource": issuer + "/bearer"},
			[]string{"resource", issuer + "/api"}, 400, "invalid_target"},
		{"an unknown resource", "x", map[string]any{"resource": "https://other.example"}, nil, 400, "invalid_target"},
	} {
		t.Run(r.name, func(t *testing.T) {
			c := newCompany(t)
			if r.typ == "x" {
				r.typ = "oauth-id-jag+jwt"
			}
			if a := c.asAgent(r.status, c.vouchAs(r.typ, r.change), r.more...); a.Error != r.code || a.Access != "" {
				t.Errorf("%+v, want %s", a, r.code)
			}
			if n := strings.Count(c.Log.String(), `"event":"client_rejected"`); n != 1 {
				t.Errorf("%d events: %s", n, c.Log.String())
			}
		})
	}
}

// The scope and the resource of an assertion take the place of those that the request lacks.
func TestCrossAppBounds(t *testing.T) {
	c := newCompany(t)
	given := map[string]any{"scope": "read", "resource": issuer + "/api", "jti": "1"}
	a := c.asAgent(200, c.vouch(given))
	if a.Scope != "read" {
		t.Errorf("%+v", a)
	}
	c.Want(200, "GET", "/api/", "", "Authorization: Bearer "+a.Access)
	c.wantOpen(a, false)
	given["jti"], given["resource"], given["scope"] = "2", []string{issuer + "/api", issuer + "/bearer"}, "read write"
	if a := c.asAgent(200, c.vouch(given), "scope", "write", "resource", issuer+"/bearer"); a.Scope != "write" {
		t.Errorf("%+v", a)
	}
}

// An assertion serves once, and a refusal does not use it up.
func TestCrossAppOnce(t *testing.T) {
	c := newCompany(t)
	given := c.vouch(nil)
	c.asAgent(400, given, "resource", "https://nowhere.example")
	c.asAgent(200, given)
	if a := c.asAgent(400, given); a.Error != "invalid_grant" {
		t.Errorf("%+v", a)
	}
}

// Roles are those of the last sign-in here, and of the assertion for a user whom the gateway does not know.
func TestCrossAppRoles(t *testing.T) {
	c := newCompany(t)
	strict := []string{"client_id", "strict"}
	admin := map[string]any{"client_id": "strict", "roles": []string{"admin"}, "jti": "1"}
	c.wantOpen(c.asAgent(200, c.vouch(admin), strict...), true)
	token := c.asAgent(200, c.vouch(map[string]any{"jti": "3", "roles": []string{"admin"}}))
	c.Want(200, "GET", "/admin/", "", "Authorization: Bearer "+token.Access)
	c.Carol()
	c.Want(403, "GET", "/admin/", "", "Authorization: Bearer "+token.Access)
	admin["jti"] = "2"
	if a := c.asAgent(400, c.vouch(admin), strict...); a.Error != "access_denied" {
		t.Errorf("%+v", a)
	}
}

// The user sees the client, and ends its access; only a later assertion gives it again.
func TestCrossAppRevoked(t *testing.T) {
	c := newCompany(t)
	session := c.Carol()
	early, a := c.vouch(map[string]any{"jti": "early"}), c.asAgent(200, c.vouch(nil))
	c.wantOpen(a, true)
	if sessions := c.Logins(session); len(sessions) != 1 {
		t.Errorf("the logins are %v", sessions)
	}
	if w := c.Want(200, "GET", "/account/clients", "", session); !strings.Contains(w.Body.String(), `"client_id":"agent"`) {
		t.Errorf("the clients are %s", w.Body)
	}
	c.Want(200, "POST", "/account/clients/revoke", `{"client_id":"agent"}`, rig.JSON, session)
	c.wantOpen(a, false)
	if a := c.asAgent(400, early); a.Error != "invalid_grant" {
		t.Errorf("%+v", a)
	}
	c.Clock.Advance(time.Second)
	c.wantOpen(c.asAgent(200, c.vouch(nil)), true)
	c.wantOpen(a, false)
}

// An end of all access, as by an operator, finds users by name and by subject, whether they signed in here
// or not.
func TestCrossAppEnded(t *testing.T) {
	for _, user := range []string{"small:1", "small:carol"} {
		c := newCompany(t)
		early, a := c.vouch(map[string]any{"jti": "early"}), c.asAgent(200, c.vouch(nil))
		if n, err := c.Options.OAuth.Consents.EndVouched(t.Context(), user); n != 1 || err != nil {
			t.Errorf("%s: %d, %v", user, n, err)
		}
		c.wantOpen(a, false)
		c.asAgent(400, early)
		c.Clock.Advance(time.Second)
		c.wantOpen(c.asAgent(200, c.vouch(nil)), true)
	}
}

// A logout that the provider announces for the user ends the tokens, and no earlier assertion gives new ones.
func TestCrossAppBackChannel(t *testing.T) {
	c := newCompany(t)
	early, a := c.vouch(map[string]any{"jti": "early"}), c.asAgent(200, c.vouch(nil))
	now := c.Clock.Now()
	logout := c.sign(map[string]any{
		"iss": c.ci.Issuer, "aud": "gateway", "sub": "1", "jti": "l", "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(),
		"events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}},
	}, map[string]any{"typ": "logout+jwt"})
	c.Want(200, "POST", c.backChannel(), url.Values{"logout_token": {logout}}.Encode(), rig.Form)
	c.wantOpen(a, false)
	c.asAgent(400, early)
	c.Clock.Advance(time.Second)
	c.wantOpen(c.asAgent(200, c.vouch(nil)), true)
}

// backChannel is where the provider announces logouts.
func (c *company) backChannel() string { return "/backchannel-logout/small" }

// A reload that removes the provider, the client or its place in cross_app ends the tokens.
func TestCrossAppReload(t *testing.T) {
	for name, edit := range map[string][]string{
		"the client is not listed": {"clients: [agent, strict]", "clients: [strict]"},
		"the provider is another":  {"client_id: gateway}", "client_id: gateway}\n  - {name: big, issuer: \"https://b.example\", client_id: b}"},
	} {
		c := newCompany(t)
		a := c.asAgent(200, c.vouch(nil))
		yaml := rig.Edit(t, c.yaml, edit[0], edit[1])
		if strings.Contains(edit[1], "big") {
			yaml = rig.Edit(t, yaml, "provider: small", "provider: big")
		}
		c.Reload(yaml)
		t.Log(name)
		c.wantOpen(a, false)
	}
}

// The typ of a cross-app assertion is refused everywhere else.
func TestCrossAppTypElsewhere(t *testing.T) {
	c := newCompany(t)
	c.Want(401, "GET", "/bearer/", "", "Authorization: Bearer "+c.vouch(nil))
	p := newPlatform(t, federated)
	token := p.sign(p.claims(nil), map[string]any{"typ": "oauth-id-jag+jwt"})
	if a := p.byAssertion(400, token); a.Error != "invalid_grant" {
		t.Errorf("%+v", a)
	}
	p.Want(401, "POST", "/oauth/token", p.asDaemon(p.sign(p.claims(map[string]any{"sub": "daemon"}),
		map[string]any{"typ": "oauth-id-jag+jwt"}), "grant_type", "client_credentials"), rig.Form)
}

// Refused cross-app assertions count by address.
func TestCrossAppThrottled(t *testing.T) {
	c := newCompany(t)
	for range c.Config.Limits.LoginFailures {
		c.asAgent(400, c.vouch(map[string]any{"aud": "x"}))
	}
	c.asAgent(429, c.vouch(nil))
}

// Metadata names the profile, with cross_app alone.
func TestCrossAppMetadata(t *testing.T) {
	c := newCompany(t)
	var m map[string]any
	w := c.Want(200, "GET", "/.well-known/oauth-authorization-server", "")
	must.Do(t, json.Unmarshal(w.Body.Bytes(), &m))
	if profiles, _ := m["authorization_grant_profiles_supported"].([]any); len(profiles) != 1 ||
		profiles[0] != "urn:ietf:params:oauth:grant-profile:id-jag" || !strings.Contains(w.Body.String(), assertionGrant) {
		t.Errorf("%s", w.Body)
	}
	p := newPlatform(t, federated)
	if w := p.Want(200, "GET", "/.well-known/oauth-authorization-server", ""); strings.Contains(w.Body.String(), "id-jag") {
		t.Errorf("%s", w.Body)
	}
}

// A client may prove itself by a key or by its platform, too, for its own tokens and for users.
func TestCrossAppByKeyAndFederation(t *testing.T) {
	c, key := newCompany(t), rig.NewECKey(t)
	jwks := must.Get(json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{KeyID: "key", Key: key.Public()}}}))(t)
	yaml := rig.Edit(t, c.yaml, "    - {id: open, ", "    - {id: keyed, grants: [client_credentials], jwks: "+string(jwks)+"}\n"+
		"    - {id: pod, grants: [jwt_bearer], federation: [{issuer: small, claims: {sub: [pod]}}]}\n    - {id: open, ")
	yaml = rig.Edit(t, yaml, "[agent, strict]", "[agent, strict, keyed, pod]")
	c.Reload(yaml + "token: {trusted_issuers: [{name: small, audience: [api], issuer: \"" + c.ci.Issuer + "\"}]}\n")
	now := c.Clock.Now()
	by := func(jti string) []string {
		own := (&platform{c.server, &rig.Provider{T: t, Key: key}, ""}).sign(map[string]any{
			"iss": "keyed", "sub": "keyed", "aud": issuer, "jti": jti, "exp": now.Add(time.Minute).Unix(),
		}, nil)
		return []string{"client_assertion_type", assertionType, "client_assertion", own}
	}
	a := c.byAssertion(200, c.vouch(map[string]any{"client_id": "keyed", "jti": "1"}), by("a")...)
	c.wantOpen(a, true)
	if a := c.byAssertion(401, c.vouch(map[string]any{"client_id": "keyed", "jti": "2"}), by("a")...); a.Error != "invalid_client" {
		t.Errorf("a used assertion of the client: %+v", a)
	}
	form := url.Values{"grant_type": {"client_credentials"}}
	for i, proof := 0, by("b"); i < len(proof); i += 2 {
		form.Set(proof[i], proof[i+1])
	}
	c.Want(200, "POST", "/oauth/token", form.Encode(), rig.Form)
	pod := c.token(map[string]any{"sub": "pod"})
	more := []string{"client_assertion_type", assertionType, "client_assertion", pod}
	a = c.byAssertion(200, c.vouch(map[string]any{"client_id": "pod", "jti": "3"}), more...)
	c.wantOpen(a, true)
	c.wantOpen(c.byAssertion(200, pod), true)
	c.Reload(rig.Edit(t, yaml, "sub: [pod]", "sub: [pods]") + "token: {trusted_issuers: [{name: small, audience: [api], issuer: \"" +
		c.ci.Issuer + "\"}]}\n")
	c.wantOpen(a, false)
}

// A provider that does not answer is 503.
func TestCrossAppProviderSilent(t *testing.T) {
	c := newCompany(t)
	c.Reload(strings.ReplaceAll(c.yaml, c.ci.Issuer, "http://127.0.0.1:1"))
	given := c.vouch(map[string]any{"iss": "http://127.0.0.1:1"})
	if a := c.asAgent(503, given); a.Error != "temporarily_unavailable" {
		t.Errorf("%+v", a)
	}
}

// The event of a token tells by which assertion it was given.
func TestAssertionEvents(t *testing.T) {
	p, c := newPlatform(t, federated), newCompany(t)
	p.byAssertion(200, p.token(nil))
	c.asAgent(200, c.vouch(nil))
	for want, log := range map[string]string{
		`"grant":"jwt_bearer","client_id":"deploy"`: p.Log.String(), `"issuer":"ci","assertion_subject":"job"`: p.Log.String(),
		`"grant":"jwt_bearer","client_id":"agent"`: c.Log.String(), `"issuer":"small","assertion_subject":"1"`: c.Log.String(),
	} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %s: %s", want, log)
		}
	}
}
