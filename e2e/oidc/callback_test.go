package oidc

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"authgate/e2e/world"

	"github.com/google/go-cmp/cmp"
)

// TestCallback sends to /callback what no honest provider and browser send.
func TestCallback(t *testing.T) {
	t.Parallel()
	h, naming := newHostile(t, "plain"), newHostile(t, "naming")
	naming.announce("authorization_response_iss_parameter_supported", true)
	s := startStage(t, "delegated: {default_provider: plain}\n", h, naming)
	t.Run("rules", func(t *testing.T) {
		for name, rule := range map[string]func(*testing.T, *stage, *hostile){
			"malformed":             malformedCallbacks,
			"back button":           callbackAgain,
			"another browser":       callbackElsewhere,
			"two tabs":              twoTabs,
			"refused":               refusedByProvider,
			"issuer":                func(t *testing.T, s *stage, _ *hostile) { issuerParameter(t, s, h, naming) },
			"sessions from before":  sessionsFromBefore,
			"methods":               loginMethods,
			"cookies":               loginCookies,
			"choice":                func(t *testing.T, s *stage, _ *hostile) { providerChoice(t, s, h, naming) },
			"provider of its state": func(t *testing.T, s *stage, _ *hostile) { codeOfAnother(t, s, h, naming) },
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				rule(t, s, h)
			})
		}
	})
	s.check(t)
}

// agreed returns an attempt of a new browser, for which the provider has issued a code.
func (s *stage) agreed(t *testing.T, h *hostile) (*attempt, *grant) {
	t.Helper()
	login := s.begin(t, s.visitor(), h)
	return login, login.agree(lie{})
}

// unharmed fails the test unless the provider was not asked for tokens, and the
// attempt can be finished.
func (a *attempt) unharmed(g *grant) {
	a.t.Helper()
	if got := g.exchanges(); got != 0 {
		a.t.Errorf("the code came to the token endpoint %d times", got)
	}
	if back := a.back(a.c, g.response()); back.Status != http.StatusFound {
		a.t.Errorf("the attempt does not stay valid: %d %s", back.Status, back.Body)
	}
}

// wantBad fails the test unless the answer is 400 and sets no cookie.
func wantBad(t *testing.T, what string, a world.Answer) {
	t.Helper()
	if a.Status != http.StatusBadRequest || a.Header.Get("Set-Cookie") != "" {
		t.Errorf("%s: %d, %q", what, a.Status, a.Header["Set-Cookie"])
	}
}

// malformedCallbacks: an incomplete or ambiguous response is 400. The gateway does
// not ask the provider, and the attempt stays valid.
func malformedCallbacks(t *testing.T, s *stage, h *hostile) {
	login, g := s.agreed(t, h)
	code, state := "code="+g.code, "state="+login.request.Get("state")
	for _, query := range []string{
		"", code, code + "&state=" + strings.Repeat("A", 43), // no state, or an unknown one
		code + "&" + state + "&state=" + strings.Repeat("A", 43), code + "&code=other&" + state,
		code + "&" + state + "&iss=" + h.issuer + "&iss=https://evil.example",
		"error=a&error_description=b&error_description=c&" + state, // each twice
		code + ";" + state, code + "&" + state + "&x=%zz", "/" + state + "?" + code, // not a query
	} {
		s.refused(t, login.c, h, s.ask(t, login.c, "GET", "/callback?"+query, "Accept", "text/html"), http.StatusBadRequest)
	}
	login.unharmed(g)
	login = s.begin(t, login.c, h)
	wantBad(t, "neither code nor error", login.back(login.c, url.Values{"state": {login.request.Get("state")}}))
}

