package e2e

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

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

// malformedCallbacks: an incomplete or ambiguous response is 400. The gateway does
// not ask the provider, and the attempt stays valid.
func malformedCallbacks(t *testing.T, s *stage, h *hostile) {
	c := s.visitor()
	login := s.begin(t, c, h)
	g := login.agree(lie{})
	code, state := "code="+g.code, "state="+login.request.Get("state")
	for name, query := range map[string]string{
		"nothing":           "",
		"no state":          code,
		"unknown state":     code + "&state=" + strings.Repeat("A", 43),
		"state, cut":        code + "&" + state[:len(state)-1],
		"two states":        code + "&" + state + "&state=" + strings.Repeat("A", 43),
		"two codes":         code + "&code=other&" + state,
		"the code twice":    code + "&" + code + "&" + state,
		"two issuers":       code + "&" + state + "&iss=" + h.issuer + "&iss=https://evil.example",
		"two descriptions":  "error=a&error_description=b&error_description=c&" + state,
		"semicolons":        code + ";" + state,
		"bad encoding":      code + "&" + state + "&x=%zz",
		"state in the path": "/" + state + "?" + code,
	} {
		a := s.ask(t, c, "GET", "/callback?"+query, "Accept", "text/html")
		if a.status != http.StatusBadRequest {
			t.Errorf("%s: %d", name, a.status)
		}
		s.refused(t, c, h, a, http.StatusBadRequest)
	}
	if g.exchanges() != 0 {
		t.Error("the token endpoint was asked")
	}
	if a := login.back(c, g.response()); a.status != http.StatusFound {
		t.Errorf("the attempt does not stay valid: %d %s", a.status, a.body)
	}

	login = s.begin(t, c, h) // the response to this attempt has only a state
	for range 2 {
		if a := login.back(c, url.Values{"state": {login.request.Get("state")}}); a.status != http.StatusBadRequest {
			t.Errorf("neither code nor error: %d", a.status)
		}
	}
}

// callbackAgain: a response works once, in its own browser and in another. The
// session that it began goes on.
func callbackAgain(t *testing.T, s *stage, h *hostile) {
	c := s.visitor()
	login := s.begin(t, c, h)
	g := login.agree(lie{})
	if a := login.back(c, g.response()); a.status != http.StatusFound {
		t.Fatalf("the callback: %d %s", a.status, a.body)
	}
	session := s.sessionOf(t, c)
	for _, who := range []*http.Client{c, s.visitor()} {
		a := login.back(who, g.response(), "Accept", "text/html")
		if a.status != http.StatusBadRequest || a.header.Get("Set-Cookie") != "" {
			t.Errorf("again: %d, %q", a.status, a.header["Set-Cookie"])
		}
	}
	if got := g.exchanges(); got != 1 {
		t.Errorf("the code came to the token endpoint %d times", got)
	}
	s.lives(t, session)
}

// callbackElsewhere: a response works only in the browser that began the attempt.
// Use in another browser fails, and leaves the attempt valid.
func callbackElsewhere(t *testing.T, s *stage, h *hostile) {
	c := s.visitor()
	login := s.begin(t, c, h)
	g := login.agree(lie{})
	busy := s.visitor()
	s.begin(t, busy, h)
	in := s.visitor()
	session := s.enters(t, in, h, lie{})
	for name, other := range map[string]*http.Client{"fresh": s.visitor(), "with an attempt of its own": busy} {
		t.Run(name, func(t *testing.T) {
			a := login.back(other, g.response(), "Accept", "text/html")
			s.refused(t, other, h, a, http.StatusBadRequest)
		})
	}
	if a := login.back(in, g.response()); a.status != http.StatusBadRequest || a.header.Get("Set-Cookie") != "" {
		t.Errorf("in a browser with a session: %d, %q", a.status, a.header["Set-Cookie"])
	}
	s.lives(t, session)
	for _, cookie := range []string{"", strings.Repeat("A", 43)} {
		a := login.back(s.stranger(), g.response(), "Cookie", "__Host-authgate_login="+cookie)
		if a.status != http.StatusBadRequest || a.header.Get("Set-Cookie") != "" {
			t.Errorf("with the cookie %q: %d, %q", cookie, a.status, a.header["Set-Cookie"])
		}
	}
	twice := "__Host-authgate_login=" + strings.Repeat("A", 43) + "; "
	for _, cookie := range s.cookies(t, c) {
		twice += cookie.Name + "=" + cookie.Value
	}
	if a := login.back(s.stranger(), g.response(), "Cookie", twice); a.status != http.StatusBadRequest {
		t.Errorf("with two cookies: %d", a.status)
	}
	if g.exchanges() != 0 {
		t.Error("the token endpoint was asked")
	}
	if a := login.back(c, g.response()); a.status != http.StatusFound {
		t.Errorf("in the right browser: %d %s", a.status, a.body)
	}
}

