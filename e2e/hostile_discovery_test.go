package e2e

import (
	"crypto/rand"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// metadataPath is where discovery looks (OpenID Connect Discovery 1.0, section
// 4).
const metadataPath = "/.well-known/openid-configuration"

// faulty is something wrong with a provider itself, by its name, what that is
// answered with, and what the log must say.
type faulty struct {
	name   string
	spoil  func(*hostile)
	status int
	why    string
}

// announcesWith is a provider that announces something that is not acceptable.
func announcesWith(name, member string, value any, why string) faulty {
	return faulty{name, func(h *hostile) { h.announce(member, value) }, 502, why}
}

// answersWith is a provider that answers on a path as it should not.
func answersWith(name, path string, status int, why string, answer http.HandlerFunc) faulty {
	return faulty{name, func(h *hostile) { h.answers(path, answer) }, status, why}
}

// stallsOn is a provider that lets the gateway wait on a path.
func stallsOn(name, path string) faulty {
	return faulty{name, func(h *hostile) {
		h.timeout = "1s"
		h.answers(path, func(_ http.ResponseWriter, r *http.Request) { stallForLong(r) })
	}, 504, "in time|deadline|timeout"}
}

// stallForLong takes longer than clients wait, unless the gateway leaves before.
func stallForLong(r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-time.After(2 * patience):
	}
}

// dripForLong sends a byte now and then for a minute, so that there is always
// news.
func dripForLong(w http.ResponseWriter, r *http.Request) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for range 600 {
		_, _ = w.Write([]byte(" "))
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
		}
	}
}

// plainAnswer is sayPlain as a handler.
func plainAnswer(status int, mediaType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { sayPlain(w, status, mediaType, body) }
}

// faultyDiscovery are providers that nobody is ever sent to.
func faultyDiscovery(elsewhere string) []faulty {
	remote := "http://id.example.org"
	return []faulty{
		announcesWith("another-issuer", "issuer", "https://evil.example", "issuer"),
		announcesWith("no-issuer", "issuer", nil, "issuer"),
		{"issuer-with-a-slash", func(h *hostile) { h.announce("issuer", h.issuer+"/") }, 502, "issuer"},
		announcesWith("http-authorization", "authorization_endpoint", remote, "authorization_endpoint.*https"),
		announcesWith("http-token", "token_endpoint", remote, "token_endpoint.*https"),
		announcesWith("http-userinfo", "userinfo_endpoint", remote, "userinfo_endpoint.*https"),
		announcesWith("http-keys", "jwks_uri", remote, "jwks_uri.*https"),
		announcesWith("http-logout", "end_session_endpoint", remote, "end_session_endpoint.*https"),
		announcesWith("http-revocation", "revocation_endpoint", remote, "revocation_endpoint.*https"),
		announcesWith("http-like-loopback", "token_endpoint", "http://127.0.0.1.example.org/token", "token_endpoint.*https"),
		announcesWith("http-like-localhost", "token_endpoint", "http://localhost@id.example.org/token", "token_endpoint"),
		announcesWith("script", "authorization_endpoint", "javascript:alert(1)//", "authorization_endpoint"),
		announcesWith("data", "end_session_endpoint", "data:text/html,x", "end_session_endpoint"),
		announcesWith("no-token", "token_endpoint", nil, "token_endpoint"),
		announcesWith("no-keys", "jwks_uri", nil, "jwks_uri"),
		announcesWith("large", "padding", strings.Repeat("a", 2<<20), "1048576|long|large|size"),
		answersWith("endless", metadataPath, 502, "1048576|long|large|size", func(w http.ResponseWriter, r *http.Request) { sendEndless(w, r, nil) }),
		answersWith("redirecting", metadataPath, 502, "redirect", redirectAway(elsewhere)),
		answersWith("failing", metadataPath, 502, "500", plainAnswer(500, "text/html", "<h1>Server Error</h1>")),
		answersWith("page", metadataPath, 502, "", plainAnswer(200, "text/html", "<h1>Welcome</h1>")),
		{"two-members", func(h *hostile) {
			h.answers(metadataPath, plainAnswer(200, "application/json", `{"issuer":"`+h.issuer+`","authorization_endpoint":"`+elsewhere+`","authorization_endpoint":"`+h.issuer+
				`/authorize","token_endpoint":"`+h.issuer+`/token","jwks_uri":"`+h.issuer+`/jwks"}`))
		}, 502, "authorization_endpoint|twice|double|duplicate"},
		stallsOn("stalling", metadataPath),
	}
}

