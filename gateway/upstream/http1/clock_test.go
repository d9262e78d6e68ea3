package http1

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// piped returns a client whose upstream is at the other end of a pipe, for bubbles.
func piped(timeout time.Duration, serve func(conn net.Conn, r *http.Request)) *Client {
	dial := func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		go func() {
			r, err := http.ReadRequest(bufio.NewReader(there))
			if err != nil {
				there.Close()
				return
			}
			serve(there, r)
		}()
		return here, nil
	}
	return newClient(dial, timeout)
}

func getPiped(ctx context.Context, d *Client) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, "GET", "http://app.invalid/x", nil)
	if err != nil {
		return nil, err
	}
	return d.RoundTrip(r)
}

// The time limit is for the header of the response, not for its body.
func TestTimeout(t *testing.T) {
	t.Parallel()
	const limit = 30 * time.Second
	for name, serve := range map[string]func(net.Conn, *http.Request){
		"nothing": func(net.Conn, *http.Request) {},
		"half a header": func(c net.Conn, _ *http.Request) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nA: b\r\n") // the client may be gone
		},
		"1xx alone": func(c net.Conn, _ *http.Request) {
			time.Sleep(limit / 2)
			_, _ = io.WriteString(c, "HTTP/1.1 103 Early Hints\r\n\r\n")
		},
		"a header byte by byte": func(c net.Conn, _ *http.Request) {
			for _, b := range []byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") {
				time.Sleep(time.Second)
				if _, err := c.Write([]byte{b}); err != nil {
					return
				}
			}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			_, err := getPiped(t.Context(), piped(limit, serve))
			if status := statusOf(err); status != 504 || time.Since(start) != limit {
				t.Errorf("%s: %d (%v) after %v", name, status, err, time.Since(start))
			}
			time.Sleep(2 * limit) // of the bubble: the upstream ends before the test
		})
	}
	synctest.Test(t, func(t *testing.T) {
		response, err := getPiped(t.Context(), piped(limit, func(c net.Conn, _ *http.Request) {
			time.Sleep(limit - time.Second)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n") // an error shows at the other end
			for range 3 {
				time.Sleep(time.Hour)
				_, _ = io.WriteString(c, "x")
			}
		}))
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(response.Body); string(body) != "xxx" || err != nil {
			t.Errorf("a slow body: %q, %v", body, err)
		}
	})
}

// The end of the context closes the connection at once, in each state.
func TestClientLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		closed := make(chan struct{})
		d := piped(time.Hour, func(c net.Conn, _ *http.Request) {
			defer close(closed)
			_, _ = c.Read(make([]byte, 1)) // until the other side closes it
		})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		start := time.Now()
		if _, err := getPiped(ctx, d); !errors.Is(err, context.Canceled) || time.Since(start) != time.Minute {
			t.Errorf("before the header: %v after %v", err, time.Since(start))
		}
		<-closed
	})
	synctest.Test(t, func(t *testing.T) {
		closed := make(chan struct{})
		d := piped(time.Hour, func(c net.Conn, _ *http.Request) {
			defer close(closed)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab") // an error shows at the other end
			_, _ = c.Read(make([]byte, 1))
		})
		ctx, cancel := context.WithCancel(t.Context())
		response, err := getPiped(ctx, d)
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Minute, cancel)
		if body, err := io.ReadAll(response.Body); string(body) != "ab" || err == nil {
			t.Errorf("in the middle of the body: %q, %v", body, err)
		}
		<-closed
	})
	synctest.Test(t, func(t *testing.T) {
		d := piped(time.Hour, func(c net.Conn, _ *http.Request) {
			_, _ = io.WriteString(c, okResponse) // an error shows at the other end
			_, _ = c.Read(make([]byte, 1))
		})
		ctx, cancel := context.WithCancel(t.Context())
		response, err := getPiped(ctx, d)
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(response.Body); string(body) != "ok" || err != nil {
			t.Errorf("%q, %v", body, err)
		}
		cancel() // after the end of the body: another request may have the connection
		synctest.Wait()
		c := idleOne(t, d)
		if err := c.SetDeadline(time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte("x")); err != nil {
			t.Errorf("the next request on the connection: %v", err)
		}
		d.CloseIdleConnections()
	})
}

// Idle connections are closed after idleLives, or by CloseIdleConnections.
func TestIdle(t *testing.T) {
	t.Parallel()
	idleFor := func(t *testing.T, until func(*Client)) time.Duration {
		closed := make(chan time.Time, 1)
		d := piped(time.Hour, func(c net.Conn, _ *http.Request) {
			_, _ = io.WriteString(c, okResponse) // an error shows at the other end
			_, _ = c.Read(make([]byte, 1))
			closed <- time.Now()
		})
		response, err := getPiped(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(response.Body); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		until(d)
		return (<-closed).Sub(start)
	}
	synctest.Test(t, func(t *testing.T) {
		if took := idleFor(t, func(*Client) {}); took < idleLives || took > idleLives+idleSweep {
			t.Errorf("an idle connection lives %v", took)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		if took := idleFor(t, (*Client).CloseIdleConnections); took != 0 {
			t.Errorf("told to close, it takes %v", took)
		}
	})
}
