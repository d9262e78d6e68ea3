package http1

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Bodies of each length and kind arrive whole, on connections that are used again.
func TestBodies(t *testing.T) {
	t.Parallel()
	s := newServer(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		fmt.Fprint(w, r.ContentLength, " ", len(body), " ", len(r.Trailer), err)
	})
	var dialed atomic.Int64
	c := counting(&dialed, time.Minute)
	defer c.CloseIdleConnections()
	n := 0
	for _, length := range []int{1, 1 << 10, SmallBody, SmallBody + 1, 1 << 20} {
		for _, known := range []bool{true, false} {
			r, err := http.NewRequest("POST", s.URL, io.MultiReader(strings.NewReader(strings.Repeat("x", length))))
			if err != nil {
				t.Fatal(err)
			}
			r.Trailer = http.Header{"X-Auth-User": {"alice"}}
			want := fmt.Sprint(-1, " ", length, " 0 <nil>")
			if r.ContentLength = -1; known {
				r.ContentLength, want = int64(length), fmt.Sprint(length, " ", length, " 0 <nil>")
			}
			response, err := c.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			if body, err := io.ReadAll(response.Body); string(body) != want || err != nil {
				t.Errorf("%d bytes: %q, %v; want %q", length, body, err, want)
			}
			n++
		}
	}
	if got := dialed.Load(); got > int64(n)/2 {
		t.Errorf("%d connections for %d requests", got, n)
	}
}

