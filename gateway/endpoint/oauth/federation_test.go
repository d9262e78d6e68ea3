package oauth_test

import (
	"encoding/json"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"authgate/internal/test/must"
	"authgate/internal/test/rig"
)

const (
	assertionGrant = "urn:ietf:params:oauth:grant-type:jwt-bearer"
	assertionType  = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
)

// federated has clients that tokens of the issuer ci prove.
const federated = rig.Base + `
oauth:
  enabled: true
  scopes: {read: [user], write: [user]}
  clients:
    - id: deploy
      roles: [user]
      grants: [jwt_bearer]
      federation:
        - {issuer: ci, claims: {repository_id: ["7"], ref: [refs/heads/main]}}
        - {issuer: ci, claims: {sub: [pod]}, max_lifetime: 10m}
    - {id: other, grants: [jwt_bearer], federation: [{issuer: ci, claims: {groups: [a, b]}}]}
    - {id: both, grants: [jwt_bearer], federation: [{issuer: ci, claims: {groups: [b]}}]}
    - {id: daemon, roles: [user], grants: [client_credentials], federation: [{issuer: ci, claims: {sub: [daemon]}}]}
    - {id: wiki, secret: "` + wikiSecret + `", roles: [user], grants: [client_credentials]}
`

// platform is a server with a trusted issuer whose tokens prove clients.
type platform struct {
	*server
	ci   *rig.Provider
	yaml string
}

// newPlatform returns a server with that configuration, which trusts a new issuer.
func newPlatform(t *testing.T, yaml string) *platform {
	t.Helper()
	ci := rig.NewProvider(t)
	yaml += "token: {trusted_issuers: [{name: ci, audience: [api], issuer: \"" + ci.Issuer + "\"}]}\n"
	p := &platform{&server{Rig: rig.New(t, yaml)}, ci, yaml}
	ci.Now = p.Clock.Now
	return p
}

// claims are those of a token for the repository 7, apart from the changes.
func (p *platform) claims(change map[string]any) map[string]any {
	now := p.Clock.Now()
	claims := map[string]any{
		"iss": p.ci.Issuer, "aud": issuer, "sub": "job", "iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(),
		"repository_id": 7, "ref": "refs/heads/main",
	}
	for name, value := range change {
		if claims[name] = value; value == nil {
			delete(claims, name)
		}
	}
	return claims
}

// sign signs claims, under a header with changes.
func (p *platform) sign(claims, header map[string]any) string {
	options := (&jose.SignerOptions{}).WithHeader("kid", "key")
	for name, value := range header {
		options.WithHeader(jose.HeaderKey(name), value)
	}
	if header["kid"] == "" {
		delete(options.ExtraHeaders, "kid")
	}
	signer := must.Get(jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: p.ci.Key}, options))(p.T)
	return must.Get(jwt.Signed(signer).Claims(claims).Serialize())(p.T)
}

// token is a token of the issuer with changed claims.
func (p *platform) token(change map[string]any) string { return p.sign(p.claims(change), nil) }

// byAssertion asks for a token by an assertion.
func (p *platform) byAssertion(status int, assertion string, more ...string) answer {
	p.T.Helper()
	form := url.Values{"grant_type": {assertionGrant}, "assertion": {assertion}}
	for i := 0; i+1 < len(more); i += 2 {
		form.Set(more[i], more[i+1])
	}
	var a answer
	w := p.Want(status, "POST", "/oauth/token", form.Encode(), rig.Form)
	must.Do(p.T, json.Unmarshal(w.Body.Bytes(), &a))
	return a
}

