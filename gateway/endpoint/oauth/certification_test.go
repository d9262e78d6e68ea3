package oauth_test

import (
	"encoding/json"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"authgate/internal/test/must"
	"authgate/internal/test/rig"
)

// What the certification of OpenID providers sends, and this provider does not act on, does
// no harm: the request succeeds. docs/openid-certification.md lists the modules.
func TestCertificationRequests(t *testing.T) {
	t.Parallel()
	s := newServer(t, configuration)
	for name, change := range map[string][]string{
		"no nonce":               {"nonce", ""},
		"scopes that are absent": {"scope", "openid address phone"},
		"scopes in any order":    {"scope", "email openid profile"},
		"display=page":           {"display", "page"},
		"display=popup":          {"display", "popup"},
		"ui_locales":             {"ui_locales", "se"},
		"claims_locales":         {"claims_locales", "se"},
		"acr_values":             {"acr_values", "1 2"},
		"an unknown parameter":   {"extra", "foobar"},
		"max_age=10000":          {"max_age", "10000"},
		"login_hint":             {"login_hint", "bob@example.com"},
		"essential claims":       {"claims", `{"userinfo":{"name":{"essential":true}}}`},
		"response_mode=query":    {"response_mode", "query"},
	} {
		a := s.post(t, 200, "/oauth/token", redemption(s.code(t, ask(change...))), asWiki)
		if a.ID == "" || a.Access == "" {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

// A token goes to userinfo in the header, by GET and POST, and in the form of a POST; never
// in the query.
func TestUserinfoRequests(t *testing.T) {
	t.Parallel()
	s := newServer(t, configuration)
	a := s.tokens(t, "scope", "openid profile")
	form := url.Values{"access_token": {a.Access}}.Encode()
	for name, w := range map[string]*httptest.ResponseRecorder{
		"GET":           s.Do("GET", "/oauth/userinfo", "", "Authorization: Bearer "+a.Access),
		"POST":          s.Do("POST", "/oauth/userinfo", "", "Authorization: Bearer "+a.Access),
		"POST, by form": s.Do("POST", "/oauth/userinfo", form, rig.Form),
	} {
		var claims map[string]any
		must.Do(t, json.Unmarshal(w.Body.Bytes(), &claims))
		if w.Code != 200 || claims["sub"] != "alice" || claims["name"] != "Alice Example" {
			t.Errorf("%s: %d %v", name, w.Code, claims)
		}
	}
	for name, w := range map[string]*httptest.ResponseRecorder{
		"no token":        s.Do("GET", "/oauth/userinfo", ""),
		"the query":       s.Do("GET", "/oauth/userinfo?"+form, ""),
		"a cookie":        s.Do("GET", "/oauth/userinfo", "", s.cookie),
		"an ID token":     s.Do("GET", "/oauth/userinfo", "", "Authorization: Bearer "+a.ID),
		"a refresh token": s.Do("GET", "/oauth/userinfo", "", "Authorization: Bearer "+a.Refresh),
	} {
		// RFC 6750, section 3.1: a request without a token is told of no error.
		challenge := w.Header().Get("WWW-Authenticate")
		presented := strings.HasSuffix(name, " token") && name != "no token"
		if w.Code != 401 || challenge == "" || strings.Contains(challenge, "error=") != presented {
			t.Errorf("%s: %d %v", name, w.Code, w.Header())
		}
	}
	other := s.tokens(t, "scope", "email")
	w := s.Do("GET", "/oauth/userinfo", "", "Authorization: Bearer "+other.Access)
	if challenge := w.Header().Get("WWW-Authenticate"); w.Code != 403 || challenge !=
		`Bearer error="insufficient_scope", scope="openid", realm="authgate"` {
		t.Errorf("without openid: %d %s", w.Code, challenge)
	}
}

// An ID token as a hint says whom the client means. With prompt=none, another user is an
// error; without it, that user signs in.
func TestIDTokenHint(t *testing.T) {
	t.Parallel()
	s := newServer(t, configuration)
	a := s.tokens(t)
	s.Clock.Advance(20 * time.Minute) // a hint may have expired
	silent := ask("prompt", "none", "id_token_hint", a.ID)
	if _, answer := answerOf(t, s.authorize(silent)); answer.Get("code") == "" {
		t.Errorf("the same user: %v", answer)
	}
	alice := s.cookie
	s.cookie = s.Login(rig.Bob).Cookie
	if _, answer := answerOf(t, s.authorize(silent)); answer.Get("error") != "login_required" {
		t.Errorf("another user, silent: %v", answer)
	}
	place, values := answerOf(t, s.authorize(ask("id_token_hint", a.ID)))
	if place != "/signin" {
		t.Fatalf("another user: %s", place)
	}
	back := values.Get("return_to")
	s.Clock.Advance(time.Second)
	again := s.Do("GET", back, "", rig.Browser, s.Login(rig.Bob).Cookie)
	if _, answer := answerOf(t, again); answer.Get("error") != "login_required" {
		t.Errorf("another user, who signed in again: %v", answer)
	}
	if _, answer := answerOf(t, s.Do("GET", back, "", rig.Browser, alice)); answer.Get("code") == "" {
		t.Errorf("the user of the hint: %v", answer)
	}
}
