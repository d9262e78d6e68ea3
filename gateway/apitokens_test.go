package gateway

import (
	"strings"
	"testing"
	"time"

	ownrig "authgate/internal/test/rig"
)

// A token ends with a new password and with a disabled account, also after that was
// undone. A role that the owner loses is lost to the token.
func TestAPITokenAfterReload(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*testing.T) string{
		"password": func(t *testing.T) string {
			return edit(t, ownrig.APITokenConfig, aliceHash, bobHash)
		},
		"disabled": func(t *testing.T) string {
			return edit(t, ownrig.APITokenConfig, "username: alice,", "username: alice, disabled: true,")
		},
		"removed": func(t *testing.T) string {
			return edit(t, ownrig.APITokenConfig, "username: alice,", "username: carol,")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, ownrig.APITokenConfig)
			bearer := "Authorization: Bearer " + r.client.NewToken(r.login(aliceIn).cookie, "").Token
			r.want(200, "GET", "/admin/", "", bearer)
			r.clock.Advance(time.Second)
			r.mustReload(change(t))
			r.want(401, "GET", "/bearer/", "", bearer)
			r.clock.Advance(time.Second)
			r.mustReload(ownrig.APITokenConfig)
			r.want(401, "GET", "/bearer/", "", bearer)
		})
	}
	r := newRig(t, ownrig.APITokenConfig)
	bearer := "Authorization: Bearer " + r.client.NewToken(r.login(aliceIn).cookie, "").Token
	r.mustReload(edit(t, ownrig.APITokenConfig, "roles: [user, admin],", "roles: [user],"))
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
		end    func(s *streaming, in signedIn, id string)
		reason string
	}{
		"revoked": {func(s *streaming, in signedIn, id string) {
			s.want(200, "POST", "/account/tokens/revoke", `{"id":"`+id+`"}`, jsonType, in.cookie)
		}, "token"},
		"disabled": {func(s *streaming, _ signedIn, _ string) { s.change(aliceIs, aliceIs+"disabled: true, ") },
			"token"},
		"a role":  {func(s *streaming, _ signedIn, _ string) { s.change(aliceRoles, "roles: [user], ") }, "admin"},
		"expired": {func(s *streaming, _ signedIn, _ string) { s.clock.Advance(time.Hour) }, "token"},
	} {
		for _, scheme := range []string{"bearer", "basic"} {
			streamsOf(t, func(s *streaming) {
				in := s.login(aliceIn)
				token := s.client.NewToken(in.cookie, "")
				header := basicHeader("alice", token.Token)
				if scheme == "bearer" {
					header = "Authorization: Bearer " + token.Token
				}
				s.endsAfter("HTTP/1.1", "/admin/", header, func() { c.end(s, in, token.ID) })
				s.wantEnded(c.reason)
			})
		}
		t.Log(name)
	}
}

// A token with fewer roles opens nothing that its owner cannot open, directly and for
// a proxy that asks. Its stream ends with the owner's right.
func TestAPITokenNeverOpensMore(t *testing.T) {
	t.Parallel()
	const denied = "user, contractor"
	yaml := strings.Replace(ownrig.APITokenConfig, "roles: [user, admin],", "roles: ["+denied+"],", 1) + `
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
