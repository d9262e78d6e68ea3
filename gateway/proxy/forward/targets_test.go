package forward

import (
	"bytes"
	"fmt"
	"io"
	"iter"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"authgate/gateway/proxy/upstream"
	"authgate/gateway/proxy/web"
	"authgate/internal/test/must"
	ownrig "authgate/internal/test/rig"
)

// echo answers with what reached the application.
func echo(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "%s %s %s prefix=%s", r.Proto, r.Host, r.RequestURI, strings.Join(r.Header["X-Forwarded-Prefix"],
		"|"))
}

// appConfig is baseConfig with another upstream app.
func appConfig(t testing.TB, upstream string) string {
	return ownrig.Edit(t, ownrig.Base, `app: {url: "http://app.invalid"}`, "app: {"+upstream+"}")
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
		r := newAt(t, ownrig.Edit(t, appConfig(t, c.upstream), "upstream: app, auth: [none]",
			"upstream: app, auth: [none]"+c.route))
		for _, way := range []string{"first", "fast"} {
			// A client cannot say which prefix was removed.
			w := r.Do("GET", "/public/a%20b?c", "", "X-Forwarded-Prefix: /evil")
			if w.Code != 200 || w.Body.String() != c.want {
				t.Errorf("%s, %s: %d %q, want %q", c.upstream, way, w.Code, w.Body, c.want)
			}
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
		yaml := appConfig(t, `rewrite_responses: true, fast_path: `+fast+`, url: "`+app.URL+`/base"`)
		yaml = ownrig.Edit(t, yaml, "upstream: app, auth: [none]", "upstream: app, auth: [none], strip_prefix: /public")
		r := newAt(t, yaml)
		for range 2 {
			w := r.Do("GET", "/public/x", "")
			if got := w.Header().Get("Location"); got != "https://gw.example/public/next?x=/base/" {
				t.Errorf("fast_path %s: Location %q", fast, got)
			}
			lines := w.Result().Header["Set-Cookie"]
			if len(lines) != 2 ||
				lines[0] != "a=b; Domain=gw.example; Path=/public/deep" &&
					lines[1] != "a=b; Domain=gw.example; Path=/public/deep" {
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
	yaml = ownrig.Edit(t, yaml, "store:", "listen: {trusted_proxies: [192.0.2.7]}\nstore:")
	r := newAt(t, yaml)
	seen := map[string]bool{}
	for client := range 32 {
		first := ""
		for range 3 {
			w := r.Do("GET", "/public/", "", fmt.Sprintf("X-Forwarded-For: 203.0.113.%d", client))
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
	r := newAt(t, appConfig(t, `url: "h2c://`+listener.Addr().String()+`"`))
	w := r.Do("POST", "/public/", "abc", "Te: trailers")
	if got, want := w.Body.String(), `POST "abc" <nil> te=trailers`; w.Code != 200 || got != want {
		t.Errorf("%d %q, want %q", w.Code, got, want)
	}
	if got := w.Result().Trailer.Get("Grpc-Status"); got != "0" {
		t.Errorf("the trailer is %q", got)
	}
	large := bytes.Repeat([]byte("x"), 1<<20)
	if w := r.Do("POST", "/public/", string(large)); w.Code != 200 || w.Body.Len() < len(large) {
		t.Errorf("a large body: %d, %d bytes", w.Code, w.Body.Len())
	}
}

// An application that leads a signed-in user to a path that the gateway answers itself seems
// broken, so the log says what to do, once.
func TestRedirectToHiddenPath(t *testing.T) {
	t.Parallel()
	for _, fast := range []string{"true", "false"} {
		for _, c := range []struct {
			prefix, user, location string
			told                   bool
		}{
			{"/", "alice", "/login", true},
			{"/", "alice", "../login?next=%2F", true},
			{"/", "alice", "https://gw.example/account", true},
			{"/", "alice", "https://GW.example:443/account#x", true},
			{"/", "", "/login", false}, // a user who is not signed in is to sign in there
			{"/", "alice", "https://other.example/login", false},
			{"/", "alice", "/login/", false},
			{"/", "alice", "/app/login", false},
			{"/", "alice", "https://[bad/login", false},
			{"/.authgate/", "alice", "/login", false},
			{"/.authgate/", "alice", "/.authgate/login", false}, // which the application must know of
		} {
			config := ownrig.Edit(t, ownrig.Base, "app: {", "app: {fast_path: "+fast+", ")
			r := newStub(t, config+"endpoints: {prefix: "+c.prefix+"}\n")
			r.app.Answer = func(q *http.Request) (*http.Response, error) {
				return ownrig.Response(q, http.StatusFound, http.Header{"Location": {c.location}}, ""), nil
			}
			path, cookie := "/public/", ""
			if c.user != "" {
				q := ownrig.Request("POST", c.prefix+"login", ownrig.Alice)
				q.Header.Set("Content-Type", "application/json")
				path, cookie = "/session/", ownrig.JarOf(r.Serve(q)).Line()
			}
			for range 2 {
				if w := r.Do("GET", path, "", cookie); w.Code != 302 {
					t.Fatalf("%+v: got %d", c, w.Code)
				}
			}
			want := 0
			if c.told {
				want = 1
			}
			if got := strings.Count(r.log.String(), "leads signed-in users to a path"); got != want {
				t.Errorf("%+v, fast_path: %s: told %d times\n%s", c, fast, got, r.log)
			}
		}
	}
}

// The state of targets is in the metrics.
func TestTargetMetrics(t *testing.T) {
	t.Parallel()
	app := httptest.NewServer(http.HandlerFunc(echo))
	t.Cleanup(app.Close)
	r := newAt(t, appConfig(t, `urls: ["http://127.0.0.1:1", "`+app.URL+`"]`))
	must.Do(t, r.registry.Register(web.Targets(func() iter.Seq2[string, *upstream.Upstream] {
		return maps.All(map[string]*upstream.Upstream{"app": r.upstream})
	})))
	up := func(target string) float64 {
		return ownrig.Sample(t, r.registry, "authgate_upstream_target_up", "upstream=app", "target="+target)
	}
	for range 2 {
		if w := r.Do("POST", "/public/", "abc"); w.Code != 200 {
			t.Errorf("%d", w.Code)
		}
	}
	if up("http://127.0.0.1:1") != 0 || up(app.URL) != 1 {
		t.Errorf("up: %v and %v, want 0 and 1", up("http://127.0.0.1:1"), up(app.URL))
	}
	if !strings.Contains(r.log.String(), `"target":"http://127.0.0.1:1"`) {
		t.Error("the log does not have the target that fails")
	}
}
