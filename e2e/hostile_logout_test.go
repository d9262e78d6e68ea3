package e2e

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

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
	const form = "application/x-www-form-urlencoded"
	for _, test := range []struct {
		name, method, target, body, media, origin string
		want                                      int
	}{
		{"twice", "POST", "hostile", "logout_token=" + token + "&logout_token=" + token, form, "", 400},
		{"under another name", "POST", "hostile", "token=" + token, form, "", 400},
		{"as another type", "POST", "hostile", "logout_token=" + token, typeJSON, "", 415},
		{"not a token", "POST", "hostile", "logout_token=nonsense", form, "", 400},
		{"60 kB", "POST", "hostile", "logout_token=" + strings.Repeat("A", 60_000), form, "", 400},
		{"to another provider", "POST", "other", "logout_token=" + token, form, "", 400},
		{"in the query", "POST", "hostile?logout_token=" + token, "", form, "", 400},
		{"with GET", "GET", "hostile?logout_token=" + token, "", form, "", 405},
		{"from a page", "POST", "hostile", "logout_token=" + token, form, "https://evil.example", 403},
		{"to no provider", "POST", "unknown", "logout_token=" + token, form, "", 404},
	} {
		a, err := s.try(s.stranger(), test.method, "/backchannel-logout/"+test.target, test.body, "Content-Type", test.media, "Origin", test.origin)
		if err != nil || a.status != test.want || a.header.Get("Cache-Control") != "no-store" || internals.MatchString(a.body) {
			t.Errorf("%s: %d, %v, expected %d, Cache-Control %q: %s", test.name, a.status, err, test.want, a.header.Get("Cache-Control"), a.body)
		}
	}
	s.lives(t, session)
	a, err := s.try(s.stranger(), "POST", "/backchannel-logout/hostile", "logout_token="+token, "Content-Type", form)
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
