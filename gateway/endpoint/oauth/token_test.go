package oauth_test

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"authgate/internal/test/must"
	"authgate/internal/test/rig"
)

// claimsOf reads the claims of a JWT without checking its signature.
func claimsOf(t *testing.T, token string) map[string]any {
	t.Helper()
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		t.Fatalf("no JWT: %q", token)
	}
	var claims map[string]any
	must.Do(t, json.Unmarshal(must.Get(base64.RawURLEncoding.DecodeString(parts[1]))(t), &claims))
	return claims
}

// A code becomes tokens: an access token for the resource, a refresh token, an ID token.
func TestCodeGrant(t *testing.T) {
	t.Parallel()
	s := newServer(t, configuration)
	a := s.tokens(t, "scope", "openid profile email groups", "nonce", "n-0S6", "resource", "https://gw.example/bearer/")
	if a.Type != "Bearer" || a.Refresh == "" || a.ExpiresIn != 900 || a.Scope != "openid profile email groups" {
		t.Errorf("%+v", a)
	}
	access, id := claimsOf(t, a.Access), claimsOf(t, a.ID)
	for name, want := range map[string]any{
		"iss": issuer, "sub": "alice", "aud": "https://gw.example/bearer", "client_id": "wiki",
		"scope": "openid profile email groups",
	} {
		if access[name] != want {
			t.Errorf("the access token's %s is %v, want %v", name, access[name], want)
		}
	}
	for name, want := range map[string]any{
		"iss": issuer, "sub": "alice", "aud": "wiki", "nonce": "n-0S6", "sid": access["sid"], "name": "Alice Example",
		"acr":                "factors:1",
		"preferred_username": "alice", "email": "alice@example.org", "email_verified": true,
	} {
		if id[name] != want || want == nil {
			t.Errorf("the ID token's %s is %v, want %v", name, id[name], want)
		}
	}
	for _, name := range []string{"at_hash", "auth_time", "amr", "groups", "iat", "exp"} {
		if id[name] == nil {
			t.Errorf("the ID token has no %s", name)
		}
	}
	var info map[string]any
	w := s.Want(200, "GET", "/oauth/userinfo", "", "Authorization: Bearer "+a.Access, "Origin: https://spa.example.net")
	must.Do(t, json.Unmarshal(w.Body.Bytes(), &info))
	for _, name := range []string{"sub", "name", "preferred_username", "email", "email_verified"} {
		if info[name] != id[name] {
			t.Errorf("userinfo: %s is %v, in the ID token %v", name, info[name], id[name])
		}
	}
	// A client's token opens nothing of the account.
	for _, path := range []string{"/me", "/account", "/account/sessions"} {
		s.Want(401, "GET", path, "", "Authorization: Bearer "+a.Access)
	}
	s.Want(401, "POST", "/logout", "", "Authorization: Bearer "+a.Access)
	s.Want(401, "POST", "/refresh", `{"refresh_token":"`+a.Refresh+`"}`, rig.JSON)
}

// What does not fit is refused, and consumes nothing: the right client still gets its tokens.
func TestCodeRefusals(t *testing.T) {
	t.Parallel()
	s := newServer(t, configuration)
	code := s.code(t, ask())
	for _, c := range []struct {
		name   string
		form   url.Values
		header []string
		status int
		code   string
	}{
		{"no client", redemption(code), nil, 401, "invalid_client"},
		{"a wrong secret", redemption(code), []string{rig.Basic("wiki", "wrong")}, 401, "invalid_client"},
		{"an unknown client", redemption(code), []string{rig.Basic("stranger", wikiSecret)}, 401, "invalid_client"},
		{"two ways", redemption(code, "client_secret", wikiSecret, "client_id", "wiki"),
			[]string{asWiki}, 400, "invalid_request"},
		{"a public client", redemption(code, "client_id", "wiki"), nil, 401, "invalid_client"},
		{"another client", redemption(code, "client_id", "spa"), nil, 400, "invalid_grant"},
		{"no verifier", redemption(code, "code_verifier", ""), []string{asWiki}, 400, "invalid_grant"},
		{"a wrong verifier", redemption(code, "code_verifier", strings.Repeat("x", 43)),
			[]string{asWiki}, 400, "invalid_grant"},
		{"another redirect URI", redemption(code, "redirect_uri", "https://wiki.example.net/cb?x=1"),
			[]string{asWiki}, 400, "invalid_grant"},
		{"another resource", redemption(code, "resource", "https://gw.example/any"), []string{asWiki}, 400, "invalid_target"},
		{"no code", redemption(""), []string{asWiki}, 400, "invalid_grant"},
		{"an invented code", redemption("x" + code), []string{asWiki}, 400, "invalid_grant"},
		{"no grant type", redemption(code, "grant_type", ""), []string{asWiki}, 400, "invalid_request"},
		{"an unknown grant type", redemption(code, "grant_type", "password"),
			[]string{asWiki}, 400, "unsupported_grant_type"},
		{"a word of the configuration", redemption(code, "grant_type", "device_code"),
			[]string{asWiki}, 400, "unsupported_grant_type"},
		{"a grant type of others", redemption(code, "grant_type", "urn:ietf:params:oauth:grant-type:device_code"),
			[]string{asWiki}, 400, "unauthorized_client"},
		{"a bearer token", redemption(code), []string{"Authorization: Bearer x"}, 401, "invalid_client"},
	} {
		if got := s.post(t, c.status, "/oauth/token", c.form, c.header...); got.Error != c.code && c.name != "no code" {
			t.Errorf("%s: %q, want %q", c.name, got.Error, c.code)
		}
	}
	// Without redirect_uri, and with the secret in the form.
	s.post(t, 200, "/oauth/token", redemption(code, "redirect_uri", "", "client_id", "wiki", "client_secret", wikiSecret))
}

