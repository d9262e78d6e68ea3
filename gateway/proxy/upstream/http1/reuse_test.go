package http1

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A connection is used again only after a response whose end is beyond doubt, and
// that was read to its end. Otherwise a rest of it that comes later would be the
// response to the next request.
func TestReuse(t *testing.T) {
	t.Parallel()
	const (
		early   = "HTTP/1.1 103 Early Hints\r\n"
		unknown = "*" // the first response may be an error
	)
	for _, c := range []struct {
		name, method, first, body string
		reused                    bool // perhaps after a rest
	}{
		{"a length", "GET", okResponse, "ok", true},
		{"no body", "GET", header + "Content-Length: 0\r\n\r\n", "", true},
		{"chunks", "GET", chunked + "\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n", "ok", true},
		{"chunks and a trailer", "GET", chunked + "Trailer: X\r\n\r\n2\r\nok\r\n0\r\nX: y\r\n\r\n", "ok", true},
		{"chunks and a header like Content-Length", "GET",
			header + "X-Content-Length: 7\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "ok", true},
		{"204", "GET", "HTTP/1.1 204 No Content\r\n\r\n", "", true},
		{"204 with the length 0", "GET", "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", "", true},
		{"304", "GET", "HTTP/1.1 304 Not Modified\r\nEtag: x\r\n\r\n", "", true},
		{"HEAD", "HEAD", header + "X: y\r\n\r\n", "", true},
		{"HEAD with the length 0", "HEAD", header + "Content-Length: 0\r\n\r\n", "", true},
		{"a long body", "GET",
			header + "Content-Length: 100000\r\n\r\n" + strings.Repeat("x", 100_000), strings.Repeat("x", 100_000), true},
		{"an error of its own", "GET", "HTTP/1.1 500 Oh\r\nContent-Length: 2\r\n\r\nno", "no", true},
		{"1xx before it", "GET", early + "Link: x\r\n\r\n" + okResponse, "ok", true},

		{"204 with a length", "GET", "HTTP/1.1 204 No Content\r\nContent-Length: 60\r\n\r\n", "", false},
		{"204 with chunks", "GET", "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n", "", false},
		{"304 with a length", "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", "", false},
		{"304 with chunks", "GET", "HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n", "", false},
		{"HEAD with a length", "HEAD", header + "Content-Length: 5\r\n\r\n", "", false},
		{"HEAD with chunks", "HEAD", chunked + "\r\n", "", false},
		{"1xx with a length", "GET", early + "Content-Length: 60\r\n\r\n" + okResponse, "ok", false},
		{"HTTP/1.0", "GET", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", "ok", false},
		{"HTTP/1.0 that stays", "GET",
			"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", "ok", false},
		{"HTTP/1.0 with chunks", "GET", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n" +
			"Transfer-Encoding: chunked\r\n\r\nok", "ok", false},
		{"another version", "GET", "HTTP/2.1 200 OK\r\nContent-Length: 2\r\n\r\nok", unknown, false},
		{"a status that does not exist", "GET", "HTTP/1.1 042 What\r\nContent-Length: 2\r\n\r\nok", "ok", false},
		{"a wish to close", "GET", header + "Connection: close\r\nContent-Length: 2\r\n\r\nok", "ok", false},
		{"a wish to close among others", "GET", header + "Connection: x, Close\r\nContent-Length: 2\r\n\r\nok", "ok", false},

		{"a second response", "GET", okResponse + poison, "ok", false},
		{"a second response after chunks", "GET", chunked + "\r\n2\r\nok\r\n0\r\n\r\n" + poison, "ok", false},
		{"one byte too many", "GET", okResponse + "x", "ok", false},
		{"a body that HEAD does not have", "HEAD", header + "Content-Length: 6\r\n\r\npoison", "", false},
		{"a body that 204 does not have", "GET", "HTTP/1.1 204 No Content\r\n\r\npoison", "", false},
		{"a body that 304 does not have", "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 6\r\n\r\npoison", "", false},

		{"a length beside chunks", "GET",
			header + "Content-Length: 60\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "ok", false},
		{"chunks beside a length", "GET", chunked + "cONTENT-lENGTH: 60\r\n\r\n2\r\nok\r\n0\r\n\r\n", "ok", false},
		{"both, in a long header", "GET", header + "Content-Length: 60\r\nX: " + strings.Repeat("x", 9000) +
			"\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "", false},
		{"both after 1xx", "GET",
			early + "\r\n" + header + "Content-Length: 60\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "", false},
		{"chunks by a name with a space", "GET",
			header + "Content-Length: 60\r\nTransfer-Encoding : chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "ok", false},
		{"two lengths", "GET", header + "Content-Length: 2\r\nContent-Length: 60\r\n\r\nok", unknown, false},
		{"a negative length", "GET", header + "Content-Length: -1\r\n\r\n", unknown, false},
		{"a size of a chunk that is bad", "GET", chunked + "\r\n-2\r\nok\r\n0\r\n\r\n", unknown, false},
		{"a chunk that is too long", "GET", chunked + "\r\n2\r\nokay\r\n0\r\n\r\n", unknown, false},
		{"a trailer that is none", "GET", chunked + "\r\n0\r\n x\r\n\r\n", unknown, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			u := newRawUpstream(t, func(connection, n int64, _ *http.Request, conn net.Conn) bool {
				answer := header + "Content-Length: 5\r\n\r\nclean"
				switch {
				case connection == 0 && n == 0:
					answer = c.first
				case connection == 0 && !c.reused:
					answer = poison // the rest of the first response
				}
				_, err := io.WriteString(conn, answer)
				return err == nil
			})
			f := newFixture(t, u.url())
			if body, err := f.send(t.Context(), c.method, nil); c.body != unknown && (err != nil || body != c.body) {
				t.Fatalf("the first answer: %.20q, %v; want %.20q", body, err, c.body)
			}
			f.haveRested()
			if body, err := f.send(t.Context(), "GET", nil); err != nil || body != "clean" {
				t.Errorf("the second answer: %q, %v", body, err)
			}
			if n := u.connections.Load(); (n == 1) != c.reused {
				t.Errorf("%d connections for two requests, want the first used again: %t", n, c.reused)
			}
		})
	}
}

// A proxy on the way may treat the connection of such a request as a tunnel.
func TestNoReuseOfTunnels(t *testing.T) {
	t.Parallel()
	response := &http.Response{StatusCode: 200, ProtoMajor: 1, ProtoMinor: 1}
	for _, c := range []struct {
		r    *http.Request
		want bool
	}{
		{&http.Request{Method: "GET"}, true},
		{&http.Request{Method: "CONNECT"}, false},
		{&http.Request{Method: "GET", Header: http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}}}, false},
	} {
		if got := reusable(c.r, response, false); got != c.want {
			t.Errorf("%s %v: %t", c.r.Method, c.r.Header, got)
		}
	}
}

// idleOne returns the only idle connection.
func idleOne(t *testing.T, d *Client) *conn {
	t.Helper()
	d.idle.mu.Lock()
	defer d.idle.mu.Unlock()
	for _, idle := range d.idle.conns {
		for _, q := range []*queue{&idle.ready, &idle.resting} {
			if q.len() == 1 {
				return q.first()
			}
		}
	}
	t.Fatal("no connection is idle")
	return nil
}

// Bytes on an idle connection are not a response to the next request.
func TestUnsolicited(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]func(net.Conn){
		"a response": func(c net.Conn) { _, _ = io.WriteString(c, poison) },
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
		f := newFixture(t, u.url())
		if _, err := f.send(t.Context(), "GET", nil); err != nil {
			t.Fatal(err)
		}
		c := idleOne(t, f.Client)
		if !c.isClean() {
			t.Errorf("%s: the connection fails its check before", name)
		}
		close(goOn)
		for c.isClean() {
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
	f := newFixture(t, newRawUpstream(t, say(header+"Content-Length: 10\r\n\r\n0123456789")).url())
	for range 3 {
		response, err := f.get(t, t.Context())
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
	if n := f.dialed.Load(); n != 3 {
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
		{"closed in the middle of a body", false, header + "Content-Length: 10\r\n\r\n01", 502, 2},
		{"garbage", false, "x", 502, 2},
		{"a new connection that is closed", true, "", 502, 1},
		{"a new connection with garbage", true, "220 mail.example ESMTP\r\n", 502, 1},
	} {
		u := newRawUpstream(t, func(connection, n int64, r *http.Request, conn net.Conn) bool {
			if c.fresh || connection == 0 && n == 1 {
				return sayAndClose(c.says)(connection, n, r, conn)
			}
			return say(okResponse)(connection, n, r, conn)
		})
		f := newFixture(t, u.url())
		if !c.fresh {
			if _, err := f.send(t.Context(), "GET", nil); err != nil {
				t.Fatal(err)
			}
		}
		_, err := f.send(t.Context(), "GET", nil)
		if status := statusOf(err); status != c.status {
			t.Errorf("%s: %d (%v), want %d", c.name, status, err, c.status)
		}
		if n := u.requests.Load(); n != c.requests {
			t.Errorf("%s: %d requests reached the upstream, want %d", c.name, n, c.requests)
		}
	}
}

// A request whose connection the upstream closes without a response is sent twice at
// most, however many connections are idle, and only if it may be repeated.
func TestRetryOnce(t *testing.T) {
	t.Parallel()
	const idle = 3
	left, leave := context.WithCancel(t.Context())
	leave()
	upgrade := http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}}
	for _, c := range []struct {
		method, body string
		header       http.Header
		runs, fresh  int64 // how often it is sent, and how often on a new connection
	}{
		{"GET", "", nil, 2, 1}, {"HEAD", "", nil, 2, 1}, {"OPTIONS", "", nil, 2, 1}, {"TRACE", "", nil, 2, 1},
		{"PUT", "", nil, 2, 1}, {"DELETE", "", nil, 2, 1}, {"", "", nil, 2, 1},
		{"POST", "", nil, 1, 0}, {"PATCH", "", nil, 1, 0}, {"PROPFIND", "", nil, 1, 0}, {"GET", "", upgrade, 1, 0},
		{"POST", "body", nil, 1, 0}, {"PUT", "body", nil, 1, 0}, {"PUT", strings.Repeat("x", 2*SmallBody), nil, 1, 0},
		{"GET", "body", nil, 1, 1},
	} {
		var runs atomic.Int64
		u := newRawUpstream(t, func(_, _ int64, r *http.Request, _ net.Conn) bool {
			runs.Add(1)
			_, _ = io.Copy(io.Discard, r.Body) // the client may be gone
			return false
		})
		f := newFixture(t, u.url())
		for range idle {
			k, err := f.open(t.Context(), u.listener.Addr().String(), time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			f.idle.put(k, false)
		}
		r := newRequest(t, t.Context(), c.method, f.url, strings.NewReader(c.body))
		if r.Method = c.method; c.header != nil {
			r.Header = c.header
		}
		_, err := f.RoundTrip(r)
		if status := statusOf(err); status != http.StatusBadGateway || runs.Load() != c.runs {
			t.Errorf("%q %.4s: %d (%v) after %d runs, want %d", c.method, c.body, status, err, runs.Load(), c.runs)
		}
		if n := f.dialed.Load() - idle; n != c.fresh {
			t.Errorf("%q %.4s: %d new connections, want %d", c.method, c.body, n, c.fresh)
		}
		if repeatable(r.WithContext(left)) {
			t.Errorf("%q %.4s: repeated for a client that has left", c.method, c.body)
		}
	}
}

// With NoReuse, each request announces that its connection is closed. Otherwise none
// does, with any request of the caller.
func TestNoReuse(t *testing.T) {
	t.Parallel()
	for _, noReuse := range []bool{true, false} {
		u := newRawUpstream(t, func(_, _ int64, r *http.Request, conn net.Conn) bool {
			if r.Close != noReuse {
				t.Errorf("%s asks to close the connection: %t", r.Method, r.Close)
			}
			_, _ = io.Copy(io.Discard, r.Body)
			_, err := io.WriteString(conn, okResponse) // and the connection stays open
			return err == nil
		})
		f := newFixture(t, u.url())
		f.noReuse = noReuse
		for _, body := range []string{"", "small", strings.Repeat("x", 2*SmallBody)} {
			for _, asks := range []bool{true, false} {
				r := newRequest(t, t.Context(), "POST", f.url, strings.NewReader(body))
				r.Close = asks
				response, err := f.RoundTrip(r)
				if err != nil {
					t.Fatal(err)
				}
				if answer, err := io.ReadAll(response.Body); string(answer) != "ok" || err != nil {
					t.Errorf("%q, %v", answer, err)
				}
			}
		}
		if n := u.connections.Load(); noReuse && n != 6 || !noReuse && n > 3 {
			t.Errorf("NoReuse %t: %d connections for 6 requests", noReuse, n)
		}
	}
}

// Idle connections are closed after idleLives, or by CloseIdleConnections. Nothing
// runs when none is left.
func TestIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newDialing(t, time.Minute, nil)
		check := func(sweeping bool, addresses int) {
			t.Helper()
			f.idle.mu.Lock()
			defer f.idle.mu.Unlock()
			if f.idle.sweeping != sweeping || len(f.idle.conns) != addresses {
				t.Errorf("the pool is swept: %t, with %d addresses", f.idle.sweeping, len(f.idle.conns))
			}
		}
		idleFor := func(until func()) time.Duration {
			here, there := net.Pipe()
			f.idle.put(newConn(here, "app"), false)
			check(true, 1)
			start := time.Now()
			until()
			_, _ = there.Read(make([]byte, 1)) // until it is closed
			return time.Since(start)
		}
		for range 2 {
			if took := idleFor(func() {}); took < idleLives || took > idleLives+idleSweep {
				t.Errorf("an idle connection lives %v", took)
			}
			synctest.Wait()
			check(false, 0)
		}
		if took := idleFor(f.CloseIdleConnections); took != 0 {
			t.Errorf("told to close, it takes %v", took)
		}
	})
}

// At most idlePerHost connections are kept.
func TestIdleBound(t *testing.T) {
	t.Parallel()
	f := newDialing(t, time.Minute, nil)
	for range idlePerHost + 3 {
		here, there := net.Pipe()
		defer there.Close()
		f.idle.put(newConn(here, "app"), false)
	}
	if n := f.idle.conns["app"].ready.len(); n != idlePerHost {
		t.Errorf("%d connections are idle, want %d", n, idlePerHost)
	}
	c := f.idle.take("app", time.Now())
	f.CloseIdleConnections()
	if f.idle.take("app", time.Now()) != nil {
		t.Error("an idle connection is not closed")
	}
	if err := c.SetDeadline(time.Time{}); err != nil {
		t.Errorf("a connection in use was closed: %v", err)
	}
	c.Close()
}

// ended is a connection that has ended.
type ended struct{ net.Conn }

func (ended) SetDeadline(time.Time) error { return io.ErrClosedPipe }
func (ended) Close() error                { return nil }

// A connection that fails its check is closed, and a new one is dialed. An error of
// that is the error of the request. No connection is made for a client that has left.
func TestConnect(t *testing.T) {
	t.Parallel()
	errRefused := errors.New("refused")
	for name, c := range map[string]struct {
		dialed net.Conn // nil: none
		want   error
	}{
		"refused":        {nil, errRefused},
		"closed at once": {ended{}, io.ErrClosedPipe},
	} {
		synctest.Test(t, func(t *testing.T) {
			var closed atomic.Bool
			f := newDialing(t, time.Minute, func(context.Context, string) (net.Conn, error) {
				if c.dialed == nil {
					return nil, errRefused
				}
				return &watched{c.dialed, &closed}, nil
			})
			here, there := net.Pipe()
			f.idle.put(newConn(here, "app.invalid"), false)
			left, leave := context.WithCancel(t.Context())
			leave()
			if _, err := f.get(t, left); !errors.Is(err, context.Canceled) || f.dialed.Load() != 0 {
				t.Errorf("%s: a client that has left: %v, %d connections", name, err, f.dialed.Load())
			}
			idleOne(t, f.Client) // untouched
			if _, err := f.get(t, t.Context()); !errors.Is(err, c.want) || closed.Load() != (c.dialed != nil) {
				t.Errorf("%s: %v, closed: %t", name, err, closed.Load())
			}
			if _, err := there.Read(make([]byte, 1)); err != io.EOF { // the bubble fails if it stays open
				t.Errorf("%s: the connection that fails its check: %v", name, err)
			}
		})
	}
}

// unsent is a connection that sends nothing.
type unsent struct{ net.Conn }

func (unsent) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

// An upstream may respond and then stop reading. Its response gets through, and the
// connection, on which the rest of the request is missing, is closed.
func TestResponseToPart(t *testing.T) {
	t.Parallel()
	for method, content := range map[string]io.Reader{
		"GET": nil, "POST": io.MultiReader(strings.NewReader("of unknown length")),
	} {
		synctest.Test(t, func(t *testing.T) {
			dial := pipe(func(c net.Conn) {
				time.Sleep(time.Second) // of the bubble: until writing has failed
				_, _ = io.WriteString(c, okResponse)
			})
			var closed atomic.Bool
			f := newDialing(t, time.Minute, func(ctx context.Context, address string) (net.Conn, error) {
				c, err := dial(ctx, address)
				return unsent{&watched{c, &closed}}, err
			})
			if body, err := f.send(t.Context(), method, content); body != "ok" || err != nil {
				t.Errorf("%s: %q, %v", method, body, err)
			}
			if f.idle.take("app.invalid", time.Now()) != nil || !closed.Load() {
				t.Errorf("%s: the connection is kept, or closed: %t", method, closed.Load())
			}
		})
	}
}
