package e2e

import (
	"encoding/base64"
	"encoding/json"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// signOut is a provider's way of signing out, and what has to come of it.
type signOut struct {
	spoil  func(*hostile) // before it starts
	lie    lie            // in the login
	call   string         // path of what the gateway must post to the provider; empty: nothing
	form   func(*grant) url.Values
	onward bool // the browser is sent on to the provider
}

func signOuts(elsewhere string) map[string]signOut {
	ends := func(h *hostile) { h.announce("end_session_endpoint", h.issuer+"/end?realm=main") }
	revokes := func(h *hostile) { h.announce("revocation_endpoint", h.issuer+"/revoke") }
	ending := func(answer http.HandlerFunc) func(*hostile) {
		return func(h *hostile) {
			ends(h)
			h.timeout = "1s"
			h.answers("/end", answer)
		}
	}
	noRefresh := lie{answer: func(_ *grant, answer map[string]any) { delete(answer, "refresh_token") }}
	refresh := func(g *grant) url.Values {
		return url.Values{"client_id": {"gateway"}, "refresh_token": {g.refresh}, "realm": {"main"}}
	}
	token := func(kind string) func(*grant) url.Values {
		return func(g *grant) url.Values {
			value := map[string]string{"refresh_token": g.refresh, "access_token": g.access}[kind]
			return url.Values{"client_id": {"gateway"}, "token": {value}, "token_type_hint": {kind}}
		}
	}
	return map[string]signOut{
		"form": {ends, lie{}, "/end", refresh, false},
		"form-and-secret": {func(h *hostile) {
			ends(h)
			h.post = true
			h.announce("token_endpoint_auth_methods_supported", []string{"private_key_jwt", "client_secret_post"})
		}, lie{}, "/end", refresh, false},
		"form-before-revocation": {func(h *hostile) { ends(h); revokes(h) }, lie{}, "/end", refresh, false},
		"revocation":             {revokes, lie{}, "/revoke", token("refresh_token"), false},
		"revocation-of-access":   {revokes, noRefresh, "/revoke", token("access_token"), false},
		"redirect":               {ends, noRefresh, "", nil, true},
		"redirect-by-choice":     {func(h *hostile) { ends(h); h.more = ", logout: redirect" }, lie{}, "", nil, true},
		"nothing":                {func(*hostile) {}, lie{}, "", nil, false},
		"page":                   {ending(plainAnswer(200, "text/html; charset=utf-8", "<h1>Sign out?</h1>")), lie{}, "/end", refresh, true},
		"failing":                {ending(plainAnswer(500, "text/plain", "oops")), lie{}, "/end", refresh, true},
		"failing-by-choice": {func(h *hostile) {
			ending(plainAnswer(500, "text/plain", "oops"))(h)
			h.more = ", logout: form"
		}, lie{}, "/end", refresh, false},
		"failing-form": {func(h *hostile) {
			ending(plainAnswer(400, "application/json", `{"error":"invalid_request"}`))(h)
			revokes(h)
		}, lie{}, "/revoke", token("refresh_token"), false},
		"redirecting": {ending(redirectAway(elsewhere)), lie{}, "/end", refresh, true},
	}
}

// TestHostileLogout: GET /logout ends the session here and now, tells the
// provider as it wants to be told, and gives nobody a token of the provider.
func TestHostileLogout(t *testing.T) {
	t.Parallel()
	ways := signOuts(forbiddenPlace(t))
	providers := map[string]*hostile{}
	var all []*hostile
	for name, way := range ways {
		h := newHostile(t, name)
		way.spoil(h)
		providers[name], all = h, append(all, h)
	}
	stalling, leaving := newHostile(t, "stalling"), newHostile(t, "leaving")
	stalling.timeout, stalling.more = "1s", ", logout: form"
	stalling.announce("end_session_endpoint", stalling.issuer+"/end")
	leaving.announce("end_session_endpoint", leaving.issuer+"/end")
	s := startStage(t, "", append(all, stalling, leaving)...)
	t.Run("ways", func(t *testing.T) {
		for name, way := range ways {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s.signsOut(t, providers[name], way)
			})
		}
		t.Run("stalling", func(t *testing.T) {
			t.Parallel()
			signOutMeanwhile(t, s, stalling)
		})
		t.Run("down", func(t *testing.T) {
			t.Parallel()
			signOutAlone(t, s, leaving)
		})
		t.Run("pages", func(t *testing.T) {
			t.Parallel()
			signOutPages(t, s, providers["redirect-by-choice"])
		})
	})
	s.check(t)
}