// twoTabs: each tab of a browser finishes its own attempt, in any order.
func twoTabs(t *testing.T, s *stage, h *hostile) {
	c := s.visitor()
	first, second := s.begin(t, c, h, "return_to=/first"), s.begin(t, c, h, "return_to="+url.QueryEscape("/second?x=1&y=a%20b"))
	if a := second.finish(lie{}); a.status != http.StatusFound || a.header.Get("Location") != "/second?x=1&y=a%20b" {
		t.Errorf("the second tab: %d to %q", a.status, a.header.Get("Location"))
	}
	if a := first.finish(lie{}); a.status != http.StatusFound || a.header.Get("Location") != "/first" {
		t.Errorf("the first tab, after it: %d to %q", a.status, a.header.Get("Location"))
	}
	s.lives(t, s.sessionOf(t, c))
}

// refusedByProvider: an error ends the attempt. The page shows the description of
// the error as text.
func refusedByProvider(t *testing.T, s *stage, h *hostile) {
	const script = `"><script>alert(1)</script><img src=x onerror=alert(1)>`
	for name, test := range map[string]struct {
		response url.Values
		status   int
	}{
		"denied, with a script":   {url.Values{"error": {"access_denied"}, "error_description": {script}}, 401},
		"denied, with a code":     {url.Values{"error": {"access_denied"}, "code": {"code"}}, 401},
		"failed":                  {url.Values{"error": {"server_error"}, "error_description": {script}}, 502},
		"denied, in many words":   {url.Values{"error": {"access_denied"}, "error_description": {strings.Repeat("<script>no ", 400)}}, 401},
		"denied, with lines":      {url.Values{"error": {"access_denied"}, "error_description": {"a\r\nSet-Cookie: session=x\r\n\r\n\x00\u202e<script>"}}, 401},
		"error and nothing in it": {url.Values{"error": {""}}, 400},
	} {
		for _, accept := range []string{"text/html", "application/json"} {
			c := s.visitor()
			login := s.begin(t, c, h)
			g := login.agree(lie{})
			test.response.Set("state", login.request.Get("state"))
			a := login.back(c, test.response, "Accept", accept)
			if a.status != test.status {
				t.Errorf("%s: %d, expected %d", name, a.status, test.status)
			}
			if strings.Contains(a.body, "<script") || strings.Contains(a.body, "<img") || len(a.body) > 20_000 {
				t.Errorf("%s: the page has the description as HTML: %s", name, a.body)
			}
			if name == "denied, with a script" && accept == "text/html" && !strings.Contains(a.body, "&lt;script&gt;alert(1)&lt;/script&gt;") {
				t.Errorf("%s: the page does not show the description: %s", name, a.body)
			}
			s.isOut(t, c, a)
			if a := login.back(c, g.response()); a.status != http.StatusBadRequest || g.exchanges() != 0 {
				t.Errorf("%s: a code after the error: %d", name, a.status)
			}
		}
	}
	c := s.visitor()
	login := s.begin(t, c, h)
	for name, state := range map[string][]string{"no": nil, "an empty": {""}, "an unknown": {"unknown"}} {
		a := login.back(c, url.Values{"error": {"access_denied"}, "error_description": {"Call 0900 now."}, "state": state}, "Accept", "text/html")
		if a.status != http.StatusBadRequest || strings.Contains(a.body, "0900") {
			t.Errorf("an error with %s state: %d %s", name, a.status, a.body)
		}
	}
	denied := url.Values{"error": {"access_denied"}, "state": {login.request.Get("state")}}
	if a := login.back(s.visitor(), denied); a.status != http.StatusBadRequest {
		t.Errorf("an error in another browser: %d", a.status)
	}
	if a := login.finish(lie{}); a.status != http.StatusFound {
		t.Errorf("after errors of other attempts: %d", a.status)
	}
}

// sessionsFromBefore: a login ends the sessions that the browser had, and gives it
// a new identifier. A login that fails ends no session.
func sessionsFromBefore(t *testing.T, s *stage, h *hostile) {
	c := s.visitor()
	first := s.enters(t, c, h, lie{})
	if a := s.begin(t, c, h).finish(claim("nonce", "another")); a.status != http.StatusBadGateway {
		t.Errorf("a login that must fail: %d", a.status)
	}
	s.lives(t, first)
	second := s.enters(t, c, h, lie{})
	if first == second {
		t.Error("the identifier stays the same")
	}
	s.ended(t, first)
	s.lives(t, second)

	planted := "session=" + strings.Repeat("A", 43)
	login := s.begin(t, s.visitor(), h)
	g := login.agree(lie{})
	var binding string
	for _, cookie := range s.cookies(t, login.c) {
		binding += "; " + cookie.Name + "=" + cookie.Value
	}
	a := login.back(s.stranger(), g.response(), "Cookie", planted+binding)
	if got := cookieNamed(t, a, "session"); a.status != http.StatusFound || "session="+got.Value == planted {
		t.Errorf("with a planted session: %d, %s", a.status, got)
	}
	s.ended(t, planted)

	c = s.visitor()
	local := s.signIn(c, "alice").session
	if got := s.ask(t, s.stranger(), "GET", "/local-resource", "Cookie", local).status; got != http.StatusOK {
		t.Fatalf("with a local session: %d", got)
	}
	a = s.begin(t, c, h).finish(lie{})
	if cleared := cookieNamed(t, a, "session_id"); cleared.Value != "" || cleared.MaxAge >= 0 {
		t.Errorf("the cookie of the local session is not cleared: %s", cleared)
	}
	if got := s.ask(t, s.stranger(), "GET", "/local-resource", "Cookie", local).status; got != http.StatusUnauthorized {
		t.Errorf("with the local session from before: %d", got)
	}
	delegated := s.sessionOf(t, c)
	s.lives(t, delegated)
	s.signIn(c, "alice")
	s.ended(t, delegated)
	for _, cookie := range s.cookies(t, c) {
		if cookie.Name == "session" {
			t.Error("the cookie of the delegated session is not cleared")
		}
	}
}

