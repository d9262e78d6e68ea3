package oauth_test

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"

	"authgate/internal/test/must"
	"authgate/internal/test/rig"
)

// scoped has scopes, a resource whose policy names one of them and one that only another issuer
// gives, and a resource whose policy names none that can be had here.
const scoped = rig.Base + `
  - {match: /tools/, name: tools, upstream: app, auth: [bearer], policy: {scopes: [tools, elsewhere]}}
  - {match: /other/, name: other, upstream: app, auth: [bearer], policy: {scopes: [elsewhere]}}
oauth:
  enabled: true
  registration: open
  scopes: {read: [user], tools: [], write: [user, admin]}
  clients:
    - {id: wiki, name: Wiki, secret: "` + wikiSecret + `", roles: [user],
       redirect_uris: ["https://wiki.example.net/cb"],
       grants: [authorization_code, refresh_token, client_credentials, device_code]}
`

// A client that asks for no scope gets those that the policy of the resource names, or else all
// that lend roles (RFC 6749, section 3.3). The user sees them, and the answer names them.
func TestDefaultScopes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ resource, want string }{
		"a policy with scopes":         {"https://gw.example/tools", "tools"},
		"scopes that are unknown here": {"https://gw.example/other", "read tools write"},
		"a policy without scopes":      {"https://gw.example/bearer", "read tools write"},
		"no resource":                  {"", "read tools write"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, scoped)
			values := ask("scope", "", "resource", c.resource)
			page := s.authorize(values)
			for _, scope := range strings.Fields(c.want) {
				rig.WantPage(t, page, "<li>"+scope+"</li>")
			}
			a := s.post(t, 200, "/oauth/token", redemption(s.code(t, values)), asWiki)
			credentials := url.Values{"grant_type": {"client_credentials"}, "resource": {c.resource}}
			own := s.post(t, 200, "/oauth/token", credentials, asWiki)
			if a.Scope != c.want || claimsOf(t, a.Access)["scope"] != c.want || own.Scope != c.want {
				t.Errorf("the user lends %q, and the client has %q; want %q", a.Scope, own.Scope, c.want)
			}
			var d deviceStart
			w := s.Want(200, "POST", "/oauth/device", url.Values{"resource": {c.resource}}.Encode(), asWiki, rig.Form)
			must.Do(t, json.Unmarshal(w.Body.Bytes(), &d))
			for _, scope := range strings.Fields(c.want) {
				rig.WantPage(t, s.enter(d.User), "<li>"+scope+"</li>")
			}
		})
	}
	s := newServer(t, scoped)
	for _, scope := range []string{"unknown", "elsewhere", " "} {
		if _, answer := answerOf(t, s.authorize(ask("scope", scope))); answer.Get("error") != "invalid_scope" {
			t.Errorf("%q: %v", scope, answer)
		}
	}
}

// The scopes that a client has registered bound what it gets without asking.
func TestDefaultScopesOfRegisteredClients(t *testing.T) {
	t.Parallel()
	s := newServer(t, scoped)
	register := func(scope string) url.Values {
		t.Helper()
		var made struct {
			ID string `json:"client_id"`
		}
		w := s.Want(201, "POST", "/oauth/register", `{"redirect_uris":["https://wiki.example.net/cb"],"scope":"`+scope+
			`","token_endpoint_auth_method":"none"}`, rig.JSON)
		must.Do(t, json.Unmarshal(w.Body.Bytes(), &made))
		return ask("client_id", made.ID, "scope", "", "resource", "https://gw.example/bearer")
	}
	values := register("read openid")
	a := s.post(t, 200, "/oauth/token", redemption(s.code(t, values), "client_id", values.Get("client_id")))
	if a.Scope != "read" {
		t.Errorf("the client gets %q", a.Scope)
	}
	answer := linkOf(t, s.authorize(register("openid")), 400, "https://wiki.example.net/cb", "wiki.example.net")
	if answer.Get("error") != "invalid_scope" {
		t.Errorf("a client that has registered none of them: %v", answer)
	}
}

// The document of a resource names the scopes that a client gets there.
func TestScopesOfResources(t *testing.T) {
	t.Parallel()
	r := rig.New(t, scoped)
	for path, want := range map[string][]any{
		"/tools": {"tools"}, "/other": {"read", "tools", "write"}, "/bearer": {"read", "tools", "write"},
	} {
		m := document(t, r, "gw.example", "/.well-known/oauth-protected-resource"+path)
		if scopes, _ := m["scopes_supported"].([]any); !slices.Equal(scopes, want) {
			t.Errorf("%s: %v, want %v", path, scopes, want)
		}
	}
}

// A client that repeats, at a refresh, what it asked for first gets what it got first. A scope that
// it could have asked for and did not is refused (RFC 6749, section 6).
func TestRefreshRepeatsScopes(t *testing.T) {
	t.Parallel()
	s := newServer(t, scoped)
	a := s.tokens(t, "scope", "openid unknown read")
	refresh := func(status int, scope string) answer {
		t.Helper()
		form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {a.Refresh}, "scope": {scope}}
		return s.post(t, status, "/oauth/token", form, asWiki)
	}
	for _, scope := range []string{"openid unknown write", "unknown", " "} {
		if got := refresh(400, scope); got.Error != "invalid_scope" {
			t.Errorf("%q: %+v", scope, got)
		}
	}
	if a = refresh(200, "openid unknown read read"); a.Scope != "openid read" || a.ID == "" {
		t.Errorf("%+v", a)
	}
}

// A parameter without a value counts as omitted, whatever it is (RFC 6749, sections 3.1 and 3.2).
func TestEmptyParameters(t *testing.T) {
	t.Parallel()
	s := newServer(t, configuration)
	// empty adds, without a value, the parameters that values does not have.
	empty := func(values url.Values) url.Values {
		for _, name := range []string{
			"resource", "scope", "state", "nonce", "prompt", "max_age", "login_hint", "id_token_hint", "acr_values", "display",
			"request", "request_uri", "response_mode", "client_secret", "client_assertion", "client_assertion_type",
			"redirect_uri", "code_verifier", "token_type_hint",
		} {
			values[name] = append(values[name], "")
		}
		return values
	}
	code := s.code(t, ask())
	if place, answer := answerOf(t, s.authorize(empty(ask()))); answer.Get("code") == "" {
		t.Errorf("%s %v", place, answer)
	}
	a := s.post(t, 200, "/oauth/token", empty(redemption(code)), asWiki)
	for path, form := range map[string]url.Values{
		"/oauth/token":      {"grant_type": {"refresh_token"}, "refresh_token": {a.Refresh}},
		"/oauth/introspect": {"token": {a.Access}},
		"/oauth/revoke":     {"token": {a.Access}},
	} {
		s.post(t, 200, path, empty(form), asWiki)
	}
	s.post(t, 200, "/oauth/token", empty(url.Values{"grant_type": {"client_credentials"}}), asWiki)
	s.post(t, 200, "/oauth/device", empty(url.Values{"client_id": {"tv"}}))
	if got := s.post(t, 400, "/oauth/token", url.Values{"grant_type": {""}}, asWiki); got.Error != "invalid_request" {
		t.Errorf("no grant type: %+v", got)
	}
	hint := url.Values{"id_token_hint": {a.ID}, "post_logout_redirect_uri": {"https://wiki.example.net/bye"},
		"client_id": {""}, "state": {""}}
	if place, answer := answerOf(t, s.endSession(hint)); place != "https://wiki.example.net/bye" || answer.Has("state") {
		t.Errorf("the logout leads to %s %v", place, answer)
	}
}
