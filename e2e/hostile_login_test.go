package e2e

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// wrong is a lie that fails a login, the status of the answer, and what the
// log says about it.
type wrong struct {
	name string
	lie
	status int
	why    string
}

// wrongLogins has lies for each part of what a provider says. The tests of
// gateway/provider have all others.
func wrongLogins() []wrong {
	token := func(answer http.HandlerFunc) lie { return lie{token: answer} }
	wrongs := []wrong{
		{"nonce", claim("nonce", "another"), 502, "nonce"},
		{"signature", idToken(func(k *hostileKeys, payload []byte) string { return jws(k.unpublished, "JWT", payload) }), 502, "verify"},
		{"token, refused with 200", token(plainAnswer(200, `{"error":"invalid_grant"}`)), 401, "invalid_grant"},
		{"token, failed", token(plainAnswer(500, "{}")), 502, "500 Internal Server Error"},
		{"token, connection closed", token(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), 502, "EOF"},
		{"token, long header", token(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Padding", strings.Repeat("a", 200_000))
		}), 502, "response headers exceeded"},
		{"userinfo, another sub", userinfoWith("sub", "admin"), 502, "another person"},
		{"userinfo, failed", userinfoAnswer(plainAnswer(500, "{}")), 502, "500 Internal Server Error"},
		{"userinfo, user name", userinfoWith("preferred_username", "alice\r\nX-Auth-Roles: admin"), 502, "preferred_username"},
	}
	// The description of an error repeats what the gateway sent. No secret of it
	// may get into the log this way.
	for name, sent := range map[string]func(*http.Request) string{
		"the code":               func(r *http.Request) string { return r.PostForm.Get("code") },
		"the code, cut":          func(r *http.Request) string { return strings.Repeat("x", 150) + r.PostForm.Get("code") },
		"the verifier":           func(r *http.Request) string { return r.PostForm.Get("code_verifier") },
		"the Authorization":      func(r *http.Request) string { return r.Header.Get("Authorization") },
		"the secret of a client": func(*http.Request) string { return hostileSecret },
	} {
		wrongs = append(wrongs, wrong{"token, refused with " + name, token(func(w http.ResponseWriter, r *http.Request) {
			plainAnswer(400, fmt.Sprintf(`{"error":"invalid_grant","error_description":%q}`, "not good: "+sent(r)))(w, r)
		}), 401, "invalid_grant"})
	}
	return wrongs
}

// odd is a login that succeeds, a header that the upstream gets, and what the
// person may see.
type odd struct {
	name string
	lie
	header, value string
	admin         int // status of the resource for administrators
	company       int // status of the resource for addresses at company.com
}

var oddLogins = []odd{
	{"no lie", lie{}, "X-Auth-Roles", "user,admin", 200, 200},
	{"unverified", userinfoWith("email_verified", false), "X-Auth-Email", "", 200, 403},
	{"two roles in one", userinfoWith("roles", []string{"user,admin"}), "X-Auth-Roles", "", 403, 200},
	{"name of a local user", userinfoWith("preferred_username", "local:alice"), "X-Auth-User", "local:alice", 200, 200},
	{"a name in lines", userinfoWith("name", "Alice\r\nX-Auth-Roles: owner\r\n\r\nGET /x HTTP/1.1"), "X-Auth-Name", "", 200, 200},
	{"a name beyond ASCII", userinfoWith("name", "Zoë Ångström 名"), "X-Auth-Name", "Zoë Ångström 名", 200, 200},
}