// A token of a platform gives the client that its claims match a token of its own, as often as it
// lives, and for no longer than it lives.
func TestAssertionGrant(t *testing.T) {
	p := newPlatform(t, federated)
	given := p.token(nil)
	for _, more := range [][]string{nil, {"client_id", "deploy"},
		{"client_id", "deploy", "client_assertion_type", assertionType, "client_assertion", given}} {
		a := p.byAssertion(200, given, more...)
		if a.ExpiresIn > 300 || a.ExpiresIn < 299 || a.Refresh != "" || a.Type != "Bearer" {
			t.Errorf("%v: %+v", more, a)
		}
		p.Want(200, "GET", "/bearer/", "", "Authorization: Bearer "+a.Access)
		if p.LastUser() != "client:deploy" {
			t.Errorf("the user is %q", p.LastUser())
		}
	}
	a := p.byAssertion(200, given)
	p.Clock.Advance(5 * time.Minute)
	p.Want(401, "GET", "/bearer/", "", "Authorization: Bearer "+a.Access)
	p.byAssertion(400, given)
	now := p.Clock.Now()
	long := map[string]any{"exp": now.Add(time.Hour).Unix()}
	if a := p.byAssertion(200, p.token(long)); a.ExpiresIn != int(p.Config.Token.AccessLifetime.Seconds()) {
		t.Errorf("a long assertion: %+v", a)
	}
	if a := p.byAssertion(200, p.token(nil), "scope", "read"); a.Scope != "read" {
		t.Errorf("with a scope: %+v", a)
	}
}

// What is wrong with an assertion is refused in one way, and the log alone says what it is.
func TestAssertionRefusals(t *testing.T) {
	now := rig.New(t, rig.Base).Clock.Now()
	at := func(d time.Duration) int64 { return now.Add(d).Unix() }
	for _, c := range []struct {
		name           string
		claims, header map[string]any
		reason         string
	}{
		{"another audience", map[string]any{"aud": "https://other.example"}, nil, "aud is"},
		{"the audience of the API", map[string]any{"aud": "api"}, nil, "aud is"},
		{"two audiences", map[string]any{"aud": []string{issuer, "api"}}, nil, "aud is"},
		{"the token endpoint", map[string]any{"aud": issuer + "/oauth/token"}, nil, "aud is"},
		{"no audience", map[string]any{"aud": nil}, nil, "aud"},
		{"no iat", map[string]any{"iat": nil}, nil, "iat is missing"},
		{"no exp", map[string]any{"exp": nil}, nil, "exp is missing"},
		{"no sub", map[string]any{"sub": nil}, nil, "sub is missing"},
		{"expired", map[string]any{"iat": at(-time.Minute), "exp": at(0)}, nil, "expired"},
		{"not yet", map[string]any{"nbf": at(2 * time.Minute)}, nil, "nbf is in the future"},
		{"nbf is text", map[string]any{"nbf": "soon"}, nil, "nbf is not a time"},
		{"too long", map[string]any{"exp": at(time.Hour + time.Minute)}, nil, "max_lifetime"},
		{"the entry is shorter", map[string]any{"sub": "pod", "ref": "x", "exp": at(11 * time.Minute)}, nil, "max_lifetime"},
		{"another issuer", map[string]any{"iss": "https://evil.example"}, nil, "no client has its issuer"},
		{"another branch", map[string]any{"ref": "refs/pull/1/merge"}, nil, "no entry"},
		{"a fork", map[string]any{"repository_id": 8}, nil, "no entry"},
		{"no such claim", map[string]any{"repository_id": nil}, nil, "no entry"},
		{"several clients", map[string]any{"groups": []string{"b"}}, nil, "several clients"},
		{"an access token", nil, map[string]any{"typ": "at+jwt"}, "typ"},
		{"a cross-app assertion", nil, map[string]any{"typ": "oauth-id-jag+jwt"}, ""},
		{"a logout token", map[string]any{"events": map[string]any{}}, nil, "events"},
		{"an unknown key", nil, map[string]any{"kid": "other"}, "kid"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlatform(t, federated)
			a := p.byAssertion(400, p.sign(p.claims(c.claims), c.header))
			if a.Error != "invalid_grant" || a.Access != "" {
				t.Errorf("%+v", a)
			}
			if log := p.Log.String(); !strings.Contains(log, c.reason) {
				t.Errorf("the log lacks %q: %s", c.reason, log)
			}
		})
	}
	p := newPlatform(t, federated)
	if a := p.byAssertion(400, p.token(nil)+"x"); a.Error != "invalid_grant" {
		t.Errorf("a forged one: %+v", a)
	}
	if a := p.byAssertion(400, "nonsense"); a.Error != "invalid_grant" {
		t.Errorf("no JWT: %+v", a)
	}
	if a := p.byAssertion(400, ""); a.Error != "invalid_request" {
		t.Errorf("none: %+v", a)
	}
}

