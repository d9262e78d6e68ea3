package apps

import (
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os/exec"
	"strings"
	"testing"

	"authgate/e2e/world"
)

// startFlask starts the application of testdata/flask, and returns its address.
func startFlask(t *testing.T) string {
	t.Helper()
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(python, "-c", "import flask").Run() == nil {
			port := world.FreePort(t)
			world.Launch(t, "http://127.0.0.1:"+port+"/", exec.Command(python, "testdata/flask/app.py", port))
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
	up := world.StartTap(t, startFlask(t))
	g := world.Prepare(t)
	issuer := world.StartIssuer(t, nil, "", g)
	app := world.DocumentedApp(t, "flask-and-django.md", "flask", up.URL)
	g.Configure(world.People + world.AtLocalhost(app) + issuer.Entry(""))
	g.Run()
	c := g.Client()
	c.CheckRedirect = nil
	v := world.Surfer{Client: c, T: t}
	shows := func(when, user, flask string) {
		t.Helper()
		a, _ := v.Visit("GET", g.Base+"/", "", "Accept", world.TypeJSON)
		status, want := http.StatusOK, `{"flask":"`+flask+`","gate":"`+user+`"}`
		if user == "" {
			status, want = http.StatusUnauthorized, "Not signed in."
		}
		if a.Status != status || !strings.Contains(a.Body, want) {
			t.Fatalf("%s: %d %s, expected %d %s", when, a.Status, a.Body, status, want)
		}
	}
	post := func(path, body string) {
		t.Helper()
		a, _ := v.Visit("POST", g.Base+path, body, "Content-Type", "application/x-www-form-urlencoded", "Origin", g.Base,
			"Sec-Fetch-Site", "same-origin")
		world.WantStatus(t, path, a, http.StatusOK)
	}
	if a, at := v.SignIn(g.Base+g.Own("login")+"?provider=demo", "alice"); a.Status != http.StatusOK ||
		at.String() != g.Base+"/" {
		t.Fatalf("after the sign-in: %d at %s\n%s", a.Status, at, a.Body)
	}
	gate := cookieHeld(t, c, g.Base, "session")
	shows("signed in at the provider", "alice", "")
	post("/app/login", "name=alice-of-flask")
	shows("signed in at both", "alice", "alice-of-flask")
	if got := cookieHeld(t, c, g.Base, "session"); got != gate {
		t.Error("the login of Flask has changed the cookie of the gateway")
	}
	post("/app/logout", "")
	shows("signed out of Flask", "alice", "")
	post("/app/login", "name=again")
	post(g.Own("logout"), "")
	shows("signed out of the gateway", "", "")
	g.Do(c, "POST", g.Own("login"), `{"username":"bob","password":"builder"}`, "Content-Type", world.TypeJSON)
	shows("another user of the gateway in the same browser", "bob", "again")
	if up.Has(gate) {
		t.Error("Flask got the session of the gateway")
	}
}

// cookieHeld returns the value of a cookie that a client has for a page.
func cookieHeld(t *testing.T, c *http.Client, page, name string) string {
	t.Helper()
	for _, cookie := range c.Jar.(*cookiejar.Jar).Cookies(world.Must(url.Parse(page))(t)) {
		if cookie.Name == name {
			return cookie.Value
		}
	}
	t.Fatalf("the client has no cookie %s", name)
	return ""
}
