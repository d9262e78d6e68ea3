package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
)

// evil is a response to no request.
const evil = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"

// oddAnswer is what an upstream answers, within the rules of HTTP or not.
type oddAnswer struct {
	method  string // GET if empty
	bytes   string
	closes  bool // the upstream closes the connection without saying so
	status  int  // for the client; 0: it sees that the response is cut off
	content string
}

// oddAnswers are one for each way in which the gateway can lose count of the
// responses on a connection. Package http1 has many more.
var oddAnswers = map[string]oddAnswer{
	"a second response behind it":     {bytes: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" + evil, status: 200, content: "ok"},
	"a second one behind chunks":      {bytes: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n" + evil, status: 200, content: "ok"},
	"a second one behind a POST":      {method: "POST", bytes: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" + evil, status: 200, content: "ok"},
	"a body to HEAD":                  {method: "HEAD", bytes: evil, status: 200},
	"a body of a 204":                 {bytes: "HTTP/1.1 204 No Content\r\n\r\n" + evil, status: 204},
	"length and chunks":               {bytes: "HTTP/1.1 200 OK\r\nContent-Length: 40\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n" + evil, status: 200, content: "ok"},
	"two lengths":                     {bytes: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 40\r\n\r\nok" + evil, status: 502},
	"closed behind a POST":            {method: "POST", bytes: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", closes: true, status: 200, content: "ok"},
	"a POST answered before its end":  {method: "POST", bytes: "HTTP/1.1 413 Too Much\r\nContent-Length: 2\r\n\r\nno", status: 413, content: "no"},
	"HTTP/1.0":                        {bytes: "HTTP/1.0 200 OK\r\n\r\nok", closes: true, status: 200, content: "ok"},
	"an endless header":               {bytes: "HTTP/1.1 200 OK\r\n" + strings.Repeat("X-Header: "+strings.Repeat("x", 990)+"\r\n", 20_000), closes: true, status: 502},
	"a switch that was not asked for": {bytes: "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n" + evil, status: 502},
	"endless hints":                   {bytes: strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", 100) + evil, status: 502},
	"a chunk without a size":          {bytes: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\nx\r\n\r\n" + evil},
	"less than its length":            {bytes: "HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\nok", closes: true},
}

// TestOddAnswers: whatever an upstream makes of HTTP, each request gets its own
// answer, and later requests get theirs. Early hints reach the client (RFC 8297).
func TestOddAnswers(t *testing.T) {
	t.Parallel()
	up := listen(t, func(conn net.Conn) {
		in := bufio.NewReader(conn)
		for {
			m, err := readMessage(in, conn)
			if err != nil {
				return
			}
			odd, ok := oddAnswers[m.value(t, "X-Odd")]
			if !ok {
				odd.bytes = fmt.Sprintf("HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(m.target()), m.target())
			}
			if _, err := io.WriteString(conn, odd.bytes); err != nil || odd.closes {
				return
			}
		}
	})
	g := start(t, targets+app(up))
	for protocol, c := range map[string]*http.Client{"HTTP/2": g.stranger(), "HTTP/1.1": g.stranger11()} {
		for name, odd := range oddAnswers {
			t.Run(protocol+" "+name, func(t *testing.T) {
				method, body := odd.method, ""
				switch method {
				case "":
					method = "GET"
				case "POST":
					body = "body"
				}
				a, err := g.try(c, method, "/odd", body, "X-Odd", name)
				if (err != nil) != (odd.status == 0) {
					t.Errorf("%d, %v", a.status, err)
				}
				if odd.status == http.StatusBadGateway {
					wantProblem(t, a, odd.status)
				} else if err == nil && (a.status != odd.status || a.body != odd.content) {
					t.Errorf("%d %q, expected %d %q", a.status, a.body, odd.status, odd.content)
				}
				for i, method := range []string{"GET", "POST", "GET", "POST"} {
					wantEcho(t, g, c, method, fmt.Sprintf("/echo/%d", i))
				}
			})
		}
	}
}

// wantEcho sends a request that must get its own answer after its own hint.
func wantEcho(t *testing.T, g *instance, c *http.Client, method, path string) {
	t.Helper()
	var hints []string
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
			hints = append(hints, fmt.Sprintf("%d %s", code, header.Get("Link")))
			return nil
		},
	})
	request, err := http.NewRequestWithContext(ctx, method, g.base+path, strings.NewReader(map[string]string{"POST": "body"}[method]))
	if err != nil {
		t.Fatal(err)
	}
	response, err := c.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK || string(body) != path || fmt.Sprint(hints) != "[103 </style.css>]" {
		t.Errorf("%s %s afterwards: %d %q after %q, %v", method, path, response.StatusCode, body, hints, err)
	}
}
