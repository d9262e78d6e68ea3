package oauth_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"

	"authgate/internal/test/must"
	"authgate/internal/test/rig"
)

// Tokens of an issuer without an audience prove clients, and open no route. Those for its audience open one, and
// prove no client.
func TestIssuerOfFederationAlone(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, federated)
	api := p.token(map[string]any{"aud": "api"})
	p.Want(200, "GET", "/bearer/", "", "Authorization: Bearer "+api)
	p.byAssertion(400, api)
	p.Reload(rig.Edit(t, p.yaml, "audience: [api], ", ""))
	p.Want(401, "GET", "/bearer/", "", "Authorization: Bearer "+api)
	given := p.token(nil)
	p.Want(401, "GET", "/bearer/", "", "Authorization: Bearer "+given)
	a := p.byAssertion(200, given)
	p.Want(200, "GET", "/bearer/", "", "Authorization: Bearer "+a.Access)
	if got := p.LastHeader().Get("X-Auth-Roles"); got != "user" {
		t.Errorf("the roles are %q", got)
	}
}

// The audience of assertions is token.issuer, and the algorithms are those of the trusted issuer. An issuer that
// no federation names proves no client.
func TestAssertionOfTheIssuer(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, federated)
	p.Reload(rig.Edit(t, p.yaml, "token: {", "token: {issuer: \"https://gw.example/idp\", "))
	p.byAssertion(400, p.token(nil))
	p.byAssertion(200, p.token(map[string]any{"aud": "https://gw.example/idp"}))
	p.Reload(rig.Edit(t, p.yaml, "audience: [api],", "audience: [api], algorithms: [RS256],"))
	p.byAssertion(400, p.token(nil))
	other := rig.NewProvider(t)
	p.Reload(rig.Edit(t, p.yaml, "trusted_issuers: [",
		"trusted_issuers: [{name: other, audience: [api], issuer: \""+other.Issuer+"\"}, "))
	p.byAssertion(200, p.token(nil))
	p.ci = other
	p.byAssertion(400, p.token(nil))
}

// A client that sees that its assertion is refused does not see why.
func TestAssertionRefusedAlike(t *testing.T) {
	t.Parallel()
	p := newPlatform(t, federated)
	answers := map[string]bool{}
	for _, change := range []map[string]any{
		{"aud": "x"}, {"exp": nil}, {"iss": "https://evil.example"}, {"ref": "x"}, {"repository_id": 8},
		{"groups": []string{"b"}},
	} {
		form := url.Values{"grant_type": {assertionGrant}, "assertion": {p.token(change)}}
		answers[p.Want(400, "POST", "/oauth/token", form.Encode(), rig.Form).Body.String()] = true
	}
	if len(answers) != 1 {
		t.Errorf("the answers differ: %v", answers)
	}
}

// A token by the word of a provider is one factor without a time, and has the lifetime of its client. However
// many there are, the user's session goes on.
func TestCrossAppIsNoLogin(t *testing.T) {
	t.Parallel()
	c := newCompany(t)
	yaml := rig.Edit(t, c.yaml, "  - {match: /two/,",
		"  - {match: /fresh/, name: fresh, upstream: app, auth: [bearer], policy: {max_age: 15m}}\n  - {match: /two/,")
	c.Reload(rig.Edit(t, yaml, "{id: agent, ", "{id: agent, access_lifetime: 7m, "))
	session := c.Carol()
	var first, a answer
	for i := range 120 {
		if a = c.asAgent(200, c.vouch(map[string]any{"jti": fmt.Sprint(i)})); i == 0 {
			first = a
		}
	}
	if a.ExpiresIn != 7*60 {
		t.Errorf("%+v", a)
	}
	c.Want(401, "GET", "/fresh/", "", "Authorization: Bearer "+a.Access)
	c.wantOpen(first, true)
	if logins := c.Logins(session); len(logins) != 1 {
		t.Errorf("the logins are %v", logins)
	}
	c.Want(200, "GET", "/delegated/", "", session)
}

