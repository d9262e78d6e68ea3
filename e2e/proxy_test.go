package e2e

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestForwardedRequest is about what reaches the upstream besides the target.
func TestForwardedRequest(t *testing.T) {
	t.Parallel()
	up := record(t)
	g := start(t, people+app(up.url)+`
routes:
  - {match: /public, upstream: app, auth: [none]}
  - {match: /basic, upstream: app, auth: [basic]}
  - {match: /session, upstream: app, auth: [session]}
  - {match: /bearer, upstream: app, auth: [bearer]}
  - {match: /kept, upstream: app, auth: [basic, session, bearer], forward_credentials: true}
  - {match: /app/, upstream: app, auth: [none], strip_prefix: /app}
  - {match: /headers, upstream: app, auth: [none], headers: {set: {X-Env: production, X-New: "a b"}, remove: [X-Debug]}}
`)
	c := g.stranger()
	s := g.signIn(c, "alice")
	host := strings.TrimPrefix(g.base, "https://")
	for _, test := range []struct {
		name, path string
		headers    []string
		want       map[string]string // empty: must not be there
		http1      bool              // HTTP/2 cannot say it, or not in these bytes
	}{
		{"where it came from", "/public", nil, map[string]string{
			"Host": host, "X-Forwarded-Host": host, "X-Forwarded-Proto": "https", "X-Forwarded-For": "127.0.0.1",
		}, false},
		{"identity by Basic", "/basic", []string{"Authorization", basicService, "Cookie", "a=b; " + s.session}, map[string]string{
			"Authorization": "", "Cookie": "a=b", "X-Auth-User": "service", "X-Auth-Subject": "basic:service", "X-Auth-Mechanism": "basic",
			"X-Auth-Name": "", "X-Auth-Email": "", "X-Auth-Roles": "",
		}, false},
		{"identity by session", "/session", []string{"Authorization", "Basic YXBwOmFwcA==", "Cookie", s.session}, map[string]string{
			"Authorization": "Basic YXBwOmFwcA==", "Cookie": "", "X-Auth-User": "alice", "X-Auth-Subject": "local:alice",
			"X-Auth-Name": "Alice Example", "X-Auth-Email": "alice@example.org", "X-Auth-Roles": "user,admin",
			"X-Auth-Mechanism": "session", "X-Auth-Provider": "local",
		}, false},
		{"identity by token", "/bearer", []string{"Authorization", s.access, "Cookie", s.session}, map[string]string{
			"Authorization": "", "Cookie": "", "X-Auth-User": "alice", "X-Auth-Subject": "local:alice", "X-Auth-Mechanism": "bearer",
		}, false},
		{"forward_credentials with a header", "/kept", []string{"Authorization", s.access, "Cookie", "a=b; " + s.session}, map[string]string{
			"Authorization": s.access, "Cookie": "a=b; " + s.session, "X-Auth-User": "alice", "X-Auth-Mechanism": "bearer",
		}, false},
		{"forward_credentials with a cookie", "/kept", []string{"Cookie", s.session}, map[string]string{
			"Cookie": s.session, "X-Auth-Mechanism": "session",
		}, false},
		{"a public route", "/public", []string{"Authorization", s.access, "Cookie", s.session}, map[string]string{
			"Authorization": s.access, "Cookie": "", "X-Auth-User": "", "X-Auth-Mechanism": "",
		}, false},
		{"cookies of the application", "/public", []string{"Cookie", `a="x, y"; b=%41; c=; d; e==é=; session_idx=1; ` + s.session + `; f=1`}, map[string]string{
			"Cookie": `a="x, y"; b=%41; c=; d; e==é=; session_idx=1; f=1`,
		}, false},
		{"no cookie of the gateway", "/public", []string{"Cookie", `a=1;b=2;; c = 3 ;session=x`}, map[string]string{
			"Cookie": `a=1;b=2;; c = 3 ;session=x`,
		}, true},
		{"headers of a route", "/headers", []string{"X-Env", "spoofed", "x-debug", "1", "X-Other", "2"}, map[string]string{
			"X-Env": "production", "X-New": "a b", "X-Debug": "", "X-Other": "2",
		}, false},
		{"what Connection names", "/session", []string{
			"Cookie", s.session, "Connection", "close, X-Hop, X-Auth-User, Cookie", "X-Hop", "1", "Keep-Alive", "1",
			"Proxy-Authorization", "Basic x", "Proxy-Connection", "close", "X-Other", "2",
		}, map[string]string{
			"Connection": "", "X-Hop": "", "Keep-Alive": "", "Proxy-Authorization": "", "Proxy-Connection": "", "X-Other": "2", "X-Auth-User": "alice",
		}, true},
		{"what Go would add", "/public", []string{"User-Agent", ""}, map[string]string{
			"User-Agent": "", "Accept-Encoding": "", "Content-Length": "", "Transfer-Encoding": "",
		}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			clients := []*http.Client{g.stranger11()}
			if !test.http1 {
				clients = append(clients, c)
			}
			for _, c := range clients {
				if a := g.do(c, "GET", test.path, "", test.headers...); a.status != http.StatusOK {
					t.Fatalf("status %d: %s", a.status, a.body)
				}
				m := up.one(t)
				for name, want := range test.want {
					if got := m.value(t, name); got != want {
						t.Errorf("%s: %q, expected %q", name, got, want)
					}
				}
			}
		})
	}
	t.Run("several lines of a header", func(t *testing.T) {
		g.do(c, "GET", "/public", "", "X-Line", "1", "X-Line", "2", "X-Line", "1")
		if got := up.one(t).values("X-Line"); !slices.Equal(got, []string{"1", "2", "1"}) {
			t.Errorf("%q", got)
		}
	})
	t.Run("strip_prefix", func(t *testing.T) {
		for path, want := range map[string]string{
			"/app/": "/", "/app/x": "/x", "/app/x%41;y?a=%zz&b": "/x%41;y?a=%zz&b", "/%61pp/app/?": "/app/?", "/app?a=b": "/?a=b",
		} {
			g.raw(t, "GET "+path+" HTTP/1.1\nHost: localhost\n\n")
			if got := up.one(t).target(); got != want {
				t.Errorf("%s becomes %s, expected %s", path, got, want)
			}
		}
	})
	t.Run("X-Request-Id", func(t *testing.T) { requestIDs(t, g, up) })
}