// A small body is sent with its header in one write, and the client connects only
// after it has read the body.
func TestSmallBodyIsOneWrite(t *testing.T) {
	t.Parallel()
	var taken atomic.Bool
	parts := make(chan string, 1)
	c := newClient(func(context.Context, string, string) (net.Conn, error) {
		taken.Store(true)
		here, there := net.Pipe() // one Read gets what one Write has
		go func() {
			b := make([]byte, 1<<20)
			n, err := there.Read(b)
			if err != nil {
				t.Error(err)
			}
			parts <- string(b[:n])
			_, _ = io.WriteString(there, okResponse)
		}()
		return here, nil
	}, time.Minute)
	body := strings.Repeat("x", SmallBody)
	r, err := http.NewRequest("POST", "http://app.invalid/", early{strings.NewReader(body), func() {
		if taken.Load() {
			t.Error("a connection waits for a small body")
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	r.ContentLength = SmallBody
	response, err := c.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if got := <-parts; !strings.HasSuffix(got, "\r\n\r\n"+body) {
		t.Errorf("the first write has %d bytes", len(got))
	}
}

// early calls a function before each Read.
type early struct {
	io.Reader
	f func()
}

func (e early) Read(b []byte) (int, error) { e.f(); return e.Reader.Read(b) }

// An upstream may respond during the request, and each side gets at once what the
// other one sends.
func TestFullDuplex(t *testing.T) {
	t.Parallel()
	u := newRawUpstream(t, func(_, _ int64, r *http.Request, conn net.Conn) bool {
		if _, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"); err != nil {
			return false
		}
		b := make([]byte, 10)
		for {
			n, err := r.Body.Read(b)
			if n > 0 {
				fmt.Fprintf(conn, "%x\r\n%s\r\n", n, b[:n])
			}
			if err != nil {
				break
			}
		}
		_, err := io.WriteString(conn, "0\r\n\r\n")
		return err == nil
	})
	f := newFixture(t, time.Minute, u.url())
	for range 2 {
		body, feed := io.Pipe()
		r, err := http.NewRequest("POST", u.url(), body)
		if err != nil {
			t.Fatal(err)
		}
		response, err := f.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		for _, say := range []string{"ping", "pong"} {
			if _, err := io.WriteString(feed, say); err != nil {
				t.Fatal(err)
			}
			b := make([]byte, len(say))
			if _, err := io.ReadFull(response.Body, b); err != nil || string(b) != say {
				t.Errorf("%q, %v", b, err)
			}
		}
		feed.Close()
		if rest, err := io.ReadAll(response.Body); len(rest) > 0 || err != nil {
			t.Errorf("%q, %v", rest, err)
		}
	}
	if n := u.connections.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// A response that comes before the upstream has read the body gets through, and the
// next request does not begin in the middle of that body.
func TestEarlyAnswer(t *testing.T) {
	t.Parallel()
	u := newRawUpstream(t, func(connection, _ int64, r *http.Request, conn net.Conn) bool {
		if r.Method == "GET" {
			_, err := io.WriteString(conn, okResponse)
			return err == nil
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 413 Too Much\r\nContent-Length: 2\r\n\r\nno")
		_, _ = io.Copy(io.Discard, r.Body) // until the client gives up
		return true
	})
	f := newFixture(t, time.Minute, u.url())
	body, feed := io.Pipe() // never fed
	defer feed.Close()
	if answer, err := f.send(t.Context(), "POST", body); answer != "no" || err != nil {
		t.Fatalf("%q, %v", answer, err)
	}
	if answer, err := f.send(t.Context(), "GET", nil); answer != "ok" || err != nil {
		t.Errorf("%q, %v", answer, err)
	}
	if n := u.connections.Load(); n != 2 {
		t.Errorf("%d connections", n)
	}
}

// A body that waits for the 100 is sent after it, or after a second. It is not sent
// after a final response.
func TestExpect(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before string // what the upstream says before the body comes
		hints  int
		sent   bool
		after  time.Duration
	}{
		"asked for": {"HTTP/1.1 100 Continue\r\n\r\n", 1, true, 0},
		"no word":   {"", 0, true, continueAfter},
		"refused":   {"HTTP/1.1 417 No\r\nContent-Length: 2\r\n\r\nno", 0, false, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			var read atomic.Bool
			var took time.Duration
			start := time.Now()
			d := newClient(func(context.Context, string, string) (net.Conn, error) {
				here, there := net.Pipe()
				go func() {
					r, err := http.ReadRequest(bufio.NewReader(there))
					if err != nil {
						t.Error(err)
						return
					}
					_, _ = io.WriteString(there, c.before)
					if !c.sent {
						return
					}
					body, err := io.ReadAll(r.Body)
					if took = time.Since(start); string(body) != "body" || err != nil {
						t.Errorf("%s: %q, %v", name, body, err)
					}
					_, _ = io.WriteString(there, okResponse)
				}()
				return here, nil
			}, time.Minute)
			hints := 0
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
				Got1xxResponse: func(int, textproto.MIMEHeader) error { hints++; return nil },
			})
			r, err := http.NewRequestWithContext(ctx, "POST", "http://app.invalid/", early{strings.NewReader("body"), func() { read.Store(true) }})
			if err != nil {
				t.Fatal(err)
			}
			r.ContentLength = 4
			r.Header.Set("Expect", "100-continue")
			response, err := d.RoundTrip(r)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if read.Load() != c.sent || hints != c.hints || took != c.after {
				t.Errorf("%s: the body was read: %t, after %v, %d hints", name, read.Load(), took, hints)
			}
			response.Body.Close()
			time.Sleep(2 * releaseAfter) // of the bubble: until the connection is idle
			d.CloseIdleConnections()
		})
	}
}

var errFeed = errors.New("the client has had enough")

// The error of a body is the error of the request, and the upstream can tell that
// the body is incomplete.
func TestBrokenUpload(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		length   int64
		answered bool
	}{"small": {100, false}, "long": {1 << 20, false}, "of unknown length": {-1, false}, "after the answer": {-1, true}} {
		ended := make(chan error, 1)
		u := newRawUpstream(t, func(_, _ int64, r *http.Request, conn net.Conn) bool {
			if c.answered {
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n")
			}
			_, err := io.Copy(io.Discard, r.Body)
			ended <- err
			return false
		})
		f := newFixture(t, time.Minute, u.url())
		body, feed := io.Pipe()
		go func() {
			_, _ = io.WriteString(feed, "begin")
			if !c.answered {
				feed.CloseWithError(errFeed)
			}
		}()
		r, err := http.NewRequest("POST", u.url(), body)
		if err != nil {
			t.Fatal(err)
		}
		r.ContentLength = c.length
		response, err := f.RoundTrip(r)
		if err == nil {
			feed.CloseWithError(errFeed)
			_, err = io.ReadAll(response.Body)
		}
		if !errors.Is(err, errFeed) {
			t.Errorf("%s: %v", name, err)
		}
		if c.length != 100 { // a small body is not sent in part
			if err := <-ended; err == nil {
				t.Errorf("%s: the upstream takes a part for the whole", name)
			}
		}
	}
}

