package gateway

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

const apiTokenConfig = baseConfig + `
  - {match: /git/, name: git, upstream: app, auth: [bearer], basic_challenge: true}
  - {match: /wiki/, name: wiki, upstream: app, auth: [session, bearer], basic_challenge: true}
  - {match: /both/, name: both, upstream: app, auth: [basic, bearer], basic_challenge: true}
  - {match: /shared/, name: shared, upstream: app, auth: [session, bearer], authorization: application}
`

// madeToken is what the creation of an API token answers.
type madeToken struct {
	ID, Name, Token string
	Roles           []string
	CreatedAt       string `json:"created_at"`
	ExpiresAt       string `json:"expires_at"`
}

func readToken(t testing.TB, w *httptest.ResponseRecorder) (made madeToken) {
	t.Helper()
	if err := json.Unmarshal(w.Body.Bytes(), &made); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	return made
}

// newToken makes an API token for an hour, with more members of the order.
func (r *rig) newToken(cookie, more string) madeToken {
	r.t.Helper()
	return readToken(r.t, r.want(201, "POST", "/account/tokens", `{"name":"ci","expires_in":3600`+more+`}`, jsonType, cookie))
}

// An API token opens routes that accept bearer tokens, in both headers, with the
// mechanism bearer. The token never reaches the upstream.
func TestAPITokenOnRoutes(t *testing.T) {
	t.Parallel()
	r := newRig(t, apiTokenConfig)
	alice := r.login(aliceIn)
	made := r.newToken(alice.cookie, `,"roles":["user"]`)
	bearer, basic := "Authorization: Bearer "+made.Token, basicHeader("alice", made.Token)
	r.want(200, "POST", "/logout", "", alice.cookie) // tokens outlive the login
	for _, line := range []string{bearer, basic, basicHeader("", made.Token), basicHeader("__token__", made.Token)} {
		for _, target := range []string{"/bearer/", "/any/", "/git/", "/wiki/", "/shared/"} {
			r.want(200, "POST", target, "", line)
			h := r.upstream.last().Header
			if h.Get("X-Auth-User") != "alice" || h.Get("X-Auth-Mechanism") != "bearer" || h.Get("X-Auth-Roles") != "user" || h.Get("X-Auth-Provider") != "local" {
				t.Errorf("%s: the upstream sees %v", target, h)
			}
			if h["Authorization"] != nil {
				t.Errorf("%s: the token reached the upstream", target)
			}
		}
		r.want(401, "GET", "/session/", "", line)
		r.want(401, "GET", "/basic/", "", line)
		r.want(403, "GET", "/admin/", "", line) // the token has not the role
	}
	bob := r.login(bobIn)
	for _, wrong := range []string{
		basicHeader("bob", made.Token), basicHeader("__TOKEN__", made.Token), basicHeader("", made.Token+"A"), basicHeader("alice", made.Token+"A"), strings.TrimSuffix(basic, "=") + "!",
		bearer + "A", "Authorization: Bearer agt_", basicHeader("alice", "agt_"),
	} {
		for _, target := range []string{"/bearer/", "/any/", "/shared/", "/wiki/"} {
			r.want(401, "GET", target, "", wrong, bob.cookie) // and no other credential counts
		}
	}
	r.clock.Advance(time.Hour)
	r.want(401, "GET", "/bearer/", "", bearer)
	r.want(401, "GET", "/bearer/", "", basic)
}

// Basic credentials of the application go on as before.
func TestBasicBesideAPITokens(t *testing.T) {
	t.Parallel()
	r := newRig(t, apiTokenConfig)
	alice, foreign := r.login(aliceIn), basicHeader("alice", "the application's")
	r.want(200, "GET", "/wiki/", "", alice.cookie, foreign)
	if got := r.upstream.last().Header.Get("Authorization"); "Authorization: "+got != foreign {
		t.Errorf("the upstream got %q", got)
	}
	r.want(403, "POST", "/wiki/", "", alice.cookie, foreign, "Sec-Fetch-Site: cross-site")
	r.want(200, "GET", "/any/", "", basicHeader("service", "s3rvice"))
}

