package e2e

import (
	"crypto/rand"
	"encoding/json"
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

// logoutClaims are those of a good logout token about the session of a grant.
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

// wrongLogoutTokens are about the right session, and not good.
func wrongLogoutTokens(g *grant) map[string]string {
	ago := func(d time.Duration) int64 { return time.Now().Add(-d).Unix() }
	event := func(value any) map[string]any { return map[string]any{backChannelEvent: value} }
	k := g.h.keys
	return map[string]string{
		"typ of an access token":   jws(jose.ES256, k.good, joseHeader{"kid": "good", "typ": "at+jwt"}, logoutPayload(g)),
		"wrong iss":                logoutToken(g, "iss", "https://evil.example"),
		"no iss":                   logoutToken(g, "iss", nil),
		"wrong aud":                logoutToken(g, "aud", "another"),
		"no aud":                   logoutToken(g, "aud", nil),
		"old iat":                  logoutToken(g, "iat", ago(time.Hour)),
		"iat in the future":        logoutToken(g, "iat", ago(-time.Hour), "exp", ago(-2*time.Hour)),
		"no iat":                   logoutToken(g, "iat", nil),
		"expired":                  logoutToken(g, "exp", ago(2*time.Minute)),
		"no exp":                   logoutToken(g, "exp", nil),
		"no jti":                   logoutToken(g, "jti", nil),
		"empty jti":                logoutToken(g, "jti", ""),
		"jti of a number":          logoutToken(g, "jti", 1),
		"no events":                logoutToken(g, "events", nil),
		"no such event":            logoutToken(g, "events", map[string]any{"http://schemas.openid.net/event/other": map[string]any{}}),
		"events of an array":       logoutToken(g, "events", []string{backChannelEvent}),
		"events of a string":       logoutToken(g, "events", backChannelEvent),
		"event of a string":        logoutToken(g, "events", event("x")),
		"event of null":            logoutToken(g, "events", event(json.RawMessage("null"))),
		"event of true":            logoutToken(g, "events", event(true)),
		"neither sub nor sid":      logoutToken(g, "sub", nil, "sid", nil),
		"empty sub and sid":        logoutToken(g, "sub", "", "sid", ""),
		"sid of a number":          logoutToken(g, "sid", 1),
		"sub of an array":          logoutToken(g, "sub", []string{g.sub}),
		"with a nonce":             logoutToken(g, "nonce", g.request.Get("nonce")),
		"with a nonce of null":     logoutToken(g, "nonce", json.RawMessage("null")),
		"an ID token":              g.issued(),
		"signed by another":        jws(jose.ES256, k.unpublished, joseHeader{"kid": "good", "typ": "logout+jwt"}, logoutPayload(g)),
		"signed by a twin":         jws(jose.ES256, k.twin, joseHeader{"kid": "twin", "typ": "logout+jwt"}, logoutPayload(g)),
		"unsigned":                 unsecured("none", logoutPayload(g)),
		"HS256 with the secret":    jws(jose.HS256, []byte(hostileSecret), joseHeader{"kid": "good"}, logoutPayload(g)),
		"HS256 with the key":       jws(jose.HS256, publicPEM(k), joseHeader{"kid": "good"}, logoutPayload(g)),
		"two members sid":          doubledMember("sid", "x")(k, logoutPayload(g)),
		"an access token":          g.access,
		"nonsense":                 "nonsense",
		"nothing":                  "",
		"too much for any good":    strings.Repeat("A", 60_000),
		"two tokens in one string": logoutToken(g) + " " + logoutToken(g),
	}
}

// TestHostileBackChannel: only a logout token that is right in all ways ends a
// session, and that at once.
func TestHostileBackChannel(t *testing.T) {
	t.Parallel()
	h, other := newHostile(t, "hostile"), newHostile(t, "other")
	s := startStage(t, "", h, other)
	t.Run("wrong token", func(t *testing.T) { wrongLogout(t, s, h) })
	t.Run("wrong place", func(t *testing.T) { misplacedLogout(t, s, h, other) })
	t.Run("session", func(t *testing.T) { logoutOfSession(t, s, h, other) })
	t.Run("person", func(t *testing.T) { logoutOfPerson(t, s, h, other) })
	t.Run("in the middle of a login", func(t *testing.T) { logoutDuringLogin(t, s, h) })
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

// tells sends a logout token, which must be answered so.
func (s *stage) tells(t *testing.T, h *hostile, token string, want int) {
	t.Helper()
	a := s.backChannel(t, h, url.Values{"logout_token": {token}})
	if a.status != want || a.header.Get("Cache-Control") != "no-store" || internals.MatchString(a.body) {
		t.Errorf("a logout token is answered %d, Cache-Control %q, expected %d: %s", a.status, a.header.Get("Cache-Control"), want, a.body)
	}
}

// wrongLogout: each defect alone is enough.
func wrongLogout(t *testing.T, s *stage, h *hostile) {
	g, session := s.granted(t, h)
	for name, token := range wrongLogoutTokens(g) {
		t.Run(name, func(t *testing.T) {
			h.note(token)
			s.tells(t, h, token, http.StatusBadRequest)
			s.lives(t, session)
		})
	}
}

// misplacedLogout: a good token counts in one place alone.
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
		"to nobody":           s.ask(t, s.stranger(), "POST", "/backchannel-logout/nobody"),
	} {
		if a.status < 400 {
			t.Errorf("%s: %d", name, a.status)
		}
	}
	s.lives(t, session)
	// This one is good, and speaks of sessions at another provider.
	s.tells(t, other, other.keys.signLogout(logoutPayload(g, "iss", other.issuer)), http.StatusOK)
	s.lives(t, session)
}

