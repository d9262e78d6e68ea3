package gateway

import (
	"slices"
	"strings"
	"testing"
	"time"

	ownrig "authgate/internal/test/rig"
)

const apiTokenConfig = baseConfig + `
  - {match: /git/, name: git, upstream: app, auth: [bearer], basic_challenge: true}
  - {match: /wiki/, name: wiki, upstream: app, auth: [session, bearer], basic_challenge: true}
  - {match: /both/, name: both, upstream: app, auth: [basic, bearer], basic_challenge: true}
  - {match: /shared/, name: shared, upstream: app, auth: [session, bearer], authorization: application}
`

// An API token opens routes that accept bearer tokens, in both headers, with the
// mechanism bearer. The token never reaches the upstream.
func TestAPITokenOnRoutes(t *testing.T) {
	t.Parallel()
	r := newRig(t, apiTokenConfig)
	alice := r.login(aliceIn)
	made := r.client.NewToken(alice.cookie, `,"roles":["user"]`)
	bearer, basic := "Authorization: Bearer "+made.Token, basicHeader("alice", made.Token)
	r.want(200, "POST", "/logout", "", alice.cookie) // tokens outlive the login
	for _, line := range []string{bearer, basic, basicHeader("", made.Token), basicHeader("__token__", made.Token)} {
		for _, target := range []string{"/bearer/", "/any/", "/git/", "/wiki/", "/shared/"} {
			r.want(200, "POST", target, "", line)
			h := r.upstream.Last().Header
			if h.Get("X-Auth-User") != "alice" || h.Get("X-Auth-Mechanism") != "bearer" || h.Get("X-Auth-Roles") != "user" ||
				h.Get("X-Auth-Provider") != "local" {
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
		basicHeader("bob", made.Token), basicHeader("__TOKEN__", made.Token), basicHeader("", made.Token+"A"),
		basicHeader("alice", made.Token+"A"), strings.TrimSuffix(basic, "=") + "!",
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
	if got := r.upstream.Last().Header.Get("Authorization"); "Authorization: "+got != foreign {
		t.Errorf("the upstream got %q", got)
	}
	r.want(403, "POST", "/wiki/", "", alice.cookie, foreign, "Sec-Fetch-Site: cross-site")
	r.want(200, "GET", "/any/", "", basicHeader("service", "s3rvice"))
}

// basic_challenge asks for Basic alone, because Docker takes a Bearer challenge for that of a token server; and
// not in the middle of a page.
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
		{"/bearer/", "", []string{bearer}}, {"/shared/", "", []string{bearer}}, {"/any/", "", []string{basic, bearer}},
		{"/both/", "", []string{basic}},
		{"/git/", basicHeader("alice", "agt_x"), []string{basic}}, {"/git/", "Authorization: Bearer agt_x", []string{basic}},
	} {
		w := r.want(401, "GET", c.target, "", c.header)
		if got := w.Header()["Www-Authenticate"]; !slices.Equal(got, c.want) {
			t.Errorf("%s with %q asks for %q, want %q", c.target, c.header, got, c.want)
		}
	}
	r.want(302, "GET", "/wiki/", "", browser, "Sec-Fetch-Mode: navigate")
}

// A token ends with a new password and with a disabled account, also after that was
// undone. A role that the owner loses is lost to the token.
func TestAPITokenAfterReload(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*testing.T) string{
		"password": func(t *testing.T) string {
			return edit(t, apiTokenConfig, aliceHash, bobHash)
		},
		"disabled": func(t *testing.T) string {
			return edit(t, apiTokenConfig, "username: alice,", "username: alice, disabled: true,")
		},
		"removed": func(t *testing.T) string { return edit(t, apiTokenConfig, "username: alice,", "username: carol,") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, apiTokenConfig)
			bearer := "Authorization: Bearer " + r.client.NewToken(r.login(aliceIn).cookie, "").Token
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
	bearer := "Authorization: Bearer " + r.client.NewToken(r.login(aliceIn).cookie, "").Token
	r.mustReload(edit(t, apiTokenConfig, "roles: [user, admin],", "roles: [user],"))
	r.want(403, "GET", "/admin/", "", bearer)
	r.want(200, "GET", "/bearer/", "", bearer)
	if roles := r.upstream.Last().Header.Get("X-Auth-Roles"); roles != "user" {
		t.Errorf("the roles are %q", roles)
	}
}

// A stream that was opened with an API token, in either header, ends with the token,
// with its owner's account and with its role.
func TestStreamsOfAPITokens(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end    func(s *streaming, in signedIn, token ownrig.MadeToken)
		reason string
	}{
		"revoked": {func(s *streaming, in signedIn, token ownrig.MadeToken) {
			s.want(200, "POST", "/account/tokens/revoke", `{"id":"`+token.ID+`"}`, jsonType, in.cookie)
		}, "token"},
		"disabled": {func(s *streaming, _ signedIn, _ ownrig.MadeToken) { s.change(aliceIs, aliceIs+"disabled: true, ") },
			"token"},
		"a role":  {func(s *streaming, _ signedIn, _ ownrig.MadeToken) { s.change(aliceRoles, "roles: [user], ") }, "admin"},
		"expired": {func(s *streaming, _ signedIn, _ ownrig.MadeToken) { s.clock.Advance(time.Hour) }, "token"},
	} {
		for _, form := range []string{"bearer", "basic"} {
			t.Run(name+"/"+form, func(t *testing.T) {
				t.Parallel()
				streamsOf(t, func(s *streaming) {
					in := s.login(aliceIn)
					token := s.client.NewToken(in.cookie, "")
					header := map[string]string{"bearer": "Authorization: Bearer " + token.Token,
						"basic": basicHeader("alice", token.Token)}[form]
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
  - {match: /staff/, name: staff, upstream: app, auth: [session, bearer], ` +
		`policy: {roles: [user], none: [{roles: [contractor]}]}}
  - {match: /users/, name: users, upstream: app, auth: [session, bearer], ` +
		`policy: {roles: [user], none: [{roles: [admin]}]}}
listen: {trusted_proxies: [192.0.2.0/24]}
`
	r := newRig(t, yaml)
	alice := r.login(aliceIn)
	bearer := "Authorization: Bearer " + r.client.NewToken(alice.cookie, `,"roles":["user"]`).Token
	none := "Authorization: Bearer " + r.client.NewToken(alice.cookie, `,"roles":[]`).Token
	before := r.upstream.Reached()
	for _, line := range []string{alice.cookie, alice.bearer, bearer, none} {
		r.want(403, "GET", "/staff/", "", line)
		r.want(403, "GET", "/verify", "", line, "X-Forwarded-Method: GET", "X-Forwarded-Proto: https",
			"X-Forwarded-Host: gw.example", "X-Forwarded-Uri: /staff/")
	}
	if r.upstream.Reached() != before {
		t.Error("a request reached the upstream")
	}
	if !strings.Contains(r.log.String(), "judged by all roles of the owner of the token") {
		t.Error("the log does not tell why")
	}
	r.want(200, "GET", "/users/", "", bearer)
	if roles := r.upstream.Last().Header.Get("X-Auth-Roles"); roles != "user" {
		t.Errorf("the upstream sees the roles %q", roles)
	}
	r.mustReload(strings.Replace(yaml, denied, "user, admin", 1))
	r.want(200, "GET", "/staff/", "", bearer)
	r.want(403, "GET", "/users/", "", bearer)
}
