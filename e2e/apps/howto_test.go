package apps

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"authgate/e2e/world"

	"github.com/coder/websocket"
)

// The pages in docs/how-to have whole configurations. These tests run them, with
// other addresses, and with the applications that the pages are about or with one that
// reads the same headers.

// howToFile returns a file that a page of docs/how-to shows. Its accounts have the
// password wonderland.
func howToFile(t *testing.T, page, name string) string {
	t.Helper()
	return strings.ReplaceAll(world.DocumentedFile(t, "docs/how-to/"+page, name), "$2y$10$…", world.WonderlandHash)
}

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

// behindHost starts the gateway of a page in front of an application at 127.0.0.1:3000,
// and returns it, the URL of a host, and a browser.
func behindHost(t *testing.T, page, host, app string) (*world.Instance, string, surfer) {
	t.Helper()
	g := world.Prepare(t)
	port := g.Base[strings.LastIndexByte(g.Base, ':'):]
	g.Public = "https://login.example.org" + port
	g.Configure(world.WithoutAddresses(world.Substituted(t, howToFile(t, page, "gateway.yaml"), "http://127.0.0.1:3000",
		app)))
	g.Run()
	return g, "https://" + host + port, newSurfer(t, "127.0.0.1", world.Authority(g.Base), g.TLS().RootCAs)
}

// spoofedWebAuth is headers by which a client claims to be another user.
var spoofedWebAuth = []string{"X-WEBAUTH-USER", "root", "x_webauth_user", "root", "X-Webauth-Role", "Admin",
	"X-Auth-User", "root"}

func TestHowToGrafana(t *testing.T) {
	t.Parallel()
	app := readHeader(t, "X-WEBAUTH-USER")
	g, base, v := behindHost(t, "grafana.md", "grafana.example.org", app.URL)
	alice := map[string]string{"X-Webauth-User": "alice", "X-Webauth-Name": "Alice Example",
		"X-Webauth-Email": "alice@example.org"}
	if a, _ := v.visit("GET", base+"/api/user", "", spoofedWebAuth...); a.Status != http.StatusUnauthorized ||
		len(app.take()) > 0 {
		t.Errorf("without a login: %d %s", a.Status, a.Body)
	}
	if a, at := v.signIn(base+"/d/board", "alice"); a.Status != http.StatusOK || a.Body != "You are alice." ||
		at.String() != base+"/d/board" {
		t.Fatalf("signed in: %d %q at %s", a.Status, a.Body, at)
	}
	app.wantIdentity(t, "a page", alice)
	v.visit("GET", base+"/api/user", "", spoofedWebAuth...)
	app.wantIdentity(t, "a spoofed request", alice)
	if a, _ := v.visit("GET", base+"/api/health", "",
		append(spoofedWebAuth, "Authorization", "Basic cm9vdDpyb290")...); a.Status != http.StatusUnauthorized {
		t.Errorf("the public path takes the user from the client: %d %s", a.Status, a.Body)
	}
	app.wantIdentity(t, "the public path", map[string]string{"Authorization": "Basic cm9vdDpyb290"})
	// A token of the gateway works, one of Grafana does not.
	token := tokenAt(t, g, v)
	program := newSurfer(t, "127.0.0.1", world.Authority(g.Base), g.TLS().RootCAs)
	if a, _ := program.visit("GET", base+"/api/user", "", "Authorization", "Bearer "+token); a.Body != "You are alice." {
		t.Errorf("with an API token: %d %s", a.Status, a.Body)
	}
	app.wantIdentity(t, "an API token", alice)
	if a, _ := program.visit("GET", base+"/api/user", "", "Authorization",
		"Bearer glsa_0123456789abcdef"); a.Status != http.StatusUnauthorized || len(app.take()) > 0 {
		t.Errorf("with a token of Grafana: %d %s", a.Status, a.Body)
	}
	// Grafana's link to sign out ends the login here.
	v.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if a, _ := v.visit("GET", base+g.Own("logout"), "", "Sec-Fetch-Site", "same-origin", "Accept",
		world.AcceptsPage); a.Status != http.StatusFound || len(app.take()) > 0 {
		t.Errorf("signing out: %d %s", a.Status, a.Body)
	}
	if a, _ := v.visit("GET", base+"/api/user", ""); a.Status != http.StatusUnauthorized || len(app.take()) > 0 {
		t.Errorf("after signing out: %d %s", a.Status, a.Body)
	}
}