// logoutOfSession: what belongs to the session has ended by the time that the
// provider gets its answer, and nothing else has.
func logoutOfSession(t *testing.T, s *stage, h, other *hostile) {
	g, session := s.granted(t, h)
	_, another := s.granted(t, h)
	_, elsewhere := s.granted(t, other)
	token := logoutToken(g)
	s.tells(t, h, token, http.StatusOK)
	s.ended(t, session)
	s.lives(t, another) // of the same person, in another session at the provider
	s.lives(t, elsewhere)
	s.tells(t, h, token, http.StatusBadRequest)
	s.tells(t, h, logoutToken(g, "sub", "nobody", "sid", "nothing"), http.StatusOK)
	s.lives(t, another)
}

// logoutOfPerson: without a session's name all of the person's end, but none
// that begins later.
func logoutOfPerson(t *testing.T, s *stage, h, other *hostile) {
	g, first := s.granted(t, h)
	_, second := s.granted(t, h)
	_, elsewhere := s.granted(t, other)
	token := logoutToken(g, "sid", nil)
	s.tells(t, h, token, http.StatusOK)
	s.ended(t, first)
	s.ended(t, second)
	s.lives(t, elsewhere)
	_, again := s.granted(t, h)
	s.tells(t, h, token, http.StatusBadRequest)
	s.lives(t, again)
}

// logoutDuringLogin: who is on the way in while the provider signs them out
// does not get in.
func logoutDuringLogin(t *testing.T, s *stage, h *hostile) {
	c := s.visitor()
	login := s.begin(t, c, h)
	g := login.agree(lie{})
	s.tells(t, h, logoutToken(g), http.StatusOK)
	s.refused(t, c, h, login.back(c, g.response()), http.StatusUnauthorized)
}

// TestHostileFrontChannel: a frame ends the session that the provider names,
// and nothing else.
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
		"empty iss":   {url.Values{"iss": {""}, "sid": {g.sid}}, 400},
		"another iss": {url.Values{"iss": {other.issuer}, "sid": {g.sid}}, 400},
		"two iss":     {url.Values{"iss": {h.issuer, h.issuer}, "sid": {g.sid}}, 400},
		"no sid":      {url.Values{"iss": {h.issuer}}, 400},
		"empty sid":   {url.Values{"iss": {h.issuer}, "sid": {""}}, 400},
		"two sid":     {url.Values{"iss": {h.issuer}, "sid": {g.sid, "x"}}, 400},
		"nothing":     {nil, 400},
		"unknown sid": {url.Values{"iss": {h.issuer}, "sid": {"unknown"}}, 200},
		"sub for sid": {url.Values{"iss": {h.issuer}, "sid": {g.sub}}, 200},
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

	// Some send no iss, which the path tells as well.
	g, session = s.granted(t, h)
	if a := frame("GET", "hostile", url.Values{"sid": {g.sid}}); a.status != http.StatusOK {
		t.Errorf("without iss: %d", a.status)
	}
	s.ended(t, session)
	s.check(t)
}