// callbackAgain: a response works once, in its own browser and in another. The
// session that it began goes on, and its browser is led to the place again.
func callbackAgain(t *testing.T, s *stage, h *hostile) {
	login, g := s.agreed(t, h)
	if a := login.back(login.c, g.response()); a.Status != http.StatusFound {
		t.Fatalf("the callback: %d %s", a.Status, a.Body)
	}
	session := s.sessionOf(t, login.c)
	a := login.back(login.c, g.response(), "Accept", "text/html")
	if a.Status != http.StatusFound || a.Header.Get("Location") != "/" || a.Header.Get("Set-Cookie") != "" {
		t.Errorf("again: %d to %q, %q", a.Status, a.Header.Get("Location"), a.Header["Set-Cookie"])
	}
	wantBad(t, "again, in another browser", login.back(s.visitor(), g.response(), "Accept", "text/html"))
	if got := g.exchanges(); got != 1 {
		t.Errorf("the code came to the token endpoint %d times", got)
	}
	s.lives(t, session)
}

// callbackElsewhere: a response works only in the browser that began the attempt.
// Use in another browser fails, and leaves the attempt valid.
func callbackElsewhere(t *testing.T, s *stage, h *hostile) {
	const name = "__Host-authgate_login="
	login, g := s.agreed(t, h)
	busy, in := s.visitor(), s.visitor()
	s.begin(t, busy, h)
	for _, other := range []*http.Client{s.visitor(), busy} {
		s.refused(t, other, h, login.back(other, g.response(), "Accept", "text/html"), http.StatusBadRequest)
	}
	session := s.enters(t, in, h)
	wantBad(t, "in a browser with a session", login.back(in, g.response()))
	s.lives(t, session)
	for _, cookie := range []string{name, name + strings.Repeat("A", 43),
		name + strings.Repeat("A", 43) + "; " + s.cookieLine(t, login.c)} {
		wantBad(t, "with the cookie "+cookie, login.back(s.stranger(), g.response(), "Cookie", cookie))
	}
	login.unharmed(g)
}

// cookieLine is the Cookie header of a browser.
func (s *stage) cookieLine(t *testing.T, c *http.Client) string {
	t.Helper()
	var line []string
	for _, cookie := range s.cookies(t, c) {
		line = append(line, cookie.Name+"="+cookie.Value)
	}
	return strings.Join(line, "; ")
}

// twoTabs: each tab of a browser finishes its own attempt, in any order, and goes on
// to its own path. An address of another site is no path.
func twoTabs(t *testing.T, s *stage, h *hostile) {
	c := s.visitor()
	paths := []string{"/first", "/second?x=1&y=a%20b", "//evil.example", `/\evil.example`, "/\t/evil.example",
		"https://evil.example/"}
	var logins []*attempt
	for _, path := range paths {
		logins = append(logins, s.begin(t, c, h,
			"return_to="+url.QueryEscape(path)+"&target_link_uri="+url.QueryEscape(path)))
	}
	for i := len(paths) - 1; i >= 0; i-- {
		want := paths[i]
		if i > 1 {
			want = "/"
		}
		if a := logins[i].finish(lie{}); a.Status != http.StatusFound || a.Header.Get("Location") != want {
			t.Errorf("the tab for %q: %d to %q, expected %q", paths[i], a.Status, a.Header.Get("Location"), want)
		}
	}
	s.lives(t, s.sessionOf(t, c))
}

