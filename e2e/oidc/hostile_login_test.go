package oidc

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"testing"

	"authgate/e2e/world"
)

// wrong is a lie that fails a login, the status of the answer, and what the
// log says about it.
type wrong struct {
	name string
	lie
	status int
	why    string
}

// wrongLogins has a lie for each part of what a provider says, and errors that
// repeat what the gateway sent: no secret of it may get into the log this way. The
// tests of gateway/identity/provider have all other lies.
func wrongLogins() []wrong {
	wrongs := []wrong{
		{"ID token", lie{claims: map[string]any{"nonce": "another"}}, 502, "nonce"},
		{"userinfo", lie{person: map[string]any{"sub": "admin"}}, 502, "another person"},
	}
	for name, sent := range map[string]func(*http.Request) string{
		"the code":               func(r *http.Request) string { return r.PostForm.Get("code") },
		"the code, cut":          func(r *http.Request) string { return strings.Repeat("x", 150) + r.PostForm.Get("code") },
		"the verifier":           func(r *http.Request) string { return r.PostForm.Get("code_verifier") },
		"the Authorization":      func(r *http.Request) string { return r.Header.Get("Authorization") },
		"the secret of a client": func(*http.Request) string { return hostileSecret },
	} {
		wrongs = append(wrongs, wrong{"token, refused with " + name, lie{token: func(w http.ResponseWriter, r *http.Request) {
			refuseCode(w, "not good: "+sent(r))
		}}, 401, "invalid_grant"})
	}
	return wrongs
}

// TestHostileProvider: a lie of a provider fails the login, and the log tells the
// operator why.
func TestHostileProvider(t *testing.T) {
	t.Parallel()
	h := newHostile(t, "hostile")
	s := startStage(t, "", h)
	for _, w := range wrongLogins() {
		t.Run(w.name, func(t *testing.T) {
			c, id := s.visitor(), world.NewRequestID()
			login := s.begin(t, c, h)
			g := login.agree(w.lie)
			s.refused(t, c, h, login.back(c, g.response(), "Accept", "text/html", "X-Request-Id", id), w.status)
			if g.exchanges() != 1 {
				t.Errorf("the code came to the token endpoint %d times", g.exchanges())
			}
			world.Until(t, "the log to say "+w.why, func() bool {
				return t.Failed() || slices.ContainsFunc(s.Log.Records(t, "request"), func(entry map[string]any) bool {
					return entry["request_id"] == id && strings.Contains(fmt.Sprint(entry["error"]), w.why)
				})
			})
		})
	}
	s.check(t)
}

