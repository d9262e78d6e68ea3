package e2e

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// metadataPath is where discovery looks (OpenID Connect Discovery 1.0, section
// 4).
const metadataPath = "/.well-known/openid-configuration"

// faulty is a provider with a fault, the status that a login there gets, and
// what the log says.
type faulty struct {
	name   string
	spoil  func(*hostile)
	status int
	why    string // a regular expression, without case
}

// announcesWith is a provider that announces something that is not acceptable.
func announcesWith(name, member string, value any, why string) faulty {
	return faulty{name, func(h *hostile) { h.announce(member, value) }, 502, why}
}

// answersWith is a provider with a wrong answer on a path.
func answersWith(name, path, why string, answer http.HandlerFunc) faulty {
	return faulty{name, func(h *hostile) { h.answers(path, answer) }, 502, why}
}

// waitsOn is a provider that has no answer in time on a path.
func waitsOn(name, path string, answer http.HandlerFunc) faulty {
	return faulty{name, func(h *hostile) {
		h.timeout = "1s"
		h.answers(path, answer)
	}, 504, "in time|deadline|timeout"}
}

// stallForLong takes longer than clients wait, unless the gateway leaves before.
func stallForLong(_ http.ResponseWriter, r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-time.After(2 * patience):
	}
}

// dripForLong sends a byte now and then for a minute, so that the connection is
// never idle.
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

func endlessAnswer(w http.ResponseWriter, r *http.Request) { sendEndless(w, r, new(atomic.Int64)) }

// faultyDiscovery are providers to which the gateway redirects no browser. The
// tests of gateway/provider have all other faults.
func faultyDiscovery(elsewhere string) []faulty {
	return []faulty{
		announcesWith("another-issuer", "issuer", "https://evil.example", "issuer"),
		announcesWith("http-token", "token_endpoint", "http://id.example.org", "token_endpoint.*https"),
		announcesWith("http-like-localhost", "token_endpoint", "http://localhost@id.example.org/token", "token_endpoint"),
		announcesWith("script", "authorization_endpoint", "javascript:alert(1)//", "authorization_endpoint"),
		announcesWith("data", "end_session_endpoint", "data:text/html,x", "end_session_endpoint"),
		announcesWith("large", "padding", strings.Repeat("a", 2<<20), "1048576|long|large|size"),
		answersWith("endless", metadataPath, "1048576|long|large|size", endlessAnswer),
		answersWith("redirecting", metadataPath, "redirect", redirectAway(elsewhere)),
		answersWith("failing", metadataPath, "500", plainAnswer(500, "text/html", "<h1>Server Error</h1>")),
		answersWith("page", metadataPath, "", plainAnswer(200, "text/html", "<h1>Welcome</h1>")),
		waitsOn("stalling", metadataPath, stallForLong),
	}
}

// faultyKeys are providers whose ID tokens cannot be verified, or that do not
// answer in time after the browser came back.
func faultyKeys(elsewhere string) []faulty {
	return []faulty{
		answersWith("keys-redirecting", "/jwks", "redirect", redirectAway(elsewhere)),
		answersWith("keys-failing", "/jwks", "500", plainAnswer(500, "text/html", "<h1>Server Error</h1>")),
		answersWith("keys-endless", "/jwks", "1048576|long|large|size", endlessAnswer),
		{"keys-private", func(h *hostile) {
			h.answers("/jwks", func(w http.ResponseWriter, _ *http.Request) {
				replyJSON(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{KeyID: "good", Key: h.keys.good}}})
			})
		}, 502, "good|private|public"},
		waitsOn("keys-stalling", "/jwks", stallForLong),
		waitsOn("token-stalling", "/token", stallForLong),
		waitsOn("token-dripping", "/token", dripForLong),
		waitsOn("userinfo-stalling", "/userinfo", stallForLong),
	}
}

// TestHostileDiscovery: a faulty provider fails its own logins with a clear
// page, and soon. Logins at other providers succeed.
func TestHostileDiscovery(t *testing.T) {
	t.Parallel()
	elsewhere := forbiddenPlace(t)
	honest := newHostile(t, "honest")
	all := []*hostile{honest}
	groups := map[string][]faulty{"discovery": faultyDiscovery(elsewhere), "keys": faultyKeys(elsewhere)}
	providers := map[string]*hostile{}
	for _, faults := range groups {
		for _, f := range faults {
			h := newHostile(t, f.name)
			f.spoil(h)
			providers[f.name], all = h, append(all, h)
		}
	}
	s := startStage(t, "", all...)
	for group, faults := range groups {
		t.Run(group, func(t *testing.T) {
			for _, f := range faults {
				t.Run(f.name, func(t *testing.T) {
					t.Parallel()
					c, id, h := s.visitor(), newRequestID(), providers[f.name]
					target := "/login?provider=" + f.name
					if group == "keys" {
						target = "/callback?" + s.begin(t, c, h).agree(lie{}).response().Encode()
					}
					began := time.Now()
					a := s.ask(t, c, "GET", target, "Accept", "text/html", "X-Request-Id", id)
					// The provider answers only after the client has given up, so that the
					// status shows that the gateway did not wait for longer.
					if took := time.Since(began); f.status == 504 && took < 900*time.Millisecond {
						t.Errorf("the gateway waited %s, expected a second", took)
					}
					s.refused(t, c, h, a, f.status)
					s.explain(t, id, f.why)
				})
			}
		})
	}
	t.Run("honest", func(t *testing.T) { s.enters(t, s.visitor(), honest, lie{}) })
	s.check(t)
}
