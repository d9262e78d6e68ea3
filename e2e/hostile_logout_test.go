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

// signOut is how a provider lets people sign out, and what the gateway does.
type signOut struct {
	spoil  func(*hostile) // before it starts
	call   string         // path of what the gateway posts to the provider; empty: nothing
	form   func(*grant) url.Values
	onward bool // the gateway redirects the browser to the provider
}

// signOuts has each way to sign out once. The tests of gateway/provider have
// the rules for the choice among them.
func signOuts(elsewhere string) map[string]signOut {
	ends := func(h *hostile) { h.announce("end_session_endpoint", h.issuer+"/end?realm=main") }
	refresh := func(g *grant) url.Values {
		return url.Values{"client_id": {"gateway"}, "refresh_token": {g.refresh}, "realm": {"main"}}
	}
	return map[string]signOut{
		"form": {ends, "/end", refresh, false},
		"revocation": {func(h *hostile) { h.announce("revocation_endpoint", h.issuer+"/revoke") }, "/revoke", func(g *grant) url.Values {
			return url.Values{"client_id": {"gateway"}, "token": {g.refresh}, "token_type_hint": {"refresh_token"}}
		}, false},
		"redirect":    {func(h *hostile) { ends(h); h.more = ", logout: redirect" }, "", nil, true},
		"nothing":     {func(*hostile) {}, "", nil, false},
		"redirecting": {func(h *hostile) { ends(h); h.answers("/end", redirectAway(elsewhere)) }, "/end", refresh, true},
	}
}

// TestHostileLogout: GET /logout ends the session at once, tells the provider in
// the way that the provider supports, and shows no token of the provider.
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
	tests := map[string]func(t *testing.T){
		"stalling": func(t *testing.T) { signOutMeanwhile(t, s, stalling) },
		"down":     func(t *testing.T) { signOutAlone(t, s, leaving) },
		"pages":    func(t *testing.T) { signOutPages(t, s, providers["redirect"]) },
	}
	for name, way := range ways {
		tests[name] = func(t *testing.T) { s.signsOut(t, providers[name], way) }
	}
	t.Run("ways", func(t *testing.T) {
		for name, test := range tests {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t)
			})
		}
	})
	s.check(t)
}

// signsOut signs out by a link, and checks what the provider gets and where the
// gateway redirects the browser.
func (s *stage) signsOut(t *testing.T, h *hostile, way signOut) {
	t.Helper()
	c := s.visitor()
	login := s.begin(t, c, h)
	g := login.agree(lie{})
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
		t.Fatalf("the gateway told the provider before the browser signed out: %v", calls)
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
	wantSignOut(t, calls[0], way.form(g))
}

// wantOnward checks the logout request to which the gateway redirects the browser
// (OpenID Connect RP-Initiated Logout 1.0, section 2).
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

// wantSignOut checks the form that the provider gets, and how the client
// authenticates.
func wantSignOut(t *testing.T, got call, form url.Values) {
	t.Helper()
	authorization := "Basic " + base64.StdEncoding.EncodeToString([]byte("gateway:"+url.QueryEscape(hostileSecret)))
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

// signOutMeanwhile: the session ends before the provider answers, and the gateway
// does not wait for the provider longer than its timeout.
func signOutMeanwhile(t *testing.T, s *stage, h *hostile) {
	asked := make(chan struct{}, 1)
	h.answers("/end", func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		stallForLong(w, r)
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

// signOutAlone: GET and POST end a session while its provider is down.
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

// signOutPages: the answer to POST /logout has the address at the provider,
// because the policy of the page (CSP, form-action) forbids a redirect there.
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