// basic_challenge asks for Basic alone, because Docker takes a Bearer challenge for that of a token server; and not in the middle of a page.
func TestBasicChallengeForAPITokens(t *testing.T) {
	t.Parallel()
	r := newRig(t, apiTokenConfig)
	const basic, bearer = `Basic realm="authgate", charset="UTF-8"`, `Bearer realm="authgate"`
	const script = "Sec-Fetch-Mode: cors"
	for _, c := range []struct {
		target, header string
		want           []string
	}{
		{"/git/", "", []string{basic}}, {"/wiki/", "", []string{basic}},
		{"/git/", script, nil}, {"/wiki/", script, nil},
		{"/bearer/", "", []string{bearer}}, {"/shared/", "", []string{bearer}}, {"/any/", "", []string{basic, bearer}}, {"/both/", "", []string{basic}},
		{"/git/", basicHeader("alice", "agt_x"), []string{basic}}, {"/git/", "Authorization: Bearer agt_x", []string{basic}},
	} {
		w := r.want(401, "GET", c.target, "", c.header)
		if got := w.Header()["Www-Authenticate"]; !slices.Equal(got, c.want) {
			t.Errorf("%s with %q asks for %q, want %q", c.target, c.header, got, c.want)
		}
	}
	r.want(302, "GET", "/wiki/", "", browser, "Sec-Fetch-Mode: navigate")
}

// Only a session can make and revoke tokens, and a token cannot end a session.
func TestWhoMakesAPITokens(t *testing.T) {
	t.Parallel()
	r := newRig(t, apiTokenConfig)
	alice, bob := r.login(aliceIn), r.login(bobIn)
	made := r.newToken(alice.cookie, "")
	bearer, basic := "Authorization: Bearer "+made.Token, basicHeader("alice", made.Token)
	const order = `{"name":"ci","expires_in":3600}`
	revoke := `{"id":"` + made.ID + `"}`
	for target, body := range map[string]string{"/account/tokens": order, "/account/tokens/revoke": revoke} {
		for line, want := range map[string]int{
			bearer: 403, alice.bearer: 403, basic: 401, basicHeader("alice", "wonderland"): 401, "": 401, "Authorization: Bearer agt_x": 401, "Cookie: session_id=x": 401,
		} {
			r.want(want, "POST", target, body, jsonType, line)
		}
		r.want(403, "POST", target, body, jsonType, alice.cookie, bearer)
		r.want(403, "POST", target, body, jsonType, alice.cookie, "Sec-Fetch-Site: cross-site")
		r.want(415, "POST", target, body, "Content-Type: text/plain", alice.cookie)
		r.want(400, "POST", target, body, formType, alice.cookie)
		r.want(400, "POST", target, "[]", jsonType, alice.cookie)
	}
	r.want(403, "POST", "/logout", "", bearer)
	r.want(403, "POST", "/logout", "", bearer, alice.cookie)
	r.want(401, "POST", "/refresh", refreshBody(made.Token), jsonType)
	r.want(401, "POST", "/login", `{"username":"alice","password":"`+made.Token+`"}`, jsonType)
	r.want(401, "POST", "/login", "", basic)
	r.good(alice, true)
	r.want(404, "POST", "/account/tokens/revoke", revoke, jsonType, bob.cookie)
	r.want(200, "GET", "/bearer/", "", bearer)
	r.want(200, "POST", "/account/tokens/revoke", revoke, jsonType, alice.cookie)
	r.want(401, "GET", "/bearer/", "", bearer)
	r.want(401, "GET", "/bearer/", "", basic)
	r.want(404, "POST", "/account/tokens/revoke", revoke, jsonType, alice.cookie)
	if log := r.log.String(); strings.Contains(log, made.Token) || !strings.Contains(log, "token_created") || !strings.Contains(log, "token_revoked") {
		t.Error("the log has the token, or lacks an audit event")
	}
}

// With session.csrf_token, a client that does not tell its site needs the token of
// its login.
func TestAPITokensNeedCSRFToken(t *testing.T) {
	t.Parallel()
	r := newRig(t, withToken)
	alice := r.login(aliceIn)
	const order = `{"name":"ci","expires_in":3600}`
	token := "X-CSRF-Token: " + r.csrfToken(alice.cookie)
	r.want(403, "POST", "/account/tokens", order, jsonType, alice.cookie)
	made := readToken(t, r.want(201, "POST", "/account/tokens", order, jsonType, alice.cookie, token))
	revoke := `{"id":"` + made.ID + `"}`
	r.want(403, "POST", "/account/tokens/revoke", revoke, jsonType, alice.cookie)
	bearer, basic := "Authorization: Bearer "+made.Token, basicHeader("alice", made.Token)
	r.want(200, "POST", "/bearer/", "", bearer) // no browser sends it by itself
	r.want(200, "POST", "/bearer/", "", basic)
	r.want(200, "POST", "/account/tokens/revoke", revoke, jsonType, alice.cookie, token)
}