// tokenAt returns an API token of the user who is signed in.
func tokenAt(t *testing.T, g *world.Instance, v surfer) string {
	t.Helper()
	a, _ := v.visit("POST", g.Public+g.Own("account/tokens"), `{"name":"a program","expires_in":3600}`,
		"Content-Type", world.TypeJSON, "Origin", g.Public, "Sec-Fetch-Site", "same-origin")
	token := regexp.MustCompile(`"token":"(agt_[^"]*)"`).FindStringSubmatch(a.Body)
	if token == nil {
		t.Fatalf("the API token: %d %s", a.Status, a.Body)
	}
	return token[1]
}

func TestHowToGitea(t *testing.T) {
	t.Parallel()
	app := readHeader(t, "X-WEBAUTH-USER")
	g, base, v := behindHost(t, "gitea.md", "git.example.org", app.URL)
	alice := map[string]string{"X-Webauth-User": "alice", "X-Webauth-Email": "alice@example.org",
		"X-Webauth-Fullname": "Alice Example"}
	refs := base + "/alice/project.git/info/refs?service=git-upload-pack"
	a, _ := v.visit("GET", refs, "", "User-Agent", "git/2.39.5", "X-WEBAUTH-USER", "root")
	if challenges := a.Header.Values("WWW-Authenticate"); a.Status != http.StatusUnauthorized ||
		!slices.ContainsFunc(challenges, func(c string) bool { return strings.HasPrefix(c, "Basic ") }) ||
		len(app.take()) > 0 {
		t.Errorf("git without a password: %d %q %s", a.Status, challenges, a.Body)
	}
	if a, at := v.signIn(base+"/alice/project", "alice"); a.Body != "You are alice." ||
		at.String() != base+"/alice/project" {
		t.Fatalf("signed in: %d %q at %s", a.Status, a.Body, at)
	}
	app.wantIdentity(t, "a page", alice)
	v.visit("GET", base+"/alice/project", "", spoofedWebAuth...)
	app.wantIdentity(t, "a spoofed request", alice)
	// Users may be called like endpoints of the gateway.
	v.visit("GET", base+"/login", "")
	app.wantIdentity(t, "a user with the name login", alice)
	git := newSurfer(t, "127.0.0.1", world.Authority(g.Base), g.TLS().RootCAs)
	for password, want := range map[string]int{tokenAt(t, g, v): http.StatusOK, "wonderland": http.StatusUnauthorized,
		"agt_wrong": http.StatusUnauthorized} {
		basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("alice:"+password))
		a, _ := git.visit("POST", base+"/alice/project.git/git-receive-pack", "0000", "Authorization", basic,
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
	a, _ = v.visit("POST", base+"/.authgate/logout", "", "Origin", base, "Sec-Fetch-Site", "same-origin")
	world.WantStatus(t, "signing out", a, http.StatusOK)
	if a, _ := v.visit("GET", base+"/alice/project", ""); a.Status != http.StatusUnauthorized || len(app.take()) > 0 {
		t.Errorf("after signing out: %d %s", a.Status, a.Body)
	}
}

// TestHowToProxies runs proxies in front of the gateway with the files of the page, whose lines
// `authgate init` prints too.
func TestHowToProxies(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"nginx", "caddy", "haproxy"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			behindProxy(t, forwardProxies[name])
		})
	}
}

