package gateway

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"authgate/gateway/web"
)

// TestUpstreamBytesStayOutOfLog: whatever an upstream says, its bytes are in
// no line of the log.
func TestUpstreamBytesStayOutOfLog(t *testing.T) {
	t.Parallel()
	const secret = "sid-sesame"
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	for _, says := range []string{
		secret + "\r\n\r\n", "HTTP/1.1 " + secret + "\r\n\r\n", secret + " 200 OK\r\n\r\n", ok + "HTTP/1.1 200 OK\r\nSet-Cookie: " + secret + "\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: " + secret + "\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: " + secret + "\r\n\r\n",
		"HTTP/1.1 200 OK\r\n" + secret + "\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + secret + "\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n" + secret + "\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: " + secret + "\r\n\r\n2\r\nok\r\n0\r\n" + secret + ": \x01\r\n\r\n",
		"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + secret + "\r\n\r\n",
		"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: \x01" + secret + "\r\n\r\n",
		"HTTP/1.1 103 Early Hints\r\nX: " + secret + "\r\n\r\n" + secret + "\r\n\r\n",
	} {
		r := rawApplication(t, says, false)
		server := httptest.NewUnstartedServer(r.Gateway)
		server.Config.ErrorLog = web.LibraryLog(r.service.Logger.Handler(), slog.LevelDebug)
		server.Start()
		for _, method := range []string{"GET", "HEAD", "POST"} {
			for _, upgrade := range []string{"", "Connection: Upgrade\r\nUpgrade: websocket\r\n"} {
				conn, err := net.Dial("tcp", server.Listener.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(conn, "%s /public/ HTTP/1.1\r\nHost: gw.example\r\nContent-Length: 0\r\n%s\r\n", method, upgrade)
				if a, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method}); err == nil && a.StatusCode != http.StatusSwitchingProtocols {
					_, _ = io.Copy(io.Discard, a.Body) // which may be cut off
				}
				conn.Close()
			}
		}
		server.Close() // when all requests are logged
		if strings.Contains(r.log.String(), "sesame") {
			t.Errorf("%q: the log has\n%s", says, r.log)
		}
		r.log.last(t, web.AccessMessage) // every line is a record
	}
}
