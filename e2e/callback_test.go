package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCallback: everything that can come back from a provider but what was
// asked for, and everybody who can bring it but the browser that asked.
func TestCallback(t *testing.T) {
	t.Parallel()
	h, naming := newHostile(t, "plain"), newHostile(t, "naming")
	naming.announce("authorization_response_iss_parameter_supported", true)
	s := startStage(t, "delegated: {default_provider: plain}\n", h, naming)
	t.Run("stories", func(t *testing.T) {
		for name, story := range map[string]func(*testing.T, *stage, *hostile){
			"malformed":             malformedCallbacks,
			"back button":           callbackAgain,
			"many at once":          callbackManyTimes,
			"another browser":       callbackElsewhere,
			"two tabs":              twoTabs,
			"refused":               refusedByProvider,
			"issuer":                func(t *testing.T, s *stage, _ *hostile) { issuerParameter(t, s, h, naming) },
			"landing":               whereToLand,
			"sessions from before":  sessionsFromBefore,
			"methods":               loginMethods,
			"cookies":               loginCookies,
			"choice":                func(t *testing.T, s *stage, _ *hostile) { providerChoice(t, s, h, naming) },
			"provider of its state": func(t *testing.T, s *stage, _ *hostile) { codeOfAnother(t, s, h, naming) },
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				story(t, s, h)
			})
		}
	})
	s.check(t)
}

// malformedCallbacks: what says too little or two things at once is 400, asks
// nobody anything, and leaves the attempt as it was.
func malformedCallbacks(t *testing.T, s *stage, h *hostile) {
	c := s.visitor()
	login := s.begin(t, c, h)
	g := login.agree(lie{})
	code, state := "code="+g.code, "state="+login.request.Get("state")
	for name, query := range map[string]string{
		"nothing":           "",
		"no state":          code,
		"empty state":       code + "&state=",
		"unknown state":     code + "&state=" + strings.Repeat("A", 43),
		"state, cut":        code + "&" + state[:len(state)-1],
		"state and more":    code + "&" + state + "%00",
		"two states":        code + "&" + state + "&state=" + strings.Repeat("A", 43),
		"the state twice":   code + "&" + state + "&" + state,
		"two codes":         code + "&code=other&" + state,
		"the code twice":    code + "&" + code + "&" + state,
		"two issuers":       code + "&" + state + "&iss=" + h.issuer + "&iss=https://evil.example",
		"two errors":        "error=a&error=b&" + state,
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
		t.Errorf("what should have been left: %d %s", a.status, a.body)
	}

	login = s.begin(t, c, h) // this one says clearly that there is nothing
	for range 2 {
		if a := login.back(c, url.Values{"state": {login.request.Get("state")}}); a.status != http.StatusBadRequest {
			t.Errorf("neither code nor error: %d", a.status)
		}
	}
}

// callbackAgain: the back button, and a history that somebody else reads, get
// nobody in, and ask nobody anything. Who is in stays in.
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

// callbackManyTimes: of many callbacks at once with one state, one counts.
func callbackManyTimes(t *testing.T, s *stage, h *hostile) {
	c := s.visitor()
	login := s.begin(t, c, h)
	g := login.agree(lie{})
	var in atomic.Int64
	many(parallel, func(int) {
		a, err := s.try(c, "GET", "/callback?"+g.response().Encode(), "")
		switch {
		case err == nil && a.status == http.StatusFound:
			in.Add(1)
		case err != nil || a.status != http.StatusBadRequest:
			t.Errorf("%d, %v", a.status, err)
		}
	})
	if in.Load() != 1 || g.exchanges() != 1 {
		t.Errorf("%d got in, and the code came to the token endpoint %d times", in.Load(), g.exchanges())
	}
	s.lives(t, s.sessionOf(t, c))
}

