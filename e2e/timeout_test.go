package e2e

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// TestUpstreamTimeouts: the timeout of an upstream and that of a route give 504.
func TestUpstreamTimeouts(t *testing.T) {
	t.Parallel()
	silent := listen(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }) // until it is closed
	g := start(t, `
upstreams: {silent: {url: "`+silent+`", timeout: 1s}, patient: {url: "`+silent+`", timeout: 1h}}
routes:
  - {match: /upstream, upstream: silent, auth: [none]}
  - {match: /route, upstream: patient, timeout: 1s, auth: [none]}
`)
	for _, path := range []string{"/upstream", "/route"} {
		for _, c := range []*http.Client{g.stranger(), g.stranger11()} {
			began := time.Now()
			wantProblem(t, g.do(c, "POST", path, "body"), http.StatusGatewayTimeout)
			if took := time.Since(began); took < time.Second {
				t.Errorf("%s: 504 after %v, less than the timeout", path, took)
			}
		}
	}
}

// wantProblem checks an error of the gateway itself, as JSON.
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