// A request fails if the upstream stops reading for the time limit. It does not if
// the upstream reads slowly.
func TestStalledUpload(t *testing.T) {
	t.Parallel()
	const limit = 30 * time.Second
	dial := func(reads int) dialFunc {
		return func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			go func() {
				defer there.Close()
				for b, n := make([]byte, 8<<10), 0; ; n++ {
					time.Sleep(limit / 10) // of the bubble; a write takes several reads
					if n == reads {
						time.Sleep(10 * limit)
						return
					}
					n, err := there.Read(b)
					if err != nil {
						return
					}
					if strings.HasSuffix(string(b[:n]), "0\r\n\r\n") {
						_, _ = io.WriteString(there, okResponse)
						_, _ = there.Read(b) // until the client closes it
						return
					}
				}
			}()
			return here, nil
		}
	}
	send := func(t *testing.T, reads int) (string, error) {
		f := &fixture{newClient(dial(reads), limit), "http://app.invalid"}
		defer f.CloseIdleConnections()
		defer time.Sleep(2 * releaseAfter) // of the bubble: until the connection is idle
		return f.send(t.Context(), "POST", io.LimitReader(endless{}, 1<<20))
	}
	synctest.Test(t, func(t *testing.T) {
		if answer, err := send(t, -1); answer != "ok" || err != nil {
			t.Errorf("a slow reader: %q, %v", answer, err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		_, err := send(t, 12)
		if took := time.Since(start); statusOf(err) != http.StatusGatewayTimeout || took > 3*limit {
			t.Errorf("an upstream that stops reading: %v after %v", err, took)
		}
		time.Sleep(20 * limit) // of the bubble: the upstream ends before the test
	})
}

// endless is a body that never ends.
type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

// After a 101 that was asked for, the body is the connection in both directions. It
// begins with the bytes after the 101, and the end of the context closes it.
func TestTunnel(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	u := newRawUpstream(t, func(_, _ int64, _ *http.Request, conn net.Conn) bool {
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello")
		b := make([]byte, 4)
		if _, err := io.ReadFull(conn, b); err != nil || string(b) != "ping" {
			t.Errorf("%q, %v", b, err)
		}
		_, _ = io.WriteString(conn, "pong")
		_, err := conn.Read(b)
		ended <- err
		return false
	})
	f := newFixture(t, time.Minute, u.url())
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "GET", u.url(), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "websocket")
	response, err := f.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	tunnel, ok := response.Body.(io.ReadWriteCloser)
	if !ok {
		t.Fatalf("the body is a %T", response.Body)
	}
	b := make([]byte, 5)
	if _, err := io.ReadFull(tunnel, b); err != nil || string(b) != "hello" {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := io.WriteString(tunnel, "ping"); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadFull(tunnel, b[:4]); err != nil || string(b[:4]) != "pong" {
		t.Errorf("%q, %v", b[:4], err)
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("the tunnel goes on")
	}
	if _, err := tunnel.Read(b); err == nil {
		t.Error("the tunnel can be read")
	}
}

// No error quotes what an upstream sent.
func TestErrorsQuoteNothing(t *testing.T) {
	t.Parallel()
	const secret = "sid-sesame"
	for _, says := range []string{
		secret + "\r\n\r\n", "HTTP/1.1 " + secret + "\r\n\r\n", secret + " 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\n" + secret + "\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: " + secret + "\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: " + secret + "\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: " + secret + "\r\n\r\n", "HTTP/1.1 200 OK\r\n: " + secret + "\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + secret + "\r\n", "HTTP/1.1 101 " + secret + "\r\nUpgrade: " + secret + "\r\nConnection: upgrade\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + secret + "\r\n\r\n", "HTTP/1.1 200 OK\r\nTrailer: Content-Length\r\nTransfer-Encoding: chunked\r\n\r\n",
	} {
		u := newRawUpstream(t, func(_, _ int64, _ *http.Request, conn net.Conn) bool {
			_, _ = io.WriteString(conn, says)
			return false
		})
		f := newFixture(t, time.Minute, u.url())
		for _, body := range []io.Reader{nil, strings.NewReader("small"), io.MultiReader(strings.NewReader("long"))} {
			_, err := f.send(t.Context(), "POST", body)
			if err == nil || strings.Contains(err.Error(), "sesame") || strings.Contains(err.Error(), "Content-Length") {
				t.Errorf("%q: %v", says, err)
			}
		}
	}
}

// A method that is not a token is refused: it could add words to the request line.
func TestMethodIsToken(t *testing.T) {
	t.Parallel()
	var dialed atomic.Int64
	c := counting(&dialed, time.Minute)
	for _, method := range []string{"GET /admin HTTP/1.1\r\nX:", "A B", "GET\t", "é"} {
		r, err := http.NewRequest("GET", "http://app.invalid/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Method = method
		if _, err := c.RoundTrip(r); !errors.Is(err, errMethod) || dialed.Load() > 0 {
			t.Errorf("%q: %v", method, err)
		}
	}
}
