package oauth_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"authgate/internal/test/must"
	"authgate/internal/test/rig"
)

// staffOnly has a client for users with the role admin, who sign in by GET, from the network of the
// rig, at most an hour ago.
const staffOnly = configuration + `
    - {id: staff, secret: "` + wikiSecret + `", policy: signin, consent: skip,
       redirect_uris: ["https://wiki.example.net/cb"], grants: [authorization_code, refresh_token, device_code]}
`

// A client's policy also holds when a code, a refresh token, a device code or an access token is
// used: for who the user is, and not for how they have signed in. What is refused is not lost.
func TestClientPolicyAtEachUse(t *testing.T) {
	t.Parallel()
	const admin = "admin: {roles: [admin]}"
	with := rig.Edit(t, staffOnly, admin, admin+`
  signin: {all: [admin], networks: [192.0.2.7], methods: [GET, POST], max_age: 1h}`)
	without := rig.Edit(t, with, "roles: [user, admin]", "roles: [user]")
	s := newServer(t, with)
	asStaff := rig.Basic("staff", wikiSecret)
	request := ask("client_id", "staff", "scope", "openid email")
	token := func(status int, form url.Values) answer {
		t.Helper()
		return s.post(t, status, "/oauth/token", form, asStaff)
	}
	again := func(token string) url.Values {
		return url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}}
	}
	active := func(token string) any {
		t.Helper()
		var found map[string]any
		w := s.Want(200, "POST", "/oauth/introspect", url.Values{"token": {token}}.Encode(), asStaff, rig.Form)
		must.Do(t, json.Unmarshal(w.Body.Bytes(), &found))
		return found["active"]
	}
	var d deviceStart
	w := s.Want(200, "POST", "/oauth/device", "scope=openid", asStaff, rig.Form)
	must.Do(t, json.Unmarshal(w.Body.Bytes(), &d))
	if w := s.decide(formOf(t, s.enter(d.User)), "allow"); w.Code != 200 {
		t.Fatalf("the device: %d", w.Code)
	}
	device := url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:device_code"}, "device_code": {d.Device}}
	a := token(200, redemption(s.code(t, request)))
	code := s.code(t, request)
	s.Clock.Advance(30 * time.Second)

	s.Reload(without)
	for name, got := range map[string]answer{
		"a code": token(400, redemption(code)), "a refresh token": token(400, again(a.Refresh)),
		"a device code": token(400, device),
	} {
		if got.Error != "invalid_grant" || got.Access != "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	s.Want(403, "GET", "/oauth/userinfo", "", "Authorization: Bearer "+a.Access)
	for _, token := range []string{a.Access, a.Refresh} {
		if active(token) != false {
			t.Error("introspection says that a token of a user without the role is active")
		}
	}
	if audit := s.Audited(); !strings.Contains(audit, "denied local:alice") {
		t.Errorf("the audit log has %s", audit)
	}

	s.Reload(with)
	s.Clock.Advance(2 * time.Second)
	token(200, redemption(code))
	token(200, device)
	s.Want(200, "GET", "/oauth/userinfo", "", "Authorization: Bearer "+a.Access)
	s.Clock.Advance(2 * time.Hour) // the sign-in is older than the policy allows for a new one
	a = token(200, again(a.Refresh))
	if a.ID == "" || active(a.Access) != true || active(a.Refresh) != true {
		t.Errorf("two hours later: %+v", a)
	}
}

// A store that does not answer decides nothing about a user: the token stays, and serves later.
func TestClientPolicyInAnOutage(t *testing.T) {
	t.Parallel()
	s := newServer(t, configuration)
	a := s.tokens(t)
	s.Store.BreakIf(func(operation string, _ int64, _ string) bool { return operation == "get" })
	s.Want(503, "GET", "/oauth/userinfo", "", "Authorization: Bearer "+a.Access)
	s.Want(503, "POST", "/oauth/introspect", url.Values{"token": {a.Refresh}}.Encode(), asWiki, rig.Form)
	s.Want(503, "POST", "/oauth/token", url.Values{
		"grant_type": {"refresh_token"}, "refresh_token": {a.Refresh},
	}.Encode(), asWiki, rig.Form)
	s.Store.Heal()
	s.refresh(t, 200, a.Refresh)
}
