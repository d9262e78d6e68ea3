package e2e

import (
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os/exec"
	"strings"
	"testing"

	"authgate/upstream/provider"
)

// startFlask starts the application of testdata/flask, and returns its address.
func startFlask(t *testing.T) string {
	t.Helper()
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(python, "-c", "import flask").Run() == nil {
			port := freePort(t)
			launch(t, "http://127.0.0.1:"+port+"/", exec.Command(python, "testdata/flask/app.py", port))
			return "127.0.0.1:" + port
		}
	}
	t.Fatal("Flask is not installed; make deps installs it (python3-flask)")
	return ""
}

// TestFlask: an application made with Flask has a login of its own in a cookie session, as the
// gateway has for users of a provider. Both logins hold side by side, and each ends alone.
func TestFlask(t *testing.T) {
	t.Parallel()
	up := tapped(t, startFlask(t))
	g := prepared(t)
	startDemoProvider(t, func(issuer string) (provider.Client, *http.Client) {
		g.configure(people + documentedApp(t, "flask", up.url) + "providers:\n  - {name: demo, issuer: '" + issuer + "', client_id: shop, client_secret: s3cret}\n")
		g.run()
		return provider.Client{ID: "shop", Secret: "s3cret", RedirectURIs: []string{g.base + "/callback"}, PostLogoutRedirectURIs: []string{g.base + "/"}}, g.stranger()
	}, nil)
	c := g.client()
	c.CheckRedirect = nil
	v := surfer{c, t}
	shows := func(when, user, flask string) {
		t.Helper()
		a, _ := v.visit("GET", g.base+"/", "", "Accept", typeJSON)
		status, want := http.StatusOK, `{"flask":"`+flask+`","gate":"`+user+`"}`
		if user == "" {
			status, want = http.StatusUnauthorized, "Not signed in."
		}
		if a.status != status || !strings.Contains(a.body, want) {
			t.Fatalf("%s: %d %s, expected %d %s", when, a.status, a.body, status, want)
		}
	}
	post := func(path, body string) {
		t.Helper()
		a, _ := v.visit("POST", g.base+path, body, "Content-Type", "application/x-www-form-urlencoded", "Origin", g.base, "Sec-Fetch-Site", "same-origin")
		wantStatus(t, path, a, http.StatusOK)
	}
	if a, at := v.signIn(g.base+"/login?provider=demo", "alice"); a.status != http.StatusOK || at.String() != g.base+"/" {
		t.Fatalf("after the sign-in: %d at %s\n%s", a.status, at, a.body)
	}
	gate := cookieHeld(t, c, g.base, "session")
	shows("signed in at the provider", "alice", "")
	post("/app/login", "name=alice-of-flask")
	shows("signed in at both", "alice", "alice-of-flask")
	if got := cookieHeld(t, c, g.base, "session"); got != gate {
		t.Error("the login of Flask has changed the cookie of the gateway")
	}
	post("/app/logout", "")
	shows("signed out of Flask", "alice", "")
	post("/app/login", "name=again")
	post("/logout", "")
	shows("signed out of the gateway", "", "")
	g.do(c, "POST", "/login", `{"username":"bob","password":"builder"}`, "Content-Type", typeJSON)
	shows("another user of the gateway in the same browser", "bob", "again")
	if up.has(gate) {
		t.Error("Flask got the session of the gateway")
	}
}

// cookieHeld returns the value of a cookie that a client has for a page.
func cookieHeld(t *testing.T, c *http.Client, page, name string) string {
	t.Helper()
	for _, cookie := range c.Jar.(*cookiejar.Jar).Cookies(must(url.Parse(page))(t)) {
		if cookie.Name == name {
			return cookie.Value
		}
	}
	t.Fatalf("the client has no cookie %s", name)
	return ""
}
