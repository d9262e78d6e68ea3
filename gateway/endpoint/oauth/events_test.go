package oauth_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"authgate/internal/test/rig"
)

// form returns the form with pairs of names and values.
func form(pairs ...string) url.Values {
	values := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		values.Set(pairs[i], pairs[i+1])
	}
	return values
}

// Each token that a client gets leaves an event, as does each that it revokes.
func TestTokensAudited(t *testing.T) {
	t.Parallel()
	s := newServer(t, configuration)
	first := s.tokens(t)
	s.refresh(t, 200, first.Refresh)
	s.post(t, 200, "/oauth/revoke", form("client_id", "wiki", "client_secret", wikiSecret, "token", first.Access))
	s.post(t, 200, "/oauth/revoke", form("client_id", "wiki", "client_secret", wikiSecret, "token", "unknown"))
	got := s.EventsOf("token_issued", "grant", "client_id", "subject")
	want := []string{
		"grant=authorization_code client_id=wiki subject=local:alice",
		"grant=refresh_token client_id=wiki subject=local:alice",
	}
	if !slices.Equal(got, want) {
		t.Errorf("issued %q, want %q", got, want)
	}
	got = s.EventsOf("token_revoked", "client_id", "subject")
	if want := []string{"client_id=wiki subject=local:alice"}; !slices.Equal(got, want) {
		t.Errorf("revoked %q, want %q", got, want)
	}
}

// A request that does not prove its client leaves one event. Of a client that does not exist, it tells no
// token and nothing long.
func TestClientsRejectedAudited(t *testing.T) {
	t.Parallel()
	s := newServer(t, configuration)
	given := s.tokens(t)
	token, named, unknown := given.Access, strings.Repeat("ü", 64), strings.Repeat("x", 65)
	for _, c := range []struct {
		values []string
		header string
		want   string
	}{
		{[]string{"client_id", "wiki", "client_secret", "wrong"}, "", "client_id=wiki"},
		{[]string{"client_id", "stranger"}, "", "client_id=stranger"},
		{[]string{"client_id", token}, "", ""},
		{[]string{"client_id", given.Refresh}, "", ""},
		{[]string{"client_id", named}, "", "client_id=" + named},
		{[]string{"client_id", " agt_x"}, "", ""},
		{[]string{"client_id", unknown}, "", ""},
		{[]string{"client_id", unknown}, "Authorization: Basic #", ""},
		{[]string{"client_id", given.Refresh, "client_assertion", "x"}, "", ""},
		{[]string{"client_id", given.Refresh, "client_secret", "x", "client_assertion", "x"}, "", ""},
		{[]string{"client_id", "wiki", "client_assertion", "x"}, "", "client_id=wiki"},
		{nil, "Authorization: Basic #", ""},
		{[]string{"client_id", "stranger"}, "Origin: https://evil.example", "cross_site=true client_id=stranger"},
		{[]string{"client_id", "stranger"}, "Sec-Fetch-Site: cross-site", "cross_site=true client_id=stranger"},
	} {
		for _, path := range []string{"token", "revoke", "introspect", "device"} {
			before := len(s.EventsOf("client_rejected"))
			header := []string{rig.Form}
			if c.header != "" {
				header = append(header, c.header)
			}
			s.Do("POST", "/oauth/"+path, form(c.values...).Encode(), header...)
			got := s.EventsOf("client_rejected", "cross_site", "client_id")
			if len(got) != before+1 || got[before] != c.want {
				t.Errorf("%s %q: %q, want one more, %q", path, c.values, got[before:], c.want)
			}
		}
	}
	for _, secret := range []string{token[:64], given.Refresh} {
		if strings.Contains(s.Log.String(), secret) {
			t.Errorf("the log has %s", secret)
		}
	}
}

// A code or token that the token endpoint refuses leaves an event, which says whether it was good once.
func TestCredentialsRefusedAudited(t *testing.T) {
	t.Parallel()
	s := newServer(t, configuration)
	own := []string{"client_id", "wiki", "client_secret", wikiSecret}
	s.post(t, 400, "/oauth/token", form(append(own, "grant_type", "authorization_code", "code", "x")...))
	s.post(t, 400, "/oauth/token", form(append(own, "grant_type", "refresh_token", "refresh_token", "x")...))
	s.Do("GET", "/oauth/userinfo", "", "Authorization: Bearer x")
	first := s.tokens(t)
	s.post(t, 200, "/oauth/revoke", form(append(own, "token", first.Refresh)...))
	s.post(t, 400, "/oauth/token", form(append(own, "grant_type", "refresh_token", "refresh_token", first.Refresh)...))
	s.post(t, 400, "/oauth/token", form("client_id", "tv", "grant_type", "urn:ietf:params:oauth:grant-type:device_code",
		"device_code", "x"))
	s.enter("BCDF-GHJK")
	s.Do("GET", "/me", "", "Authorization: Bearer x")
	s.Do("GET", "/me", "")
	s.Do("GET", "/me", "", "Cookie: session_id="+strings.Repeat("A", 43))
	got := s.EventsOf("credential_refused", "past", "kind", "client_id")
	want := []string{
		"kind=code client_id=wiki", "kind=refresh_token client_id=wiki", "kind=access_token",
		"past=true kind=refresh_token client_id=wiki", "kind=device_code client_id=tv", "kind=user_code",
		"kind=access_token",
	}
	if !slices.Equal(got, want) {
		t.Errorf("refused %q, want %q", got, want)
	}
}

// What a user decides on the page of a client leaves an event, as does the logout that a client asks for, by
// a link and on the page.
func TestDecisionsAudited(t *testing.T) {
	t.Parallel()
	s := newServer(t, configuration)
	s.decide(formOf(t, s.authorize(ask())), "deny")
	s.decide(formOf(t, s.authorize(ask())), "allow")
	for event, want := range map[string]string{
		"client_refused":    "route=authgate/oauth/authorize client_id=wiki subject=local:alice",
		"client_authorized": "route=authgate/oauth/authorize client_id=wiki subject=local:alice",
	} {
		if got := s.EventsOf(event, "route", "client_id", "subject"); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %q, want %q", event, got, want)
		}
	}
	s.endSession(url.Values{"id_token_hint": {s.tokens(t).ID}})
	s.cookie = s.Login(rig.Alice).Cookie
	form := formOf(t, s.endSession(url.Values{}))
	got := s.EventsOf("logout", "route", "subject")
	s.decide(form, "allow")
	const want = "route=authgate/oauth/logout subject=local:alice"
	if both := s.EventsOf("logout", "route", "subject"); !slices.Equal(got, []string{want}) ||
		!slices.Equal(both, []string{want, want}) {
		t.Errorf("the logouts %q, and %q after the page; want one each", got, both)
	}
}
