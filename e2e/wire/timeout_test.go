package wire

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"authgate/e2e/world"
)

// TestUpstreamTimeouts: the timeout of an upstream and that of a route give 504.
func TestUpstreamTimeouts(t *testing.T) {
	t.Parallel()
	silent := world.Listen(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }) // until it is closed
	g := world.Start(t, `
upstreams: {silent: {url: "`+silent+`", timeout: 1s}, patient: {url: "`+silent+`", timeout: 1h}}
routes:
  - {match: /upstream, upstream: silent, auth: [none]}
  - {match: /route, upstream: patient, timeout: 1s, auth: [none]}
`)
	for _, path := range []string{"/upstream", "/route"} {
		for _, c := range []*http.Client{g.Stranger(), g.Stranger11()} {
			began := time.Now()
			wantProblem(t, g.Do(c, "POST", path, "body"), http.StatusGatewayTimeout)
			if took := time.Since(began); took < time.Second {
				t.Errorf("%s: 504 after %v, less than the timeout", path, took)
			}
		}
	}
}

// wantProblem checks an error of the gateway itself, as JSON.
func wantProblem(t *testing.T, a world.Answer, status int) {
	t.Helper()
	var body struct {
		Title  string
		Status int
		Detail string
	}
	if err := json.Unmarshal([]byte(a.Body), &body); err != nil {
		t.Errorf("the body %q is no JSON object: %v", a.Body, err)
	}
	if a.Status != status || body.Status != status || body.Title != http.StatusText(status) || body.Detail == "" {
		t.Errorf("status %d, body %s; expected %d with status, title and detail", a.Status, a.Body, status)
	}
	if media, cache := a.Header.Get("Content-Type"), a.Header.Get("Cache-Control"); media != "application/json" ||
		cache != "no-store" {
		t.Errorf("Content-Type %q, Cache-Control %q", media, cache)
	}
}
