package browser

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"authgate/e2e/world"
)

// formPostInBrowser: an application at another site gets its code as a form, which the page of the
// gateway sends by itself. The browser says which origin it is from.
func formPostInBrowser(t *testing.T, c *chromium) {
	m := c.manyHosts(t)
	callback := m.at("mail.two.test", "/cb")
	m.Configure(world.People + fmt.Sprintf(`
upstreams: {app: {url: %q}}
routes:
  - {match: mail.two.test/cb, upstream: app, auth: [none]}
oauth:
  enabled: true
  clients:
    - {id: mail, name: Mail, redirect_uris: [%q]}
`, m.up.URL, callback))
	m.Run()
	b := c.tab(t)
	b.open(m.at("login.test", "/oauth/authorize?"+url.Values{
		"response_type": {"code"}, "client_id": {"mail"}, "redirect_uri": {callback}, "response_mode": {"form_post"},
		"state": {"s"}, "code_challenge": {"E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"}, "code_challenge_method": {"S256"},
	}.Encode()))
	b.signIn("alice")
	b.says("Mail")
	m.up.None(t)
	b.click(`button[value="allow"]`)
	b.arrives(callback)
	got := wantAsked(t, m.up, "POST", "/cb", "")
	form := world.Must(url.ParseQuery(got.Body))(t)
	if !strings.HasPrefix(form.Get("code"), "agc_") || form.Get("state") != "s" ||
		form.Get("iss") != m.at("login.test", "") || got.Value(t, "Origin") != m.at("login.test", "") {
		t.Errorf("the application gets %v with %q", form, got.Head)
	}
	noComplaints(t, b)
}
