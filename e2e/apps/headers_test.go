package apps

import (
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"authgate/e2e/world"
)

// These tests run the configurations of the pages for Grafana and Gitea with an application
// that reads the same headers.

// headerReader is an application that takes the user from a header, as Grafana and
// Gitea do. It answers with the user, and asks for one as Gitea asks git.
type headerReader struct {
	*httptest.Server
	mu  sync.Mutex
	got []http.Header
}

func readHeader(t *testing.T, name string) *headerReader {
	t.Helper()
	a := &headerReader{}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		a.got = append(a.got, r.Header)
		a.mu.Unlock()
		if r.Header.Get(name) == "" {
			w.Header().Set("WWW-Authenticate", `Basic realm="Gitea"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprintf(w, "You are %s.", r.Header.Get(name))
	}))
	t.Cleanup(a.Close)
	return a
}

// take returns the headers of the requests since the last call.
func (a *headerReader) take() []http.Header {
	a.mu.Lock()
	defer a.mu.Unlock()
	got := a.got
	a.got = nil
	return got
}

// wantIdentity fails the test unless one request came, with these headers of a user, and
// without a credential.
func (a *headerReader) wantIdentity(t *testing.T, what string, want map[string]string) {
	t.Helper()
	requests := a.take()
	if len(requests) != 1 {
		t.Errorf("%s: %d requests reached the application, expected one", what, len(requests))
		return
	}
	got := map[string]string{}
	for name, values := range requests[0] {
		switch {
		case strings.HasPrefix(name, "X-Webauth-"), slices.Contains([]string{"X-Auth-User", "Authorization", "Cookie"}, name):
			got[name] = strings.Join(values, "|")
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("%s: the application got %q, expected %q", what, got, want)
	}
}

// behindHost starts the gateway of a page in front of an application, and returns it, the
// URL of a host, and a browser.
func behindHost(t *testing.T, page, upstream, host, app string) (*world.Instance, string, world.Surfer) {
	t.Helper()
	g := world.Prepare(t)
	port := g.Base[strings.LastIndexByte(g.Base, ':'):]
	g.Public = "https://login.example.org" + port
	g.Configure(world.People + "policies: {staff: {roles: [user]}}\n" + world.DocumentedApp(t, page, upstream, app))
	g.Run()
	return g, "https://" + host + port, world.Surf(t, "127.0.0.1", world.Authority(g.Base), g.TLS().RootCAs)
}

// spoofedWebAuth is headers by which a client claims to be another user.
var spoofedWebAuth = []string{"X-WEBAUTH-USER", "root", "x_webauth_user", "root", "X-Webauth-Role", "Admin",
	"X-Auth-User", "root"}

// TestGrafanaHeader: Grafana gets the user of the login or of an API token, whatever headers
// the client sends.
func TestGrafanaHeader(t *testing.T) {
	t.Parallel()
	app := readHeader(t, "X-WEBAUTH-USER")
	g, base, v := behindHost(t, "grafana.md", "grafana", "grafana.example.org", app.URL)
	alice := map[string]string{"X-Webauth-User": "alice", "X-Webauth-Name": "Alice Example",
		"X-Webauth-Email": "alice@example.org"}
	if a, _ := v.Visit("GET", base+"/api/user", "", spoofedWebAuth...); a.Status != http.StatusUnauthorized ||
		len(app.take()) > 0 {
		t.Errorf("without a login: %d %s", a.Status, a.Body)
	}
	if a, at := v.SignIn(base+"/d/board", "alice"); a.Status != http.StatusOK || a.Body != "You are alice." ||
		at.String() != base+"/d/board" {
		t.Fatalf("signed in: %d %q at %s", a.Status, a.Body, at)
	}
	app.wantIdentity(t, "a page", alice)
	v.Visit("GET", base+"/api/user", "", spoofedWebAuth...)
	app.wantIdentity(t, "a spoofed request", alice)
	if a, _ := v.Visit("GET", base+"/api/health", "",
		append(spoofedWebAuth, "Authorization", "Basic cm9vdDpyb290")...); a.Status != http.StatusUnauthorized {
		t.Errorf("the public path takes the user from the client: %d %s", a.Status, a.Body)
	}
	app.wantIdentity(t, "the public path", map[string]string{"Authorization": "Basic cm9vdDpyb290"})
	// A token of the gateway works, one of Grafana does not.
	token := tokenAt(t, g, v)
	program := world.Surf(t, "127.0.0.1", world.Authority(g.Base), g.TLS().RootCAs)
	if a, _ := program.Visit("GET", base+"/api/user", "", "Authorization", "Bearer "+token); a.Body != "You are alice." {
		t.Errorf("with an API token: %d %s", a.Status, a.Body)
	}
	app.wantIdentity(t, "an API token", alice)
	if a, _ := program.Visit("GET", base+"/api/user", "", "Authorization",
		"Bearer glsa_0123456789abcdef"); a.Status != http.StatusUnauthorized || len(app.take()) > 0 {
		t.Errorf("with a token of Grafana: %d %s", a.Status, a.Body)
	}
	// Grafana's link to sign out ends the login here.
	v.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if a, _ := v.Visit("GET", base+g.Own("logout"), "", "Sec-Fetch-Site", "same-origin", "Accept",
		world.AcceptsPage); a.Status != http.StatusFound || len(app.take()) > 0 {
		t.Errorf("signing out: %d %s", a.Status, a.Body)
	}
	if a, _ := v.Visit("GET", base+"/api/user", ""); a.Status != http.StatusUnauthorized || len(app.take()) > 0 {
		t.Errorf("after signing out: %d %s", a.Status, a.Body)
	}
}

// tokenAt returns an API token of the user who is signed in.
func tokenAt(t *testing.T, g *world.Instance, v world.Surfer) string {
	t.Helper()
	a, _ := v.Visit("POST", g.Public+g.Own("account/tokens"), `{"name":"a program","expires_in":3600}`,
		"Content-Type", world.TypeJSON, "Origin", g.Public, "Sec-Fetch-Site", "same-origin")
	token := regexp.MustCompile(`"token":"(agt_[^"]*)"`).FindStringSubmatch(a.Body)
	if token == nil {
		t.Fatalf("the API token: %d %s", a.Status, a.Body)
	}
	return token[1]
}

