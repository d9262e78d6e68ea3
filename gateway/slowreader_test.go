package gateway

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// A client that does not read its answer holds a connection here and one at
// the upstream, and must not do so for as long as it likes. One that reads
// slowly gets everything.
func TestStalledReader(t *testing.T) {
	t.Parallel()
	listening(t, func(t *testing.T, r *rig, dial func() net.Conn) {
		r.upstream.answer = func(q *http.Request) (*http.Response, error) {
			answer := response(q, http.StatusOK, http.Header{}, "")
			answer.Body, answer.ContentLength = endlessBody{}, 1<<40
			return answer, nil
		}
		slow, stalled := dial(), dial()
		for _, conn := range []net.Conn{slow, stalled} {
			fmt.Fprint(conn, "GET /public/ HTTP/1.1\r\nHost: gw.example\r\n\r\n")
			if answer, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || answer.StatusCode != http.StatusOK {
				t.Fatalf("%v, %v", answer, err)
			}
		}
		buffer := make([]byte, copyBuffer)
		for range 60 {
			time.Sleep(time.Minute)
			if _, err := slow.Read(buffer); err != nil {
				t.Fatalf("who reads slowly: %v", err)
			}
		}
		synctest.Wait()
		if got := r.load.inFlight.Load(); got != 1 {
			t.Errorf("after an hour %d requests are under way, want that of the slow one alone", got)
		}
		slow.Close()
		stalled.Close()
	})
}
