package oauth_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"authgate/internal/test/rig"
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

// A client without refresh tokens, whose access token has expired, still belongs to the browser
// after another sign-in: it can sign the user out, and is told only then.
func TestSignInAgainKeepsClients(t *testing.T) {
	t.Parallel()
	withoutRefresh := "authorization_code, client"
	s := newServer(t, rig.Edit(t, configuration, "authorization_code, refresh_token, client", withoutRefresh))
	a := s.tokens(t)
	s.Clock.Advance(20 * time.Minute)
	s.cookie = s.Login(rig.Alice, s.cookie).Cookie
	s.Want(401, "GET", "/oauth/userinfo", "", "Authorization: Bearer "+a.Access)
	if place, _ := answerOf(t, s.endSession(url.Values{
		"id_token_hint": {a.ID}, "post_logout_redirect_uri": {"https://wiki.example.net/bye"},
	})); place != "https://wiki.example.net/bye" {
		t.Errorf("the logout leads to %s", place)
	}
	s.Want(401, "GET", "/me", "", s.cookie)
}

// Whatever the store fails to do while a user signs in again, the browser is left with a login
// that ends all that was granted, or with nothing that goes on.
func TestSignInAgainInAnOutage(t *testing.T) {
	t.Parallel()
	for kind, outage := range rig.Outages {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, configuration)
			rig.EachFailure(s.Client, s.Store, outage, func(broken func(*http.Request) *httptest.ResponseRecorder) {
				s.cookie = s.Login(rig.Alice).Cookie
				a := s.tokens(t)
				w := broken(rig.Request("POST", "/login", rig.Alice, rig.JSON, s.cookie))
				if w.Code == 200 {
					s.cookie = rig.ReadLogin(t, w).Cookie
				} else {
					rig.CheckUnavailable(t, s.Log, w)
				}
				s.Do("POST", "/logout", "", s.cookie)
				s.Want(401, "GET", "/me", "", s.cookie)
				s.post(t, 400, "/oauth/token", url.Values{"grant_type": {"refresh_token"},
					"refresh_token": {a.Refresh}}, asWiki)
			})
		})
	}
}