// A code that comes twice is in two hands: what was issued for it ends.
func TestCodeReplay(t *testing.T) {
	t.Parallel()
	s := newServer(t, configuration)
	code := s.code(t, ask())
	a := s.post(t, 200, "/oauth/token", redemption(code), asWiki)
	s.Want(200, "GET", "/oauth/userinfo", "", "Authorization: Bearer "+a.Access)
	if again := s.post(t, 400, "/oauth/token", redemption(code), asWiki); again.Error != "invalid_grant" {
		t.Errorf("the replay: %q", again.Error)
	}
	s.Want(401, "GET", "/oauth/userinfo", "", "Authorization: Bearer "+a.Access)
	s.refresh(t, 400, a.Refresh)
	s.Want(200, "GET", "/me", "", s.cookie) // the login goes on
}

// A refresh token rotates; the scope may get smaller for one access token.
func TestRefreshGrant(t *testing.T) {
	t.Parallel()
	s := newServer(t, configuration)
	a := s.tokens(t, "scope", "openid email")
	form := func(token string, change ...string) url.Values {
		values := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}}
		for i := 0; i+1 < len(change); i += 2 {
			values.Set(change[i], change[i+1])
		}
		return values
	}
	for name, values := range map[string]url.Values{
		"invalid_scope":  form(a.Refresh, "scope", "openid groups"),
		"invalid_target": form(a.Refresh, "resource", "https://gw.example/any"),
	} {
		if got := s.post(t, 400, "/oauth/token", values, asWiki); got.Error != name {
			t.Errorf("%v: %q", values, got.Error)
		}
	}
	s.post(t, 400, "/oauth/token", form(a.Refresh, "client_id", "spa"))
	less := s.post(t, 200, "/oauth/token", form(a.Refresh, "scope", "email"), asWiki)
	if less.Scope != "email" || less.ID != "" {
		t.Errorf("%+v", less)
	}
	more := s.post(t, 200, "/oauth/token", form(less.Refresh), asWiki)
	if more.Scope != "openid email" || more.ID == "" {
		t.Errorf("%+v", more)
	}
	s.Clock.Advance(time.Minute)
	s.post(t, 400, "/oauth/token", form(a.Refresh), asWiki) // used, and the leeway is over
	s.post(t, 400, "/oauth/token", form(more.Refresh), asWiki)
	s.Want(200, "GET", "/me", "", s.cookie)
}

// A client with a secret gets tokens of its own, with its roles.
func TestClientCredentials(t *testing.T) {
	t.Parallel()
	s := newServer(t, configuration)
	form := url.Values{"grant_type": {"client_credentials"}, "resource": {"https://gw.example/bearer"}}
	a := s.post(t, 200, "/oauth/token", form, asWiki)
	claims := claimsOf(t, a.Access)
	if claims["sub"] != "client:wiki" || a.Refresh != "" || a.ID != "" || claims["sid"] != nil {
		t.Errorf("%+v %v", a, claims)
	}
	form.Set("client_id", "spa")
	if got := s.post(t, 400, "/oauth/token", form); got.Error != "unauthorized_client" {
		t.Errorf("a public client: %q", got.Error)
	}
}

