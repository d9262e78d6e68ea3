package e2e

import (
	"net/http"
	"strings"
	"testing"
)

// apiPage is a page of another origin, whose script asks an API behind the gateway with the
// user's cookie, and shows what it reads.
const apiPage = `<!DOCTYPE html><title>wait</title><script>
fetch("API", {method: "PUT", credentials: "include", headers: {"Content-Type": "application/json"}, body: '{"done": true}'})
	.then(answer => answer.text().then(text => document.title = answer.status + " " + text), () => document.title = "refused")
</script>`

// apiInBrowser: the scripts of an application at an origin that the route names use an API with
// the user's cookie. Those of other origins reach nothing.
func apiInBrowser(t *testing.T, c *chromium) {
	g, up := c.prepared(t), record(t)
	pages := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(strings.ReplaceAll(apiPage, "API", g.base+"/api/things/1"))) // the browser shows what is missing
	})
	far, near := c.otherSites(t, pages)
	g.configure(people + substituted(t, documentedApp(t, "api", up.url), "https://app.example.org", near))
	g.run()
	b := c.tab(t)
	asks := func(page, want string) {
		t.Helper()
		b.open(page)
		until(t, "the answer for "+page, func() bool { return b.value("document.title") != "wait" })
		if got := b.value("document.title"); got != want {
			t.Errorf("the script of %s gets %q, expected %q", page, got, want)
		}
	}
	asks(near, `401 {"title":"Unauthorized","status":401,"detail":"Not signed in."}`)
	up.none(t)
	b.open(g.base + "/api/")
	b.signIn("alice")
	up.wants(t, "GET", "/api/", "alice")
	asks(near, "200 ok")
	if m := up.wants(t, "PUT", "/api/things/1", "alice"); m.body != `{"done": true}` {
		t.Errorf("the API got %q", m.body)
	}
	asks(far, "refused")
	up.none(t)
}