// requestIDs: one of a client is passed on where it is fit to be logged; else
// one is made.
func requestIDs(t *testing.T, g *instance, up *recorder) {
	c := g.stranger()
	made := regexp.MustCompile(`^[A-Za-z0-9._-]{16,128}$`)
	seen := map[string]bool{}
	for _, id := range []string{"a", "7f3c.A_b-9", strings.Repeat("x", 128)} {
		g.do(c, "GET", "/public", "", "X-Request-Id", id)
		if got := up.one(t).value(t, "X-Request-Id"); got != id {
			t.Errorf("%q became %q", id, got)
		}
		if got := g.do(c, "GET", "/nowhere", "", "X-Request-Id", id).header.Get("X-Request-Id"); got != id {
			t.Errorf("the answer to %q names %q", id, got)
		}
	}
	for _, headers := range [][]string{
		nil, {"X-Request-Id", ""}, {"X-Request-Id", strings.Repeat("x", 129)}, {"X-Request-Id", "a b"}, {"X-Request-Id", `a"b`},
		{"X-Request-Id", "é"}, {"X-Request-Id", "a,b"}, {"X-Request-Id", "twice", "X-Request-Id", "again"}, {"X_Request_Id", "spelled"},
	} {
		g.do(c, "GET", "/public", "", headers...)
		m := up.one(t)
		var lines []string
		for _, line := range m.head {
			if name, value, _ := strings.Cut(line, ": "); strings.EqualFold(name, "X-Request-Id") {
				lines = append(lines, value)
			}
		}
		if len(lines) != 1 || !made.MatchString(lines[0]) || seen[lines[0]] {
			t.Errorf("%q became %q", headers, lines)
			continue
		}
		seen[lines[0]] = true
	}
}

