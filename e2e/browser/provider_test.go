package browser

import (
	"encoding/base64"
	"encoding/json"
	"html"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"authgate/e2e/world"
	"authgate/upstream/provider"
)

// shopfront is a gateway with the provider of the demonstration and a recorder.
type shopfront struct {
	*world.Instance
	up     *world.Recorder
	issuer string

	sid atomic.Value // of the last session at the provider
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
	s := &shopfront{Instance: c.prepared(t), up: world.Record(t)}
	world.StartDemoProvider(t, func(issuer string) (provider.Client, *http.Client) {
		s.issuer = issuer
		s.Configure(world.App(s.up.URL) + "providers:\n  - {name: demo, issuer: '" + s.issuer + "', client_id: " +
			"shop, client_secret: s3cret" + more + "}\n" + shopfrontRoutes)
		s.Run()
		return provider.Client{
			ID: "shop", Secret: "s3cret", RedirectURIs: []string{s.Base + "/callback"},
			PostLogoutRedirectURIs: []string{s.Base + "/"}, BackchannelLogoutURI: s.Base + "/backchannel-logout/demo",
		}, s.Stranger()
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
			s.sid.Store(sessionOfToken(answer.Body.Bytes()))
			maps.Copy(w.Header(), answer.Header())
			w.WriteHeader(answer.Code)
			_, _ = w.Write(answer.Body.Bytes()) // an error means that the gateway is gone
		case "/signed-out-everywhere":
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte(`<!DOCTYPE html><iframe onload="document.title = 'done'" src="` + html.EscapeString(s.Base+"/frontchannel-logout/demo?"+r.URL.RawQuery) + `"></iframe>`))
		default:
			p.ServeHTTP(w, r)
		}
	})
}

// sessionOfToken returns the session in an answer with an ID token, which it does not
// check, or nothing.
func sessionOfToken(answer []byte) string {
	var tokens struct {
		ID string `json:"id_token"`
	}
	var claims struct{ SID string }
	_ = json.Unmarshal(answer, &tokens) // the test notices that a session is missing
	if parts := strings.Split(tokens.ID, "."); len(parts) == 3 {
		payload, _ := base64.RawURLEncoding.DecodeString(parts[1])
		_ = json.Unmarshal(payload, &claims)
	}
	return claims.SID
}

// frontChannel returns the URL of the page that ends the last session.
func (s *shopfront) frontChannel() string {
	return s.issuer + "/signed-out-everywhere?" + url.Values{"iss": {s.issuer}, "sid": {s.sid.Load().(string)}}.Encode()
}

// signedIn returns the tab of a new person who has signed in at the provider.
func (s *shopfront) signedIn(t *testing.T, c *chromium, user string) *tab {
	t.Helper()
	b := c.tab(t)
	b.open(s.Base + "/secure-resource")
	b.atProvider(s)
	b.signIn(user)
	b.is(s.Base + "/secure-resource")
	wantAsked(t, s.up, "GET", "/secure-resource", user)
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
