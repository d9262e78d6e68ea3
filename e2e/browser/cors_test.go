package browser

import (
	"net/http"
	"strings"
	"testing"

	"authgate/e2e/world"
)

// apiPage is a page of another origin, whose script asks an API behind the gateway with the
// user's cookie, and shows what it reads.
const apiPage = `<!DOCTYPE html><title>wait</title><script>
fetch("API", {
	method: "PUT", credentials: "include", headers: {"Content-Type": "application/json"}, body: '{"done": true}'
}).then(
	answer => answer.text().then(text => document.title = answer.status + " " + text),
	() => document.title = "refused")
</script>`

// apiInBrowser: the scripts of an application at an origin that the route names use an API with
// the user's cookie. Those of other origins reach nothing.
func apiInBrowser(t *testing.T, c *chromium) {
	g, up := c.prepared(t), world.Record(t)
	pages := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(strings.ReplaceAll(apiPage, "API",
			g.Base+"/api/things/1"))) // the browser shows what is missing
	})
	far, near := c.otherSites(t, pages)
	config := world.AtLocalhost(world.DocumentedApp(t, "single-page-applications.md", "api", up.URL))
	g.Configure(world.People + world.Substituted(t, config, "https://app.example.org", near))
	g.Run()
	b := c.tab(t)
	asks := func(page, want string) {
		t.Helper()
		b.open(page)
		world.Until(t, "the answer for "+page, func() bool { return b.value("document.title") != "wait" })
		if got := b.value("document.title"); got != want {
			t.Errorf("the script of %s gets %q, expected %q", page, got, want)
		}
	}
	asks(near, `401 {"title":"Unauthorized","status":401,"detail":"Not signed in."}`)
	up.None(t)
	b.open(g.Base + "/api/")
	b.signIn("alice")
	wantAsked(t, up, "GET", "/api/", "alice")
	asks(near, "200 ok")
	if m := wantAsked(t, up, "PUT", "/api/things/1", "alice"); m.Body != `{"done": true}` {
		t.Errorf("the API got %q", m.Body)
	}
	asks(far, "refused")
	up.None(t)
}