// Revocation ends an access token alone, and a refresh token with everything. It tells nothing
// about tokens of others.
func TestRevocation(t *testing.T) {
	t.Parallel()
	s := newServer(t, configuration)
	a, b := s.tokens(t), s.tokens(t)
	revoke := func(token string, header ...string) {
		s.post(t, 200, "/oauth/revoke", url.Values{"token": {token}}, header...)
	}
	status := func(want int, token string) {
		t.Helper()
		s.Want(want, "GET", "/oauth/userinfo", "", "Authorization: Bearer "+token)
	}
	s.post(t, 200, "/oauth/revoke", url.Values{"token": {a.Access}, "client_id": {"spa"}})
	status(200, a.Access)
	revoke(a.Access, asWiki)
	revoke(a.Access, asWiki)
	revoke("unknown", asWiki)
	status(401, a.Access)
	next := s.refresh(t, 200, a.Refresh)
	status(200, next.Access)
	revoke(next.Refresh, asWiki)
	status(401, next.Access)
	status(200, b.Access)
	s.post(t, 401, "/oauth/revoke", url.Values{"token": {b.Access}})
}

// inspect asks about a token.
func (s *server) inspect(t *testing.T, token string) map[string]any {
	t.Helper()
	var found map[string]any
	w := s.Want(200, "POST", "/oauth/introspect", url.Values{"token": {token}}.Encode(), asWiki, rig.Form)
	must.Do(t, json.Unmarshal(w.Body.Bytes(), &found))
	return found
}

// Introspection tells a client with a secret about its own tokens, and nothing else.
func TestIntrospection(t *testing.T) {
	t.Parallel()
	s := newServer(t, configuration)
	a := s.tokens(t, "scope", "openid email", "resource", "https://gw.example/bearer")
	for _, token := range []string{a.Access, a.Refresh} {
		found := s.inspect(t, token)
		if found["active"] != true || found["client_id"] != "wiki" || found["sub"] != "alice" ||
			found["scope"] != "openid email" || found["aud"] != "https://gw.example/bearer" || found["exp"] == nil {
			t.Errorf("%v", found)
		}
	}
	own := s.Login(rig.Alice)
	for _, token := range []string{"unknown", own.Access, a.ID} {
		if found := s.inspect(t, token); found["active"] != false || len(found) != 1 {
			t.Errorf("%v", found)
		}
	}
	s.post(t, 401, "/oauth/introspect", url.Values{"token": {a.Access}, "client_id": {"spa"}})
	s.Clock.Advance(16 * time.Minute)
	if found := s.inspect(t, a.Access); found["active"] != false {
		t.Errorf("expired: %v", found)
	}
}

// A logout ends codes and tokens, the end of a session by time does not.
func TestGrantsEndWithTheLogin(t *testing.T) {
	t.Parallel()
	s := newServer(t, configuration)
	a := s.tokens(t)
	s.Clock.Advance(s.Config.Session.Lifetime + time.Minute)
	s.Want(401, "GET", "/me", "", s.cookie)
	a = s.refresh(t, 200, a.Refresh)
	s.cookie = s.Login(rig.Alice).Cookie
	code, b := s.code(t, ask()), s.tokens(t)
	s.Want(200, "POST", "/logout", "", s.cookie)
	s.post(t, 400, "/oauth/token", redemption(code), asWiki)
	s.Want(401, "GET", "/oauth/userinfo", "", "Authorization: Bearer "+b.Access)
	s.refresh(t, 400, b.Refresh)
	s.refresh(t, 200, a.Refresh) // of another login
}

// The user sees the applications that they have let in, and ends one with all its tokens.
func TestAccountClients(t *testing.T) {
	t.Parallel()
	s := newServer(t, configuration)
	a := s.tokens(t, "resource", "https://gw.example/bearer")
	list := s.Want(200, "GET", "/account/clients", "", s.cookie).Body.String()
	if !strings.Contains(list, `"client_id":"wiki","name":"Wiki"`) ||
		!strings.Contains(list, "https://gw.example/bearer") {
		t.Errorf("%s", list)
	}
	if page := s.Want(200, "GET", "/account?part=programs", "", rig.Browser,
		s.cookie); !strings.Contains(page.Body.String(), "Wiki") {
		t.Error("the account page does not show the application")
	}
	bob := s.Login(rig.Bob).Cookie
	s.Want(404, "POST", "/account/clients/revoke", `{"client_id":"wiki"}`, rig.JSON, bob)
	s.Want(200, "POST", "/account/clients/revoke", `{"client_id":"wiki"}`, rig.JSON, s.cookie)
	s.Want(401, "GET", "/oauth/userinfo", "", "Authorization: Bearer "+a.Access)
	s.refresh(t, 400, a.Refresh)
	s.Want(404, "POST", "/account/clients/revoke", `{"client_id":"wiki"}`, rig.JSON, s.cookie)
	if w := s.authorize(ask("resource", "https://gw.example/bearer")); w.Code != 200 {
		t.Errorf("the user is not asked again: %d", w.Code)
	}
}