// refusedByProvider: an error ends the attempt. The page shows the description of
// the error as text.
func refusedByProvider(t *testing.T, s *stage, h *hostile) {
	const script = `"><script>alert(1)</script><img src=x onerror=alert(1)>`
	denied := func(description string) url.Values {
		return url.Values{"error": {"access_denied"}, "error_description": {description}}
	}
	for name, test := range map[string]struct {
		response url.Values
		status   int
	}{
		"denied":                  {denied(script), 401},
		"denied, with a code":     {url.Values{"error": {"access_denied"}, "code": {"code"}}, 401},
		"failed":                  {url.Values{"error": {"server_error"}, "error_description": {script}}, 502},
		"denied, in many words":   {denied(strings.Repeat("<script>no ", 400)), 401},
		"denied, with lines":      {denied("a\r\nSet-Cookie: session=x\r\n\r\n\x00\u202e<script>"), 401},
		"error and nothing in it": {url.Values{"error": {""}}, 400},
	} {
		for _, accept := range []string{"text/html", "application/json"} {
			login, g := s.agreed(t, h)
			test.response.Set("state", login.request.Get("state"))
			a := login.back(login.c, test.response, "Accept", accept)
			if a.Status != test.status || strings.Contains(a.Body, "<script") || strings.Contains(a.Body, "<img") ||
				len(a.Body) > 20_000 {
				t.Errorf("%s: %d, expected %d, and the description as text: %s", name, a.Status, test.status, a.Body)
			}
			if name == "denied" && accept == "text/html" && !strings.Contains(a.Body, "&lt;script&gt;alert(1)&lt;/script&gt;") {
				t.Errorf("%s: the page does not show the description: %s", name, a.Body)
			}
			s.isOut(t, login.c, a)
			if a := login.back(login.c, g.response()); a.Status != http.StatusBadRequest || g.exchanges() != 0 {
				t.Errorf("%s: a code after the error: %d", name, a.Status)
			}
		}
	}
	login, g := s.agreed(t, h)
	for _, state := range [][]string{nil, {""}, {"unknown"}} {
		response := denied("Call 0900 now.")
		response["state"] = state
		if a := login.back(login.c, response, "Accept", "text/html"); a.Status != http.StatusBadRequest ||
			strings.Contains(a.Body, "0900") {
			t.Errorf("an error with the state %q: %d %s", state, a.Status, a.Body)
		}
	}
	response := denied("")
	response.Set("state", login.request.Get("state"))
	wantBad(t, "an error in another browser", login.back(s.visitor(), response))
	login.unharmed(g)
}

// sessionsFromBefore: a login ends the sessions that the browser had, and gives it
// a new identifier. A login that fails ends no session.
func sessionsFromBefore(t *testing.T, s *stage, h *hostile) {
	c := s.visitor()
	first := s.enters(t, c, h)
	if a := s.begin(t, c, h).finish(lie{claims: map[string]any{"nonce": "another"}}); a.Status != http.StatusBadGateway {
		t.Errorf("a login that must fail: %d", a.Status)
	}
	s.lives(t, first)
	second := s.enters(t, c, h)
	if first == second {
		t.Error("the identifier stays the same")
	}
	s.ended(t, first)
	s.lives(t, second)

	planted := "session=" + strings.Repeat("A", 43)
	login, g := s.agreed(t, h)
	a := login.back(s.stranger(), g.response(), "Cookie", planted+"; "+s.cookieLine(t, login.c))
	if got := world.CookieNamed(t, a, "session"); a.Status != http.StatusFound || "session="+got.Value == planted {
		t.Errorf("with a planted session: %d, %s", a.Status, got)
	}
	s.ended(t, planted)

	c = s.visitor()
	local := s.SignIn(c, "alice").Session
	for _, want := range []int{http.StatusOK, http.StatusUnauthorized} { // before the login, and after it
		if got := s.ask(t, s.stranger(), "GET", "/local-resource", "Cookie", local).Status; got != want {
			t.Errorf("with a local session: %d, expected %d", got, want)
		}
		if want == http.StatusOK {
			a = s.begin(t, c, h).finish(lie{})
		}
	}
	if cleared := world.CookieNamed(t, a, "session_id"); cleared.Value != "" || cleared.MaxAge >= 0 {
		t.Errorf("the cookie of the local session is not cleared: %s", cleared)
	}
	delegated := s.sessionOf(t, c)
	s.lives(t, delegated)
	s.SignIn(c, "alice")
	s.ended(t, delegated)
	if got := s.cookieLine(t, c); strings.Contains(got, "session=") {
		t.Errorf("the cookie of the delegated session is not cleared: %s", got)
	}
}

