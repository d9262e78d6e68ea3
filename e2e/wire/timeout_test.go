package wire

import (
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
			world.WantProblem(t, g.Do(c, "POST", path, "body"), http.StatusGatewayTimeout)
			if took := time.Since(began); took < time.Second {
				t.Errorf("%s: 504 after %v, less than the timeout", path, took)
			}
		}
	}
}
