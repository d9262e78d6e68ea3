package e2e

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// TestForwardedRequest checks the headers that reach the upstream, over HTTP/1.1
// and HTTP/2.
func TestForwardedRequest(t *testing.T) {
	t.Parallel()
	up := record(t)
	g := start(t, people+app(up.url)+`
routes:
  - {match: /public, upstream: app, auth: [none]}
  - {match: /basic, upstream: app, auth: [basic]}
  - {match: /session, upstream: app, auth: [session]}
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
		want       map[string]string // empty: the header is missing
		http1      bool              // only HTTP/1.1 can send it
	}{
		{"origin", "/public", nil, map[string]string{
			"Host": host, "X-Forwarded-Host": host, "X-Forwarded-Proto": "https", "X-Forwarded-For": "127.0.0.1",
		}, false},
		{"identity by Basic", "/basic", []string{"Authorization", basicService, "Cookie", "a=b; " + s.session}, map[string]string{
			"Authorization": "", "Cookie": "a=b", "X-Auth-User": "service", "X-Auth-Mechanism": "basic", "X-Auth-Roles": "",
		}, false},
		{"identity by session", "/session", []string{"Authorization", "Basic YXBwOmFwcA==", "Cookie", s.session}, map[string]string{
			"Authorization": "Basic YXBwOmFwcA==", "Cookie": "", "X-Auth-User": "alice", "X-Auth-Name": "Alice Example", "X-Auth-Mechanism": "session",
		}, false},
		{"forward_credentials", "/kept", []string{"Authorization", s.access, "Cookie", "a=b; " + s.session}, map[string]string{
			"Authorization": s.access, "Cookie": "a=b; " + s.session, "X-Auth-User": "alice", "X-Auth-Mechanism": "bearer",
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
		{"headers of one hop", "/session", []string{
			"Cookie", s.session, "Connection", "close, X-Hop, X-Auth-User, Cookie", "X-Hop", "1", "Keep-Alive", "1",
			"Proxy-Authorization", "Basic x", "Proxy-Connection", "close", "X-Other", "2",
		}, map[string]string{
			"Connection": "", "X-Hop": "", "Keep-Alive": "", "Proxy-Authorization": "", "Proxy-Connection": "", "X-Other": "2", "X-Auth-User": "alice",
		}, true},
		{"headers that Go adds", "/public", []string{"User-Agent", ""}, map[string]string{
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
		for path, want := range map[string]string{"/app/x%41;y?a=%zz&b": "/x%41;y?a=%zz&b", "/%61pp/app/?": "/app/?", "/app?a=b": "/?a=b"} {
			g.raw(t, "GET "+path+" HTTP/1.1\nHost: localhost\n\n")
			if got := up.one(t).target(); got != want {
				t.Errorf("%s becomes %s, expected %s", path, got, want)
			}
		}
	})
	t.Run("X-Request-Id", func(t *testing.T) {
		for header, kept := range map[string]bool{"X-Request-Id: 7f3c.A_b-9": true, "X-Request-Id: a b": false, "X_Request_Id: spelled": false} {
			g.raw(t, "GET /public HTTP/1.1\nHost: localhost\n"+header+"\n\n")
			var ids []string
			for _, line := range up.one(t).head {
				if name, id, _ := strings.Cut(line, ": "); strings.EqualFold(name, "X-Request-Id") {
					ids = append(ids, id)
				}
			}
			if len(ids) != 1 || ids[0] == "" || strings.HasSuffix(header, ids[0]) != kept {
				t.Errorf("%q becomes %q", header, ids)
			}
		}
	})
}

// TestResponses checks what the client gets.
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
		w.Header().Set("Content-Encoding", "gzip") // which it is not: the gateway does not decode it
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
				"/": "", "/private": "private", "/private?cache=public,max-age=60": "public,max-age=60",
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

// TestStreams: each part of a body arrives before the next part is sent.
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

// TestLargeBodies: 50 MB pass unchanged in both directions.
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

// TestContinue: the gateway sends 100 (Continue) after it has let the request
// through (RFC 9110, section 10.1.1).
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

// TestSeveralAddresses: clients do not notice an address that is down, and each
// request reaches an upstream once.
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
