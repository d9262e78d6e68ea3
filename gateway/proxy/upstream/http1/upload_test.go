package http1

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
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
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		fmt.Fprint(w, r.ContentLength, " ", len(body), " ", len(r.Trailer), err)
	}))
	defer s.Close()
	f := newFixture(t, s.URL)
	n := int64(0)
	for _, length := range []int{1, 1 << 10, SmallBody, SmallBody + 1, 1 << 20} {
		for _, known := range []bool{true, false} {
			r := newRequest(t, t.Context(), "POST", s.URL, io.MultiReader(strings.NewReader(strings.Repeat("x", length))))
			r.Trailer = http.Header{"X-Auth-User": {"alice"}}
			want := fmt.Sprint(-1, " ", length, " 0 <nil>")
			if r.ContentLength = -1; known {
				r.ContentLength, want = int64(length), fmt.Sprint(length, " ", length, " 0 <nil>")
			}
			response, err := f.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			if body, err := io.ReadAll(response.Body); string(body) != want || err != nil {
				t.Errorf("%d bytes: %q, %v; want %q", length, body, err, want)
			}
			n++
		}
	}
	if got := f.dialed.Load(); got > n/2 {
		t.Errorf("%d connections for %d requests", got, n)
	}
}

// A small body is sent with its header in one write, and the client connects only
// after it has read the body.
func TestSmallBodyIsOneWrite(t *testing.T) {
	t.Parallel()
	parts := make(chan string, 1)
	f := newDialing(t, time.Minute, pipe(func(c net.Conn) { // one Read gets what one Write has
		b := make([]byte, 1<<20)
		n, err := c.Read(b)
		if err != nil {
			t.Error(err)
		}
		parts <- string(b[:n])
		_, _ = io.WriteString(c, okResponse)
	}))
	body := strings.Repeat("x", SmallBody)
	r := newRequest(t, t.Context(), "POST", f.url, early{strings.NewReader(body), func() {
		if f.dialed.Load() > 0 {
			t.Error("a connection waits for a small body")
		}
	}})
	r.ContentLength = SmallBody
	response, err := f.RoundTrip(r)
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
		if _, err := io.WriteString(conn, chunked+"\r\n"); err != nil {
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
	f := newFixture(t, u.url())
	body, feed := io.Pipe()
	response, err := f.RoundTrip(newRequest(t, t.Context(), "POST", u.url(), body))
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

// A response that comes before the upstream has read the request gets through. The
// connection goes back to the pool if the rest of the request is written soon. If
// that fails, it does not: the next request would begin in the middle of this one.
func TestLateUpload(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		after func(c net.Conn, feed *io.PipeWriter, r *http.Request) // what happens after the response
		kept  bool
	}{
		"the upstream reads the rest": {func(_ net.Conn, feed *io.PipeWriter, r *http.Request) {
			feed.Close()
			_, _ = io.Copy(io.Discard, r.Body)
		}, true},
		"the upstream leaves": {func(c net.Conn, feed *io.PipeWriter, _ *http.Request) {
			c.Close()
			feed.Close()
		}, false},
		"the body does not end":      {func(net.Conn, *io.PipeWriter, *http.Request) {}, false},
		"the upstream does not read": {func(_ net.Conn, feed *io.PipeWriter, _ *http.Request) { feed.Close() }, false},
		"the upstream reads too late": {func(_ net.Conn, feed *io.PipeWriter, r *http.Request) {
			time.Sleep(2 * releaseAfter) // of the bubble
			feed.Close()
			_, _ = io.Copy(io.Discard, r.Body)
		}, false},
		"the body fails": {func(_ net.Conn, feed *io.PipeWriter, _ *http.Request) { feed.CloseWithError(errFeed) }, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			body, feed := io.Pipe()
			defer feed.Close()
			dial := answering(func(conn net.Conn, r *http.Request) {
				_, _ = io.WriteString(conn, okResponse)
				time.Sleep(releaseAfter / 2) // of the bubble
				c.after(conn, feed, r)
			})
			var closed atomic.Bool
			f := newDialing(t, time.Minute, func(ctx context.Context, address string) (net.Conn, error) {
				k, err := dial(ctx, address)
				return &watched{k, &closed}, err
			})
			if answer, err := f.send(t.Context(), "POST", body); answer != "ok" || err != nil {
				t.Fatalf("%s: %q, %v", name, answer, err)
			}
			time.Sleep(time.Minute) // of the bubble: until everything has happened
			if kept := f.idle.take("app.invalid", time.Now()) != nil; kept != c.kept {
				t.Errorf("%s: the connection is kept: %t", name, kept)
			}
			if closed.Load() == c.kept {
				t.Errorf("%s: the connection is closed: %t", name, closed.Load())
			}
		})
	}
}

// watched is a connection that records its end.
type watched struct {
	net.Conn
	closed *atomic.Bool
}