// behindProxy runs one proxy in front of the gateway. The gateway knows the address of the
// client, which cannot choose another one. Large bodies and WebSockets pass, and a WebSocket
// ends with the login.
func behindProxy(t *testing.T, proxy forwardProxy) {
	t.Helper()
	app, g := newSocketApp(t), world.Prepare(t)
	g.Write("config.yaml", world.Substituted(t, howToFile(t, "behind-a-proxy.md", "gateway.yaml"),
		"http: 127.0.0.1:8080", fmt.Sprintf("http: %q\n  admin: %q", world.Authority(g.HTTP), world.Authority(g.Admin)),
		"http://127.0.0.1:3000", app.URL, "192.0.2.0/24", "127.0.0.2"))
	g.Run()
	proxy.document = "../how-to/behind-a-proxy.md"
	wantOwnForwarded(t, proxy)
	address, roots := proxy.start(t, g, app.URL)
	for from, want := range map[string]int{"127.0.0.1": http.StatusForbidden, "127.0.0.2": http.StatusOK} {
		v := newSurfer(t, from, address, roots)
		a, at := v.signIn(forwardApp+"/page", "alice")
		if a.Status != http.StatusOK || at.String() != forwardApp+"/page" {
			t.Fatalf("from %s: %d at %s: %s", from, a.Status, at, a.Body)
		}
		other := map[string]string{"127.0.0.1": "127.0.0.2", "127.0.0.2": "127.0.0.1"}[from]
		a, _ = v.visit("GET", forwardApp+"/office/", "", "X-Forwarded-For", other, "Forwarded",
			"for="+other+";host=evil.example", "X-Forwarded-Host", "evil.example", "X-Real-IP", other)
		world.WantStatus(t, "the office from "+from, a, want)
		a, _ = v.visit("POST", forwardApp+"/page", strings.Repeat("x", 3<<20), "Origin", forwardApp, "Sec-Fetch-Site",
			"same-origin")
		if a.Status != http.StatusOK || a.Body != fmt.Sprint(3<<20) { // more than nginx lets through by itself
			t.Errorf("a large body: %d %s", a.Status, a.Body)
		}
		socketEndsWithLogin(t, g, v)
	}
	if got, want := app.seen(), []string{"127.0.0.1, 127.0.0.1", "127.0.0.2, 127.0.0.1"}; !slices.Equal(got, want) {
		t.Errorf("the application sees the clients %q, expected %q", got, want)
	}
}

// wantOwnForwarded checks what a gateway behind the proxy believes: the proxy itself writes it, and
// passes on nothing that a client says about its address, its scheme or the host.
func wantOwnForwarded(t *testing.T, proxy forwardProxy) {
	t.Helper()
	gate := world.Record(t)
	address, roots := proxy.start(t, &world.Instance{HTTP: gate.URL}, gate.URL)
	v := newSurfer(t, "127.0.0.2", address, roots)
	a, _ := v.visit("GET", forwardApp+"/page", "", "Forwarded", "for=192.0.2.1;host=evil.example;proto=http",
		"X-Forwarded-For", "192.0.2.1", "X-Forwarded-Host", "evil.example", "X-Forwarded-Proto", "http")
	world.WantStatus(t, "with headers of a proxy that a client wrote", a, http.StatusOK)
	m := gate.One(t)
	for name, want := range map[string]string{"Host": "app.example.org", "X-Forwarded-For": "127.0.0.2",
		"X-Forwarded-Proto": "https", "X-Forwarded-Host": "app.example.org", "Forwarded": ""} {
		got := m.Value(t, name)
		if got != want && !(got == "" && name == "X-Forwarded-Host") { // then Host counts
			t.Errorf("the gateway gets %s %q, expected %q", name, got, want)
		}
	}
}

// socketApp is an application that opens a WebSocket at /socket, and answers other
// requests with the length of their body.
type socketApp struct {
	*httptest.Server
	clients sync.Map // the values of X-Forwarded-For
}

