package wire

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"authgate/e2e/world"
)

// TestUpstreamCookies: no part of a response of an upstream sets a cookie of the
// gateway. The tests of gateway/identity/auth have all forms of Set-Cookie.
func TestUpstreamCookies(t *testing.T) {
	t.Parallel()
	const ok, own = "HTTP/1.1 200 OK\r\n", "Set-Cookie: session_id=own; Path=/\r\n"
	const chunked = ok + own + "Trailer: Set-Cookie\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n"
	answers := map[string]string{
		"/hint": "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\nSet-Cookie: " +
			"session_id=evil\r\n\r\n" + ok + own + "Content-Length: 2\r\n\r\nok",
		"/trailer": chunked + "Set-Cookie: session_id=evil\r\n\r\n",
		"/late": strings.Replace(chunked, "Trailer: Set-Cookie\r\n", "",
			1) + "set-cookie: session_id=evil\r\nX-Sum: 1\r\n\r\n",
		"/socket": "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" + own + "\r\n",
	}
	up := world.Listen(t, func(conn net.Conn) {
		if m, err := world.ReadMessage(bufio.NewReader(conn), conn); err == nil {
			_, _ = io.WriteString(conn, answers[m.Target()]) // the gateway may have closed the connection
		}
	})
	g := world.Start(t, world.People+world.App(up)+"routes: [{match: /, upstream: app, auth: [none]}]\n")
	for path := range answers {
		t.Run(path, func(t *testing.T) {
			connection := "close"
			if path == "/socket" {
				connection = "Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: " +
					"dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13"
			}
			conn := g.Dial(t, "http/1.1")
			_, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\nTE: "+
				"trailers\r\nConnection: "+connection+"\r\n\r\n")
			all, readErr := io.ReadAll(conn)
			if err = errors.Join(err, readErr); err != nil {
				t.Fatalf("%v after %q", err, all)
			}
			got := string(all)
			if !strings.Contains(got, "\r\nSet-Cookie: authgate_app_session_id=own; Path=/\r\n") ||
				strings.Contains(got, "evil") || strings.Count(got, "session_id=") != 1 {
				t.Errorf("the client gets:\n%s", got)
			}
		})
	}
}
