package gateway

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"authgate/internal/test/headernametest"
)

// echo answers with what reached the application.
func echo(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "%s %s %s prefix=%s", r.Proto, r.Host, r.RequestURI, strings.Join(r.Header["X-Forwarded-Prefix"], "|"))
}

// appConfig is baseConfig with another upstream app.
func appConfig(t testing.TB, upstream string) string {
	return edit(t, baseConfig, `app: {url: "http://app.invalid"}`, "app: {"+upstream+"}")
}

// Each kind of target gets the path with its prefix and the configured Host, by
// the fast path, which needs an idle connection, and without it.
func TestTargets(t *testing.T) {
	t.Parallel()
	app := httptest.NewServer(http.HandlerFunc(echo))
	t.Cleanup(app.Close)
	authority := strings.TrimPrefix(app.URL, "http://")
	socket := filepath.Join(t.TempDir(), "app.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	h2c := &http.Server{Handler: http.HandlerFunc(echo), Protocols: new(http.Protocols)}
	h2c.Protocols.SetUnencryptedHTTP2(true)
	onSocket := httptest.NewUnstartedServer(http.HandlerFunc(echo))
	onSocket.Listener = listener
	onSocket.Start()
	t.Cleanup(onSocket.Close)
	for2, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	socket2 := filepath.Join(t.TempDir(), "App:80.sock")
	onSocket2, err := net.Listen("unix", socket2)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = h2c.Serve(for2) }() // until Close
	go func() { _ = h2c.Serve(onSocket2) }()
	t.Cleanup(func() { h2c.Close() })
	for _, c := range []struct{ upstream, route, want string }{
		{`url: "` + app.URL + `/base/"`, "", "HTTP/1.1 gw.example /base/public/a%20b?c prefix="},
		{`url: "` + app.URL + `/base"`, ", strip_prefix: /public", "HTTP/1.1 gw.example /base/a%20b?c prefix=/public"},
		{`url: "unix:` + socket + `"`, "", "HTTP/1.1 gw.example /public/a%20b?c prefix="},
		{`host: target, url: "unix:` + socket + `:/base"`, ", strip_prefix: /public",
			"HTTP/1.1 localhost /base/a%20b?c prefix=/public"},
		{`host: target, url: "` + app.URL + `"`, "", "HTTP/1.1 " + authority + " /public/a%20b?c prefix="},
		{`host: "app.internal:81", url: "` + app.URL + `"`, "", "HTTP/1.1 app.internal:81 /public/a%20b?c prefix="},
		{`url: "h2c://` + for2.Addr().String() + `/base"`, ", strip_prefix: /public",
			"HTTP/2.0 gw.example /base/a%20b?c prefix=/public"},
		{`url: "unix+h2c:` + socket2 + `"`, "", "HTTP/2.0 gw.example /public/a%20b?c prefix="},
		{`host: target, url: "unix+h2c:` + socket2 + `:/base"`, ", strip_prefix: /public",
			"HTTP/2.0 localhost /base/a%20b?c prefix=/public"},
		{`host: app.internal, url: "h2c://` + for2.Addr().String() + `"`, "",
			"HTTP/2.0 app.internal /public/a%20b?c prefix="},
	} {
		r := newRig(t, baseConfig)
		yaml := edit(t, appConfig(t, c.upstream), "upstream: app, auth: [none]", "upstream: app, auth: [none]"+c.route)
		if err := r.reload(yaml); err != nil {
			t.Fatal(err)
		}
		for _, way := range []string{"first", "fast"} {
			// A client cannot say which prefix was removed.
			w := r.do("GET", "/public/a%20b?c", "", "X-Forwarded-Prefix: /evil")
			if w.Code != 200 || w.Body.String() != c.want {
				t.Errorf("%s, %s: %d %q, want %q", c.upstream, way, w.Code, w.Body, c.want)
			}
		}
	}
}

// On a route that lets the header pass, a proxy may have removed a prefix before.
func TestForwardedPrefixOfProxy(t *testing.T) {
	t.Parallel()
	behind := edit(t, baseConfig, "store:", "listen: {trusted_proxies: [192.0.2.7]}\nstore:")
	stripped := edit(t, behind, "auth: [none]", "auth: [none], strip_prefix: /public")
	r := newRig(t, behind)
	for yaml, wants := range map[string]map[string]string{
		stripped: {"/outer": "/public", "/": "/public"},
		edit(t, stripped, "strip_prefix: /public", "strip_prefix: /public, headers: {pass: [X-Forwarded-Prefix]}"): {
			"/outer": "/outer/public", "/outer/": "/outer/public", "outer": "/public", "/": "/public",
		},
	} {
		r.mustReload(yaml)
		for sent, want := range wants {
			r.want(200, "GET", "/public/x", "", "X-Forwarded-Prefix: "+sent)
			if got := r.upstream.Last().Header["X-Forwarded-Prefix"]; !slices.Equal(got, []string{want}) {
				t.Errorf("%q becomes %q, want %q", sent, got, want)
			}
		}
	}
}