// loginMethods: only GET finishes a login. HEAD is safe (RFC 9110, section 9.2.1), so a
// link checker that sends it before the browser sends GET does not use up the code.
func loginMethods(t *testing.T, s *stage, h *hostile) {
	login, g := s.agreed(t, h)
	for _, path := range []string{"/callback", "/auth/callback"} {
		a, err := s.try(login.c, "POST", path+"?"+g.response().Encode(), g.response().Encode(), "Content-Type",
			world.TypeForm, "Origin", h.issuer)
		if err != nil || a.Status != http.StatusMethodNotAllowed || a.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("POST %s: %d, Allow %q, %v", path, a.Status, a.Header.Get("Allow"), err)
		}
	}
	if a := s.ask(t, login.c, "HEAD", "/login"); a.Status != http.StatusFound || a.Body != "" {
		t.Errorf("HEAD /login: %d %s", a.Status, a.Body)
	}
	if a := s.ask(t, login.c, "HEAD", "/callback?"+g.response().Encode()); a.Body != "" ||
		a.Header.Get("Set-Cookie") != "" {
		t.Errorf("HEAD /callback: %d, %q %s", a.Status, a.Header["Set-Cookie"], a.Body)
	}
	login.unharmed(g)
}

// untimed checks that the end of a cookie is told in both ways, for clients that know only one, and removes
// what differs in each answer.
func untimed(t *testing.T, c *http.Cookie) {
	t.Helper()
	left, lifetime := time.Until(c.Expires), time.Duration(c.MaxAge)*time.Second
	if left > lifetime || left < lifetime-world.Patience {
		t.Errorf("the cookie expires at %v, with Max-Age %d", c.Expires, c.MaxAge)
	}
	c.Expires, c.RawExpires, c.Raw = time.Time{}, "", ""
}

// loginCookies: a browser has one cookie for all its attempts. The upstream does
// not get it.
func loginCookies(t *testing.T, s *stage, h *hostile) {
	const name = "__Host-authgate_login"
	b := s.visitor()
	var binding *http.Cookie
	for range 2 {
		got := world.CookieNamed(t, s.ask(t, b, "GET", "/login?provider="+h.name), name)
		untimed(t, got)
		want := &http.Cookie{Name: name, Value: got.Value, Path: "/", MaxAge: 600, HttpOnly: true, Secure: true,
			SameSite: http.SameSiteLaxMode}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("the cookie (-want +got):\n%s", diff)
		}
		if binding != nil && binding.Value != got.Value {
			t.Fatal("the second attempt gets another cookie")
		}
		binding = got
	}
	if got := s.cookies(t, b); len(got) != 1 {
		t.Errorf("the browser has %v", got)
	}
	const planted = "x"
	if got := world.CookieNamed(t, s.ask(t, s.stranger(), "GET", "/login?provider="+h.name, "Cookie", name+"="+planted),
		name); got.Value == planted {
		t.Errorf("the browser keeps the planted cookie %q", planted)
	}
	s.enters(t, b, h)
	for _, path := range []string{"/secure-resource", "/open"} {
		m := s.isIn(t, b, path)
		if m == nil {
			t.Fatalf("%s is closed", path)
		}
		if head := strings.Join(m.Head, "\n"); strings.Contains(head, binding.Value) ||
			strings.Contains(strings.ToLower(head), "authgate_login") {
			t.Errorf("the upstream gets %q", head)
		}
	}
}

// providerChoice: /login redirects to the provider that the query names, or else
// to the default provider.
func providerChoice(t *testing.T, s *stage, h, other *hostile) {
	c := s.visitor()
	for query, want := range map[string]*hostile{"": h, "?return_to=/x": h, "?provider=plain": h,
		"?provider=naming": other} {
		a := s.ask(t, c, "GET", "/login"+query)
		if got := a.Header.Get("Location"); a.Status != http.StatusFound ||
			!strings.HasPrefix(got, want.issuer+"/authorize?") {
			t.Errorf("/login%s: %d to %q", query, a.Status, got)
		}
	}
	for _, query := range []string{"?provider=", "?provider", "?provider=Plain", "?provider=plain&provider=plain",
		"?provider=local", "?provider=%zz", "?provider=<script>"} {
		a := s.ask(t, c, "GET", "/login"+query, "Accept", "text/html")
		if a.Status != http.StatusBadRequest || a.Header.Get("Location") != "" || strings.Contains(a.Body, "<script") {
			t.Errorf("/login%s: %d to %q: %s", query, a.Status, a.Header.Get("Location"), a.Body)
		}
	}
}