// signsOut signs out by link and looks at what reached the provider, and at
// where the browser is sent.
func (s *stage) signsOut(t *testing.T, h *hostile, way signOut) {
	t.Helper()
	c := s.visitor()
	login := s.begin(t, c, h)
	g := login.agree(way.lie)
	if a := login.back(c, g.response()); a.status != http.StatusFound {
		t.Fatalf("the callback: %d %s", a.status, a.body)
	}
	session := s.sessionOf(t, c)
	for _, headers := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}} {
		if a := s.ask(t, c, "GET", "/logout", headers...); a.status != http.StatusOK || a.header.Get("Set-Cookie") != "" {
			t.Errorf("a link of another site: %d, %q", a.status, a.header["Set-Cookie"])
		}
	}
	s.ask(t, c, "HEAD", "/logout")
	if calls := append(h.calls("/end"), h.calls("/revoke")...); len(calls) > 0 {
		t.Fatalf("the provider was told before anybody signed out: %v", calls)
	}
	s.lives(t, session)
	a := s.ask(t, c, "GET", "/logout")
	s.ended(t, session)
	if cleared := cookieNamed(t, a, "session"); cleared.Value != "" || cleared.MaxAge >= 0 {
		t.Errorf("the cookie is not cleared: %s", cleared)
	}
	if a.status != http.StatusFound {
		t.Errorf("/logout: %d", a.status)
	}
	location := a.header.Get("Location")
	if way.onward {
		s.wantOnward(t, g, location)
	} else if location != "/" {
		t.Errorf("the browser is sent to %q", location)
	}
	if way.call == "" {
		if calls := append(h.calls("/end"), h.calls("/revoke")...); len(calls) > 0 {
			t.Errorf("the gateway told the provider %v", calls)
		}
		return
	}
	calls := h.calls(way.call)
	if len(calls) != 1 {
		t.Fatalf("%s came %d times", way.call, len(calls))
	}
	wantSignOut(t, calls[0], h, way.form(g))
}

// wantOnward checks a logout request for the browser to make (OpenID Connect
// RP-Initiated Logout 1.0, section 2).
func (s *stage) wantOnward(t *testing.T, g *grant, location string) {
	t.Helper()
	if !strings.HasPrefix(location, g.h.issuer+"/end?") {
		t.Fatalf("the browser is sent to %q", location)
	}
	if diff := cmp.Diff(url.Values{
		"realm": {"main"}, "client_id": {"gateway"}, "id_token_hint": {g.issued()}, "post_logout_redirect_uri": {s.base + "/"},
	}, queryOf(location)); diff != "" {
		t.Errorf("the browser asks (-want +got):\n%s", diff)
	}
}

// wantSignOut checks a form to the provider, and how the client proves in it
// who it is.
func wantSignOut(t *testing.T, got call, h *hostile, form url.Values) {
	t.Helper()
	authorization := "Basic " + base64.StdEncoding.EncodeToString([]byte("gateway:"+url.QueryEscape(hostileSecret)))
	if h.post {
		authorization = ""
		form.Set("client_secret", hostileSecret)
	}
	if diff := cmp.Diff(form, got.form); diff != "" {
		t.Errorf("the provider got (-want +got):\n%s", diff)
	}
	if got.method != "POST" || got.header.Get("Content-Type") != "application/x-www-form-urlencoded" || got.header.Get("Authorization") != authorization {
		t.Errorf("the provider got %s %s, Authorization %q", got.method, got.header.Get("Content-Type"), got.header.Get("Authorization"))
	}
	if cookies := got.header["Cookie"]; len(cookies) > 0 {
		t.Errorf("the provider got the cookies %q", cookies)
	}
}

// signOutMeanwhile: while a provider lets the gateway wait, the session has
// ended already; and the wait has an end.
func signOutMeanwhile(t *testing.T, s *stage, h *hostile) {
	asked := make(chan struct{}, 1)
	h.answers("/end", func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		stallForLong(r)
	})
	c := s.visitor()
	session := s.enters(t, c, h, lie{})
	done := make(chan answer, 1)
	go func() {
		a, err := s.try(c, "GET", "/logout", "")
		if err != nil {
			t.Error(err)
		}
		done <- a
	}()
	<-asked
	s.ended(t, session)
	a := <-done
	if a.status != http.StatusFound || a.header.Get("Location") != "/" {
		t.Errorf("/logout: %d to %q", a.status, a.header.Get("Location"))
	}
	s.ended(t, session)
}

// signOutAlone: a provider that is gone keeps nobody signed in, whichever way
// they sign out.
func signOutAlone(t *testing.T, s *stage, h *hostile) {
	for _, method := range []string{"GET", "POST"} {
		c := s.visitor()
		session := s.enters(t, c, h, lie{})
		h.down()
		a := s.ask(t, c, method, "/logout")
		if cleared := cookieNamed(t, a, "session"); cleared.Value != "" || a.status >= 400 {
			t.Errorf("%s /logout: %d, %s", method, a.status, cleared)
		}
		s.ended(t, session)
		h.up()
	}
}

// signOutPages: POST /logout says where to go on, because forms may not lead
// there (CSP, form-action).
func signOutPages(t *testing.T, s *stage, h *hostile) {
	for accept, find := range map[string]func(body string) string{
		"application/json": func(body string) string {
			var said struct {
				ContinueAt string `json:"continue_at"`
			}
			_ = json.Unmarshal([]byte(body), &said) // empty then
			return said.ContinueAt
		},
		"text/html": func(body string) string {
			found := regexp.MustCompile(`href="([^"]*)"`).FindStringSubmatch(body)
			if found == nil {
				return ""
			}
			return html.UnescapeString(found[1])
		},
	} {
		c := s.visitor()
		login := s.begin(t, c, h)
		g := login.agree(lie{})
		login.back(c, g.response())
		session := s.sessionOf(t, c)
		a := s.ask(t, c, "POST", "/logout", "Accept", accept, "Origin", s.base)
		if a.status != http.StatusOK {
			t.Errorf("POST /logout: %d", a.status)
		}
		s.wantOnward(t, g, find(a.body))
		s.ended(t, session)
	}
}
