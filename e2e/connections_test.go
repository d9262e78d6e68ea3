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
	"sync"
	"testing"
)

// evil is a response that nobody asked for.
const evil = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"

// oddAnswer is what an upstream says to a request, with or without its rules.
type oddAnswer struct {
	method  string // GET where empty
	bytes   string
	closes  bool // the connection afterwards, without a word
	status  int  // that the client gets; 0: it sees that the response is cut off
	content string
}

var oddAnswers = map[string]oddAnswer{
	"a second response behind it":  {bytes: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" + evil, status: 200, content: "ok"},
	"one behind chunks":            {bytes: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n" + evil, status: 200, content: "ok"},
	"one behind HEAD":              {method: "HEAD", bytes: evil + evil, status: 200},
	"a body to HEAD":               {method: "HEAD", bytes: evil, status: 200},
	"a body of a 204":              {bytes: "HTTP/1.1 204 No Content\r\n\r\n" + evil, status: 204},
	"a body of a 304":              {bytes: "HTTP/1.1 304 Not Modified\r\n\r\n" + evil, status: 304},
	"more than its length":         {bytes: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokay", status: 200, content: "ok"},
	"closed behind it":             {bytes: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", closes: true, status: 200, content: "ok"},
	"closed with a word":           {bytes: "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", closes: true, status: 200, content: "ok"},
	"a body up to the end":         {bytes: "HTTP/1.1 200 OK\r\n\r\nok", closes: true, status: 200, content: "ok"},
	"HTTP/1.0":                     {bytes: "HTTP/1.0 200 OK\r\n\r\nok", closes: true, status: 200, content: "ok"},
	"HTTP/1.0 that goes on":        {bytes: "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok" + evil, status: 200, content: "ok"},
	"length and chunks":            {bytes: "HTTP/1.1 200 OK\r\nContent-Length: 40\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n" + evil, status: 200, content: "ok"},
	"two lengths":                  {bytes: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 40\r\n\r\nok" + evil, status: 502},
	"no length":                    {bytes: "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nok", status: 502},
	"no status":                    {bytes: "HTTP/1.1 OK\r\nContent-Length: 2\r\n\r\nok", status: 502},
	"a header that never ends":     {bytes: "HTTP/1.1 200 OK\r\n" + strings.Repeat("X-Header: "+strings.Repeat("x", 990)+"\r\n", 20_000), closes: true, status: 502},
	"a switch that nobody wants":   {bytes: "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n" + evil, status: 502},
	"hints before it":              {bytes: "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", status: 200, content: "ok"},
	"hints without end":            {bytes: strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", 100) + evil, status: 502},
	"a chunk of no size":           {bytes: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\nx\r\n\r\n" + evil},
	"a chunk that is cut off":      {bytes: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n20\r\nok", closes: true},
	"less than its length":         {bytes: "HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\nok", closes: true},
	"another transfer encoding":    {bytes: "HTTP/1.1 200 OK\r\nTransfer-Encoding: x, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", status: 502},
	"a second one behind a POST":   {method: "POST", bytes: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" + evil, status: 200, content: "ok"},
	"closed behind a POST":         {method: "POST", bytes: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", closes: true, status: 200, content: "ok"},
	"a POST answered before it is": {method: "POST", bytes: "HTTP/1.1 413 Too Much\r\nContent-Length: 2\r\n\r\nno", status: 413, content: "no"},
}

// TestOddAnswers: whatever an upstream makes of HTTP, each request gets its
// own answer, and those that come after are not the worse for it.
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
				odd.bytes = fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(m.target()), m.target())
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
				if method == "" {
					method = "GET"
				}
				if method == "POST" {
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
				wantEchoes(t, g, c)
			})
		}
	}
}

// wantEchoes asks several things one after the other, each of which has to get
// its own answer.
func wantEchoes(t *testing.T, g *instance, c *http.Client) {
	t.Helper()
	for i, ask := range []struct{ method, body string }{{"GET", ""}, {"POST", "body"}, {"GET", ""}, {"POST", "body"}} {
		path := fmt.Sprintf("/echo/%d", i)
		if a := g.do(c, ask.method, path, ask.body); a.status != http.StatusOK || a.body != path {
			t.Errorf("%s %s afterwards: %d %q", ask.method, path, a.status, a.body)
		}
	}
}

// TestUnaskedAnswers: what an upstream says on a connection that is idle is no
// answer to the next request.
func TestUnaskedAnswers(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var idle []net.Conn // connections that have answered
	up := listen(t, func(conn net.Conn) {
		in := bufio.NewReader(conn)
		for {
			m, err := readMessage(in, conn)
			if err != nil {
				return
			}
			mu.Lock()
			idle = append(idle, conn)
			mu.Unlock()
			answer := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(m.target()), m.target())
			if _, err := io.WriteString(conn, answer); err != nil {
				return
			}
		}
	})
	g := start(t, targets+app(up))
	c := g.stranger()
	for i := range 20 {
		for _, path := range []string{fmt.Sprintf("/first/%d", i), fmt.Sprintf("/next/%d", i)} {
			if a := g.do(c, "GET", path, ""); a.status != http.StatusOK || a.body != path {
				t.Fatalf("%d %q", a.status, a.body)
			}
		}
		mu.Lock()
		for _, conn := range idle {
			_, _ = io.WriteString(conn, evil) // to those that are closed by now, nothing
		}
		idle = nil
		mu.Unlock()
	}
}

// TestEarlyHints: informational responses reach the client (RFC 8297).
func TestEarlyHints(t *testing.T) {
	t.Parallel()
	up := listen(t, func(conn net.Conn) {
		in := bufio.NewReader(conn)
		for {
			if _, err := readMessage(in, conn); err != nil {
				return
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	})
	g := start(t, targets+app(up))
	for protocol, c := range map[string]*http.Client{"HTTP/2": g.stranger(), "HTTP/1.1": g.stranger11()} {
		for _, method := range []string{"GET", "POST"} {
			var hints []string
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
				Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
					hints = append(hints, fmt.Sprintf("%d %s", code, header.Get("Link")))
					return nil
				},
			})
			request, err := http.NewRequestWithContext(ctx, method, g.base+"/", strings.NewReader(""))
			if err != nil {
				t.Fatal(err)
			}
			response, err := c.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			if fmt.Sprint(hints) != "[103 </style.css>]" || response.StatusCode != http.StatusOK {
				t.Errorf("%s by %s: hints %q, status %d", method, protocol, hints, response.StatusCode)
			}
		}
	}
}