// callbackElsewhere: a response is worth nothing in another browser, be it
// stolen from a person or foisted on one, and is not spoilt by that.
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
		t.Errorf("where somebody else is signed in: %d, %q", a.status, a.header["Set-Cookie"])
	}
	s.lives(t, session)
	for _, cookie := range []string{"", "A", strings.Repeat("A", 43)} {
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

// twoTabs: each tab finishes what it began, in any order and at once.
func twoTabs(t *testing.T, s *stage, h *hostile) {
	c := s.visitor()
	first, second := s.begin(t, c, h, "return_to=/first"), s.begin(t, c, h, "return_to=/second")
	if a := second.finish(lie{}); a.status != http.StatusFound || a.header.Get("Location") != "/second" {
		t.Errorf("the second tab: %d to %q", a.status, a.header.Get("Location"))
	}
	if a := first.finish(lie{}); a.status != http.StatusFound || a.header.Get("Location") != "/first" {
		t.Errorf("the first tab, after it: %d to %q", a.status, a.header.Get("Location"))
	}
	s.lives(t, s.sessionOf(t, c))

	tabs := []*attempt{s.begin(t, c, h, "return_to=/0"), s.begin(t, c, h, "return_to=/1")}
	grants := []*grant{tabs[0].agree(lie{}), tabs[1].agree(lie{})}
	many(len(tabs), func(i int) {
		a, err := s.try(c, "GET", "/callback?"+grants[i].response().Encode(), "")
		if err != nil || a.status != http.StatusFound || a.header.Get("Location") != fmt.Sprint("/", i) {
			t.Errorf("tab %d, at once with another: %d to %q, %v", i, a.status, a.header.Get("Location"), err)
		}
	})
	s.lives(t, s.sessionOf(t, c))
}

// refusedByProvider: an error ends the attempt on a page that shows the
// provider's words as words.
func refusedByProvider(t *testing.T, s *stage, h *hostile) {
	const script = `"><script>alert(1)</script><img src=x onerror=alert(1)>`
	for name, test := range map[string]struct {
		response url.Values
		status   int
	}{
		"denied":                  {url.Values{"error": {"access_denied"}}, 401},
		"denied, with a script":   {url.Values{"error": {"access_denied"}, "error_description": {script}}, 401},
		"a script":                {url.Values{"error": {script}, "error_uri": {"javascript:alert(1)"}}, 401},
		"denied, with a code":     {url.Values{"error": {"access_denied"}, "code": {"code"}}, 401},
		"interaction":             {url.Values{"error": {"login_required"}}, 401},
		"failed":                  {url.Values{"error": {"server_error"}, "error_description": {script}}, 502},
		"overloaded":              {url.Values{"error": {"temporarily_unavailable"}}, 502},
		"denied, in many words":   {url.Values{"error": {"access_denied"}, "error_description": {strings.Repeat("<script>no ", 400)}}, 401},
		"denied, with lines":      {url.Values{"error": {"access_denied"}, "error_description": {"a\r\nSet-Cookie: session=x\r\n\r\n\x00\u202e<script>"}}, 401},
		"denied, not in UTF-8":    {url.Values{"error": {"access_denied"}, "error_description": {"\xff\xfe<script>"}}, 401},
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
				t.Errorf("%s: the words of the provider are on the page as they came: %s", name, a.body)
			}
			if name == "denied, with a script" && accept == "text/html" && !strings.Contains(a.body, "&lt;script&gt;alert(1)&lt;/script&gt;") {
				t.Errorf("%s: the page does not show the provider's words: %s", name, a.body)
			}
			s.isOut(t, c, a)
			if a := login.back(c, g.response()); a.status != http.StatusBadRequest || g.exchanges() != 0 {
				t.Errorf("%s: after the error comes a code: %d", name, a.status)
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
		t.Errorf("after errors that were not for this attempt: %d", a.status)
	}
}

// whereToLand: after the login the browser is at a page of this origin.
func whereToLand(t *testing.T, s *stage, h *hostile) {
	const page = "/secure-resource?x=1&y=a%20b"
	for to, want := range map[string]string{
		"": "/", "/": "/", page: page, "/a/b;c?return_to=//evil.example": "/a/b;c?return_to=//evil.example",
		"//evil.example": "/", "///evil.example": "/", "/\\evil.example": "/", "\\\\evil.example": "/", "https://evil.example": "/", "https:evil.example": "/",
		"/%09/evil.example": "/", "/\t/evil.example": "/", "\t//evil.example": "/", "/\n/evil.example": "/", "/%5cevil.example": "/", "/%2fevil.example": "/",
		" //evil.example": "/", "evil.example": "/", "javascript:alert(1)": "/", "/../..//evil.example": "/", "/.//evil.example": "/", "/%2e%2e//evil.example": "/",
		"/x#@evil.example": "/", "/\r\nSet-Cookie: session=x": "/", "/x\x00": "/", "?x": "/", "@evil.example": "/",
	} {
		c := s.visitor()
		a := s.begin(t, c, h, "return_to="+url.QueryEscape(to)).finish(lie{})
		if a.status != http.StatusFound || a.header.Get("Location") != want || len(a.header["Location"]) != 1 {
			t.Errorf("return_to %q leads to %q, %d", to, a.header["Location"], a.status)
		}
	}
	c := s.visitor()
	if a := s.begin(t, c, h, "return_to=/a", "return_to=//evil.example").finish(lie{}); a.header.Get("Location") != "/" {
		t.Errorf("two return_to lead to %q", a.header.Get("Location"))
	}
}

// sessionsFromBefore: a login ends what the browser had before and gives it
// what nobody else knows. One that fails ends nothing.
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

// loginMethods: reading is safe, and nothing but reading is done.
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
	// RFC 9110, section 9.2.1: whoever looks first, say a link checker in the
	// browser, does not use up what the person comes with.
	if a := s.ask(t, c, "HEAD", "/callback?"+g.response().Encode()); a.body != "" || a.header.Get("Set-Cookie") != "" {
		t.Errorf("HEAD /callback: %d, %q %s", a.status, a.header["Set-Cookie"], a.body)
	}
	if g.exchanges() != 0 {
		t.Error("HEAD or another method has used the code")
	}
	if a := login.back(c, g.response()); a.status != http.StatusFound {
		t.Errorf("after HEAD and other methods: %d %s", a.status, a.body)
	}
}