// From a trusted proxy, too, the upstream gets of the headers about the client and its
// request those alone that the gateway read itself, and others if the route says so.
func TestForwardingHeadersOfProxy(t *testing.T) {
	t.Parallel()
	r := newRig(t, edit(t, baseConfig, "store:", "listen: {trusted_proxies: [192.0.2.7]}\nstore:")+`
  - {match: /passing/, upstream: app, auth: [none], headers: {pass: [X-Real-IP, X-Forwarded-Prefix]}}
`)
	sent := []string{"X-Forwarded-For: 203.0.113.9", "X-Forwarded-Proto: https", "X-Forwarded-Host: gw.example"}
	for _, name := range headernametest.AboutClients {
		sent = append(sent, name+": evil")
	}
	guarded := slices.Concat(headernametest.AboutClients,
		[]string{"X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host"})
	for target, more := range map[string]map[string]string{
		"/public/": nil, "/passing/": {"X_REAL_IP": "evil", "X_FORWARDED_PREFIX": "evil"},
	} {
		want := map[string]string{
			"X_FORWARDED_FOR": "203.0.113.9, 192.0.2.7", "X_FORWARDED_PROTO": "https", "X_FORWARDED_HOST": "gw.example",
		}
		maps.Copy(want, more)
		r.want(200, "GET", target, "", sent...)
		if got := readBy(r.upstream.Last(), guarded...); !maps.Equal(got, want) {
			t.Errorf("%s: the upstream reads %v, want %v", target, got, want)
		}
	}
}

// Responses are rewritten by both ways.
func TestRewriteResponses(t *testing.T) {
	t.Parallel()
	var self string
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", self+"/base/next?x=/base/")
		w.Header().Add("Set-Cookie", "a=b; Domain=127.0.0.1; Path=/base/deep")
		w.Header().Add("Set-Cookie", "session_id=x; Path=/base")
		w.Header().Set("Content-Length", "0")
		w.WriteHeader(http.StatusFound)
	}))
	self = app.URL
	t.Cleanup(app.Close)
	for _, fast := range []string{"true", "false"} {
		r := newRig(t, baseConfig)
		yaml := appConfig(t, `rewrite_responses: true, fast_path: `+fast+`, url: "`+app.URL+`/base"`)
		yaml = edit(t, yaml, "upstream: app, auth: [none]", "upstream: app, auth: [none], strip_prefix: /public")
		if err := r.reload(yaml); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			w := r.do("GET", "/public/x", "")
			if got := w.Header().Get("Location"); got != "https://gw.example/public/next?x=/base/" {
				t.Errorf("fast_path %s: Location %q", fast, got)
			}
			lines := w.Result().Header["Set-Cookie"]
			if len(lines) != 2 ||
				lines[0] != "a=b; Domain=gw.example; Path=/public/deep" && lines[1] != "a=b; Domain=gw.example; Path=/public/deep" {
				t.Errorf("fast_path %s: cookies %q", fast, lines)
			}
			if !strings.Contains(fmt.Sprint(lines), "authgate_app_session_id=x; Path=/public]") {
				t.Errorf("fast_path %s: the cookie of the gateway: %q", fast, lines)
			}
		}
	}
}

// The client that is balanced is the one that a trusted proxy reports.
func TestBalanceByReportedClient(t *testing.T) {
	t.Parallel()
	var urls []string
	for i := range 4 {
		app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, i) }))
		t.Cleanup(app.Close)
		urls = append(urls, fmt.Sprintf("%q", app.URL))
	}
	yaml := appConfig(t, "balance: client, urls: ["+strings.Join(urls, ", ")+"]")
	yaml = edit(t, yaml, "store:", "listen: {trusted_proxies: [192.0.2.7]}\nstore:")
	r := newRig(t, edit(t, baseConfig, "store:", "listen: {trusted_proxies: [192.0.2.7]}\nstore:"))
	if err := r.reload(yaml); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for client := range 32 {
		first := ""
		for range 3 {
			w := r.do("GET", "/public/", "", fmt.Sprintf("X-Forwarded-For: 203.0.113.%d", client))
			if got := w.Body.String(); first == "" {
				first = got
			} else if got != first {
				t.Fatalf("client %d gets target %s, then %s", client, first, got)
			}
		}
		seen[first] = true
	}
	if len(seen) != 4 {
		t.Errorf("32 clients of one proxy get %d targets", len(seen))
	}
}