// typ may be absent, JWT or JOSE; aud may be an array of one; without kid, the only key counts.
func TestAssertionForms(t *testing.T) {
	p := newPlatform(t, federated)
	for _, header := range []map[string]any{{"typ": "JWT"}, {"typ": "jose"}, {"kid": ""}, nil} {
		p.byAssertion(200, p.sign(p.claims(map[string]any{"aud": []string{issuer}}), header))
	}
	p.byAssertion(200, p.token(map[string]any{"groups": []string{"a"}, "ref": "x"}))
	p.byAssertion(200, p.token(map[string]any{"groups": []string{"b"}, "ref": "x"}), "client_id", "both")
	p.byAssertion(200, p.token(map[string]any{"sub": "pod", "ref": "x", "exp": p.Clock.Now().Add(10 * time.Minute).Unix()}))
}

// Another client than that of the assertion is refused, and a wrong proof beside it too.
func TestAssertionOfAnotherClient(t *testing.T) {
	p := newPlatform(t, federated)
	given := p.token(nil)
	for _, c := range []struct {
		status int
		code   string
		more   []string
	}{
		{400, "invalid_grant", []string{"client_id", "other"}},
		{400, "invalid_grant", []string{"client_id", "wiki", "client_secret", wikiSecret}},
		{401, "invalid_client", []string{"client_id", "stranger"}},
		{401, "invalid_client", []string{"client_id", "wiki", "client_secret", "wrong"}},
		{401, "invalid_client", []string{"client_id", "deploy", "client_assertion_type", assertionType,
			"client_assertion", p.token(map[string]any{"sub": "x", "ref": "x"})}},
	} {
		if a := p.byAssertion(c.status, given, c.more...); a.Error != c.code {
			t.Errorf("%q: %+v", c.more, a)
		}
	}
	own := p.token(map[string]any{"sub": "daemon", "ref": "x"})
	if a := p.byAssertion(400, own); a.Error != "unauthorized_client" {
		t.Errorf("a client without the grant: %+v", a)
	}
}

// asDaemon is a form of daemon, which an assertion proves.
func (p *platform) asDaemon(assertion string, more ...string) string {
	form := url.Values{"client_assertion_type": {assertionType}, "client_assertion": {assertion}}
	for i := 0; i+1 < len(more); i += 2 {
		form.Set(more[i], more[i+1])
	}
	return form.Encode()
}

// The same assertion authenticates its client for other grants, and at introspect and revoke; the
// client is not public.
func TestAssertionAuthenticates(t *testing.T) {
	p := newPlatform(t, federated)
	own := p.token(map[string]any{"sub": "daemon", "ref": "x"})
	w := p.Want(200, "POST", "/oauth/token", p.asDaemon(own, "grant_type", "client_credentials"), rig.Form)
	var a answer
	must.Do(t, json.Unmarshal(w.Body.Bytes(), &a))
	w = p.Want(200, "POST", "/oauth/introspect", p.asDaemon(own, "token", a.Access), rig.Form)
	if !strings.Contains(w.Body.String(), `"active":true`) {
		t.Errorf("introspection: %s", w.Body)
	}
	for _, path := range []string{"token", "introspect", "revoke", "device"} {
		form := url.Values{"client_id": {"daemon"}, "token": {a.Access}, "grant_type": {"client_credentials"}}
		w := p.Want(401, "POST", "/oauth/"+path, form.Encode(), rig.Form)
		if !strings.Contains(w.Body.String(), "invalid_client") {
			t.Errorf("%s without the assertion: %s", path, w.Body)
		}
	}
	p.Want(200, "POST", "/oauth/revoke", p.asDaemon(own, "token", a.Access), rig.Form)
	p.Want(401, "GET", "/bearer/", "", "Authorization: Bearer "+a.Access)
}

