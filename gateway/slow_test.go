package gateway

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
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

// A refused request is answered at once, even if its body never arrives. Then the connection
// closes, because it is unknown where the next request would begin. Own endpoints need the body.
func TestStalledBody(t *testing.T) {
	t.Parallel()
	for head, want := range map[string]int{
		"POST /public/%00 HTTP/1.1":                  400,
		"POST /basic/ HTTP/1.1":                      401,
		"POST /session/ HTTP/1.1\nAccept: text/html": 401,
		"POST /admin/ HTTP/1.1\n" + bobAtAdmin:       403,
		"POST /nowhere HTTP/1.1":                     404,
		"GET /session/ HTTP/1.1\nAccept: text/html":  302,
		"POST /logout HTTP/1.1":                      400, // an own endpoint
	} {
		for _, body := range []string{
			"Content-Length: 10\n\n", "Content-Length: 10\n\nhalf", "Transfer-Encoding: chunked\n\n",
			"Transfer-Encoding: chunked\n\n4\nhalf\n",
		} {
			listening(t, func(t *testing.T, r *rig, dial func() net.Conn) {
				head := strings.ReplaceAll(head, bobAtAdmin, r.login(bobIn).bearer)
				start, conn := time.Now(), dial()
				a := ownrig.Ask(t, conn, head+"\nHost: gw.example\n"+body)
				waits, answered := strings.Contains(head, "/logout"), time.Duration(0)
				if waits {
					answered = web.BodyTime
				}
				if took := time.Since(start); a.StatusCode != want || took != answered || a.Close != waits {
					t.Errorf("%s, %q: %d after %v, closing %t; want %d after %v", head, body, a.StatusCode, took, a.Close, want,
						answered)
				}
				if n, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) || r.upstream.Reached() > 0 {
					t.Errorf("%s, %q: the connection is open: %d, %v, or %d requests reached the upstream", head, body, n, err,
						r.upstream.Reached())
				}
				if took := time.Since(start); took < web.BodyTime || took > web.BodyTime+time.Second {
					t.Errorf("%s, %q: the connection closes after %v", head, body, took)
				}
			})
		}
	}
}

const bobAtAdmin = "the token of bob"

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
			if a := ownrig.Ask(t, conn, "POST /public/"+rest); a.StatusCode != 200 || a.Close || r.upstream.Reached() != 3 {
				t.Errorf("after %s: %d to a slow body, %d requests reached the upstream", first, a.StatusCode, r.upstream.Reached())
			}
		})
	}
}

// A client that reads only after it has sent everything gets the answer to an upload that was refused, and its
// next request is served on the same connection.
func TestRefusedUpload(t *testing.T) {
	t.Parallel()
	const size = 5 << 20
	for _, path := range []string{"/session/", "/nowhere", "/limited/"} {
		yaml := edit(t, baseConfig, "routes:", "routes:\n  - {match: /limited/, upstream: app, auth: [none], max_body: 1000}")
		listeningWith(t, yaml, func(t *testing.T, r *rig, dial func() net.Conn) {
			conn := dial()
			in := bufio.NewReader(conn)
			for _, framing := range []string{"Content-Length: " + strconv.Itoa(size) + "\r\n\r\n",
				"Transfer-Encoding: chunked\r\n\r\n"} {
				body := strings.Repeat("x", size)
				if strings.HasPrefix(framing, "Transfer") {
					body = fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", size, body)
				}
				sent := make(chan error)
				go func() { // the pipe has no buffer, so the answer is read meanwhile
					_, err := io.WriteString(conn, "PUT "+path+" HTTP/1.1\r\nHost: gw.example\r\n"+framing+body)
					sent <- err
				}()
				answer, err := http.ReadResponse(in, nil)
				if err != nil || answer.StatusCode < 400 || answer.Close {
					t.Fatalf("%s: %v, %v", path, answer, err)
				}
				if _, err := io.Copy(io.Discard, answer.Body); err != nil {
					t.Fatal(err)
				}
				if err := <-sent; err != nil {
					t.Errorf("%s, %q: the client cannot send the rest: %v", path, framing, err)
				}
			}
			if a := ownrig.Ask(t, conn, "GET /public/ HTTP/1.1\nHost: gw.example\n\n"); a.StatusCode != 200 {
				t.Errorf("%s: then %d", path, a.StatusCode)
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
