package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestUpstreamFails: an upstream that does not answer within the timeout of the
// upstream or the route gives 504, one that cannot be reached 502, and a response
// that breaks off breaks off for the client. When a client leaves, the request to
// the upstream ends. Package http1 has all ways to fail.
func TestUpstreamFails(t *testing.T) {
	t.Parallel()
	began, ended := make(chan struct{}, 2), make(chan struct{}, 2)
	sleeps := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // net/http notices the end of the connection after that
		if r.URL.Path == "/leaves" {
			began <- struct{}{}
			defer func() { ended <- struct{}{} }()
		}
		<-r.Context().Done()
	}))
	t.Cleanup(sleeps.Close)
	breaks := listen(t, func(conn net.Conn) {
		if _, err := readMessage(bufio.NewReader(conn), conn); err == nil {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this")
		}
	})
	g := start(t, `
upstreams:
  sleeps: {url: "`+sleeps.URL+`", timeout: 1s}
  patient: {url: "`+sleeps.URL+`", timeout: 1h}
  refuses: {url: "http://`+freeAddress(t)+`"}
  breaks: {url: "`+breaks+`"}
routes:
  - {match: /sleeps, upstream: sleeps, auth: [none]}
  - {match: /route, upstream: patient, timeout: 1s, auth: [none]}
  - {match: /leaves, upstream: patient, auth: [none]}
  - {match: /refuses, upstream: refuses, auth: [none]}
  - {match: /breaks, upstream: breaks, auth: [none]}
`)
	t.Run("the client leaves", func(t *testing.T) { clientLeaves(t, g, began, ended) })
	for path, want := range map[string]int{"/sleeps": 504, "/route": 504, "/refuses": 502, "/breaks": 0} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			for _, c := range []*http.Client{g.stranger(), g.stranger11()} {
				for method, body := range map[string]string{"GET": "", "POST": "body"} {
					began := time.Now()
					a, err := g.try(c, method, path, body)
					if (err != nil) != (want == 0) {
						t.Fatalf("%s: %d %q, %v", method, a.status, a.body, err)
					}
					if want != 0 {
						wantProblem(t, a, want)
					}
					if took := time.Since(began); want == http.StatusGatewayTimeout && took < time.Second {
						t.Errorf("%s: 504 after %v, less than the timeout", method, took)
					}
				}
			}
		})
	}
}

// wantProblem checks an error of the gateway itself, as JSON (design B.2).
func wantProblem(t *testing.T, a answer, status int) {
	t.Helper()
	var body struct {
		Title  string
		Status int
		Detail string
	}
	if err := json.Unmarshal([]byte(a.body), &body); err != nil {
		t.Errorf("the body %q is no JSON object: %v", a.body, err)
	}
	if a.status != status || body.Status != status || body.Title != http.StatusText(status) || body.Detail == "" {
		t.Errorf("status %d, body %s; expected %d with status, title and detail", a.status, a.body, status)
	}
	if got := a.header.Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type %q", got)
	}
	if got := a.header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("Cache-Control %q", got)
	}
}

// clientLeaves: when a client leaves, the request to the upstream ends. The upstream
// sends on began for each request, and on ended when its request has ended.
func clientLeaves(t *testing.T, g *instance, began, ended <-chan struct{}) {
	for _, c := range []*http.Client{g.stranger(), g.stranger11()} {
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan error)
		go func() {
			request, err := http.NewRequestWithContext(ctx, "GET", g.base+"/leaves", nil)
			if err == nil {
				_, err = c.Do(request)
			}
			left <- err
		}()
		<-began
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("the client: %v", err)
		}
		select {
		case <-ended:
		case <-time.After(patience):
			t.Fatal("the request to the upstream goes on though the client left")
		}
	}
	until(t, "499 in the access log", func() bool { return strings.Count(g.log.String(), `"status":499`) == 2 })
}
