package proxies

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"authgate/e2e/world"

	"github.com/coder/websocket"
)

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
	g.Write("config.yaml", world.Substituted(t, world.DocumentedFile(t, "docs/how-to/behind-a-proxy.md", "gateway.yaml"),
		"http: 127.0.0.1:8080", fmt.Sprintf("http: %q\n  admin: %q", world.Authority(g.HTTP), world.Authority(g.Admin)),
		"http://127.0.0.1:3000", app.URL, "192.0.2.0/24", "127.0.0.2"))
	g.Run()
	proxy.document = "../how-to/behind-a-proxy.md"
	wantOwnForwarded(t, proxy)
	address, roots := proxy.start(t, g, app.URL)
	for from, want := range map[string]int{"127.0.0.1": http.StatusForbidden, "127.0.0.2": http.StatusOK} {
		v := world.Surf(t, from, address, roots)
		a, at := v.SignIn(forwardApp+"/page", "alice")
		if a.Status != http.StatusOK || at.String() != forwardApp+"/page" {
			t.Fatalf("from %s: %d at %s: %s", from, a.Status, at, a.Body)
		}
		other := map[string]string{"127.0.0.1": "127.0.0.2", "127.0.0.2": "127.0.0.1"}[from]
		a, _ = v.Visit("GET", forwardApp+"/office/", "", "X-Forwarded-For", other, "Forwarded",
			"for="+other+";host=evil.example", "X-Forwarded-Host", "evil.example", "X-Real-IP", other)
		world.WantStatus(t, "the office from "+from, a, want)
		a, _ = v.Visit("POST", forwardApp+"/page", strings.Repeat("x", 3<<20), "Origin", forwardApp, "Sec-Fetch-Site",
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

// TestInitBehindProxies runs proxies with the lines that `authgate init` prints, and the gateway with the
// configuration that it writes: the start page is at /, and leads to the application.
func TestInitBehindProxies(t *testing.T) {
	t.Parallel()
	for name, file := range map[string]struct{ name, head, tail string }{
		"nginx":   {"nginx.conf", "events {}\nhttp {\n", "}\n"},
		"caddy":   {"Caddyfile.example", "", ""},
		"haproxy": {"haproxy.cfg", "defaults\n  timeout connect 5s\n  timeout client 1m\n  timeout server 1m\n\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app, g := world.Record(t), world.Prepare(t)
			path := filepath.Join(g.Dir, "config.yaml")
			said := world.Must(exec.Command(world.Program("authgate"), "init", "--yes", "--config", path, "--front", name,
				"--host", "home.example.org", "--user", "alice", "--upstream", app.URL).Output())(t)
			g.Write("config.yaml", world.Substituted(t, world.ReadFile(t, path),
				"127.0.0.1:8080", world.Authority(g.HTTP), "127.0.0.1:9090", world.Authority(g.Admin)))
			g.Write("accounts.yaml", world.Person("alice", world.WonderlandHash, ""))
			g.Run()
			lines := regexp.MustCompile(`(?s)\nFor ` + name + `, in [^\n]*:\n\n(.*)$`).FindSubmatch(said)
			if lines == nil {
				t.Fatalf("no lines for %s:\n%s", name, said)
			}
			text := strings.ReplaceAll(string(lines[1]), "127.0.0.1:8080", world.Authority(g.HTTP))
			address, roots := forwardProxies[name].run(t, map[string]string{file.name: file.head + text + file.tail})
			v := world.Surf(t, "127.0.0.1", address, roots)
			page, at := v.SignIn("https://home.example.org/.authgate/signin", "alice")
			if at.String() != "https://home.example.org/" || !strings.Contains(page.Body, `href="https://app.example.org/"`) {
				t.Fatalf("the first page is %d at %s: %s", page.Status, at, page.Body)
			}
			if a, at := v.Visit("GET", "https://app.example.org/", "", "Accept", world.AcceptsPage); a.Status != http.StatusOK {
				t.Fatalf("the application answers %d at %s: %s", a.Status, at, a.Body)
			}
			if m := app.One(t); m.Value(t, "X-Auth-User") != "alice" {
				t.Errorf("the application sees %q", m.Value(t, "X-Auth-User"))
			}
		})
	}
}

// wantOwnForwarded checks what a gateway behind the proxy believes: the proxy itself writes it, and
// passes on nothing that a client says about its address, its scheme or the host. It keeps its
// connection to the gateway for the next request.
func wantOwnForwarded(t *testing.T, proxy forwardProxy) {
	t.Helper()
	gate := world.Record(t)
	address, roots := proxy.start(t, &world.Instance{HTTP: gate.URL}, gate.URL)
	v := world.Surf(t, "127.0.0.2", address, roots)
	a, _ := v.Visit("GET", forwardApp+"/page", "", "Forwarded", "for=192.0.2.1;host=evil.example;proto=http",
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
	v.Visit("GET", forwardApp+"/page", "")
	if next := gate.One(t); next.From != m.From {
		t.Errorf("the proxy connects from %s for its first request, and again from %s for the second", m.From, next.From)
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
func socketEndsWithLogin(t *testing.T, g *world.Instance, v world.Surfer) {
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
	a, _ := v.Visit("POST", forwardApp+g.Own("logout"), "", "Origin", forwardApp, "Sec-Fetch-Site", "same-origin")
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
		world.Substituted(t, world.DocumentedFile(t, "docs/how-to/behind-a-proxy.md", "cdn.yaml"),
			"http://127.0.0.1:3000", up.URL), ""))
	config := world.ReadFile(t, filepath.Join(g.Dir, "config.yaml"))
	g.Write("config.yaml", strings.Replace(config, "listen: {", "listen: {trusted_proxies: [127.0.0.2], ", 1))
	g.Run()
	for from, want := range map[string]string{"127.0.0.2": "203.0.113.9", "127.0.0.1": "127.0.0.1"} {
		cdn := world.Surf(t, from, world.Authority(g.Base), g.TLS().RootCAs)
		cdn.Visit("GET", g.Public+"/from/"+want, "", "X-Forwarded-For", "6.6.6.6, 203.0.113.9", "CF-Connecting-IP",
			"6.6.6.6", "X-Forwarded-Proto", "https")
		world.Until(t, "the line in the log", func() bool {
			return slices.ContainsFunc(g.Log.Records(t, "request"),
				func(e map[string]any) bool { return e["path"] == "/from/"+want && e["client"] == want })
		})
	}
	// A CDN that speaks http with its origin: the redirect goes on for ever.
	plain := world.Surf(t, "127.0.0.2", world.Authority(g.HTTP), nil)
	plain.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if a, _ := plain.Visit("GET", strings.Replace(g.HTTP, "localhost", "app.example.org", 1)+"/", "", "X-Forwarded-Proto",
		"https"); a.Status != http.StatusPermanentRedirect {
		t.Errorf("over http from the CDN: %d %s", a.Status, a.Body)
	}
}