// An issuer that does not answer is 503 with Retry-After, at each endpoint, and counts for no client.
func TestAssertionIssuerSilent(t *testing.T) {
	p := newPlatform(t, federated)
	p.Reload(strings.ReplaceAll(p.yaml, p.ci.Issuer, "http://127.0.0.1:1"))
	claims := p.claims(map[string]any{"iss": "http://127.0.0.1:1", "sub": "daemon", "ref": "x"})
	given := p.sign(claims, nil)
	check := func(w *httptest.ResponseRecorder) {
		t.Helper()
		if w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "temporarily_unavailable") {
			t.Errorf("%v %s", w.Header(), w.Body)
		}
	}
	for range 30 {
		form := url.Values{"grant_type": {assertionGrant}, "assertion": {given}}
		check(p.Want(503, "POST", "/oauth/token", form.Encode(), rig.Form))
	}
	for _, path := range []string{"token", "introspect", "revoke"} {
		form := p.asDaemon(given, "token", "x", "grant_type", "client_credentials")
		check(p.Want(503, "POST", "/oauth/"+path, form, rig.Form))
	}
}

// Refused assertions count by address, and a pair of client and address that has succeeded is spared.
func TestAssertionsThrottled(t *testing.T) {
	p := newPlatform(t, federated)
	good, bad := p.token(nil), p.token(map[string]any{"ref": "x"})
	p.byAssertion(200, good)
	for range p.Config.Limits.LoginFailures {
		p.byAssertion(400, bad)
	}
	if a := p.byAssertion(429, bad); a.Error != "temporarily_unavailable" {
		t.Errorf("%+v", a)
	}
	p.byAssertion(429, p.token(map[string]any{"groups": []string{"a"}, "ref": "x"}))
	p.byAssertion(200, good)
	from := rig.Request("POST", "/oauth/token", url.Values{"grant_type": {assertionGrant}, "assertion": {good}}.Encode(),
		rig.Form)
	from.RemoteAddr = "192.0.2.99:1"
	p.WantOf(200, from)
}

// An assertion of a client that cannot be read counts by address, too.
func TestUnreadableAssertionsThrottled(t *testing.T) {
	p := newPlatform(t, federated)
	for range p.Config.Limits.LoginFailures {
		form := p.asDaemon("a.b.c", "grant_type", "client_credentials")
		p.Want(401, "POST", "/oauth/token", form, rig.Form)
	}
	p.Want(429, "POST", "/oauth/introspect", p.asDaemon("x", "token", "x"), rig.Form)
}

// A reload that removes the client, or removes or changes the entry of its federation, ends what they
// gave. One that changes nothing of it does not.
func TestFederationEnds(t *testing.T) {
	entry := "        - {issuer: ci, claims: {repository_id: [\"7\"], ref: [refs/heads/main]}}\n"
	for name, c := range map[string]struct {
		from, to string
		status   int
	}{
		"another client changes":  {"{id: other, ", "{id: other, name: Other, ", 200},
		"the name changes":        {"- id: deploy\n", "- id: deploy\n      name: Deployment\n", 200},
		"the entry is removed":    {entry, "", 401},
		"a claim is changed":      {"refs/heads/main", "refs/heads/next", 401},
		"max_lifetime is changed": {entry, strings.Replace(entry, "}}\n", "}, max_lifetime: 2h}\n", 1), 401},
		"the client is removed":   {"- id: deploy\n", "- id: deployed\n", 401},
		"the grant is removed":    {"      roles: [user]\n      grants: [jwt_bearer]\n", "      grants: [device_code]\n", 401},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlatform(t, federated)
			bearer := "Authorization: Bearer " + p.byAssertion(200, p.token(nil)).Access
			p.Want(200, "GET", "/bearer/", "", bearer)
			p.Reload(rig.Edit(t, p.yaml, c.from, c.to))
			p.Want(c.status, "GET", "/bearer/", "", bearer)
		})
	}
	p := newPlatform(t, federated)
	w := p.Want(200, "POST", "/oauth/token",
		p.asDaemon(p.token(map[string]any{"sub": "daemon", "ref": "x"}), "grant_type", "client_credentials"), rig.Form)
	var a answer
	must.Do(t, json.Unmarshal(w.Body.Bytes(), &a))
	p.Reload(rig.Edit(t, p.yaml, "sub: [daemon]", "sub: [demon]"))
	p.Want(401, "GET", "/bearer/", "", "Authorization: Bearer "+a.Access)
}