// loginMethods: only GET finishes a login.
func loginMethods(t *testing.T, s *stage, h *hostile) {
	c := s.visitor()
	login := s.begin(t, c, h)
	g := login.agree(lie{})
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS"} {
		for _, path := range []string{"/callback", "/auth/callback"} {
			a := s.ask(t, c, method, path+"?"+g.response().Encode())
			if a.status != http.StatusMethodNotAllowed || a.header.Get("Allow") != "GET, HEAD" {
				t.Errorf("%s %s: %d, Allow %q", method, path, a.status, a.header.Get("Allow"))
			}
		}
	}
	a, err := s.try(c, "POST", "/callback", g.response().Encode(), "Content-Type", "application/x-www-form-urlencoded", "Origin", h.issuer)
	if err != nil || a.status != http.StatusMethodNotAllowed {
		t.Errorf("a response in a form: %d, %v", a.status, err)
	}
	if a := s.ask(t, c, "HEAD", "/login"); a.status != http.StatusFound || a.body != "" {
		t.Errorf("HEAD /login: %d %s", a.status, a.body)
	}
	// HEAD is safe (RFC 9110, section 9.2.1), so a link checker that sends it
	// before the browser sends GET does not use up the code.
	if a := s.ask(t, c, "HEAD", "/callback?"+g.response().Encode()); a.body != "" || a.header.Get("Set-Cookie") != "" {
		t.Errorf("HEAD /callback: %d, %q %s", a.status, a.header["Set-Cookie"], a.body)
	}
	if g.exchanges() != 0 {
		t.Error("HEAD or another method used the code")
	}
	if a := login.back(c, g.response()); a.status != http.StatusFound {
		t.Errorf("after HEAD and other methods: %d %s", a.status, a.body)
	}
}

// loginCookies: a browser has one cookie for all its attempts. The upstream does
// not get it.
func loginCookies(t *testing.T, s *stage, h *hostile) {
	const name = "__Host-authgate_login"
	b := s.visitor()
	var binding *http.Cookie
	for range 3 {
		a := s.ask(t, b, "GET", "/login?provider="+h.name)
		got := cookieNamed(t, a, name)
		got.Raw = ""
		want := &http.Cookie{Name: name, Value: got.Value, Path: "/", MaxAge: 600, HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode}
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
	for _, planted := range []string{"x", strings.Repeat("A", 42), strings.Repeat("A", 44), strings.Repeat("!", 43)} {
		a := s.ask(t, s.stranger(), "GET", "/login?provider="+h.name, "Cookie", name+"="+planted)
		if got := cookieNamed(t, a, name); got.Value == planted {
			t.Errorf("the browser keeps the planted cookie %q", planted)
		}
	}
	s.enters(t, b, h, lie{})
	for _, path := range []string{"/secure-resource", "/open"} {
		m := s.isIn(t, b, path)
		if m == nil {
			t.Fatalf("%s is closed", path)
		}
		for _, line := range m.head {
			if strings.Contains(line, binding.Value) || strings.Contains(strings.ToLower(line), "authgate_login") {
				t.Errorf("the upstream gets %q", line)
			}
		}
	}
}

// providerChoice: /login redirects to the provider that the query names, or else
// to the default provider.
func providerChoice(t *testing.T, s *stage, h, other *hostile) {
	c := s.visitor()
	for query, want := range map[string]*hostile{"": h, "?return_to=/x": h, "?provider=plain": h, "?provider=naming": other} {
		a := s.ask(t, c, "GET", "/login"+query)
		if got := a.header.Get("Location"); a.status != http.StatusFound || !strings.HasPrefix(got, want.issuer+"/authorize?") {
			t.Errorf("/login%s: %d to %q", query, a.status, got)
		}
	}
	for _, query := range []string{
		"?provider=unknown", "?provider=", "?provider", "?provider=Plain", "?provider=plain&provider=naming", "?provider=plain&provider=plain",
		"?provider=local", "?provider=%zz", "?provider=<script>",
	} {
		a := s.ask(t, c, "GET", "/login"+query, "Accept", "text/html")
		if a.status != http.StatusBadRequest || a.header.Get("Location") != "" || strings.Contains(a.body, "<script") {
			t.Errorf("/login%s: %d to %q: %s", query, a.status, a.header.Get("Location"), a.body)
		}
	}
}