// The state of targets is in the metrics, and ends with the target.
func TestTargetMetrics(t *testing.T) {
	t.Parallel()
	app := httptest.NewServer(http.HandlerFunc(echo))
	t.Cleanup(app.Close)
	r := newRig(t, baseConfig)
	if err := r.reload(appConfig(t, `urls: ["http://127.0.0.1:1", "`+app.URL+`"]`)); err != nil {
		t.Fatal(err)
	}
	up := func(target string) float64 {
		return r.sample("authgate_upstream_target_up", "upstream=app", "target="+target)
	}
	for range 2 {
		if w := r.do("POST", "/public/", "abc"); w.Code != 200 {
			t.Errorf("%d", w.Code)
		}
	}
	if up("http://127.0.0.1:1") != 0 || up(app.URL) != 1 {
		t.Errorf("up: %v and %v, want 0 and 1", up("http://127.0.0.1:1"), up(app.URL))
	}
	if !strings.Contains(r.log.String(), `"target":"http://127.0.0.1:1"`) {
		t.Error("the log does not have the target that fails")
	}
	if err := r.reload(appConfig(t, `url: "`+app.URL+`/x"`)); err != nil {
		t.Fatal(err)
	}
	if n := r.sample("authgate_upstream_target_up"); n != 1 {
		t.Errorf("after a reload, the sum of all targets is %v", n)
	}
}

// Trailers and both streams pass through an h2c upstream.
func TestH2C(t *testing.T) {
	t.Parallel()
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		w.Header().Set("Trailer", "Grpc-Status")
		fmt.Fprintf(w, "%s %q %v te=%s", r.Method, body, err, r.Header.Get("Te"))
		w.Header().Set("Grpc-Status", "0")
	})
	server := &http.Server{Protocols: new(http.Protocols), Handler: handler}
	server.Protocols.SetUnencryptedHTTP2(true)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }() // until Close
	t.Cleanup(func() { server.Close() })
	r := newRig(t, baseConfig)
	if err := r.reload(appConfig(t, `url: "h2c://`+listener.Addr().String()+`"`)); err != nil {
		t.Fatal(err)
	}
	w := r.do("POST", "/public/", "abc", "Te: trailers")
	if got, want := w.Body.String(), `POST "abc" <nil> te=trailers`; w.Code != 200 || got != want {
		t.Errorf("%d %q, want %q", w.Code, got, want)
	}
	if got := w.Result().Trailer.Get("Grpc-Status"); got != "0" {
		t.Errorf("the trailer is %q", got)
	}
	large := bytes.Repeat([]byte("x"), 1<<20)
	if w := r.do("POST", "/public/", string(large)); w.Code != 200 || w.Body.Len() < len(large) {
		t.Errorf("a large body: %d, %d bytes", w.Code, w.Body.Len())
	}
}

// Active checks run from the start and after a reload, and end with the upstream and
// the gateway.
func TestActiveChecks(t *testing.T) {
	t.Parallel()
	var checked [2]atomic.Int64
	var reused atomic.Bool
	var status atomic.Int64
	status.Store(http.StatusOK)
	application := func(i int) string {
		app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.RequestURI == "/base/healthz" {
				checked[i].Add(1)
				reused.Store(reused.Load() || !r.Close)
				w.WriteHeader(int(status.Load()))
			}
		}))
		t.Cleanup(app.Close)
		return app.URL + "/base"
	}
	first, second := application(0), application(1)
	synctest.Test(t, func(t *testing.T) { // the applications are outside of it
		with := func(url string) string {
			return appConfig(t, fmt.Sprintf("url: %q, health: {path: /healthz, interval: 1s, timeout: 30s}", url))
		}
		r := newRig(t, with(first))
		wantUp := func(want float64) {
			t.Helper()
			time.Sleep(3 * time.Second) // checks, of which two decide
			synctest.Wait()
			if got := r.sample("authgate_upstream_target_up", "upstream=app"); got != want {
				t.Errorf("up: %v, want %v", got, want)
			}
		}
		wantUp(1)
		status.Store(http.StatusBadGateway)
		wantUp(0)
		if r.sample("authgate_upstream_checks_total", "upstream=app", "result=failure") < 2 {
			t.Error("failed checks are not counted")
		}
		status.Store(http.StatusNoContent)
		wantUp(1)
		if err := r.reload(with(second)); err != nil {
			t.Fatal(err)
		}
		ended := checked[0].Load()
		wantUp(1)
		if n := checked[0].Load(); n > ended || checked[1].Load() < 2 {
			t.Errorf("after the reload: %d checks of a target that was removed, %d of the new one", n-ended, checked[1].Load())
		}
		r.Close()
		ended = checked[1].Load()
		time.Sleep(time.Minute)
		if n := checked[1].Load(); n > ended {
			t.Errorf("%d checks after Close", n-ended)
		}
	})
	if reused.Load() {
		t.Error("a check uses a connection that another may use")
	}
}