// everyGrant has a client with each grant, which tokens of ci prove.
const everyGrant = rig.Base + `
  - {match: /acted/, upstream: app, auth: [bearer]}
oauth:
  enabled: true
  clients:
    - id: agent
      secret: "` + wikiSecret + `"
      roles: [user]
      consent: skip
      redirect_uris: ["https://agent.example.net/cb"]
      grants: [authorization_code, refresh_token, device_code, client_credentials, jwt_bearer, token_exchange]
      exchange: {from: ["https://gw.example/bearer"], to: ["https://gw.example/bearer", "https://gw.example/acted"]}
      federation:
        - {issuer: ci, claims: {sub: [agent]}}
        - {issuer: ci, claims: {sub: [another]}}
    - {id: last, secret: "` + wikiSecret + `", grants: [token_exchange],
       exchange: {from: ["https://gw.example/bearer"], to: ["https://gw.example/acted"]}}
`

// agentAt is a server with everyGrant, at which assertions of one subject prove the agent.
type agentAt struct {
	*platform
	subject string
}

// asks sends a form to the token endpoint, by an assertion.
func (p *agentAt) asks(change ...string) answer {
	p.T.Helper()
	values := form(change...)
	values.Set("client_assertion_type", assertionType)
	values.Set("client_assertion", p.token(map[string]any{"sub": p.subject}))
	w := p.Want(200, "POST", "/oauth/token", values.Encode(), rig.Form)
	var a answer
	must.Do(p.T, json.Unmarshal(w.Body.Bytes(), &a))
	return a
}

// signIn returns tokens of the code grant.
func (p *agentAt) signIn(t *testing.T) answer {
	t.Helper()
	redirect := "https://agent.example.net/cb"
	code := p.code(t, ask("client_id", "agent", "redirect_uri", redirect, "resource", lends))
	return p.asks("grant_type", "authorization_code", "code", code, "redirect_uri", redirect, "code_verifier", verifier)
}

// allowed returns the code of a device that the user has allowed.
func (p *agentAt) allowed(t *testing.T) string {
	t.Helper()
	values := form("client_id", "agent", "client_secret", wikiSecret, "resource", lends)
	var d deviceStart
	must.Do(t, json.Unmarshal(p.Want(200, "POST", "/oauth/device", values.Encode(), rig.Form).Body.Bytes(), &d))
	if w := p.decide(formOf(t, p.enter(d.User)), "allow"); w.Code != 200 {
		t.Fatalf("the device: %d", w.Code)
	}
	return d.Device
}

