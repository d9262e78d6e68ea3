package oauth_test

import (
	"net/url"
	"testing"

	"authgate/gateway/endpoint/rig"
)

// A user who signs in again in the same browser, because a client or a policy wants a newer
// sign-in, keeps what other clients have. Sign-out ends all of it, and so does another user.
func TestSignInAgainKeepsGrants(t *testing.T) {
	t.Parallel()
	s := newServer(t, configuration)
	first := s.Login(rig.Alice)
	s.cookie = first.Cookie
	a := s.tokens(t)
	s.cookie = s.Login(rig.Alice, first.Cookie).Cookie
	s.Want(401, "GET", "/me", "", first.Cookie)
	s.Want(401, "GET", "/me", "", first.Bearer)
	s.Want(401, "POST", "/refresh", `{"refresh_token":"`+first.Refresh+`"}`, rig.JSON)
	a.Refresh = s.refresh(t, 200, a.Refresh).Refresh
	second := s.cookie
	s.cookie = s.Login(rig.Alice, second).Cookie // twice
	s.Want(401, "GET", "/me", "", second)
	a.Refresh = s.refresh(t, 200, a.Refresh).Refresh
	s.Want(200, "POST", "/logout", "", s.cookie)
	s.refresh(t, 400, a.Refresh)
	s.Want(401, "GET", "/oauth/userinfo", "", "Authorization: Bearer "+a.Access)

	s.cookie = s.Login(rig.Alice).Cookie
	a = s.tokens(t)
	s.cookie = s.Login(rig.Alice, s.cookie).Cookie
	// The ID token of the login from before is still one of this browser's.
	if place, _ := answerOf(t, s.endSession(url.Values{
		"id_token_hint": {a.ID}, "post_logout_redirect_uri": {"https://wiki.example.net/bye"},
	})); place != "https://wiki.example.net/bye" {
		t.Errorf("the logout leads to %s", place)
	}
	s.refresh(t, 400, a.Refresh)

	s.cookie = s.Login(rig.Alice).Cookie
	a = s.tokens(t)
	s.Login(rig.Bob, s.cookie)
	s.refresh(t, 400, a.Refresh)
}
