package forward

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"authgate/gateway/config"
	"authgate/internal/test/must"
	ownrig "authgate/internal/test/rig"
)

// rawApplication returns a rig whose upstream answers each request with bytes, and then
// closes the connection.
func rawApplication(t *testing.T, bytes string) *rig {
	t.Helper()
	yaml := ownrig.Edit(t, ownrig.Base, "store:", "tls: {hsts: 48h}\nstore:")
	return newApplication(t, yaml, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, bytes) // which may be more than the gateway reads
	})
}

// Informational responses reach the client, and do not change the header of the
// response. While the gateway drains, only the response asks the client to close the
// connection.
func TestInformationalKeepsHeaders(t *testing.T) {
	t.Parallel()
	const hint = "HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\nStrict-Transport-Security: max-age=1\r\n\r\n"
	for hints := range 3 {
		r := rawApplication(t, strings.Repeat(hint, hints)+"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		r.site.Service.Draining.Store(true)
		server := httptest.NewServer(r)
		defer server.Close()
		client, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		fmt.Fprint(client, "GET /public/ HTTP/1.1\r\nHost: gw.example\r\n\r\n")
		all, err := io.ReadAll(client) // the server closes the connection
		parts := strings.Split(string(all), "\r\n\r\n")
		if err != nil || len(parts) != hints+2 || parts[hints+1] != "ok" {
			t.Fatalf("after %d hints: %q, %v", hints, all, err)
		}
		for _, hint := range parts[:hints] {
			if !strings.HasPrefix(hint, "HTTP/1.1 103") || strings.Contains(hint, "Connection") {
				t.Errorf("the hint is %q", hint)
			}
		}
		if header := parts[hints]; !strings.HasPrefix(header, "HTTP/1.1 200") ||
			strings.Count(header, "Connection: close") != 1 || strings.Count(header, "max-age=") != 1 ||
			!strings.Contains(header, "max-age=172800") {
			t.Errorf("after %d hints: %q", hints, header)
		}
	}
}

// The log has no bytes of what an upstream sends. TestErrorLog of gateway/proxy/server has
// the lines of net/http.
func TestUpstreamBytesStayOutOfLog(t *testing.T) {
	t.Parallel()
	const secret = "sid-sesame"
	const ok, chunked = "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"
	const switches = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "
	for _, says := range []string{
		secret + "\r\n\r\n", "HTTP/1.1 " + secret + "\r\n\r\n", secret + " 200 OK\r\n\r\n",
		ok + "Content-Length: 2\r\n\r\nok" + ok + "Set-Cookie: " + secret + "\r\n\r\n",
		ok + "Content-Length: " + secret + "\r\n\r\n", ok + "Transfer-Encoding: " + secret + "\r\n\r\n",
		ok + secret + "\r\n\r\n",
		chunked + "\r\n" + secret + "\r\n", chunked + "\r\n2\r\nok\r\n0\r\n" + secret + "\r\n\r\n",
		chunked + "Trailer: " + secret + "\r\n\r\n2\r\nok\r\n0\r\n" + secret + ": \x01\r\n\r\n",
		switches + secret + "\r\n\r\n", switches + "\x01" + secret + "\r\n\r\n",
		"HTTP/1.1 103 Early Hints\r\nX: " + secret + "\r\n\r\n" + secret + "\r\n\r\n",
	} {
		r := rawApplication(t, says)
		for _, method := range []string{"GET", "HEAD", "POST"} {
			for _, upgrade := range []string{"", "Connection: Upgrade"} {
				func() {
					defer func() { _ = recover() }() // an answer may be cut off
					r.Do(method, "/public/", "", upgrade, "Upgrade: websocket")
				}()
			}
		}
		if strings.Contains(r.log.String(), "sesame") {
			t.Errorf("%q: the log has\n%s", says, r.log)
		}
		r.log.Last(t, config.AccessMessage) // every line is a record
	}
}

// An answer without a length that breaks off does not look whole in HTTP/1.0 either: the connection is reset.
func TestCutOffHTTP10(t *testing.T) {
	t.Parallel()
	r := rawApplication(t, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
	client := must.Get(net.Dial("tcp", ownrig.ServeTCP(t, r)))(t)
	defer client.Close()
	fmt.Fprint(client, "GET /public/ HTTP/1.0\r\nHost: gw.example\r\n\r\n")
	if got, err := io.ReadAll(client); err == nil {
		t.Errorf("the client takes %q for the whole answer", got)
	}
}
