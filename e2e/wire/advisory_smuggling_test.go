package wire

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"authgate/e2e/world"
)

// smuggled is a request for a private path, to be hidden in another request.
const smuggled = "GET /private/smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"

const (
	postChunks = "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
	postLength = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length:"
	getUpgrade = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: "
)

// lengthOf is a length as the last line of a header, and a body of that length.
func lengthOf(body string) string {
	return fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)
}

// smugglingAdvisories are bytes that two programs divide into requests
// differently.
var smugglingAdvisories = []advisory{
	{"CVE-2022-1705 Go net/http, almost chunked", hiding("Transfer-Encoding: \x0bchunked", "Transfer-Encoding: "+
		"chunkedx", "Transfer-Encoding: xchunked", "Transfer-Encoding: chunked, identity", "Transfer-Encoding: "+
		"identity\r\nTransfer-Encoding: chunked", "Transfer-Encoding:\r\n chunked", "Transfer-Encoding: \"chunked\"")},
	{"CVE-2019-18277 HAProxy, Transfer-Encoding that is overlooked", hiding("Transfer-Encoding:\x0bchunked",
		"Transfer-Encoding : chunked", "\x0bTransfer-Encoding: chunked", "X: y\nTransfer-Encoding: chunked")},
	{"CVE-2025-22871 Go net/http, line feeds in chunks", []string{
		postChunks + "0;\n\r\n\r\n" + smuggled, postChunks + "1;x\n0\r\n0\r\n\r\n" + smuggled,
		postChunks + "2\nxx\r\n0\r\n\r\n" + smuggled,
		postChunks + fmt.Sprintf("%x;\n\r\n0\r\n%s\r\n0\r\n\r\n", len(smuggled)+5, smuggled),
	}},
	{"CVE-2021-40346 HAProxy, a name of 270 bytes",
		[]string{postLength[:len(postLength)-1] + "0" + strings.Repeat("a", 255) + ":\r\n" + lengthOf(smuggled)}},
	{"CVE-2023-40225 HAProxy, an empty Content-Length", []string{
		postLength + "\r\n\r\n" + smuggled, postLength + " \r\nContent-Length: 3\r\n\r\nabc" + smuggled,
		postLength + " ,3\r\n\r\nabc" + smuggled, postLength + " +3\r\n\r\nabc" + smuggled,
	}},
	{"CVE-2019-20372 nginx, the body behind an error", []string{
		"GET /private/ HTTP/1.1\r\nHost: localhost\r\n" + lengthOf(smuggled),
		"GET /a//b HTTP/1.1\r\nHost: localhost\r\n" + lengthOf(smuggled),
		fmt.Sprintf("POST /me HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n",
			len(smuggled), smuggled),
	}},
	{"CVE-2026-88008 Traefik, h2c", []string{
		getUpgrade + "h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n" + smuggled,
		getUpgrade + "h2c\r\nContent-Length: 0\r\n\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + smuggled,
	}},
	{"CVE-2026-73548 Envoy, an upgrade that is refused", []string{
		getUpgrade + "x\r\n\r\n" + smuggled, getUpgrade + "websocket\r\n" + lengthOf(smuggled),
		getUpgrade + "websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " +
			"dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n" + smuggled,
	}},
	{"CVE-2026-71324 Traefik, CONNECT", []string{"CONNECT localhost:443 HTTP/1.1\r\nHost: " +
		"localhost:443\r\n\r\n" + smuggled, "CONNECT / HTTP/1.1\r\nHost: localhost\r\n\r\n" + smuggled}},
}

// hiding has requests with a length and a line about chunks, in both orders. By
// one of them the smuggled request is the body, by the other it follows the body.
func hiding(lines ...string) (all []string) {
	const post, body = "POST / HTTP/1.1\r\nHost: localhost\r\n", "0\r\n\r\n" + smuggled
	for _, line := range lines {
		for _, length := range []int{len(body), 5} {
			all = append(all, fmt.Sprintf(post+"Content-Length: %d\r\n%s\r\n\r\n%s", length, line, body),
				fmt.Sprintf(post+"%s\r\nContent-Length: %d\r\n\r\n%s", line, length, body))
		}
		all = append(all, post+line+"\r\n\r\n"+body)
	}
	return all
}

// TestAdvisoriesSmuggling: no request reaches the upstream without a decision.
func TestAdvisoriesSmuggling(t *testing.T) {
	t.Parallel()
	up := world.Record(t)
	g := world.Start(t, world.People+world.App(up.URL)+"routes: [{match: /, upstream: app, auth: [none]}, {match: "+
		"/private/, upstream: app, auth: [session]}]\n")
	for _, a := range smugglingAdvisories {
		t.Run(a.name, func(t *testing.T) {
			for _, bytes := range a.attacks {
				sendAll(t, g, bytes)
				for _, m := range up.All() {
					framed := len(m.Values("Content-Length")) + len(m.Values("Transfer-Encoding"))
					if m.Target() != "/" || strings.HasPrefix(m.Line, "CONNECT") || framed > 1 || len(m.Values("Upgrade")) > 0 &&
						!strings.Contains(bytes, "websocket") {
						t.Errorf("after %q the upstream gets %q %q", bytes, m.Line, m.Head)
					}
				}
				g.Do(g.Stranger11(), "POST", "/next", "x") // a request with a body may get a used connection
				if got := up.One(t); got.Target() != "/next" || got.Body != "x" {
					t.Errorf("after %q the upstream gets %q", bytes, got)
				}
			}
		})
	}
	t.Run("CVE-2024-24791 Go net/http, Expect: 100-continue", expectWithoutContinue)
}

// sendAll sends bytes over HTTP/1.1 and reads answers until the gateway closes the
// connection, or sends nothing for 100 ms after an answer.
func sendAll(t testing.TB, g *world.Instance, bytes string) string {
	t.Helper()
	conn := g.Dial(t, "http/1.1")
	go func() { _, _ = io.WriteString(conn, bytes) }() // the answer may come before the end
	in := bufio.NewReader(conn)
	var said strings.Builder
	for {
		a, err := world.ReadAnswer(in)
		if err != nil {
			conn.Close()
			return said.String()
		}
		fmt.Fprintln(&said, a.Status, a.Body)
		if err := conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
	}
}

// expectWithoutContinue: an upstream refuses a request before its body, and then
// reads the announced body, as it must (RFC 9112, section 9.3). The gateway must
// not send another request instead of the body.
func expectWithoutContinue(t *testing.T) {
	var mu sync.Mutex
	var got []string
	up := world.Listen(t, func(conn net.Conn) {
		for in := bufio.NewReader(conn); ; {
			request, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			answer := "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
			if request.Header.Get("Expect") != "" {
				answer = "HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n"
			} else {
				mu.Lock()
				got = append(got, request.Method+" "+request.URL.Path)
				mu.Unlock()
			}
			_, _ = io.WriteString(conn, answer)      // the next read fails if this does
			_, _ = io.Copy(io.Discard, request.Body) // or the end of the connection
		}
	})
	g := world.Start(t, targets+world.App(up))
	c := g.Stranger11()
	for i := range 5 {
		sendAll(t, g, "POST /expect HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"+lengthOf(smuggled))
		path := fmt.Sprintf("/next/%d", i)
		if a := g.Do(c, "POST", path, "x"); a.Body != "ok" {
			t.Errorf("%s: %d %q", path, a.Status, a.Body)
		}
		mu.Lock()
		if len(got) != i+1 || got[i] != "POST "+path {
			t.Errorf("after %s the upstream has got %q", path, got)
		}
		mu.Unlock()
	}
}