// faultyKeys are providers whose ID tokens are not verified.
func faultyKeys(elsewhere string) []faulty {
	keys := func(name, why string, make func(*hostile) any) faulty {
		return faulty{name, func(h *hostile) {
			h.answers("/jwks", func(w http.ResponseWriter, _ *http.Request) { replyJSON(w, make(h)) })
		}, 502, why}
	}
	return []faulty{
		answersWith("keys-redirecting", "/jwks", 502, "redirect", redirectAway(elsewhere)),
		answersWith("keys-failing", "/jwks", 502, "500", plainAnswer(500, "text/html", "<h1>Server Error</h1>")),
		answersWith("keys-page", "/jwks", 502, "", plainAnswer(200, "text/html", "<h1>Welcome</h1>")),
		answersWith("keys-endless", "/jwks", 502, "1048576|long|large|size", func(w http.ResponseWriter, r *http.Request) { sendEndless(w, r, nil) }),
		answersWith("keys-missing", "/jwks", 502, "keys", plainAnswer(200, "application/json", "{}")),
		answersWith("keys-null", "/jwks", 502, "keys", plainAnswer(200, "application/json", `{"keys":null}`)),
		answersWith("keys-none", "/jwks", 502, "good", plainAnswer(200, "application/json", `{"keys":[]}`)),
		keys("keys-private", "good|private|public", func(h *hostile) any {
			return jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{KeyID: "good", Key: h.keys.good}}}
		}),
		keys("keys-of-another-algorithm", "good.*ES256|alg", func(h *hostile) any {
			return jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{KeyID: "good", Key: h.keys.good.Public(), Algorithm: "ES384"}}}
		}),
		keys("keys-twice", "good", func(h *hostile) any {
			return jose.JSONWebKeySet{Keys: []jose.JSONWebKey{h.keys.public(), h.keys.public()}}
		}),
		stallsOn("keys-stalling", "/jwks"),
		stallsOn("token-stalling", "/token"),
		stallsOn("userinfo-stalling", "/userinfo"),
		{"token-dripping", func(h *hostile) {
			h.timeout = "1s"
			h.answers("/token", dripForLong)
		}, 504, "in time|deadline|timeout"},
	}
}

// TestHostileDiscovery: providers that are faulty as a whole cost their own
// logins a clear page, soon, and nobody else's anything.
func TestHostileDiscovery(t *testing.T) {
	t.Parallel()
	elsewhere := forbiddenPlace(t)
	providers := map[string]*hostile{"honest": newHostile(t, "honest"), "flooded": newHostile(t, "flooded")}
	discovery, keys := faultyDiscovery(elsewhere), faultyKeys(elsewhere)
	for _, f := range append(discovery, keys...) {
		h := newHostile(t, f.name)
		f.spoil(h)
		providers[f.name] = h
	}
	all := make([]*hostile, 0, len(providers))
	for _, h := range providers {
		all = append(all, h)
	}
	s := startStage(t, "", all...)
	t.Run("discovery", func(t *testing.T) {
		for _, f := range discovery {
			t.Run(f.name, func(t *testing.T) {
				t.Parallel()
				c, id, h := s.visitor(), newRequestID(), providers[f.name]
				a := s.inTime(t, f, func() answer {
					return s.ask(t, c, "GET", "/login?provider="+f.name, "Accept", "text/html", "X-Request-Id", id)
				})
				s.refused(t, c, h, a, f.status)
				s.explain(t, id, f.why)
			})
		}
	})
	t.Run("keys", func(t *testing.T) {
		for _, f := range keys {
			t.Run(f.name, func(t *testing.T) {
				t.Parallel()
				c, id, h := s.visitor(), newRequestID(), providers[f.name]
				login := s.begin(t, c, h)
				g := login.agree(lie{})
				a := s.inTime(t, f, func() answer {
					return login.back(c, g.response(), "Accept", "text/html", "X-Request-Id", id)
				})
				s.refused(t, c, h, a, f.status)
				s.explain(t, id, f.why)
			})
		}
	})
	t.Run("flood of unknown keys", func(t *testing.T) { s.flooded(t, providers["flooded"]) })
	t.Run("honest", func(t *testing.T) { s.enters(t, s.visitor(), providers["honest"], lie{}) })
	s.check(t)
}

// inTime fails the test unless the gateway waits for a second where that is the
// provider's timeout. That it waits no longer shows in the answer, as the
// provider gives none before the client has gone.
func (s *stage) inTime(t *testing.T, f faulty, ask func() answer) answer {
	t.Helper()
	began := time.Now()
	a := ask()
	if took := time.Since(began); f.status == 504 && (took < 900*time.Millisecond) {
		t.Errorf("the answer took %s", took)
	}
	return a
}

// flooded: whoever makes up keys does not make the gateway fetch them again and
// again, nor keep others out.
func (s *stage) flooded(t *testing.T, h *hostile) {
	const people = 30
	s.enters(t, s.visitor(), h, lie{})
	unknown := idToken(func(k *hostileKeys, payload []byte) string {
		return jws(jose.ES256, k.unpublished, joseHeader{"kid": rand.Text()}, payload)
	})
	began := time.Now()
	many(people, func(int) {
		c := s.visitor()
		a, err := s.try(c, "GET", "/login?provider=flooded", "")
		if err != nil {
			t.Error(err)
			return
		}
		back := h.grant(queryOf(a.header.Get("Location")), "flood", unknown).response()
		if a, err = s.try(c, "GET", "/callback?"+back.Encode(), ""); err != nil || a.status != 502 {
			t.Errorf("with an unknown key: %d, %v", a.status, err)
		}
	})
	allowed := 3 + int(time.Since(began)/(10*time.Second)) // at once, and then one each 10 s
	if got := len(h.calls("/jwks")); got > allowed+1 {
		t.Errorf("the keys were fetched %d times for %d people in %s", got, people, time.Since(began))
	}
	s.enters(t, s.visitor(), h, lie{})
}