// An address of a resource has several spellings. A client may use the same one at each
// endpoint, and another one too.
func TestResourceSpellings(t *testing.T) {
	t.Parallel()
	s := newServer(t, configuration)
	spellings := []string{"https://gw.example/bearer", "https://gw.example/bearer/", "https://GW.example:443/bearer",
		"https://gw.example/%62earer"}
	for _, first := range spellings {
		for _, second := range spellings {
			form := redemption(s.code(t, ask("resource", first)), "resource", "https://gw.example/any")
			if got := s.post(t, 400, "/oauth/token", form, asWiki); got.Error != "invalid_target" {
				t.Errorf("another resource: %+v", got)
			}
			form.Set("resource", second)
			a := s.post(t, 200, "/oauth/token", form, asWiki)
			if aud := claimsOf(t, a.Access)["aud"]; aud != spellings[0] {
				t.Errorf("%s: %v", first, aud)
			}
			s.post(t, 200, "/oauth/token", url.Values{
				"grant_type": {"refresh_token"}, "refresh_token": {a.Refresh}, "resource": {second},
			}, asWiki)
		}
	}
}

// An application that the operator has excused gets codes without PKCE, for its secret and with
// the redirect URI. No other does, and what it began with PKCE it cannot end without.
func TestWithoutPKCE(t *testing.T) {
	t.Parallel()
	const callback = "https://old.example.net/cb"
	const required = `    - {id: old, consent: skip, redirect_uris: ["` + callback + `"],
       secret: "` + wikiSecret + `"}
`
	s := newServer(t, configuration+strings.Replace(required, "id: old", "id: old, pkce: optional", 1))
	request := func(change ...string) url.Values {
		return ask(append([]string{"client_id", "old", "redirect_uri", callback}, change...)...)
	}
	bare := request("code_challenge", "", "code_challenge_method", "")
	asOld := rig.Basic("old", wikiSecret)
	redeem := func(status int, code string, change ...string) answer {
		t.Helper()
		change = append([]string{"redirect_uri", callback, "code_verifier", ""}, change...)
		return s.post(t, status, "/oauth/token", redemption(code, change...), asOld)
	}
	code := s.code(t, bare)
	redeem(400, code, "code_verifier", verifier)
	redeem(400, code, "redirect_uri", "")
	redeem(400, code, "redirect_uri", "https://wiki.example.net/cb")
	if a := redeem(200, code); a.ID == "" {
		t.Errorf("%+v", a)
	}
	redeem(400, code) // a code serves once
	with := s.code(t, request())
	redeem(400, with)
	redeem(200, with, "code_verifier", verifier)
	for name, values := range map[string]url.Values{
		"plain":             request("code_challenge_method", "plain"),
		"a method alone":    request("code_challenge", ""),
		"a challenge alone": request("code_challenge_method", ""),
		"another client":    ask("code_challenge", "", "code_challenge_method", ""),
	} {
		if _, answer := answerOf(t, s.authorize(values)); answer.Get("error") != "invalid_request" {
			t.Errorf("%s: %v", name, answer)
		}
	}
	code = s.code(t, bare)
	s.Reload(configuration + required)
	redeem(400, code) // the operator has taken the excuse back
}

// An ID token lives as long as the operator says, for all clients or for one, whatever access tokens
// do.
func TestIDTokenLifetime(t *testing.T) {
	t.Parallel()
	s := newServer(t, configuration)
	lives := func(token string) time.Duration {
		claims := claimsOf(t, token)
		return time.Duration(claims["exp"].(float64)-claims["iat"].(float64)) * time.Second
	}
	a := s.tokens(t)
	if got := lives(a.ID); got != 10*time.Minute {
		t.Errorf("by default it lives for %v", got)
	}
	all := configuration + "  id_token_lifetime: 30m\n"
	for yaml, want := range map[string]time.Duration{
		all: 30 * time.Minute,
		rig.Edit(t, all, "id: wiki,", "id: wiki, access_lifetime: 1m, id_token_lifetime: 12h,"): 12 * time.Hour,
	} {
		s.Reload(yaml)
		a = s.refresh(t, 200, a.Refresh)
		for _, token := range []string{a.ID, s.tokens(t).ID} {
			if got := lives(token); got != want {
				t.Errorf("it lives for %v, want %v", got, want)
			}
		}
	}
}