// TestHostileProvider: a lie of a provider fails the login or has no effect,
// and the log tells the operator why.
func TestHostileProvider(t *testing.T) {
	t.Parallel()
	h := newHostile(t, "hostile")
	s := startStage(t, "", h)
	for _, w := range wrongLogins() {
		t.Run(w.name, func(t *testing.T) {
			c, id := s.visitor(), newRequestID()
			login := s.begin(t, c, h)
			g := login.agree(w.lie)
			s.refused(t, c, h, login.back(c, g.response(), "Accept", "text/html", "X-Request-Id", id), w.status)
			if g.exchanges() != 1 {
				t.Errorf("the code came to the token endpoint %d times", g.exchanges())
			}
			until(t, "the log to say "+w.why, func() bool {
				return t.Failed() || slices.ContainsFunc(s.entriesOf("request"), func(entry map[string]any) bool {
					return entry["request_id"] == id && strings.Contains(fmt.Sprint(entry["error"]), w.why)
				})
			})
		})
	}
	for _, o := range oddLogins {
		t.Run(o.name, func(t *testing.T) {
			c := s.visitor()
			s.enters(t, c, h, o.lie)
			m := s.isIn(t, c, "/secure-resource")
			if m == nil {
				t.Fatal("the browser is not signed in")
			}
			wantHeaders(t, *m, map[string]string{o.header: o.value, "X-Auth-Subject": "hostile:" + subjectOf(t), "X-Auth-Mechanism": "oidc", "Cookie": ""})
			for path, want := range map[string]int{"/admin-resource": o.admin, "/company-resource": o.company, "/alice-resource": 403, "/local-resource": 401} {
				if got := s.ask(t, c, "GET", path).status; got != want {
					t.Errorf("%s is %d, expected %d", path, got, want)
				}
			}
		})
	}
	s.check(t)
}

// issuerParameter: where a response has iss, it must be the issuer that the
// browser was sent to. Where the provider has announced iss, it must be there
// (RFC 9207, section 2.4). The tests of gateway/provider have all other values.
func issuerParameter(t *testing.T, s *stage, plain, naming *hostile) {
	for _, test := range []struct {
		name string
		h    *hostile
		iss  []string
		want int
	}{
		{"named as promised", naming, []string{naming.issuer}, 302},
		{"not named as promised", naming, nil, 400},
		{"not promised, another", plain, []string{naming.issuer}, 400},
	} {
		c := s.visitor()
		login := s.begin(t, c, test.h)
		g := login.agree(lie{})
		response := g.response()
		response["iss"] = test.iss
		a := login.back(c, response, "Accept", "text/html")
		if a.status != test.want || (g.exchanges() > 0) != (test.want == 302) {
			t.Errorf("%s: %d, expected %d, and the code came to the token endpoint %d times", test.name, a.status, test.want, g.exchanges())
		}
		if test.want == 302 {
			continue
		}
		s.refused(t, c, test.h, a, test.want)

		login = s.begin(t, c, test.h) // the same rule holds for an error
		response = url.Values{"error": {"access_denied"}, "error_description": {"Call 0900 now."}, "state": {login.request.Get("state")}, "iss": test.iss}
		if a := login.back(c, response); a.status != 400 || strings.Contains(a.body, "0900") {
			t.Errorf("%s, an error: %d %s", test.name, a.status, a.body)
		}
	}
}

// codeOfAnother: the gateway sends the code to the provider of the state, also
// when another provider has issued it.
func codeOfAnother(t *testing.T, s *stage, h, other *hostile) {
	c := s.visitor()
	login := s.begin(t, c, h)
	stolen := s.begin(t, c, other).agree(lie{})
	response := url.Values{"code": {stolen.code}, "state": {login.request.Get("state")}}
	s.refused(t, c, h, login.back(c, response), http.StatusUnauthorized)
	if stolen.exchanges() != 0 {
		t.Error("the code came to the provider that issued it")
	}
}