// Whatever grant gives a token to a client which an entry of its federation has proved, the token ends with the
// entry, and with no other. A refresh token does, too, although the client has another proof.
func TestFederationEndsEachGrant(t *testing.T) {
	t.Parallel()
	exchange := func(p *agentAt, token, resource string) answer {
		return p.asks("grant_type", exchangeGrant, "subject_token", token, "subject_token_type", accessTokenType,
			"resource", resource)
	}
	asAgent := []string{"client_id", "agent", "client_secret", wikiSecret}
	for name, give := range map[string]func(t *testing.T, p *agentAt) answer{
		"authorization_code": func(t *testing.T, p *agentAt) answer { return p.signIn(t) },
		"refresh_token": func(t *testing.T, p *agentAt) answer {
			return p.asks("grant_type", "refresh_token", "refresh_token", p.signIn(t).Refresh)
		},
		"device_code": func(t *testing.T, p *agentAt) answer {
			return p.asks("grant_type", "urn:ietf:params:oauth:grant-type:device_code", "device_code", p.allowed(t))
		},
		"client_credentials": func(_ *testing.T, p *agentAt) answer {
			return p.asks("grant_type", "client_credentials", "resource", lends)
		},
		"jwt_bearer": func(t *testing.T, p *agentAt) answer {
			return p.byAssertion(200, p.token(map[string]any{"sub": p.subject}), "resource", lends)
		},
		"token_exchange": func(t *testing.T, p *agentAt) answer {
			values := form(append(asAgent, "grant_type", "client_credentials", "resource", lends)...)
			return exchange(p, p.post(t, 200, "/oauth/token", values).Access, lends)
		},
		"token_exchange of its token": func(t *testing.T, p *agentAt) answer {
			given := p.asks("grant_type", "client_credentials", "resource", lends)
			values := form("grant_type", exchangeGrant, "subject_token", given.Access,
				"subject_token_type", accessTokenType, "resource", acted)
			return p.post(t, 200, "/oauth/token", values, rig.Basic("last", wikiSecret))
		},
	} {
		for subject, open := range map[string]bool{"agent": false, "another": true} {
			t.Run(name+" by "+subject, func(t *testing.T) {
				t.Parallel()
				p := &agentAt{newPlatform(t, everyGrant), subject}
				p.cookie = p.Login(rig.Alice).Cookie
				a := give(t, p)
				path, status := "/bearer/", map[bool]int{true: 200, false: 401}[open]
				if strings.HasSuffix(name, "its token") {
					path = "/acted/"
				}
				p.Want(200, "GET", path, "", "Authorization: Bearer "+a.Access)
				p.Reload(rig.Edit(t, p.yaml, "        - {issuer: ci, claims: {sub: [agent]}}\n", ""))
				p.Want(status, "GET", path, "", "Authorization: Bearer "+a.Access)
				if a.Refresh == "" {
					return
				}
				values := form(append(asAgent, "token", a.Refresh)...)
				inspected := p.Want(200, "POST", "/oauth/introspect", values.Encode(), rig.Form)
				if active := strings.Contains(inspected.Body.String(), `"active":true`); active != open {
					t.Errorf("the refresh token: %s", inspected.Body)
				}
				given := p.post(t, map[bool]int{true: 200, false: 400}[open], "/oauth/token",
					form(append(asAgent, "grant_type", "refresh_token", "refresh_token", a.Refresh)...))
				if !open && given.Error != "invalid_grant" {
					t.Errorf("the refresh token gives %+v", given)
				}
			})
		}
	}
}

// A refresh token is of the proof by which the client got it last: of none after a use with the secret.
func TestFederationOfTheLastRefresh(t *testing.T) {
	t.Parallel()
	p := &agentAt{newPlatform(t, everyGrant), "agent"}
	p.cookie = p.Login(rig.Alice).Cookie
	refresh := form("client_id", "agent", "client_secret", wikiSecret, "grant_type", "refresh_token",
		"refresh_token", p.signIn(t).Refresh)
	given := p.post(t, 200, "/oauth/token", refresh)
	p.Reload(rig.Edit(t, p.yaml, "        - {issuer: ci, claims: {sub: [agent]}}\n", ""))
	p.Want(200, "GET", "/bearer/", "", "Authorization: Bearer "+given.Access)
	refresh.Set("refresh_token", given.Refresh)
	p.post(t, 200, "/oauth/token", refresh)
}

// Metadata names the grants by assertion and by exchange if a client has them, and by assertion with cross_app,
// in both documents.
func TestGrantTypesInMetadata(t *testing.T) {
	t.Parallel()
	device := "urn:ietf:params:oauth:grant-type:device_code"
	for name, c := range map[string]struct {
		s    func() *server
		want []string // beside those of each gateway
	}{
		"neither":    {func() *server { return newServer(t, configuration) }, nil},
		"federation": {func() *server { return newPlatform(t, federated).server }, []string{assertionGrant}},
		"cross_app":  {func() *server { return newCompany(t).server }, []string{assertionGrant}},
		"exchange":   {func() *server { return newExchanger(t).server }, []string{exchangeGrant}},
		"both": {func() *server { return newPlatform(t, everyGrant).server },
			[]string{assertionGrant, exchangeGrant}},
	} {
		s := c.s()
		for _, document := range []string{"oauth-authorization-server", "openid-configuration"} {
			var m struct {
				Grants []string `json:"grant_types_supported"`
			}
			must.Do(t, json.Unmarshal(s.Want(200, "GET", "/.well-known/"+document, "").Body.Bytes(), &m))
			want := append([]string{"authorization_code", "refresh_token", "client_credentials", device}, c.want...)
			if slices.Sort(want); !slices.Equal(slices.Sorted(slices.Values(m.Grants)), want) {
				t.Errorf("%s: %s has %q, want %q", name, document, m.Grants, want)
			}
		}
	}
}