// loginCookies: each browser has one cookie for all its attempts, which nobody
// but the gateway gets to see.
func loginCookies(t *testing.T, s *stage, h *hostile) {
	const logins, name = 300, "__Host-authgate_login"
	c := s.stranger()
	var mu sync.Mutex
	values := map[string]bool{}
	many(10, func(int) {
		for range logins / 10 {
			a, err := s.try(c, "GET", "/login?provider="+h.name, "")
			if err != nil || a.status != http.StatusFound || len(a.header["Set-Cookie"]) != 1 {
				t.Errorf("/login: %d, %q, %v", a.status, a.header["Set-Cookie"], err)
				return
			}
			query := queryOf(a.header.Get("Location"))
			mu.Lock()
			for _, value := range []string{query.Get("state"), query.Get("nonce"), query.Get("code_challenge"), cookieOf(a)} {
				values[value] = true
			}
			mu.Unlock()
		}
	})
	if len(values) != 4*logins {
		t.Errorf("%d logins have %d different secrets, expected %d", logins, len(values), 4*logins)
	}

	b := s.visitor()
	var binding *http.Cookie
	for range 30 {
		a := s.ask(t, b, "GET", "/login?provider="+h.name)
		got := cookieNamed(t, a, name)
		got.Raw = ""
		want := &http.Cookie{Name: name, Value: got.Value, Path: "/", MaxAge: 600, HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("the cookie (-want +got):\n%s", diff)
		}
		if binding != nil && binding.Value != got.Value {
			t.Fatal("the browser gets another cookie for each attempt")
		}
		binding = got
	}
	if got := s.cookies(t, b); len(got) != 1 {
		t.Errorf("the browser has %v", got)
	}
	for _, planted := range []string{"x", strings.Repeat("A", 42), strings.Repeat("A", 44), strings.Repeat("!", 43)} {
		a := s.ask(t, c, "GET", "/login?provider="+h.name, "Cookie", name+"="+planted)
		if got := cookieNamed(t, a, name); got.Value == planted {
			t.Errorf("the browser keeps the cookie %q that is none of ours", planted)
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
				t.Errorf("the upstream gets to see %q", line)
			}
		}
	}
}

// providerChoice: /login goes to the provider that is asked for, else to the
// one that is the default, and to no other.
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
