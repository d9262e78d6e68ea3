package e2e

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// TestUpstreamFails: the timeout of an upstream or of a route gives 504, an upstream
// that refuses connections 502, and a response that breaks off does so for the client.
func TestUpstreamFails(t *testing.T) {
	t.Parallel()
	silent := listen(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }) // until it is closed
	breaks := listen(t, func(conn net.Conn) {
		if _, err := readMessage(bufio.NewReader(conn), conn); err == nil {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this")
		}
	})
	g := start(t, `
upstreams:
  silent: {url: "`+silent+`", timeout: 1s}
  patient: {url: "`+silent+`", timeout: 1h}
  refuses: {url: "http://`+freeAddress(t)+`"}
  breaks: {url: "`+breaks+`"}
routes:
  - {match: /silent, upstream: silent, auth: [none]}
  - {match: /route, upstream: patient, timeout: 1s, auth: [none]}
  - {match: /refuses, upstream: refuses, auth: [none]}
  - {match: /breaks, upstream: breaks, auth: [none]}
`)
	for path, want := range map[string]int{"/silent": 504, "/route": 504, "/refuses": 502, "/breaks": 0} {
		for _, c := range []*http.Client{g.stranger(), g.stranger11()} {
			began := time.Now()
			a, err := g.try(c, "POST", path, "body")
			if (err != nil) != (want == 0) {
				t.Fatalf("%s: %d %q, %v", path, a.status, a.body, err)
			}
			if want != 0 {
				wantProblem(t, a, want)
			}
			if took := time.Since(began); want == http.StatusGatewayTimeout && took < time.Second {
				t.Errorf("%s: 504 after %v, less than the timeout", path, took)
			}
		}
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
	if media, cache := a.header.Get("Content-Type"), a.header.Get("Cache-Control"); media != "application/json" || cache != "no-store" {
		t.Errorf("Content-Type %q, Cache-Control %q", media, cache)
	}
}
