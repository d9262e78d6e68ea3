package web_test

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
	"authgate/internal/test/rig"
)

// listen runs f in a synctest bubble with a rig that serves what dial opens.
func listen(t *testing.T, f func(t *testing.T, r *rig.Rig, dial func() net.Conn)) {
	t.Helper()
	rig.Listen(t, func(t *testing.T) *rig.Rig { return rig.New(t, rig.Base) }, f)
}

// A refused request is answered at once, even if its body never arrives. Then the connection
// closes, because it is unknown where the next request would begin. Own endpoints need the body.
func TestStalledBody(t *testing.T) {
	t.Parallel()
	for head, want := range map[string]int{
		"POST /public/%00 HTTP/1.1":                    400,
		"POST /basic/ HTTP/1.1":                        401,
		"POST /session/ HTTP/1.1\nAccept: text/html":   401,
		"POST /admin/ HTTP/1.1\n" + "the token of bob": 403,
		"POST /nowhere HTTP/1.1":                       404,
		"GET /session/ HTTP/1.1\nAccept: text/html":    302,
		"POST /logout HTTP/1.1":                        400, // an own endpoint
	} {
		for _, body := range []string{
			"Content-Length: 10\n\n", "Content-Length: 10\n\nhalf", "Transfer-Encoding: chunked\n\n",
			"Transfer-Encoding: chunked\n\n4\nhalf\n",
		} {
			listen(t, func(t *testing.T, r *rig.Rig, dial func() net.Conn) {
				head := strings.ReplaceAll(head, "the token of bob", r.Login(rig.Bob).Bearer)
				start, conn := time.Now(), dial()
				a := rig.Ask(t, conn, head+"\nHost: gw.example\n"+body)
				waits, answered := strings.Contains(head, "/logout"), time.Duration(0)
				if waits {
					answered = web.BodyTime
				}
				if took := time.Since(start); a.StatusCode != want || took != answered || a.Close != waits {
					t.Errorf("%s, %q: %d after %v, closing %t; want %d after %v", head, body, a.StatusCode, took,
						a.Close, want,
						answered)
				}
				if n, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) || r.Reached() > 0 {
					t.Errorf("%s, %q: the connection is open: %d, %v, or %d requests reached the upstream", head,
						body, n, err,
						r.Reached())
				}
				if took := time.Since(start); took < web.BodyTime || took > web.BodyTime+time.Second {
					t.Errorf("%s, %q: the connection closes after %v", head, body, took)
				}
			})
		}
	}
}

// A client that reads only after it has sent everything gets the answer to an upload that was refused, and its
// next request is served on the same connection.
func TestRefusedUpload(t *testing.T) {
	t.Parallel()
	const size = 5 << 20
	for _, path := range []string{"/session/", "/nowhere"} {
		listen(t, func(t *testing.T, r *rig.Rig, dial func() net.Conn) {
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
			if a := rig.Ask(t, conn, "GET /public/ HTTP/1.1\nHost: gw.example\n\n"); a.StatusCode != 200 {
				t.Errorf("%s: then %d", path, a.StatusCode)
			}
		})
	}
}