// TestReloadDuringLogin: a login that has begun survives a reload, unless its
// provider has changed or is gone. The same holds for sessions.
func TestReloadDuringLogin(t *testing.T) {
	t.Parallel()
	kept, moved, gone := newHostile(t, "kept"), newHostile(t, "moved"), newHostile(t, "gone")
	s := startStage(t, "", kept, moved, gone)
	attempts, sessions := map[*hostile]*attempt{}, map[*hostile]string{}
	for _, h := range s.providers {
		sessions[h] = s.enters(t, s.visitor(), h, lie{})
		attempts[h] = s.begin(t, s.visitor(), h)
	}
	another := newHostile(t, "moved") // another provider with the same name
	s.providers = []*hostile{kept, another}
	s.configure(s.config(""))
	s.signal(syscall.SIGHUP)
	until(t, "the reload", func() bool { return len(s.entriesOf("reloaded")) > 0 })

	if a := attempts[kept].finish(lie{}); a.status != http.StatusFound {
		t.Errorf("the provider is the same: %d %s", a.status, a.body)
	}
	s.lives(t, sessions[kept])
	for _, h := range []*hostile{moved, gone} {
		login := attempts[h]
		g := login.agree(lie{})
		s.refused(t, login.c, h, login.back(login.c, g.response(), "Accept", "text/html"), http.StatusBadRequest)
		if g.exchanges() != 0 {
			t.Errorf("%s was asked", h.name)
		}
		s.ended(t, sessions[h])
	}
	s.enters(t, s.visitor(), another, lie{})
}

// TestHostilePages: pages show titles of providers and names of people as text,
// also when they look like HTML.
func TestHostilePages(t *testing.T) {
	t.Parallel()
	const script = `"><script>alert(1)</script>`
	h, second := newHostile(t, "hostile"), newHostile(t, "second")
	h.more, second.more = ", title: '"+script+"'", ", title: Fish & Chips"
	s := startStage(t, "", h, second)
	c := s.visitor()
	b := &browser{t: t, c: c}
	b.open(s.base + "/login?return_to=/secure-resource")
	for provider, title := range map[string]string{"hostile": script, "second": "Fish & Chips"} {
		link := "/login?provider=" + provider + "&return_to=" + url.QueryEscape("/secure-resource")
		if !slices.Contains(b.links(), link) || !strings.Contains(b.page.body, "Continue with "+html.EscapeString(title)+"</a>") {
			t.Errorf("%s has no link %s with the title %q: %s", b.url, link, title, b.page.body)
		}
	}
	s.enters(t, c, h, lie{person: func(p map[string]any) { p["name"], p["preferred_username"] = script, script }})
	mark := url.QueryEscape("/<script>alert(1)</script>")
	for _, path := range []string{"/me", "/signin?return_to=" + mark, "/login?provider=" + mark, "/callback?error=" + mark, "/" + mark} {
		page := s.ask(t, c, "GET", path, "Accept", "text/html")
		if !strings.HasPrefix(page.header.Get("Content-Type"), "text/html") || strings.Contains(page.body, "<script") {
			t.Errorf("%s: %d, a page of %q: %s", path, page.status, page.header.Get("Content-Type"), page.body)
		}
	}
}

// TestHostileLogout: a logout token ends a session only at its own endpoint and in
// its own form. A frame ends the session that the provider names, and no other.
func TestHostileLogout(t *testing.T) {
	t.Parallel()
	h, other := newHostile(t, "hostile"), newHostile(t, "other")
	s := startStage(t, "", h, other)
	t.Run("back channel", func(t *testing.T) { backChannel(t, s, h) })
	t.Run("front channel", func(t *testing.T) { frontChannel(t, s, h, other) })
	s.check(t)
}

