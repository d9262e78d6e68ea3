package http1

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A request whose connection the upstream closes without a response is sent twice at
// most, however many connections are idle, and only if it may be repeated.
func TestRetryOnce(t *testing.T) {
	t.Parallel()
	const idle = 150
	for _, c := range []struct {
		method, body string
		runs         int64
	}{
		{"GET", "", 2}, {"HEAD", "", 2}, {"OPTIONS", "", 2}, {"TRACE", "", 2}, {"PUT", "", 2}, {"DELETE", "", 2},
		{"POST", "", 1}, {"PATCH", "", 1}, {"PROPFIND", "", 1},
		{"POST", "body", 1}, {"PUT", "body", 1}, {"GET", "body", 1}, {"PUT", strings.Repeat("x", 2*SmallBody), 1},
	} {
		t.Run(fmt.Sprintf("%s %.4s", c.method, c.body), func(t *testing.T) {
			t.Parallel()
			var runs, warm atomic.Int64
			all := make(chan struct{})
			u := newRawUpstream(t, func(_, _ int64, r *http.Request, conn net.Conn) bool {
				if r.URL.Path == "/warm" {
					if warm.Add(1) == idle {
						close(all)
					}
					<-all // each needs a connection of its own
					_, err := io.WriteString(conn, okResponse)
					return err == nil
				}
				runs.Add(1)
				_, _ = io.Copy(io.Discard, r.Body) // the client may be gone
				return false
			})
			f := newFixture(t, time.Minute, u.url())
			answers := make(chan error)
			for range idle {
				go func() {
					_, err := meaning(f.Client, "GET", u.url()+"/warm")
					answers <- err
				}()
			}
			for range idle {
				if err := <-answers; err != nil {
					t.Fatal(err)
				}
			}
			var body io.Reader
			if c.body != "" {
				body = strings.NewReader(c.body)
			}
			_, err := f.send(t.Context(), c.method, body)
			if status := statusOf(err); status != http.StatusBadGateway || runs.Load() != c.runs {
				t.Errorf("%d (%v) after %d runs, want %d", status, err, runs.Load(), c.runs)
			}
			if n := u.connections.Load(); n != idle+c.runs-1 {
				t.Errorf("%d connections, want %d", n, idle+c.runs-1)
			}
		})
	}
}

// With NoReuse, each request announces that its connection is closed.
func TestNoReuse(t *testing.T) {
	t.Parallel()
	u := newRawUpstream(t, func(_, _ int64, r *http.Request, conn net.Conn) bool {
		if !r.Close {
			t.Errorf("%s does not ask to close the connection", r.Method)
		}
		_, _ = io.Copy(io.Discard, r.Body)
		_, err := io.WriteString(conn, okResponse) // and the connection stays open
		return err == nil
	})
	f := newFixture(t, time.Minute, u.url())
	f.noReuse = true
	for _, body := range []string{"", "small", strings.Repeat("x", 2*SmallBody)} {
		for range 2 {
			if answer, err := f.send(t.Context(), "POST", strings.NewReader(body)); answer != "ok" || err != nil {
				t.Errorf("%q, %v", answer, err)
			}
		}
	}
	if n := u.connections.Load(); n != 6 {
		t.Errorf("%d connections for 6 requests", n)
	}
}