// Users of a provider have no API tokens: their roles are known only while they are
// signed in.
func TestDelegatedUsersHaveNoAPITokens(t *testing.T) {
	t.Parallel()
	r, _ := delegatedRig(t, "")
	back := r.leave("")
	cookie := jarOf(r.want(302, "GET", back.target, "", back.cookie)).line()
	w := r.want(403, "POST", "/account/tokens", `{"name":"ci","expires_in":3600}`, jsonType, cookie)
	if detail := detailOf(t, w); !strings.Contains(detail, "local account") {
		t.Errorf("the answer is %q", detail)
	}
	r.want(403, "POST", "/account/tokens/revoke", `{"id":"x"}`, jsonType, cookie)
	if got := strings.TrimSpace(r.want(200, "GET", "/account/tokens", "", cookie).Body.String()); got != `{"tokens":[]}` {
		t.Errorf("the list is %s", got)
	}
}

// An order says how long the token lives, and asks for no role that the owner does
// not have.
func TestOrderOfAPIToken(t *testing.T) {
	t.Parallel()
	r := newRig(t, apiTokenConfig)
	bob := r.login(bobIn)
	for _, order := range []string{
		`{}`, `{"name":"x"}`, `{"expires_in":60}`, `{"name":"x","expires_in":0}`, `{"name":"x","expires_in":-1}`, `{"name":"x","expires_in":null}`,
		`{"name":"x","expires_in":"60"}`, `{"name":"x","expires_in":1.5}`, `{"name":"x","expires_in":31536001}`, `{"name":"x","expires_in":1e300}`,
		`{"name":"","expires_in":60}`, `{"name":" ","expires_in":60}`, `{"name":7,"expires_in":60}`, `{"name":"a\nb","expires_in":60}`,
		`{"name":"` + strings.Repeat("x", 101) + `","expires_in":60}`,
		`{"name":"x","expires_in":60,"roles":["admin"]}`, `{"name":"x","expires_in":60,"roles":["user","admin"]}`, `{"name":"x","expires_in":60,"roles":"user"}`,
		`{"name":"x","expires_in":60,"roles":null}`, `{"name":"x","expires_in":60,"roles":[null]}`, `{"name":"x","expires_in":60,"role":[]}`,
		`{"name":"x","name":"y","expires_in":60}`,
	} {
		r.want(400, "POST", "/account/tokens", order, jsonType, bob.cookie)
	}
	for order, roles := range map[string]string{
		`{"name":"x","expires_in":31536000}`: "[user]", `{"name":"x","expires_in":1,"roles":[]}`: "[]", `{"name":"x","expires_in":60,"roles":["user","user"]}`: "[user]",
	} {
		w := r.want(201, "POST", "/account/tokens", order, jsonType, bob.cookie)
		if made := readToken(t, w); fmt.Sprint(made.Roles) != roles || !strings.HasPrefix(made.Token, "agt_") || made.ID == "" || made.Name != "x" {
			t.Errorf("%s gives %+v", order, made)
		}
		if w.Header().Get("Cache-Control") != "no-store" {
			t.Error("the answer can be cached")
		}
	}
}

// The list shows when a token was last used, and never the token.
func TestListOfAPITokens(t *testing.T) {
	t.Parallel()
	r := newRig(t, apiTokenConfig)
	alice, bob := r.login(aliceIn), r.login(bobIn)
	made := r.newToken(alice.cookie, "")
	r.newToken(bob.cookie, "")
	want := fmt.Sprintf(`{"tokens":[{"id":%q,"name":"ci","roles":["user","admin"],"created_at":%q,"last_used_at":"","expires_at":%q}]}`, made.ID, made.CreatedAt, made.ExpiresAt)
	for _, line := range []string{alice.cookie, alice.bearer} {
		if got := strings.TrimSpace(r.want(200, "GET", "/account/tokens", "", line).Body.String()); got != want {
			t.Errorf("the list is %s, want %s", got, want)
		}
	}
	if created, err := time.Parse(time.RFC3339, made.CreatedAt); err != nil || !strings.HasSuffix(made.CreatedAt, "Z") {
		t.Errorf("created at %v, %v", created, err)
	}
	r.want(401, "GET", "/account/tokens", "")
	r.want(401, "GET", "/account/tokens", "", basicHeader("alice", made.Token))
}