func (w *watched) Close() error {
	w.closed.Store(true)
	return w.Conn.Close()
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
			f := newDialing(t, time.Minute, answering(func(conn net.Conn, r *http.Request) {
				_, _ = io.WriteString(conn, c.before)
				if !c.sent {
					return
				}
				body, err := io.ReadAll(r.Body)
				if took = time.Since(start); string(body) != "body" || err != nil {
					t.Errorf("%s: %q, %v", name, body, err)
				}
				_, _ = io.WriteString(conn, okResponse)
			}))
			hints := 0
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
				Got1xxResponse: func(int, textproto.MIMEHeader) error { hints++; return nil },
			})
			r := newRequest(t, ctx, "POST", f.url, early{strings.NewReader("body"), func() { read.Store(true) }})
			r.ContentLength = 4
			r.Header.Set("Expect", "100-continue")
			response, err := f.RoundTrip(r)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if read.Load() != c.sent || hints != c.hints || took != c.after {
				t.Errorf("%s: the body was read: %t, after %v, %d hints", name, read.Load(), took, hints)
			}
			response.Body.Close()
			time.Sleep(2 * releaseAfter) // of the bubble: until the connection is idle
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
				_, _ = io.WriteString(conn, chunked+"\r\n2\r\nok\r\n")
			}
			_, err := io.Copy(io.Discard, r.Body)
			ended <- err
			return false
		})
		f := newFixture(t, u.url())
		body, feed := io.Pipe()
		go func() {
			_, _ = io.WriteString(feed, "begin")
			if !c.answered {
				feed.CloseWithError(errFeed)
			}
		}()
		r := newRequest(t, t.Context(), "POST", u.url(), body)
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
	send := func(t *testing.T, reads int) (string, error) {
		f := newDialing(t, limit, pipe(func(c net.Conn) {
			defer c.Close()
			for b, n := make([]byte, 8<<10), 0; ; n++ {
				time.Sleep(limit / 10) // of the bubble; a write takes several reads
				if n == reads {
					time.Sleep(10 * limit)
					return
				}
				n, err := c.Read(b)
				if err != nil {
					return
				}
				if strings.HasSuffix(string(b[:n]), "0\r\n\r\n") {
					_, _ = io.WriteString(c, okResponse)
					_, _ = c.Read(b) // until the client closes it
					return
				}
			}
		}))
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

// A body of unknown length that is sent again is sent while it comes, as at the first time, on a new connection.
func TestAgainStreams(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{})
	u := newRawUpstream(t, func(connection, _ int64, r *http.Request, c net.Conn) bool {
		if r.Method == "POST" {
			close(begun)
		}
		n, err := io.Copy(io.Discard, r.Body)
		_, failed := fmt.Fprintf(c, "%sContent-Length: 1\r\nX-Got: %d %v on %d\r\n\r\nx", header, n, err, connection)
		return failed == nil
	})
	f := newFixture(t, u.url())
	got := func(response *http.Response, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			t.Fatal(err)
		}
		return response.Header.Get("X-Got")
	}
	if said := got(f.RoundTrip(newRequest(t, t.Context(), "GET", f.url, nil))); said != "0 <nil> on 0" {
		t.Fatalf("the upstream gets %q", said)
	}
	body, sender := io.Pipe()
	go func() {
		select {
		case <-begun:
			_, _ = sender.Write(make([]byte, 1<<20)) // what fails, the upstream tells
			sender.Close()
		case <-time.After(30 * time.Second):
			sender.CloseWithError(errors.New("the body is waited for before the request is sent"))
		}
	}()
	if said := got(f.Again(newRequest(t, t.Context(), "POST", f.url, body))); said != "1048576 <nil> on 1" {
		t.Errorf("the upstream gets %q", said)
	}
}

// After a 101 that was asked for, the body is the connection in both directions. It
// begins with the bytes after the 101, and the end of the context closes it.
func TestTunnel(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	u := newRawUpstream(t, func(_, _ int64, _ *http.Request, conn net.Conn) bool {
		_, _ = io.WriteString(conn,
			"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello")
		b := make([]byte, 4)
		if _, err := io.ReadFull(conn, b); err != nil || string(b) != "ping" {
			t.Errorf("%q, %v", b, err)
		}
		_, _ = io.WriteString(conn, "pong")
		_, err := conn.Read(b)
		ended <- err
		return false
	})
	f := newFixture(t, u.url())
	ctx, cancel := context.WithCancel(t.Context())
	r := newRequest(t, ctx, "GET", u.url(), nil)
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

// A 101 that comes before the upstream has read the whole request is an error: the
// rest of the body would go into the tunnel.
func TestTunnelAfterUpload(t *testing.T) {
	t.Parallel()
	for _, early := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			f := newDialing(t, time.Minute, answering(func(c net.Conn, r *http.Request) {
				if !early {
					_, _ = io.Copy(io.Discard, r.Body) // an error shows at the other end
				}
				time.Sleep(time.Second) // of the bubble
				_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
				_, _ = c.Read(make([]byte, 1)) // until the client closes it
			}))
			r := newRequest(t, t.Context(), "POST", f.url, io.LimitReader(endless{}, 3*SmallBody))
			r.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}}
			response, err := f.RoundTrip(r)
			if err == nil {
				response.Body.Close()
			}
			if errors.Is(err, errUnasked) != early || (err == nil) == early {
				t.Errorf("before the body is read: %t; %v", early, err)
			}
		})
	}
}