func backChannel(t *testing.T, s *stage, h *hostile) {
	g, session := s.granted(t, s.visitor(), h, lie{})
	token := g.logoutToken()
	for _, test := range []struct {
		name, method, target, body, media, origin string
		want                                      int
	}{
		{"twice", "POST", "hostile", "logout_token=" + token + "&logout_token=" + token, typeForm, "", 400},
		{"under another name", "POST", "hostile", "token=" + token, typeForm, "", 400},
		{"as another type", "POST", "hostile", "logout_token=" + token, typeJSON, "", 415},
		{"not a token", "POST", "hostile", "logout_token=nonsense", typeForm, "", 400},
		{"60 kB", "POST", "hostile", "logout_token=" + strings.Repeat("A", 60_000), typeForm, "", 400},
		{"to another provider", "POST", "other", "logout_token=" + token, typeForm, "", 400},
		{"in the query", "POST", "hostile?logout_token=" + token, "", typeForm, "", 400},
		{"with GET", "GET", "hostile?logout_token=" + token, "", typeForm, "", 405},
		{"from a page", "POST", "hostile", "logout_token=" + token, typeForm, "https://evil.example", 403},
		{"to no provider", "POST", "unknown", "logout_token=" + token, typeForm, "", 404},
	} {
		a, err := s.try(s.stranger(), test.method, "/backchannel-logout/"+test.target, test.body, "Content-Type", test.media, "Origin", test.origin)
		if err != nil || a.status != test.want || a.header.Get("Cache-Control") != "no-store" || internals.MatchString(a.body) {
			t.Errorf("%s: %d, %v, expected %d, Cache-Control %q: %s", test.name, a.status, err, test.want, a.header.Get("Cache-Control"), a.body)
		}
	}
	s.lives(t, session)
	a, err := s.try(s.stranger(), "POST", "/backchannel-logout/hostile", "logout_token="+token, "Content-Type", typeForm)
	if err != nil || a.status != http.StatusOK || a.header.Get("Cache-Control") != "no-store" {
		t.Errorf("the right one: %d, %v, Cache-Control %q: %s", a.status, err, a.header.Get("Cache-Control"), a.body)
	}
	s.ended(t, session)
}

func frontChannel(t *testing.T, s *stage, h, other *hostile) {
	g, session := s.granted(t, s.visitor(), h, lie{})
	frame := func(method, name string, query url.Values) answer {
		t.Helper()
		return s.ask(t, s.stranger(), method, "/frontchannel-logout/"+name+"?"+query.Encode(),
			"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe", "Accept", "text/html")
	}
	own, sid := []string{h.issuer}, []string{g.sid}
	for _, test := range []struct {
		name, method, provider string
		iss, sid               []string
		want                   int
	}{
		{"another iss", "GET", "hostile", []string{other.issuer}, sid, 400},
		{"two iss", "GET", "hostile", []string{h.issuer, h.issuer}, sid, 400},
		{"no sid", "GET", "hostile", own, nil, 400},
		{"two sid", "GET", "hostile", own, []string{g.sid, "x"}, 400},
		{"unknown sid", "GET", "hostile", own, []string{"unknown"}, 200},
		{"of another provider", "GET", "other", []string{other.issuer}, sid, 200},
		{"POST", "POST", "hostile", own, sid, 405},
		{"HEAD", "HEAD", "hostile", own, sid, 200},
	} {
		a := frame(test.method, test.provider, url.Values{"iss": test.iss, "sid": test.sid})
		if a.status != test.want || a.header.Get("Set-Cookie") != "" {
			t.Errorf("%s: %d, expected %d, %q", test.name, a.status, test.want, a.header["Set-Cookie"])
		}
	}
	s.lives(t, session)
	a := frame("GET", "hostile", url.Values{"iss": own, "sid": sid})
	if a.status != http.StatusOK || a.header.Get("X-Frame-Options") != "" || !strings.Contains(a.header.Get("Content-Security-Policy"), "frame-ancestors "+h.issuer) {
		t.Errorf("the right one: %d, which the provider cannot frame: %v", a.status, a.header)
	}
	s.ended(t, session)

	// Some providers send no iss. The path names the provider too.
	g, session = s.granted(t, s.visitor(), h, lie{})
	if a := frame("GET", "hostile", url.Values{"sid": {g.sid}}); a.status != http.StatusOK {
		t.Errorf("without iss: %d", a.status)
	}
	s.ended(t, session)
}
