package gateway

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
)

// A request with two framings is refused, and its connection closes: what a proxy in front
// takes for its body is no request.
func TestTwoFramings(t *testing.T) {
	t.Parallel()
	const hidden = "0\r\n\r\nGET /open/admin HTTP/1.1\r\nHost: gw.example\r\n\r\n"
	for _, request := range []string{
		"POST /open/x HTTP/1.1\r\nHost: gw.example\r\nContent-Length: 58\r\nTransfer-Encoding: chunked\r\n\r\n",
		"POST /login HTTP/1.1\r\nHost: gw.example\r\nTransfer-Encoding: chunked\r\nContent-Length: 58\r\n\r\n",
		"GET /open/x HTTP/1.0\r\nHost: gw.example\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n",
	} {
		listening(t, func(t *testing.T, r *rig, dial func() net.Conn) {
			client := dial()
			go func() { _, _ = io.WriteString(client, request+hidden) }() // the gateway closes it
			in := bufio.NewReader(client)
			answer, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(answer.Body)
			if err != nil || answer.StatusCode != http.StatusBadRequest || !answer.Close ||
				!strings.Contains(string(body), "Transfer-Encoding") {
				t.Errorf("%q: %d, closes %t, %s, %v", request, answer.StatusCode, answer.Close, body, err)
			}
			if _, err := in.ReadByte(); err != io.EOF {
				t.Errorf("%q: after the answer: %v", request, err)
			}
			synctest.Wait()
			if n := r.upstream.Reached(); n != 0 {
				t.Errorf("%q: %d requests reached the upstream", request, n)
			}
		})
	}
}
