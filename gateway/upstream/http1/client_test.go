package http1

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// rawUpstream answers with the bytes that a test gives.
type rawUpstream struct {
	listener    net.Listener
	connections atomic.Int64
	requests    atomic.Int64
	done        sync.WaitGroup
}

// answerRaw answers request n (from 0) of a connection. After false the connection
// is closed.
type answerRaw func(connection, n int64, r *http.Request, conn net.Conn) bool

func newRawUpstream(t testing.TB, answer answerRaw) *rawUpstream {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveRaw(t, listener, answer)
}

func serveRaw(t testing.TB, listener net.Listener, answer answerRaw) *rawUpstream {
	t.Helper()
	u := &rawUpstream{listener: listener}
	u.done.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			connection := u.connections.Add(1) - 1
			u.done.Go(func() {
				defer conn.Close()
				reader := bufio.NewReader(conn)
				for n := int64(0); ; n++ {
					r, err := http.ReadRequest(reader)
					if err != nil {
						return
					}
					u.requests.Add(1)
					if !answer(connection, n, r, conn) {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() { listener.Close() })
	return u
}

func (u *rawUpstream) url() string { return "http://" + u.listener.Addr().String() }

// say answers with s and keeps the connection.
func say(s string) answerRaw {
	return func(_, _ int64, _ *http.Request, conn net.Conn) bool {
		_, err := io.WriteString(conn, s)
		return err == nil
	}
}

const okResponse = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// A connection is used again only after a response whose end is beyond doubt, and
// that was read to its end.
func TestReuse(t *testing.T) {
	t.Parallel()
	const header = "HTTP/1.1 200 OK\r\n"
	for _, c := range []struct {
		name, method, first, body string
		reused                    bool
	}{
		{"a length", "GET", okResponse, "ok", true},
		{"no body", "GET", header + "Content-Length: 0\r\n\r\n", "", true},
		{"chunks", "GET", header + "Transfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n", "ok", true},
		{"chunks and a trailer", "GET", header + "Transfer-Encoding: chunked\r\nTrailer: X\r\n\r\n2\r\nok\r\n0\r\nX: y\r\n\r\n", "ok", true},
		{"chunks and a header like Content-Length", "GET", header + "X-Content-Length: 7\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "ok", true},
		{"204", "GET", "HTTP/1.1 204 No Content\r\n\r\n", "", true},
		{"204 with the length 0", "GET", "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", "", true},
		{"304", "GET", "HTTP/1.1 304 Not Modified\r\nEtag: x\r\n\r\n", "", true},
		{"304 with a length", "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", "", false},
		{"304 with chunks", "GET", "HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n", "", false},
		{"HEAD", "HEAD", header + "X: y\r\n\r\n", "", true},
		{"HEAD with the length 0", "HEAD", header + "Content-Length: 0\r\n\r\n", "", true},
		{"HEAD with a length", "HEAD", header + "Content-Length: 5\r\n\r\n", "", false},
		{"HEAD with chunks", "HEAD", header + "Transfer-Encoding: chunked\r\n\r\n", "", false},
		{"1xx with a length", "GET", "HTTP/1.1 103 Early Hints\r\nContent-Length: 60\r\n\r\n" + okResponse, "ok", false},
		{"a long body", "GET", header + "Content-Length: 100000\r\n\r\n" + strings.Repeat("x", 100_000), strings.Repeat("x", 100_000), true},
		{"an error of its own", "GET", "HTTP/1.1 500 Oh\r\nContent-Length: 2\r\n\r\nno", "no", true},
		{"1xx before it", "GET", "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + okResponse, "ok", true},
		{"HTTP/1.0 that stays", "GET", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", "ok", false},
		{"HTTP/1.0", "GET", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", "ok", false},
		{"a wish to close", "GET", header + "Connection: close\r\nContent-Length: 2\r\n\r\nok", "ok", false},
		{"a wish to close among others", "GET", header + "Connection: x, Close\r\nContent-Length: 2\r\n\r\nok", "ok", false},
		{"a second response", "GET", okResponse + header + "Content-Length: 6\r\n\r\npoison", "ok", false},
		{"a second response after chunks", "GET", header + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n" + okResponse, "ok", false},
		{"one byte too many", "GET", okResponse + "x", "ok", false},
		{"a body that HEAD does not have", "HEAD", header + "Content-Length: 6\r\n\r\npoison", "", false},
		{"a body that 204 does not have", "GET", "HTTP/1.1 204 No Content\r\n\r\npoison", "", false},
		{"a body that 304 does not have", "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 6\r\n\r\npoison", "", false},
		{"a length and chunks", "GET", header + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "ok", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			u := newRawUpstream(t, func(connection, n int64, _ *http.Request, conn net.Conn) bool {
				answer := "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nclean"
				if connection == 0 && n == 0 {
					answer = c.first
				}
				_, err := io.WriteString(conn, answer)
				return err == nil
			})
			f := newFixture(t, time.Minute, u.url())
			if body, err := f.send(t.Context(), c.method, nil); err != nil || body != c.body {
				t.Fatalf("the first answer: %.20q, %v; want %.20q", body, err, c.body)
			}
			if body, err := f.send(t.Context(), "GET", nil); err != nil || body != "clean" {
				t.Errorf("the second answer: %q, %v", body, err)
			}
			if n := u.connections.Load(); (n == 1) != c.reused {
				t.Errorf("%d connections for two requests, want the first used again: %t", n, c.reused)
			}
		})
	}
}

// A body without a length ends with the connection.
func TestUntilClose(t *testing.T) {
	t.Parallel()
	u := newRawUpstream(t, func(_, _ int64, _ *http.Request, conn net.Conn) bool {
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\nok") // an error shows at the other end
		return false
	})
	f := newFixture(t, time.Minute, u.url())
	for range 2 {
		if body, err := f.send(t.Context(), "GET", nil); err != nil || body != "ok" {
			t.Errorf("%q, %v", body, err)
		}
	}
}

// idleOne returns the only idle connection.
func idleOne(t *testing.T, d *Client) *conn {
	t.Helper()
	d.idle.mu.Lock()
	defer d.idle.mu.Unlock()
	for _, idle := range d.idle.conns {
		if len(idle) == 1 {
			return idle[0]
		}
	}
	t.Fatal("no connection is idle")
	return nil
}

// Bytes on an idle connection are not a response to the next request.
func TestUnsolicited(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]func(net.Conn){
		"a response": func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison") },
		"its end":    func(c net.Conn) { c.Close() },
	} {
		goOn := make(chan struct{})
		u := newRawUpstream(t, func(connection, n int64, _ *http.Request, conn net.Conn) bool {
			_, err := io.WriteString(conn, okResponse)
			if connection == 0 && n == 0 {
				<-goOn
				late(conn)
			}
			return err == nil
		})
		f := newFixture(t, time.Minute, u.url())
		if _, err := f.send(t.Context(), "GET", nil); err != nil {
			t.Fatal(err)
		}
		c := idleOne(t, f.Client)
		if !c.check() {
			t.Errorf("%s: the connection fails its check before", name)
		}
		close(goOn)
		for c.check() {
			runtime.Gosched() // until it has come through the kernel
		}
		if body, err := f.send(t.Context(), "GET", nil); err != nil || body != "ok" {
			t.Errorf("%s: the next answer is %q, %v", name, body, err)
		}
		if n := u.connections.Load(); n != 2 {
			t.Errorf("%s: %d connections, want 2", name, n)
		}
	}
}

// A connection is closed with a body that was not read to its end.
func TestAbandonedBody(t *testing.T) {
	t.Parallel()
	u := newRawUpstream(t, say("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789"))
	f := newFixture(t, time.Minute, u.url())
	for range 3 {
		r, err := http.NewRequest("GET", f.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := f.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		part := make([]byte, 5)
		if _, err := io.ReadFull(response.Body, part); err != nil || string(part) != "01234" {
			t.Errorf("%q, %v", part, err)
		}
		response.Body.Close()
		if n, err := response.Body.Read(part); n != 0 || err == nil {
			t.Errorf("after Close %d bytes are read, %v", n, err)
		}
	}
	if n := u.connections.Load(); n != 3 {
		t.Errorf("%d connections, want 3", n)
	}
}

// A request succeeds if the upstream has closed an idle connection. It fails if a
// new connection is closed, or one on which the response has begun.
func TestGone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		fresh    bool   // the first request on a connection already fails
		says     string // before the connection is closed
		status   int    // 200 or what the error becomes
		requests int64  // for two
	}{
		{"closed when the second request comes", false, "", 200, 3},
		{"closed in the middle of a header", false, "HTTP/1.1 200", 502, 2},
		{"closed in the middle of a body", false, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n01", 0, 2},
		{"garbage", false, "x", 502, 2},
		{"a new connection that is closed", true, "", 502, 1},
		{"a new connection with garbage", true, "220 mail.example ESMTP\r\n", 502, 1},
		{"another version", true, "HTTP/2.0 200 OK\r\n\r\n", 0, 1},
	} {
		for _, method := range []string{"GET", "HEAD"} {
			u := newRawUpstream(t, func(connection, n int64, _ *http.Request, conn net.Conn) bool {
				if c.fresh || connection == 0 && n == 1 {
					_, _ = io.WriteString(conn, c.says) // an error shows at the other end
					return false
				}
				length := "\r\n" // HEAD with a length ends the connection
				if method == "GET" {
					length = "Content-Length: 2\r\n\r\nok"
				}
				_, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\n"+length)
				return err == nil
			})
			f := newFixture(t, time.Minute, u.url())
			if !c.fresh {
				if _, err := f.send(t.Context(), method, nil); err != nil {
					t.Fatal(err)
				}
			}
			_, err := f.send(t.Context(), method, nil)
			status := 200
			if err != nil {
				status = statusOf(err)
			}
			switch {
			case c.status == 0: // HEAD has no body, and another version may be an error or not
			case status != c.status:
				t.Errorf("%s, %s: %d (%v), want %d", c.name, method, status, err, c.status)
			}
			if n := u.requests.Load(); n != c.requests {
				t.Errorf("%s, %s: %d requests reached the upstream, want %d", c.name, method, n, c.requests)
			}
		}
	}
}

// A bounded number of informational responses is passed on. A switch of protocols
// that was not asked for is an error.
func TestInformational(t *testing.T) {
	t.Parallel()
	const hint = "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
	for _, c := range []struct {
		name, says string
		seen       []int
		fails      bool
	}{
		{"one", hint + okResponse, []int{103}, false},
		{"many", strings.Repeat(hint, MaxInformational) + okResponse, slices.Repeat([]int{103}, MaxInformational), false},
		{"too many", strings.Repeat(hint, MaxInformational+1) + okResponse, slices.Repeat([]int{103}, MaxInformational+1), true},
		{"100 unasked", "HTTP/1.1 100 Continue\r\n\r\n" + okResponse, []int{100}, false},
		{"101 unasked", "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", nil, true},
		{"101 without a protocol", "HTTP/1.1 101 Switching Protocols\r\n\r\n", nil, true},
		{"a header that is too long", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", maxHeader) + "\r\n\r\n", nil, true},
		{"many headers that are too long", strings.Repeat("HTTP/1.1 103 Early Hints\r\nX: "+strings.Repeat("x", maxHeader/2)+"\r\n\r\n", 3) + okResponse, []int{103}, true},
	} {
		u := newRawUpstream(t, say(c.says))
		f := newFixture(t, time.Minute, u.url())
		var seen []int
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
				seen = append(seen, code)
				return nil
			},
		})
		body, err := f.send(ctx, "GET", nil)
		if (err != nil) != c.fails || !c.fails && body != "ok" || !slices.Equal(seen, c.seen) {
			t.Errorf("%s: %q, %v; seen %d, want %d", c.name, body, err, seen, c.seen)
		}
		if err != nil && statusOf(err) != 502 {
			t.Errorf("%s: %d (%v)", c.name, statusOf(err), err)
		}
	}
}