// TestGiteaHeader: Gitea gets the user in the browser, and of git that sends an API token as
// the password.
func TestGiteaHeader(t *testing.T) {
	t.Parallel()
	app := readHeader(t, "X-WEBAUTH-USER")
	g, base, v := behindHost(t, "gitea.md", "gitea", "git.example.org", app.URL)
	alice := map[string]string{"X-Webauth-User": "alice", "X-Webauth-Email": "alice@example.org",
		"X-Webauth-Fullname": "Alice Example"}
	refs := base + "/alice/project.git/info/refs?service=git-upload-pack"
	a, _ := v.Visit("GET", refs, "", "User-Agent", "git/2.39.5", "X-WEBAUTH-USER", "root")
	if challenges := a.Header.Values("WWW-Authenticate"); a.Status != http.StatusUnauthorized ||
		!slices.ContainsFunc(challenges, func(c string) bool { return strings.HasPrefix(c, "Basic ") }) ||
		len(app.take()) > 0 {
		t.Errorf("git without a password: %d %q %s", a.Status, challenges, a.Body)
	}
	if a, at := v.SignIn(base+"/alice/project", "alice"); a.Body != "You are alice." ||
		at.String() != base+"/alice/project" {
		t.Fatalf("signed in: %d %q at %s", a.Status, a.Body, at)
	}
	app.wantIdentity(t, "a page", alice)
	v.Visit("GET", base+"/alice/project", "", spoofedWebAuth...)
	app.wantIdentity(t, "a spoofed request", alice)
	// Users may be called like endpoints of the gateway.
	v.Visit("GET", base+"/login", "")
	app.wantIdentity(t, "a user with the name login", alice)
	git := world.Surf(t, "127.0.0.1", world.Authority(g.Base), g.TLS().RootCAs)
	for password, want := range map[string]int{tokenAt(t, g, v): http.StatusOK, "wonderland": http.StatusUnauthorized,
		"agt_wrong": http.StatusUnauthorized} {
		basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("alice:"+password))
		a, _ := git.Visit("POST", base+"/alice/project.git/git-receive-pack", "0000", "Authorization", basic,
			"X-WEBAUTH-USER", "root")
		if a.Status != want {
			t.Errorf("git with the password %.4s…: %d %s", password, a.Status, a.Body)
		}
		if want == http.StatusOK {
			app.wantIdentity(t, "git", alice)
		} else if got := app.take(); len(got) > 0 {
			t.Errorf("git with the password %.4s… reached the application: %v", password, got)
		}
	}
	a, _ = v.Visit("POST", base+"/.authgate/logout", "", "Origin", base, "Sec-Fetch-Site", "same-origin")
	world.WantStatus(t, "signing out", a, http.StatusOK)
	if a, _ := v.Visit("GET", base+"/alice/project", ""); a.Status != http.StatusUnauthorized || len(app.take()) > 0 {
		t.Errorf("after signing out: %d %s", a.Status, a.Body)
	}
}