// A token ends with a new password and with a disabled account, also after that was
// undone. A role that the owner loses is lost to the token.
func TestAPITokenAfterReload(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*testing.T) string{
		"password": func(t *testing.T) string {
			return edit(t, apiTokenConfig, "$2a$04$5Wz59EKxlb/jl//qPb/42udIqT6GIoGQ0zoeS4IglK1P8q6BUmwnW", "$2a$04$pDRg7Ut1thqXWEVTWL/eyuwZ638YFSULB3vj1z8XhSUxXDFgBi4EC")
		},
		"disabled": func(t *testing.T) string {
			return edit(t, apiTokenConfig, "username: alice,", "username: alice, disabled: true,")
		},
		"removed": func(t *testing.T) string { return edit(t, apiTokenConfig, "username: alice,", "username: carol,") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, apiTokenConfig)
			bearer := "Authorization: Bearer " + r.newToken(r.login(aliceIn).cookie, "").Token
			r.want(200, "GET", "/admin/", "", bearer)
			r.clock.Advance(time.Second)
			r.mustReload(change(t))
			r.want(401, "GET", "/bearer/", "", bearer)
			r.clock.Advance(time.Second)
			r.mustReload(apiTokenConfig)
			r.want(401, "GET", "/bearer/", "", bearer)
		})
	}
	r := newRig(t, apiTokenConfig)
	bearer := "Authorization: Bearer " + r.newToken(r.login(aliceIn).cookie, "").Token
	r.mustReload(edit(t, apiTokenConfig, "roles: [user, admin],", "roles: [user],"))
	r.want(403, "GET", "/admin/", "", bearer)
	r.want(200, "GET", "/bearer/", "", bearer)
	if roles := r.upstream.last().Header.Get("X-Auth-Roles"); roles != "user" {
		t.Errorf("the roles are %q", roles)
	}
}

// A stream that was opened with an API token, in either header, ends with the token,
// with its owner's account and with its role.
func TestStreamsOfAPITokens(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end    func(s *streaming, in signedIn, token madeToken)
		reason string
	}{
		"revoked": {func(s *streaming, in signedIn, token madeToken) {
			s.want(200, "POST", "/account/tokens/revoke", `{"id":"`+token.ID+`"}`, jsonType, in.cookie)
		}, "token"},
		"disabled": {func(s *streaming, _ signedIn, _ madeToken) { s.change(aliceIs, aliceIs+"disabled: true, ") }, "token"},
		"a role":   {func(s *streaming, _ signedIn, _ madeToken) { s.change(aliceRoles, "roles: [user], ") }, "admin"},
		"expired":  {func(s *streaming, _ signedIn, _ madeToken) { s.clock.Advance(time.Hour) }, "token"},
	} {
		for _, form := range []string{"bearer", "basic"} {
			t.Run(name+"/"+form, func(t *testing.T) {
				t.Parallel()
				streamsOf(t, func(s *streaming) {
					in := s.login(aliceIn)
					token := s.newToken(in.cookie, "")
					header := map[string]string{"bearer": "Authorization: Bearer " + token.Token, "basic": basicHeader("alice", token.Token)}[form]
					body := s.open("HTTP/1.1", "/admin/", header)
					time.Sleep(time.Minute)
					s.alive(1)
					c.end(s, in, token)
					s.ends(body, time.Now())
					s.wantEnded(c.reason)
				})
			})
		}
	}
}

// A token with fewer roles opens nothing that its owner cannot open, directly and for
// a proxy that asks. Its stream ends with the owner's right.
func TestAPITokenNeverOpensMore(t *testing.T) {
	t.Parallel()
	const denied = "user, contractor"
	yaml := strings.Replace(apiTokenConfig, "roles: [user, admin],", "roles: ["+denied+"],", 1) + `
  - {match: /staff/, name: staff, upstream: app, auth: [session, bearer], policy: {roles: [user], none: [{roles: [contractor]}]}}
  - {match: /users/, name: users, upstream: app, auth: [session, bearer], policy: {roles: [user], none: [{roles: [admin]}]}}
listen: {trusted_proxies: [192.0.2.0/24]}
`
	r := newRig(t, yaml)
	alice := r.login(aliceIn)
	bearer := "Authorization: Bearer " + r.newToken(alice.cookie, `,"roles":["user"]`).Token
	none := "Authorization: Bearer " + r.newToken(alice.cookie, `,"roles":[]`).Token
	before := r.upstream.count()
	for _, line := range []string{alice.cookie, alice.bearer, bearer, none} {
		r.want(403, "GET", "/staff/", "", line)
		r.want(403, "GET", "/verify", "", line, "X-Forwarded-Method: GET", "X-Forwarded-Proto: https", "X-Forwarded-Host: gw.example", "X-Forwarded-Uri: /staff/")
	}
	if r.upstream.count() != before {
		t.Error("a request reached the upstream")
	}
	if !strings.Contains(r.log.String(), "judged by all roles of the owner of the token") {
		t.Error("the log does not tell why")
	}
	r.want(200, "GET", "/users/", "", bearer)
	if roles := r.upstream.last().Header.Get("X-Auth-Roles"); roles != "user" {
		t.Errorf("the upstream sees the roles %q", roles)
	}
	r.mustReload(strings.Replace(yaml, denied, "user, admin", 1))
	r.want(200, "GET", "/staff/", "", bearer)
	r.want(403, "GET", "/users/", "", bearer)
}
