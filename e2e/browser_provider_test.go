package e2e

import (
	"encoding/json"
	"html"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"authgate/upstream/provider"
)

// shopfront is a gateway with the provider of the demonstration and a recorder.
type shopfront struct {
	*instance
	up     *recorder
	issuer string

	mu   sync.Mutex
	sids map[string]string // by subject: the last session at the provider
}

// shopfrontRoutes are a page for people who signed in, and a public one.
const shopfrontRoutes = `
routes:
  - {match: '/{$}', upstream: app, auth: [none]}
  - {match: /secure-resource, upstream: app, auth: [oidc]}
`

// shopfront starts all three. more is added to the provider's entry in the
// configuration: ", key: value".
func (c *chromium) shopfront(t *testing.T, more string) *shopfront {
	t.Helper()
	s := &shopfront{instance: c.prepared(t), up: record(t), sids: map[string]string{}}
	startDemoProvider(t, func(issuer string) (provider.Client, *http.Client) {
		s.issuer = issuer
		s.configure(app(s.up.url) + "providers:\n  - {name: demo, issuer: '" + s.issuer + "', client_id: shop, client_secret: s3cret" + more + "}\n" + shopfrontRoutes)
		s.run()
		return provider.Client{
			ID: "shop", Secret: "s3cret", RedirectURIs: []string{s.base + "/callback"},
			PostLogoutRedirectURIs: []string{s.base + "/"}, BackchannelLogoutURI: s.base + "/backchannel-logout/demo",
		}, s.stranger()
	}, s.withFrontChannel)
	return s
}

// withFrontChannel adds a page to the provider that signs people out by a frame
// (OpenID Connect Front-Channel Logout 1.0, section 2).
func (s *shopfront) withFrontChannel(p *provider.Provider) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/token":
			answer := httptest.NewRecorder()
			p.ServeHTTP(answer, r)
			s.noteSession(answer.Body.Bytes())
			maps.Copy(w.Header(), answer.Header())
			w.WriteHeader(answer.Code)
			_, _ = w.Write(answer.Body.Bytes()) // an error means that the gateway is gone
		case "/signed-out-everywhere":
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte(`<!DOCTYPE html><iframe onload="document.title = 'done'" src="` + html.EscapeString(s.base+"/frontchannel-logout/demo?"+r.URL.RawQuery) + `"></iframe>`))
		default:
			p.ServeHTTP(w, r)
		}
	})
}

// noteSession records the session in an answer with an ID token.
func (s *shopfront) noteSession(answer []byte) {
	var tokens struct {
		ID string `json:"id_token"`
	}
	var claims struct {
		Sub string `json:"sub"`
		SID string `json:"sid"`
	}
	if err := json.Unmarshal(answer, &tokens); err != nil {
		return // a refusal, which the test notices
	}
	token, err := jwt.ParseSigned(tokens.ID, []jose.SignatureAlgorithm{jose.RS256})
	if err != nil || token.UnsafeClaimsWithoutVerification(&claims) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sids[claims.Sub] = claims.SID
}

// frontChannel returns the URL of the page that signs a person out.
func (s *shopfront) frontChannel(sub string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.issuer + "/signed-out-everywhere?" + url.Values{"iss": {s.issuer}, "sid": {s.sids[sub]}}.Encode()
}

// signedIn returns the tab of a new person who has signed in at the provider.
func (s *shopfront) signedIn(t *testing.T, c *chromium, user string) *tab {
	t.Helper()
	b := c.tab(t)
	b.open(s.base + "/secure-resource")
	b.atProvider(s)
	b.signIn(user)
	b.is(s.base + "/secure-resource")
	s.up.wants(t, "GET", "/secure-resource", user)
	return b
}

// atProvider fails the test unless the tab shows the provider's sign-in page.
func (b *tab) atProvider(s *shopfront) {
	b.t.Helper()
	if b.value("location.origin") != s.issuer {
		b.t.Fatalf("expected the provider %s: %s", s.issuer, b.describe())
	}
	b.shows("/signin", http.StatusOK, "User name", "shop")
}
