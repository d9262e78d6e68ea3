package http2

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener whose connections are pipes.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes"} }

// Of a response that is not read, the client holds no more than the window of a stream, and other responses on the
// connection go on.
func TestUnreadDownload(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const unread = 40
		var sent atomic.Int64
		server := &http.Server{Protocols: new(http.Protocols)}
		server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet {
				return
			}
			part := make([]byte, 16<<10)
			for range 20 << 20 / len(part) {
				n, err := w.Write(part)
				sent.Add(int64(n))
				if err != nil {
					return
				}
			}
		})
		server.Protocols.SetUnencryptedHTTP2(true)
		listener := make(pipes)
		go func() {
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
				t.Error(err)
			}
		}()
		dials := 0
		dial := func(_ context.Context, _ string, wrap func(net.Conn) net.Conn) (net.Conn, error) {
			dials++
			here, there := net.Pipe()
			listener <- there
			return wrap(here), nil
		}
		c := New(Options{Timeout: time.Minute, Dial: dial})
		u := &upstream{t: t}
		var bodies []io.Closer
		for range unread {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://app.invalid/", nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := c.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			bodies = append(bodies, response.Body)
		}
		synctest.Wait()
		const buffers = 64 << 10 // of the server
		if n := sent.Load() / unread; n > streamWindow+buffers {
			t.Errorf("%d bytes of each response were taken, want at most %d", n, streamWindow+buffers)
		}
		if status, err := u.ask(c, http.MethodPost, nil); status != 200 || dials != 1 {
			t.Errorf("another request: %d, %v; %d connections", status, err, dials)
		}
		for _, b := range bodies {
			b.Close()
		}
		c.CloseIdleConnections()
		close(listener)
		server.Close()
		synctest.Wait()
	})
}
