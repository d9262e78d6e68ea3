package rig

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/wire/conn"
	"authgate/internal/test/must"
)

// Limits of the servers that tests listen with, as gateway/proxy/server has them.
const (
	ReadHeaderTime = 10 * time.Second
	IdleTime       = 2 * time.Minute
)

// pipes is a listener for the near ends of pipes.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	conn, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes"} }

// Listen runs f in a synctest bubble with a handler that serves HTTP/1.1 and HTTP/2 over what
// dial opens.
func Listen[H http.Handler](
	t *testing.T, build func(t *testing.T) H, f func(t *testing.T, h H, dial func() net.Conn),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		handler := build(t)
		server := newServer(handler)
		server.server.Protocols = new(http.Protocols)
		server.server.Protocols.SetHTTP1(true)
		server.server.Protocols.SetUnencryptedHTTP2(true)
		listener := make(pipes)
		server.serve(listener)
		defer func() {
			server.server.Close()
			if err := <-server.ended; !errors.Is(err, http.ErrServerClosed) {
				t.Errorf("the server: %v", err)
			}
		}()
		f(t, handler, func() net.Conn {
			here, there := net.Pipe()
			must.Do(t, here.SetDeadline(time.Now().Add(24*time.Hour))) // longer than any test waits
			listener <- there
			return here
		})
	})
}

// testServer serves a handler on connections like those of package server.
type testServer struct {
	server      *http.Server
	connections *conn.Set
	ended       chan error
}

func newServer(handler http.Handler) *testServer {
	connections := conn.NewSet(conn.Options{Logger: slog.New(slog.DiscardHandler)})
	return &testServer{&http.Server{
		Handler: handler, ConnContext: conn.Context, ConnState: connections.State,
		ReadHeaderTimeout: ReadHeaderTime, IdleTimeout: IdleTime,
	}, connections, make(chan error, 1)}
}

func (s *testServer) serve(l net.Listener) {
	go func() { s.ended <- s.server.Serve(conn.Cleartext{Listener: s.connections.Listener(l)}) }()
}

// ServeTCP serves a handler on a TCP port, and returns its address.
func ServeTCP(t *testing.T, handler http.Handler) string {
	t.Helper()
	server, listener := newServer(handler), must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	server.serve(listener)
	t.Cleanup(func() {
		server.server.Close()
		<-server.ended
	})
	return listener.Addr().String()
}

// TransportOver returns an HTTP client for one protocol over what dial opens.
func TransportOver(dial func() net.Conn, protocol string) *http.Transport {
	transport := &http.Transport{
		Protocols:   new(http.Protocols),
		DialContext: func(context.Context, string, string) (net.Conn, error) { return dial(), nil },
	}
	transport.Protocols.SetHTTP1(protocol == "HTTP/1.1")
	transport.Protocols.SetUnencryptedHTTP2(protocol == "HTTP/2.0")
	return transport
}

// RoundTrip sends a request over transport. The caller closes the body.
func RoundTrip(
	t testing.TB, transport *http.Transport, method, path string, body io.Reader, header ...string,
) *http.Response {
	t.Helper()
	q := must.Get(http.NewRequest(method, "http://gw.example"+path, body))(t)
	q.Header = Request(method, path, "", header...).Header
	return must.Get(transport.RoundTrip(q))(t)
}

// Ask sends a request, whose lines end in a line feed alone, and reads the response.
func Ask(t *testing.T, conn net.Conn, text string) *http.Response {
	t.Helper()
	must.Get(io.WriteString(conn, strings.ReplaceAll(text, "\n", "\r\n")))(t)
	response := must.Get(http.ReadResponse(bufio.NewReader(conn), nil))(t)
	must.Get(io.Copy(io.Discard, response.Body))(t)
	return response
}

// SendLater writes to a connection after that time. After an error, the answer is another one.
func SendLater(conn net.Conn, after time.Duration, text string) {
	time.AfterFunc(after, func() { _, _ = io.WriteString(conn, text) })
}
