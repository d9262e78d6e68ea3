package e2e

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// backChannelEvent makes a token a logout token (OpenID Connect Back-Channel
// Logout 1.0, section 2.4).
const backChannelEvent = "http://schemas.openid.net/event/backchannel-logout"

// logoutClaims are the claims of a valid logout token for the session of a grant.
func logoutClaims(g *grant) map[string]any {
	now := time.Now()
	return map[string]any{
		"iss": g.h.issuer, "aud": "gateway", "iat": now.Unix(), "exp": now.Add(2 * time.Minute).Unix(), "jti": rand.Text(),
		"sub": g.sub, "sid": g.sid, "events": map[string]any{backChannelEvent: map[string]any{}},
	}
}

// logoutToken signs claims as a logout token; changes come as name, value, and
// nil removes a claim.
func logoutToken(g *grant, changes ...any) string {
	return g.h.keys.signLogout(logoutPayload(g, changes...))
}

func logoutPayload(g *grant, changes ...any) []byte {
	claims := logoutClaims(g)
	for i := 0; i+1 < len(changes); i += 2 {
		putMember(claims, changes[i].(string), changes[i+1])
	}
	return payloadOf(claims)
}

func (k *hostileKeys) signLogout(payload []byte) string {
	return jws(jose.ES256, k.good, joseHeader{"kid": "good", "typ": "logout+jwt"}, payload)
}

// wrongLogoutTokens name the session and are not valid. The tests of
// gateway/provider have all other faults.
func wrongLogoutTokens(g *grant) map[string]string {
	k := g.h.keys
	return map[string]string{
		"typ of an access token": jws(jose.ES256, k.good, joseHeader{"kid": "good", "typ": "at+jwt"}, logoutPayload(g)),
		"wrong iss":              logoutToken(g, "iss", "https://evil.example"),
		"wrong aud":              logoutToken(g, "aud", "another"),
		"expired":                logoutToken(g, "exp", time.Now().Add(-2*time.Minute).Unix()),
		"no events":              logoutToken(g, "events", nil),
		"with a nonce":           logoutToken(g, "nonce", g.request.Get("nonce")),
		"an ID token":            g.issued(),
		"signed by another":      jws(jose.ES256, k.unpublished, joseHeader{"kid": "good", "typ": "logout+jwt"}, logoutPayload(g)),
		"unsigned":               unsecured("none", logoutPayload(g)),
		"HS256 with the secret":  jws(jose.HS256, []byte(hostileSecret), joseHeader{"kid": "good"}, logoutPayload(g)),
		"an access token":        g.access,
		"nothing":                "",
		"60 kB":                  strings.Repeat("A", 60_000),
	}
}

// TestHostileBackChannel: only a valid logout token ends a session, and it does
// so before the provider gets its answer.
func TestHostileBackChannel(t *testing.T) {
	t.Parallel()
	h, other := newHostile(t, "hostile"), newHostile(t, "other")
	s := startStage(t, "", h, other)
	t.Run("wrong token", func(t *testing.T) {
		g, session := s.granted(t, h)
		for name, token := range wrongLogoutTokens(g) {
			t.Run(name, func(t *testing.T) {
				h.note(token)
				s.tells(t, h, token, http.StatusBadRequest)
				s.lives(t, session)
			})
		}
	})
	t.Run("wrong place", func(t *testing.T) { misplacedLogout(t, s, h, other) })
	t.Run("valid", func(t *testing.T) { validLogout(t, s, h, other) })
	t.Run("during a login", func(t *testing.T) {
		c := s.visitor()
		login := s.begin(t, c, h)
		g := login.agree(lie{})
		s.tells(t, h, logoutToken(g), http.StatusOK)
		s.refused(t, c, h, login.back(c, g.response()), http.StatusUnauthorized)
	})
	s.check(t)
}

