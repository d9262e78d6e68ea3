package browser

import (
	"encoding/json"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"authgate/e2e/world"
)

// shopfront is a gateway with another gateway as its provider, which has a site of its own, and a
// recorder.
type shopfront struct {
	*world.Instance
	up     *world.Recorder
	issuer *world.Issuer
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
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		frame := s.Base + "/frontchannel-logout/demo?" + r.URL.RawQuery
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(`<!DOCTYPE html><iframe onload="document.title = 'done'" src="` + html.EscapeString(frame) +
			`"></iframe>`))
	}))
	t.Cleanup(site.Close)
	s.issuer = world.StartIssuer(t, c.key, world.App(site.URL)+
		"routes: [{match: /signed-out-everywhere, upstream: app, auth: [none]}]\n", s.Instance)
	s.Configure(world.App(s.up.URL) + s.issuer.Entry(more) + shopfrontRoutes)
	s.Run()
	return s
}

// frontChannel returns the URL of a page of the provider that signs a person out of the gateway
// by a frame (OpenID Connect Front-Channel Logout 1.0, section 2).
func (s *shopfront) frontChannel(t *testing.T, person *tab) string {
	t.Helper()
	var logins struct{ Sessions []struct{ ID string } }
	a := s.issuer.Do(s.issuer.Stranger(), "GET", "/account/sessions", "",
		"Cookie", "session_id="+person.cookies()["session_id"].Value)
	if err := json.Unmarshal([]byte(a.Body), &logins); err != nil || len(logins.Sessions) == 0 {
		t.Fatalf("the logins at the provider: %d %s", a.Status, a.Body)
	}
	return s.issuer.Base + "/signed-out-everywhere?" +
		url.Values{"iss": {s.issuer.Base}, "sid": {logins.Sessions[0].ID}}.Encode()
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
	if b.value("location.origin") != s.issuer.Base {
		b.t.Fatalf("expected the provider %s: %s", s.issuer.Base, b.describe())
	}
	b.shows("/signin", http.StatusOK, "User name")
}