func newSocketApp(t *testing.T) *socketApp {
	t.Helper()
	app := &socketApp{}
	app.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		app.clients.Store(strings.Join(r.Header.Values("X-Forwarded-For"), "|"), true)
		if r.URL.Path != "/socket" {
			n, _ := io.Copy(io.Discard, r.Body)
			fmt.Fprint(w, n)
			return
		}
		socket, err := websocket.Accept(w, r, nil)
		if err != nil {
			return // the answer tells
		}
		defer func() { _ = socket.CloseNow() }() // it may be closed
		_ = socket.Write(r.Context(), websocket.MessageText, []byte("open"))
		_, _, _ = socket.Read(r.Context()) // until it is closed
	}))
	t.Cleanup(app.Close)
	return app
}

// seen returns the different clients of all requests.
func (app *socketApp) seen() (all []string) {
	app.clients.Range(func(client, _ any) bool {
		all = append(all, client.(string))
		return true
	})
	slices.Sort(all)
	return all
}

// socketEndsWithLogin opens a WebSocket, and signs out.
func socketEndsWithLogin(t *testing.T, g *world.Instance, v surfer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), world.Patience)
	defer cancel()
	socket, _, err := websocket.Dial(ctx, forwardApp+"/socket",
		&websocket.DialOptions{HTTPClient: v.Client, HTTPHeader: http.Header{"Origin": {forwardApp}}})
	world.NoError(t, err)
	defer func() { _ = socket.CloseNow() }() // it is closed, if all is well
	if _, message, err := socket.Read(ctx); err != nil || string(message) != "open" {
		t.Errorf("the WebSocket says %q, %v", message, err)
	}
	a, _ := v.visit("POST", forwardApp+g.Own("logout"), "", "Origin", forwardApp, "Sec-Fetch-Site", "same-origin")
	world.WantStatus(t, "signing out", a, http.StatusOK)
	if _, _, err := socket.Read(ctx); websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
		t.Errorf("the WebSocket ends with %v, expected status 1008", err)
	}
}

// TestHowToCDN plays a CDN, which appends to X-Forwarded-For, in front of the
// configuration of the page.
func TestHowToCDN(t *testing.T) {
	t.Parallel()
	up, g := world.Record(t), world.Prepare(t)
	g.Public = strings.Replace(g.Base, "localhost", "app.example.org", 1)
	g.Configure(regexp.MustCompile(`(?m)^(public_url|tls):.*\n|^listen:\n(  .*\n)*`).ReplaceAllString(
		world.Substituted(t, howToFile(t, "behind-a-proxy.md", "cdn.yaml"), "http://127.0.0.1:3000", up.URL), ""))
	config := world.ReadFile(t, filepath.Join(g.Dir, "config.yaml"))
	g.Write("config.yaml", strings.Replace(config, "listen: {", "listen: {trusted_proxies: [127.0.0.2], ", 1))
	g.Run()
	for from, want := range map[string]string{"127.0.0.2": "203.0.113.9", "127.0.0.1": "127.0.0.1"} {
		cdn := newSurfer(t, from, world.Authority(g.Base), g.TLS().RootCAs)
		cdn.visit("GET", g.Public+"/from/"+want, "", "X-Forwarded-For", "6.6.6.6, 203.0.113.9", "CF-Connecting-IP",
			"6.6.6.6", "X-Forwarded-Proto", "https")
		world.Until(t, "the line in the log", func() bool {
			return slices.ContainsFunc(g.Log.Records(t, "request"),
				func(e map[string]any) bool { return e["path"] == "/from/"+want && e["client"] == want })
		})
	}
	// A CDN that speaks http with its origin: the redirect goes on for ever.
	plain := newSurfer(t, "127.0.0.2", world.Authority(g.HTTP), nil)
	plain.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if a, _ := plain.visit("GET", strings.Replace(g.HTTP, "localhost", "app.example.org", 1)+"/", "", "X-Forwarded-Proto",
		"https"); a.Status != http.StatusPermanentRedirect {
		t.Errorf("over http from the CDN: %d %s", a.Status, a.Body)
	}
}
