package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// answering serves one document over HTTP/1.1 for all requests.
func answering(document string) func(net.Conn) {
	return func(conn net.Conn) {
		in := bufio.NewReader(conn)
		for {
			if _, err := readMessage(in, conn); err != nil {
				return
			}
			if _, err := fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(document), document); err != nil {
				return
			}
		}
	}
}

// smuggled is a request for a private path, to be hidden in another request.
const smuggled = "GET /private/smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"

// smugglingAdvisories are bytes that two programs divide into requests
// differently.
var smugglingAdvisories = []advisory{
	{"CVE-2022-1705 Go net/http, almost chunked", hiding("Transfer-Encoding: \x0bchunked", "Transfer-Encoding: chunkedx", "Transfer-Encoding: xchunked", "Transfer-Encoding: chunked, identity", "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked", "Transfer-Encoding:\r\n chunked", "Transfer-Encoding: \"chunked\"")},
	{"CVE-2019-18277 HAProxy, Transfer-Encoding that is overlooked", hiding("Transfer-Encoding:\x0bchunked", "Transfer-Encoding : chunked", "\x0bTransfer-Encoding: chunked", "X: y\nTransfer-Encoding: chunked")},
	{"CVE-2025-22871 Go net/http, line feeds in chunks", []string{
		"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0;\n\r\n\r\n" + smuggled,
		"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1;x\n0\r\n0\r\n\r\n" + smuggled,
		"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2\nxx\r\n0\r\n\r\n" + smuggled,
		fmt.Sprintf("POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n%x;\n%s\r\n0\r\n\r\n", len(smuggled)+5, "\r\n0\r\n"[:3]+"\r\n"+smuggled),
	}},
	{"CVE-2021-40346 HAProxy, a name of 270 bytes", []string{
		"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length0" + strings.Repeat("a", 255) + ":\r\n" + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(smuggled)) + smuggled,
	}},
	{"CVE-2023-40225 HAProxy, an empty Content-Length", []string{
		"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length:\r\n\r\n" + smuggled,
		"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: \r\nContent-Length: 3\r\n\r\nabc" + smuggled,
		"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: ,3\r\n\r\nabc" + smuggled,
		"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: +3\r\n\r\nabc" + smuggled,
	}},
	{"CVE-2019-20372 nginx, the body behind an error", []string{
		fmt.Sprintf("GET /private/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(smuggled), smuggled),
		fmt.Sprintf("GET /a//b HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(smuggled), smuggled),
		fmt.Sprintf("POST /me HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(smuggled), smuggled),
	}},
	{"CVE-2026-88008 Traefik, h2c", []string{
		"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n" + smuggled,
		"POST / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 0\r\n\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + smuggled,
	}},
	{"CVE-2026-73548 Envoy, an upgrade that is refused", []string{
		"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n" + smuggled,
		"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n" + smuggled,
		fmt.Sprintf("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: websocket\r\nContent-Length: %d\r\n\r\n%s", len(smuggled), smuggled),
	}},
	{"CVE-2026-71324 Traefik, CONNECT", []string{"CONNECT localhost:443 HTTP/1.1\r\nHost: localhost:443\r\n\r\n" + smuggled, "CONNECT / HTTP/1.1\r\nHost: localhost\r\n\r\n" + smuggled}},
}

// hiding has requests with a length and a line about chunks, in both orders. By
// one of them the smuggled request is the body, by the other it follows the body.
func hiding(lines ...string) []string {
	var all []string
	body := "0\r\n\r\n" + smuggled
	for _, line := range lines {
		for _, length := range []int{len(body), 5} {
			all = append(all, fmt.Sprintf("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n%s\r\n\r\n%s", length, line, body),
				fmt.Sprintf("POST / HTTP/1.1\r\nHost: localhost\r\n%s\r\nContent-Length: %d\r\n\r\n%s", line, length, body))
		}
		all = append(all, "POST / HTTP/1.1\r\nHost: localhost\r\n"+line+"\r\n\r\n"+body)
	}
	return all
}

// TestAdvisoriesSmuggling: no request reaches the upstream without a decision.
func TestAdvisoriesSmuggling(t *testing.T) {
	t.Parallel()
	up := record(t)
	g := start(t, people+app(up.url)+"routes: [{match: /, upstream: app, auth: [none]}, {match: /private/, upstream: app, auth: [session]}]\n")
	for _, a := range smugglingAdvisories {
		t.Run(a.name, func(t *testing.T) {
			for _, bytes := range a.attacks {
				g.send(t, bytes)
				wantNothingSmuggled(t, up, bytes)
				g.do(g.stranger11(), "POST", "/next", "x") // a request with a body may get a used connection
				if got := up.one(t); got.target() != "/next" || got.body != "x" {
					t.Errorf("after %q the upstream gets %q", bytes, got)
				}
			}
		})
	}
	t.Run("CVE-2022-2880 Go ReverseProxy, queries", func(t *testing.T) {
		for _, query := range []string{"a=1&a=%zz&a=2", "a=1;a=2", "%zz", "a=%", "a=1&;b=2", "mechanism=session;mechanism=bearer"} {
			if got := g.raw(t, "GET /x?"+query+" HTTP/1.1\nHost: localhost\n\n"); got.status != http.StatusOK || up.one(t).target() != "/x?"+query {
				t.Errorf("%q: %d", query, got.status)
			}
			a := g.do(g.stranger(), "GET", "/login?provider=x&return_to=/&"+query, "")
			if strings.Contains(a.header.Get("Location"), query) {
				t.Errorf("%q goes on to %s", query, a.header.Get("Location"))
			}
		}
	})
	t.Run("CVE-2024-24791 Go net/http, Expect: 100-continue", expectWithoutContinue)
}

// send sends bytes over HTTP/1.1 and reads answers until the gateway closes the
// connection, or sends nothing for 100 ms after an answer.
func (g *instance) send(t testing.TB, bytes string) string {
	t.Helper()
	conn := g.dial(t, "http/1.1")
	go func() { _, _ = io.WriteString(conn, bytes) }() // the answer may come before the end
	in := bufio.NewReader(conn)
	var said strings.Builder
	for {
		a, err := readAnswer(in)
		if err != nil {
			conn.Close()
			return said.String()
		}
		fmt.Fprintln(&said, a.status, a.body)
		if err := conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
	}
}

func wantNothingSmuggled(t *testing.T, up *recorder, attack string) {
	t.Helper()
	for _, m := range up.all() {
		if strings.Contains(m.line, "smuggled") || strings.Contains(m.line, "PRI") || strings.HasPrefix(m.line, "CONNECT") {
			t.Errorf("%q: the upstream gets %q", attack, m.line)
		}
		if n := len(m.values("Content-Length")) + len(m.values("Transfer-Encoding")); n > 1 || len(m.values("Upgrade")) > 0 && !strings.Contains(attack, "websocket") {
			t.Errorf("%q: the upstream gets %q", attack, m.head)
		}
	}
}

// expectWithoutContinue: an upstream refuses a request before its body, and then
// reads the announced body, as it must (RFC 9112, section 9.3). The gateway must
// not send another request instead of the body.
func expectWithoutContinue(t *testing.T) {
	const requests = 5
	got := make(chan string, 4*requests)
	up := listen(t, func(conn net.Conn) {
		in := bufio.NewReader(conn)
		for {
			request, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			if request.Header.Get("Expect") != "" {
				if _, err := io.WriteString(conn, "HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n"); err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, request.Body) // or the end of the connection
				continue
			}
			body, err := io.ReadAll(request.Body)
			if err != nil {
				return
			}
			got <- request.Method + " " + request.URL.Path + " " + string(body)
			if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"); err != nil {
				return
			}
		}
	})
	g := start(t, targets+app(up))
	c := g.stranger11()
	for i := range requests {
		g.send(t, fmt.Sprintf("POST /expect HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n%s", len(smuggled), smuggled))
		path := fmt.Sprintf("/next/%d", i)
		if a := g.do(c, "POST", path, "x"); a.body != "ok" {
			t.Errorf("%s: %d %q", path, a.status, a.body)
		}
		if line := <-got; line != "POST "+path+" x" {
			t.Errorf("%s reaches the upstream as %q", path, line)
		}
	}
	if len(got) > 0 {
		t.Errorf("the upstream gets %q", <-got)
	}
}