// TestResponses is about what comes back.
func TestResponses(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Set-Cookie", "a=1")
		w.Header().Add("Set-Cookie", "b=2")
		w.Header().Set("Etag", `"1"`)
		if cache := r.URL.Query().Get("cache"); cache != "" {
			w.Header().Set("Cache-Control", cache)
		}
		if r.Header.Get("If-None-Match") == `"1"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("Content-Length", "5")
		w.Header().Set("Content-Encoding", "gzip") // which it is not: nobody is to look
		_, _ = io.WriteString(w, "hello")
	})
	mux.HandleFunc("/trailers", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		_, _ = io.WriteString(w, "hello")
		w.Header().Set("X-Sum", "5")
		w.Header().Set(http.TrailerPrefix+"X-Late", "6")
	})
	up := httptest.NewServer(mux)
	t.Cleanup(up.Close)
	g := start(t, people+app(up.URL)+`
routes:
  - {match: /, upstream: app, auth: [none]}
  - {match: /private, upstream: app, auth: [basic]}
`)
	for protocol, c := range map[string]*http.Client{"HTTP/2": g.stranger(), "HTTP/1.1": g.stranger11()} {
		t.Run(protocol, func(t *testing.T) {
			a := g.do(c, "GET", "/", "")
			if a.status != 200 || a.body != "hello" || a.header.Get("Content-Encoding") != "gzip" || a.header.Get("Etag") != `"1"` {
				t.Errorf("GET: %d %q %v", a.status, a.body, a.header)
			}
			if got := a.header.Values("Set-Cookie"); !slices.Equal(got, []string{"a=1", "b=2"}) {
				t.Errorf("cookies of the application: %q", got)
			}
			if a := g.do(c, "HEAD", "/", ""); a.status != 200 || a.body != "" || a.header.Get("Content-Length") != "5" {
				t.Errorf("HEAD: %d %q, length %s", a.status, a.body, a.header.Get("Content-Length"))
			}
			if a := g.do(c, "GET", "/", "", "If-None-Match", `"1"`); a.status != 304 || a.body != "" || a.header.Get("Etag") != `"1"` {
				t.Errorf("If-None-Match: %d %q %v", a.status, a.body, a.header)
			}
			for path, want := range map[string]string{
				"/": "", "/?cache=public": "public", "/private": "private", "/private?cache=public,max-age=60": "public,max-age=60", "/private?cache=no-cache": "no-cache",
			} {
				if got := g.do(c, "GET", path, "", "Authorization", basicService).header.Values("Cache-Control"); strings.Join(got, "|") != want {
					t.Errorf("Cache-Control of %s: %q, expected %q", path, got, want)
				}
			}
			response, err := c.Get(g.base + "/trailers")
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if _, err := io.Copy(io.Discard, response.Body); err != nil {
				t.Fatal(err)
			}
			if sum, late := response.Trailer.Get("X-Sum"), response.Trailer.Get("X-Late"); sum != "5" || late != "6" {
				t.Errorf("trailers: %q %q", sum, late)
			}
		})
	}
}

// TestStreams: what one side sends, the other has at once.
func TestStreams(t *testing.T) {
	t.Parallel()
	confirmed := make(chan struct{}) // the other side has the first part
	mux := http.NewServeMux()
	mux.HandleFunc("/down", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", r.URL.Query().Get("type"))
		_, _ = io.WriteString(w, "data: 1\n\n")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-confirmed:
			_, _ = io.WriteString(w, "data: 2\n\n")
		case <-r.Context().Done():
		}
	})
	mux.HandleFunc("/up", func(w http.ResponseWriter, r *http.Request) {
		first := make([]byte, 4)
		if _, err := io.ReadFull(r.Body, first); err != nil {
			return
		}
		confirmed <- struct{}{}
		rest, _ := io.ReadAll(r.Body)
		_, _ = w.Write(append(first, rest...))
	})
	up := httptest.NewServer(mux)
	t.Cleanup(up.Close)
	g := start(t, targets+app(up.URL))
	for protocol, c := range map[string]*http.Client{"HTTP/2": g.stranger(), "HTTP/1.1": g.stranger11()} {
		for _, media := range []string{"text/event-stream", "application/octet-stream"} {
			t.Run("down "+media+" by "+protocol, func(t *testing.T) {
				response, err := c.Get(g.base + "/down?type=" + media)
				if err != nil {
					t.Fatal(err)
				}
				defer response.Body.Close()
				first := make([]byte, len("data: 1\n\n"))
				if _, err := io.ReadFull(response.Body, first); err != nil {
					t.Fatalf("the first part does not arrive: %v", err)
				}
				confirmed <- struct{}{}
				if rest, err := io.ReadAll(response.Body); err != nil || string(rest) != "data: 2\n\n" {
					t.Errorf("the rest is %q, %v", rest, err)
				}
			})
		}
		t.Run("up by "+protocol, func(t *testing.T) {
			body, write := io.Pipe()
			go func() {
				_, _ = io.WriteString(write, "1234")
				select {
				case <-confirmed:
					_, _ = io.WriteString(write, "5678")
					write.Close()
				case <-t.Context().Done():
				}
			}()
			response, err := c.Post(g.base+"/up", "text/plain", body)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if got, err := io.ReadAll(response.Body); err != nil || string(got) != "12345678" {
				t.Errorf("the upstream got %q, %v", got, err)
			}
		})
	}
}

// TestLargeBodies pass unchanged in both directions.
func TestLargeBodies(t *testing.T) {
	t.Parallel()
	const size = 50 << 20
	content := func() io.Reader { return io.LimitReader(rand.NewChaCha8([32]byte{1}), size) }
	sum := func(r io.Reader) string {
		h := sha256.New()
		n, err := io.Copy(h, r)
		return fmt.Sprintf("%d %x %v", n, h.Sum(nil), err)
	}
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			_, _ = io.WriteString(w, sum(r.Body))
			return
		}
		_, _ = io.Copy(w, content()) // the test compares
	}))
	t.Cleanup(up.Close)
	g := start(t, targets+app(up.URL))
	want := sum(content())
	for protocol, c := range map[string]*http.Client{"HTTP/2": g.stranger(), "HTTP/1.1": g.stranger11()} {
		t.Run(protocol, func(t *testing.T) {
			down, err := c.Get(g.base + "/")
			if err != nil {
				t.Fatal(err)
			}
			defer down.Body.Close()
			if got := sum(down.Body); got != want {
				t.Errorf("the client got %s, expected %s", got, want)
			}
			uploaded, err := c.Post(g.base+"/", "application/octet-stream", content())
			if err != nil {
				t.Fatal(err)
			}
			defer uploaded.Body.Close()
			if got, err := io.ReadAll(uploaded.Body); err != nil || string(got) != want {
				t.Errorf("the upstream got %s, expected %s", got, want)
			}
		})
	}
}

// TestMaxBody: max_body of a route, to the byte.
func TestMaxBody(t *testing.T) {
	t.Parallel()
	up := record(t)
	g := start(t, app(up.url)+"routes: [{match: /, upstream: app, auth: [none], max_body: 1000}]\n")
	exact, over := strings.Repeat("x", 1000), strings.Repeat("x", 1001)
	chunked := "POST / HTTP/1.1\nHost: localhost\nTransfer-Encoding: chunked\n\n%x\n%s\n0\n\n"
	if a := g.do(g.stranger(), "POST", "/", exact); a.status != http.StatusOK || up.one(t).body != exact {
		t.Errorf("1000 bytes: %d", a.status)
	}
	if a := g.raw(t, fmt.Sprintf(chunked, len(exact), exact)); a.status != http.StatusOK || up.one(t).body != exact {
		t.Errorf("1000 bytes in chunks: %d", a.status)
	}
	wantProblem(t, g.do(g.stranger(), "POST", "/", over), http.StatusRequestEntityTooLarge)
	wantProblem(t, g.raw(t, fmt.Sprintf(chunked, len(over), over)), http.StatusRequestEntityTooLarge)
	wantProblem(t, g.raw(t, "POST / HTTP/1.1\nHost: localhost\nContent-Length: 9223372036854775807\n\n"), http.StatusRequestEntityTooLarge)
	up.none(t) // no whole request, that is
}

// TestContinue: 100 (Continue) comes when the body is wanted, and not before
// it is known who asks (RFC 9110, section 10.1.1).
func TestContinue(t *testing.T) {
	t.Parallel()
	up := record(t)
	g := start(t, people+app(up.url)+`
routes:
  - {match: /, upstream: app, auth: [none]}
  - {match: /private, upstream: app, auth: [basic]}
`)
	const head = " HTTP/1.1\nHost: localhost\nExpect: 100-continue\nContent-Length: 4\n\n"
	conn := g.dial(t, "http/1.1")
	in := bufio.NewReader(conn)
	if _, err := io.WriteString(conn, crlf("POST /"+head)); err != nil {
		t.Fatal(err)
	}
	if a, err := readAnswer(in); err != nil || a.status != http.StatusContinue {
		t.Fatalf("before the body: %d, %v", a.status, err)
	}
	if _, err := io.WriteString(conn, "body"); err != nil {
		t.Fatal(err)
	}
	a, err := readAnswer(in)
	for err == nil && a.status == http.StatusContinue { // the upstream may say it too
		a, err = readAnswer(in)
	}
	if err != nil || a.status != http.StatusOK || up.one(t).body != "body" {
		t.Errorf("after the body: %d, %v", a.status, err)
	}
	if a := g.raw(t, "POST /private"+head); a.status != http.StatusUnauthorized {
		t.Errorf("without a credential: %d", a.status)
	}
	up.none(t)
}

// TestSeveralAddresses: one that is down is not noticed by clients, and each
// request is made once.
func TestSeveralAddresses(t *testing.T) {
	t.Parallel()
	one, other := record(t), record(t)
	g := start(t, `
upstreams: {app: {urls: ["`+one.url+`", "http://127.0.0.1:`+freePort(t)+`", "`+other.url+`"]}}
routes: [{match: /, upstream: app, auth: [none]}]
`)
	c := g.stranger()
	const requests = 30
	many(requests, func(i int) {
		body := fmt.Sprintf("body %d", i)
		if a, err := g.try(c, "POST", "/", body); err != nil || a.status != http.StatusOK {
			t.Errorf("request %d: %d, %v", i, a.status, err)
		}
	})
	first, second := one.all(), other.all()
	if len(first) == 0 || len(second) == 0 {
		t.Errorf("%d and %d requests: both addresses should get some", len(first), len(second))
	}
	got := map[string]int{}
	for _, m := range slices.Concat(first, second) {
		got[m.body]++
	}
	for i := range requests {
		if n := got[fmt.Sprintf("body %d", i)]; n != 1 {
			t.Errorf("request %d reached an upstream %d times", i, n)
		}
	}
}
