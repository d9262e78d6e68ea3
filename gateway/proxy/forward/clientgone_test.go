package forward

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	ownrig "authgate/internal/test/rig"
)

// hangs is how long a test waits for what must happen at once, before it fails.
const hangs = 60 * time.Second

// comes fails the test unless something comes over the channel.
func comes(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(hangs):
		t.Error(what)
	}
}

// An exchange with an upstream that never ends its response ends when the client
// leaves, whatever part of the request was sent or read.
func TestClientGone(t *testing.T) {
	t.Parallel()
	const post = "POST /public/ HTTP/1.1\r\nHost: gw.example\r\n"
	for name, request := range map[string]string{
		"GET":                       "GET /public/ HTTP/1.1\r\nHost: gw.example\r\n\r\n",
		"a whole small body":        post + "Content-Length: 4\r\n\r\nbody",
		"a whole large body":        post + "Content-Length: 100000\r\n\r\n" + strings.Repeat("x", 100_000),
		"half, not whole":           post + "Content-Length: 100000\r\n\r\nhalf",
		"huge, not whole":           post + "Content-Length: 100000000\r\n\r\n" + strings.Repeat("x", 8<<20),
		"chunks in full":            post + "Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n",
		"chunks, not whole":         post + "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
		"waiting, not whole":        post + "Content-Length: 4\r\nExpect: 100-continue\r\n\r\n",
		"waiting chunks, not whole": post + "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n",
		"two requests":              strings.Repeat("GET /public/ HTTP/1.1\r\nHost: gw.example\r\n\r\n", 2),
		"a stray line":              post + "Content-Length: 4\r\n\r\nbody\r\n",
	} {
		for _, reads := range []bool{true, false} {
			// Who sends no more has left, as for net/http.
			for _, leaves := range []string{"closes", "resets", "closes its side"} {
				t.Run(fmt.Sprintf("%s/reads %t/%s", name, reads, leaves), func(t *testing.T) {
					t.Parallel()
					server, answered, ended := endlessAnswers(t, reads)
					conn, err := net.Dial("tcp", server.Listener.Addr().String())
					if err != nil {
						t.Fatal(err)
					}
					defer conn.Close()
					go func() { _, _ = io.WriteString(conn, request) }() // as much as the gateway reads
					<-answered
					if !strings.Contains(name, "not whole") { // net/http reads the rest before it sends the header
						a, err := http.ReadResponse(bufio.NewReader(conn), nil)
						if err != nil {
							t.Fatal(err)
						}
						if _, err := io.ReadFull(a.Body, make([]byte, len("hello"))); err != nil {
							t.Fatal(err)
						}
					}
					switch tcp := conn.(*net.TCPConn); leaves {
					case "closes its side":
						err = tcp.CloseWrite()
					case "resets":
						err = tcp.SetLinger(0)
						fallthrough
					default:
						tcp.Close()
					}
					if err != nil {
						t.Error(err)
					}
					comes(t, "the exchange goes on", ended)
				})
			}
		}
	}
}

// TestClientGoneHTTP2 is TestClientGone for streams of HTTP/2.
func TestClientGoneHTTP2(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", "body", "half"} {
		for _, reads := range []bool{true, false} {
			t.Run(fmt.Sprintf("%q/reads %t", body, reads), func(t *testing.T) {
				t.Parallel()
				server, answered, ended := endlessAnswers(t, reads)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var content io.Reader = strings.NewReader(body)
				if body == "half" {
					read, feed := io.Pipe()
					go func() { _, _ = io.WriteString(feed, body) }()                        // and no more
					context.AfterFunc(ctx, func() { feed.CloseWithError(io.ErrClosedPipe) }) // else the client waits for the rest
					content = read
				}
				q, err := http.NewRequestWithContext(ctx, "POST", server.URL+"/public/", content)
				if err != nil {
					t.Fatal(err)
				}
				go func() {
					if a, err := server.Client().Do(q); err == nil {
						_, _ = io.Copy(io.Discard, a.Body) // until it is cancelled
						a.Body.Close()
					}
				}()
				<-answered
				cancel()
				comes(t, "the exchange goes on", ended)
			})
		}
	}
}

// endlessAnswers returns a gateway whose upstream begins a response and sends no more.
// The channels tell when the response has begun, and when the exchange has ended.
func endlessAnswers(t *testing.T, reads bool) (server *httptest.Server, answered, ended chan struct{}) {
	t.Helper()
	answered, ended = make(chan struct{}, 8), make(chan struct{}, 8)
	over := make(chan struct{})
	yaml := ownrig.Edit(t, ownrig.Base, `"http://app.invalid"`, `"http://app.invalid", timeout: 2s`)
	r := newApplication(t, yaml, func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
		answered <- struct{}{}
		if reads {
			_, _ = io.Copy(io.Discard, rw)
		}
		<-over
	})
	server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		defer func() { ended <- struct{}{} }()
		r.ServeHTTP(w, q)
	}))
	if strings.Contains(t.Name(), "HTTP2") {
		server.EnableHTTP2 = true
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(over) })
	t.Cleanup(server.CloseClientConnections)
	return server, answered, ended
}
