package gateway

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// TestExpectEarlyAnswer: an upstream that answers before the client has sent
// its body, because that waits for 100 (Continue), is not held up by the body.
func TestExpectEarlyAnswer(t *testing.T) {
	t.Parallel()
	listening(t, func(t *testing.T, r *rig, dial func() net.Conn) {
		r.upstream.answer = func(q *http.Request) (*http.Response, error) {
			return response(q, http.StatusRequestEntityTooLarge, http.Header{}, ""), nil
		}
		conn := dial()
		defer conn.Close()
		began := time.Now()
		if _, err := io.WriteString(conn, "POST /public/ HTTP/1.1\r\nHost: gw.example\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		got, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); got.StatusCode != http.StatusRequestEntityTooLarge || took != 0 {
			t.Errorf("%s after %v, want 413 at once", got.Status, took)
		}
	})
}
