package gateway

import (
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"authgate/gateway/proxy/web"
	ownrig "authgate/internal/test/rig"
)

// bodyPause is limits.body_pause of baseConfig.
const bodyPause = 2 * time.Minute

// listening runs f in a synctest bubble with a gateway that serves HTTP/1.1 and
// HTTP/2 over what dial opens. The upstream reads the whole body.
func listening(t *testing.T, f func(t *testing.T, r *rig, dial func() net.Conn)) {
	t.Helper()
	listeningWith(t, baseConfig, f)
}

// listeningWith is listening for a gateway that runs yaml.
func listeningWith(t *testing.T, yaml string, f func(t *testing.T, r *rig, dial func() net.Conn)) {
	t.Helper()
	ownrig.Listen(t, func(t *testing.T) *rig {
		r := newRig(t, yaml)
		r.upstream.Answer = func(q *http.Request) (*http.Response, error) {
			if q.Body != nil {
				if _, err := io.Copy(io.Discard, q.Body); err != nil {
					return nil, err
				}
			}
			return response(q, http.StatusOK, http.Header{}, ""), nil
		}
		return r
	}, f)
}

// The time limit of a body does not apply to the next body on the connection, which
// goes to the upstream.
func TestBodyLimitEnds(t *testing.T) {
	t.Parallel()
	const rest = " HTTP/1.1\nHost: gw.example\nContent-Length: 4\n\n"
	for _, first := range []string{"POST /basic/", "POST /basic", "POST /logout", "POST /login"} {
		listening(t, func(t *testing.T, r *rig, dial func() net.Conn) {
			conn := dial()
			for _, head := range []string{first, "POST /public/"} {
				for _, wait := range []time.Duration{time.Second, web.BodyTime - time.Second} {
					sent := time.Now().Add(wait)
					ownrig.SendLater(conn, wait, "body")
					if a := ownrig.Ask(t, conn, head+rest); a.Close {
						t.Errorf("after %s: %d, and the connection ends", first, a.StatusCode)
					}
					time.Sleep(time.Until(sent) + time.Millisecond) // the answer may come first
				}
			}
			time.Sleep(ownrig.IdleTime - time.Second)
			ownrig.SendLater(conn, bodyPause-time.Second, "body")
			if a := ownrig.Ask(t, conn, "POST /public/"+rest); a.StatusCode != 200 || a.Close ||
				r.upstream.Reached() != 3 {
				t.Errorf("after %s: %d to a slow body, %d requests reached the upstream", first, a.StatusCode,
					r.upstream.Reached())
			}
		})
	}
}

// Over HTTP/2 the gateway does not wait for a body that it does not read, and the
// time limit is that of one stream.
func TestStalledBodyHTTP2(t *testing.T) {
	t.Parallel()
	listening(t, func(t *testing.T, r *rig, dial func() net.Conn) {
		dials := 0
		transport := ownrig.TransportOver(func() net.Conn { dials++; return dial() }, "HTTP/2.0")
		defer transport.CloseIdleConnections()
		bob := r.login(bobIn)
		for _, c := range []struct {
			method, path, header string
			bodyAfter            time.Duration
			want                 int
			took                 time.Duration
		}{
			{"POST", "/basic/", "", time.Hour, 401, 0},
			{"POST", "/admin/", bob.bearer, time.Hour, 403, 0},
			{"GET", "/session/", browser, time.Hour, 302, 0},
			{"POST", "/login", "", time.Hour, 400, web.BodyTime},
			{"POST", "/public/", "", bodyPause - time.Second, 200, bodyPause - time.Second},
		} {
			body, comes := io.Pipe()
			late := time.AfterFunc(c.bodyAfter, func() { comes.Close() })
			start := time.Now()
			a := ownrig.RoundTrip(t, transport, c.method, c.path, body, c.header)
			if took := time.Since(start); a.StatusCode != c.want || took != c.took {
				t.Errorf("%s: %d after %v, want %d after %v", c.path, a.StatusCode, took, c.want, c.took)
			}
			a.Body.Close()
			late.Stop()
			comes.Close()
		}
		if n := r.upstream.Reached(); n != 1 || dials != 1 {
			t.Errorf("%d requests reached the upstream, over %d connections", n, dials)
		}
	})
}
