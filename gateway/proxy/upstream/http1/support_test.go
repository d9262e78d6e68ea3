package http1

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	// idlePerHost is how many connections the clients of tests keep.
	idlePerHost = 256

	okResponse = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	poison     = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison"
	header     = "HTTP/1.1 200 OK\r\n"
	chunked    = header + "Transfer-Encoding: chunked\r\n"
)

// fixture is a client of one upstream, which counts its connections.
type fixture struct {
	*Client
	url    string
	dialed atomic.Int64
}

type dialFunc func(ctx context.Context, address string) (net.Conn, error)

func dialTCP(ctx context.Context, address string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", address)
}

// pipe returns a dialer whose connections are pipes, for bubbles. serve runs at
// the other end of each.
func pipe(serve func(net.Conn)) dialFunc {
	return func(context.Context, string) (net.Conn, error) {
		here, there := net.Pipe()
		go serve(there)
		return here, nil
	}
}

// answering returns a dialer of pipes. serve answers one request on each.
func answering(serve func(c net.Conn, r *http.Request)) dialFunc {
	return pipe(func(c net.Conn) {
		r, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			c.Close()
			return
		}
		serve(c, r)
	})
}

// open is an idle connection that passes its check. A pipe does not.
type open struct{ net.Conn }

func (open) Check() bool { return true }

// newFixture returns a client of the upstream at that URL.
func newFixture(t testing.TB, url string) *fixture {
	t.Helper()
	f := newDialing(t, time.Minute, dialTCP)
	f.url = url
	return f
}

// newDialing returns a client with that dialer.
func newDialing(t testing.TB, timeout time.Duration, dial dialFunc) *fixture {
	t.Helper()
	f := &fixture{url: "http://app.invalid"}
	f.Client = New(Options{
		Dial: func(ctx context.Context, address string) (net.Conn, error) {
			f.dialed.Add(1)
			return dial(ctx, address)
		},
		Timeout: timeout, MaxIdle: idlePerHost,
	})
	t.Cleanup(f.CloseIdleConnections)
	return f
}

// newTransport returns the client whose behavior is expected.
func newTransport(t testing.TB, dial dialFunc) *http.Transport {
	t.Helper()
	transport := &http.Transport{
		DialContext:        func(ctx context.Context, _, address string) (net.Conn, error) { return dial(ctx, address) },
		DisableCompression: true,
	}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// haveRested makes the connections that rest as old as if they had rested.
func (f *fixture) haveRested() {
	f.idle.mu.Lock()
	defer f.idle.mu.Unlock()
	for _, idle := range f.idle.conns {
		for _, k := range idle.resting.conns[idle.resting.head:] {
			k.since = k.since.Add(-restTime)
		}
	}
}

func newRequest(t testing.TB, ctx context.Context, method, url string, body io.Reader) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// get returns the response to GET.
func (f *fixture) get(t testing.TB, ctx context.Context) (*http.Response, error) {
	t.Helper()
	return f.RoundTrip(newRequest(t, ctx, "GET", f.url, nil))
}

// send sends a request as the proxy does, and returns the body of the response.
func (f *fixture) send(ctx context.Context, method string, body io.Reader) (string, error) {
	r, err := http.NewRequestWithContext(ctx, method, f.url, body)
	if err != nil {
		return "", err
	}
	r.URL = &url.URL{Scheme: r.URL.Scheme, Host: r.URL.Host, Opaque: "/a%20b", RawQuery: "c=%zz"}
	response, err := f.RoundTrip(r)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	return string(answer), err
}

// meaning returns all of a response that the proxy uses.
func meaning(t testing.TB, way http.RoundTripper, method, at string) (string, error) {
	t.Helper()
	response, err := way.RoundTrip(newRequest(t, t.Context(), method, at, nil))
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	var s strings.Builder
	fmt.Fprintln(&s, response.Proto, response.Status, response.StatusCode, response.ContentLength,
		response.TransferEncoding, response.Close, response.Uncompressed)
	for _, h := range []http.Header{response.Header, response.Trailer} {
		for _, name := range slices.Sorted(maps.Keys(h)) {
			fmt.Fprintf(&s, "%s: %q\n", name, h[name])
		}
		fmt.Fprintln(&s)
	}
	s.Write(body)
	return s.String(), err
}

// statusOf returns the status with which the gateway answers an error.
func statusOf(err error) int {
	var network net.Error
	switch {
	case err == nil:
		return http.StatusOK
	case errors.Is(err, context.Canceled):
		return 499
	case errors.As(err, &network) && network.Timeout():
		return http.StatusGatewayTimeout
	}
	return http.StatusBadGateway
}

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

// end waits until all connections have ended. closeIdle closes those that are idle; one can
// become idle after the answer to its last request, when the body has been sent.
func (u *rawUpstream) end(closeIdle func()) {
	u.listener.Close()
	ended := make(chan struct{})
	go func() {
		u.done.Wait()
		close(ended)
	}()
	for {
		closeIdle()
		select {
		case <-ended:
			return
		case <-time.After(time.Millisecond):
		}
	}
}

func (u *rawUpstream) url() string { return "http://" + u.listener.Addr().String() }

// say answers with s and keeps the connection.
func say(s string) answerRaw {
	return func(_, _ int64, _ *http.Request, conn net.Conn) bool {
		_, err := io.WriteString(conn, s)
		return err == nil
	}
}

// sayAndClose answers with s and closes the connection.
func sayAndClose(s string) answerRaw {
	return func(_, _ int64, _ *http.Request, conn net.Conn) bool {
		_, _ = io.WriteString(conn, s) // an error shows at the other end
		return false
	}
}