// issuerParameter: where a response has iss, it must be the issuer that the
// browser was sent to. Where the provider has announced iss, it must be there
// (RFC 9207, section 2.4). The tests of gateway/identity/provider have all other values.
func issuerParameter(t *testing.T, s *stage, plain, naming *hostile) {
	login, g := s.agreed(t, naming)
	response := g.response()
	response.Set("iss", naming.issuer)
	if a := login.back(login.c, response); a.Status != http.StatusFound {
		t.Errorf("named as promised: %d", a.Status)
	}
	for h, iss := range map[*hostile][]string{naming: nil, plain: {naming.issuer}} {
		login, g := s.agreed(t, h)
		response := g.response()
		response["iss"] = iss
		s.refused(t, login.c, h, login.back(login.c, response, "Accept", "text/html"), http.StatusBadRequest)
		if g.exchanges() > 0 {
			t.Errorf("with iss %q the code came to the token endpoint", iss)
		}
		login = s.begin(t, login.c, h) // the same rule holds for an error
		response = url.Values{"error": {"access_denied"}, "error_description": {"Call 0900 now."},
			"state": {login.request.Get("state")}, "iss": iss}
		if a := login.back(login.c, response); a.Status != http.StatusBadRequest || strings.Contains(a.Body, "0900") {
			t.Errorf("an error with iss %q: %d %s", iss, a.Status, a.Body)
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
		sessions[h] = s.enters(t, s.visitor(), h)
		attempts[h] = s.begin(t, s.visitor(), h)
	}
	another := newHostile(t, "moved") // another provider with the same name
	s.providers = []*hostile{kept, another}
	s.Configure(s.config(""))
	s.Signal(syscall.SIGHUP)
	world.Until(t, "the reload", func() bool { return len(s.Log.Records(t, "reloaded")) > 0 })

	if a := attempts[kept].finish(lie{}); a.Status != http.StatusFound {
		t.Errorf("the provider is the same: %d %s", a.Status, a.Body)
	}
	s.lives(t, sessions[kept])
	for h, want := range map[*hostile]int{moved: http.StatusBadRequest,
		gone: http.StatusNotFound} { // with its redirect URI
		login := attempts[h]
		g := login.agree(lie{})
		s.refused(t, login.c, h, login.back(login.c, g.response(), "Accept", "text/html"), want)
		if g.exchanges() != 0 {
			t.Errorf("%s was asked", h.name)
		}
		s.ended(t, sessions[h])
	}
	s.enters(t, s.visitor(), another)
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
	g, session := s.granted(t, s.visitor(), h)
	token := g.logoutToken()
	for _, test := range []struct {
		name, method, target, body, media, origin string
		want                                      int
	}{
		{"twice", "POST", "hostile", "logout_token=" + token + "&logout_token=" + token, world.TypeForm, "", 400},
		{"as another type", "POST", "hostile", "logout_token=" + token, world.TypeJSON, "", 415},
		{"60 kB", "POST", "hostile", "logout_token=" + strings.Repeat("A", 60_000), world.TypeForm, "", 400},
		{"to another provider", "POST", "other", "logout_token=" + token, world.TypeForm, "", 400},
		{"in the query", "POST", "hostile?logout_token=" + token, "", world.TypeForm, "", 400},
		{"with GET", "GET", "hostile?logout_token=" + token, "", world.TypeForm, "", 405},
		{"from a page", "POST", "hostile", "logout_token=" + token, world.TypeForm, "https://evil.example", 403},
		{"to no provider", "POST", "unknown", "logout_token=" + token, world.TypeForm, "", 404},
	} {
		a, err := s.try(s.stranger(), test.method, "/backchannel-logout/"+test.target, test.body, "Content-Type", test.media,
			"Origin", test.origin)
		if err != nil || a.Status != test.want || a.Header.Get("Cache-Control") != "no-store" ||
			internals.MatchString(a.Body) {
			t.Errorf("%s: %d, %v, expected %d, Cache-Control %q: %s", test.name, a.Status, err, test.want,
				a.Header.Get("Cache-Control"), a.Body)
		}
	}
	s.lives(t, session)
	a, err := s.try(s.stranger(), "POST", "/backchannel-logout/hostile", "logout_token="+token, "Content-Type",
		world.TypeForm)
	if err != nil || a.Status != http.StatusOK || a.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("the right one: %d, %v, Cache-Control %q: %s", a.Status, err, a.Header.Get("Cache-Control"), a.Body)
	}
	s.ended(t, session)
}

func frontChannel(t *testing.T, s *stage, h, other *hostile) {
	g, session := s.granted(t, s.visitor(), h)
	frame := func(method, name string, query url.Values) world.Answer {
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
		if a.Status != test.want || a.Header.Get("Set-Cookie") != "" {
			t.Errorf("%s: %d, expected %d, %q", test.name, a.Status, test.want, a.Header["Set-Cookie"])
		}
	}
	s.lives(t, session)
	a := frame("GET", "hostile", url.Values{"iss": own, "sid": sid})
	if a.Status != http.StatusOK || a.Header.Get("X-Frame-Options") != "" ||
		!strings.Contains(a.Header.Get("Content-Security-Policy"), "frame-ancestors "+h.issuer) {
		t.Errorf("the right one: %d, which the provider cannot frame: %v", a.Status, a.Header)
	}
	s.ended(t, session)

	// Some providers send no iss. The path names the provider too.
	g, session = s.granted(t, s.visitor(), h)
	if a := frame("GET", "hostile", url.Values{"sid": {g.sid}}); a.Status != http.StatusOK {
		t.Errorf("without iss: %d", a.Status)
	}
	s.ended(t, session)
}