// backChannel posts a form to the endpoint of a provider.
func (s *stage) backChannel(t *testing.T, h *hostile, form url.Values, headers ...string) answer {
	t.Helper()
	a, err := s.try(s.stranger(), "POST", "/backchannel-logout/"+h.name, form.Encode(),
		append(headers, "Content-Type", "application/x-www-form-urlencoded")...)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// tells sends a logout token and checks the status of the answer.
func (s *stage) tells(t *testing.T, h *hostile, token string, want int) {
	t.Helper()
	a := s.backChannel(t, h, url.Values{"logout_token": {token}})
	if a.status != want || a.header.Get("Cache-Control") != "no-store" || internals.MatchString(a.body) {
		t.Errorf("a logout token is answered %d, Cache-Control %q, expected %d: %s", a.status, a.header.Get("Cache-Control"), want, a.body)
	}
}

// misplacedLogout sends a valid token in all places but the right one.
func misplacedLogout(t *testing.T, s *stage, h, other *hostile) {
	g, session := s.granted(t, h)
	good := h.note(logoutToken(g))
	form := url.Values{"logout_token": {good}}
	for name, a := range map[string]answer{
		"twice":               s.backChannel(t, h, url.Values{"logout_token": {good, good}}),
		"under another name":  s.backChannel(t, h, url.Values{"token": {good}}),
		"to another provider": s.backChannel(t, other, form),
		"in the query":        s.ask(t, s.stranger(), "POST", "/backchannel-logout/hostile?"+form.Encode()),
		"with GET":            s.ask(t, s.stranger(), "GET", "/backchannel-logout/hostile?"+form.Encode()),
		"from a page":         s.backChannel(t, h, form, "Origin", "https://evil.example"),
		"to no provider":      s.ask(t, s.stranger(), "POST", "/backchannel-logout/unknown"),
	} {
		if a.status < 400 {
			t.Errorf("%s: %d", name, a.status)
		}
	}
	s.lives(t, session)
	// This token is valid, and names a session at another provider.
	s.tells(t, other, other.keys.signLogout(logoutPayload(g, "iss", other.issuer)), http.StatusOK)
	s.lives(t, session)
}

// validLogout: a token with a sid ends that session. A token without a sid ends
// all sessions of the person that have begun before. Neither ends a session at
// another provider, or works twice.
func validLogout(t *testing.T, s *stage, h, other *hostile) {
	g, first := s.granted(t, h)
	_, second := s.granted(t, h) // of the same person
	_, elsewhere := s.granted(t, other)
	ofSession, ofPerson := logoutToken(g), logoutToken(g, "sid", nil)
	s.tells(t, h, ofSession, http.StatusOK)
	s.ended(t, first)
	s.lives(t, second)
	s.tells(t, h, ofSession, http.StatusBadRequest)
	s.tells(t, h, logoutToken(g, "sub", "unknown", "sid", "unknown"), http.StatusOK)
	s.lives(t, second)
	s.tells(t, h, ofPerson, http.StatusOK)
	s.ended(t, second)
	s.lives(t, elsewhere)
	_, again := s.granted(t, h)
	s.tells(t, h, ofPerson, http.StatusBadRequest)
	s.lives(t, again)
}

// TestHostileFrontChannel: a frame ends the session that the provider names, and
// no other.
func TestHostileFrontChannel(t *testing.T) {
	t.Parallel()
	h, other := newHostile(t, "hostile"), newHostile(t, "other")
	s := startStage(t, "", h, other)
	g, session := s.granted(t, h)
	frame := func(method, name string, query url.Values) answer {
		t.Helper()
		return s.ask(t, s.stranger(), method, "/frontchannel-logout/"+name+"?"+query.Encode(),
			"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe", "Accept", "text/html")
	}
	right := url.Values{"iss": {h.issuer}, "sid": {g.sid}}
	for name, test := range map[string]struct {
		query url.Values
		want  int
	}{
		"another iss": {url.Values{"iss": {other.issuer}, "sid": {g.sid}}, 400},
		"two iss":     {url.Values{"iss": {h.issuer, h.issuer}, "sid": {g.sid}}, 400},
		"no sid":      {url.Values{"iss": {h.issuer}}, 400},
		"two sid":     {url.Values{"iss": {h.issuer}, "sid": {g.sid, "x"}}, 400},
		"unknown sid": {url.Values{"iss": {h.issuer}, "sid": {"unknown"}}, 200},
		"long sid":    {url.Values{"iss": {h.issuer}, "sid": {strings.Repeat("a", 10_000)}}, 200},
	} {
		if a := frame("GET", "hostile", test.query); a.status != test.want || a.header.Get("Set-Cookie") != "" {
			t.Errorf("%s: %d, %q", name, a.status, a.header["Set-Cookie"])
		}
		s.lives(t, session)
	}
	if a := frame("GET", "other", url.Values{"iss": {other.issuer}, "sid": {g.sid}}); a.status != http.StatusOK {
		t.Errorf("the session of another provider: %d", a.status)
	}
	if a := frame("POST", "hostile", right); a.status != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", a.status)
	}
	frame("HEAD", "hostile", right)
	s.lives(t, session)
	a := frame("GET", "hostile", right)
	if a.status != http.StatusOK || a.header.Get("Cache-Control") != "no-store" || a.header.Get("X-Frame-Options") != "" {
		t.Errorf("the right one: %d, %v", a.status, a.header)
	}
	if got := a.header.Get("Content-Security-Policy"); !strings.Contains(got, "frame-ancestors "+h.issuer) {
		t.Errorf("the provider cannot frame it: %q", got)
	}
	s.ended(t, session)

	// Some providers send no iss. The path names the provider too.
	g, session = s.granted(t, h)
	if a := frame("GET", "hostile", url.Values{"sid": {g.sid}}); a.status != http.StatusOK {
		t.Errorf("without iss: %d", a.status)
	}
	s.ended(t, session)
	s.check(t)
}