// A client of cross_app may be the URL of its metadata document. It proves itself by the key there.
func TestCrossAppOfADocument(t *testing.T) {
	t.Parallel()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	set := must.Get(json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "key"}}}))(t)
	var id string
	site := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"client_id": %q, "redirect_uris": ["https://far.example.net/cb"],
			"token_endpoint_auth_method": "private_key_jwt", "jwks": %s}`, id, set)
	}))
	t.Cleanup(site.Close)
	id = site.URL + "/client.json"
	roots := filepath.Join(t.TempDir(), "roots.pem")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: site.Certificate().Raw})
	must.Do(t, os.WriteFile(roots, certificate, 0o600))
	c := newCompany(t)
	yaml := rig.Edit(t, c.yaml, "  cross_app:\n",
		"  metadata_clients: {hosts: [127.0.0.1], trusted_roots: "+roots+"}\n  cross_app:\n")
	listed := rig.Edit(t, yaml, "[agent, strict]", "[agent, strict, \""+id+"\"]")
	now, used := c.Clock.Now(), 0
	by := func() []string {
		used++
		own := (&platform{c.server, &rig.Provider{T: t, Key: key}, ""}).sign(map[string]any{
			"iss": id, "sub": id, "aud": issuer, "jti": fmt.Sprint(used), "exp": now.Add(time.Minute).Unix(),
		}, map[string]any{"kid": "key"})
		return []string{"client_assertion_type", assertionType, "client_assertion", own}
	}
	vouch := func() string {
		return c.vouch(map[string]any{"client_id": id, "jti": fmt.Sprint(used), "resource": issuer + "/bearer"})
	}
	c.Reload(listed)
	if a := c.byAssertion(401, vouch(), "client_id", id); a.Error != "invalid_client" {
		t.Errorf("without its key: %+v", a)
	}
	a := c.byAssertion(200, vouch(), by()...)
	c.wantOpen(a, true)
	if got := c.LastHeader().Get("X-Auth-Actor"); got != "client:"+id {
		t.Errorf("the actor is %q", got)
	}
	c.Reload(yaml)
	c.wantOpen(a, false)
	if a := c.byAssertion(400, vouch(), by()...); a.Error != "unauthorized_client" {
		t.Errorf("a client that is not listed: %+v", a)
	}
}

// A token of an exchange has the subject, roles, login and proof of the subject token, the actors one within the
// other, and ends no later.
func TestExchangedClaims(t *testing.T) {
	t.Parallel()
	x := newExchanger(t)
	lent := x.lent()
	x.Clock.Advance(time.Duration(lent.ExpiresIn-30) * time.Second)
	first := x.exchange(200, "agent", lent.Access, "resource", lends)
	second := x.exchange(200, "agent", first.Access)
	if second.ExpiresIn > 30 || second.ExpiresIn < 29 {
		t.Errorf("it lives for %d s, and the subject token for 30", second.ExpiresIn)
	}
	before, after := claimsOf(t, lent.Access), claimsOf(t, second.Access)
	for _, name := range []string{"iss", "sub", "roles", "sid", "amr", "auth_time"} {
		if diff := cmp.Diff(before[name], after[name]); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	inner := map[string]any{"sub": "client:agent"}
	want := map[string]any{
		"client_id": "agent", "aud": acted, "act": map[string]any{"sub": "client:agent", "act": inner},
	}
	for name, value := range want {
		if diff := cmp.Diff(value, after[name]); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if before["jti"] == after["jti"] || before["sid"] == nil || before["auth_time"] == nil {
		t.Errorf("%v, and then %v", before, after)
	}
	x.Clock.Advance(30 * time.Second)
	x.wantOpen("/acted/", second.Access, false)
}

// The answer to an exchange tells the type of the token. Scopes may get fewer.
func TestExchangeAnswer(t *testing.T) {
	t.Parallel()
	x := newExchanger(t)
	lent := x.tokens(t, "resource", lends, "scope", "openid email").Access
	values := form("grant_type", exchangeGrant, "subject_token", lent, "subject_token_type", accessTokenType,
		"requested_token_type", accessTokenType, "resource", acted, "scope", "email")
	w := x.Want(200, "POST", "/oauth/token", values.Encode(), rig.Form, rig.Basic("agent", wikiSecret))
	var told map[string]any
	must.Do(t, json.Unmarshal(w.Body.Bytes(), &told))
	if told["issued_token_type"] != accessTokenType || told["token_type"] != "Bearer" || told["scope"] != "email" ||
		told["id_token"] != nil || told["refresh_token"] != nil {
		t.Errorf("%v", told)
	}
}

// Tokens of other issuers, ID tokens and API tokens are not exchanged.
func TestExchangeOfOtherTokens(t *testing.T) {
	t.Parallel()
	ci := rig.NewProvider(t)
	yaml := exchangingYAML(t) + "token: {trusted_issuers: [{name: ci, audience: [api], issuer: \"" + ci.Issuer +
		"\"}]}\n"
	x := &exchanger{newServer(t, yaml), t}
	ci.Now = x.Clock.Now
	foreign := strings.TrimPrefix(ci.Bearer(map[string]any{"aud": "api"}), "Authorization: Bearer ")
	x.wantOpen("/bearer/", foreign, true)
	for name, token := range map[string]string{
		"a token of another issuer": foreign, "an ID token": x.lent().ID,
		"an API token": x.NewToken(x.cookie, "").Token,
	} {
		if a := x.exchange(400, "agent", token); token == "" || a.Error != "invalid_request" {
			t.Errorf("%s: %+v", name, a)
		}
	}
}
