package conn

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"authgate/internal/test/must"
)

// pipes is a listener that accepts the ends of pipes.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes"} }

// bench is an http.Server whose connections are in a Set, on the clock of a
// bubble. It answers /slow after a minute, sends longAnswer for /long, a part of an
// answer for /abort, and hijacks the connection of /hijack, for /hijack/late when its client is
// watched. For /left it waits for the client to leave.
type bench struct {
	t        *testing.T
	set      *Set
	server   *http.Server
	pipes    *pipes
	served   chan string // paths of requests
	hijacked chan net.Conn
	left     chan time.Duration // how long a request to /left took
}

// abortedAnswer is how many bytes come before the handler of /abort gives up: a write
// that a Gatherer keeps.
const abortedAnswer = 2 * longWrite

// longAnswer is how many bytes a long answer has: more than a Gatherer keeps.
const longAnswer = 3 * mostGathered

// onBench runs f with a server, without TLS if plain.
func onBench(t *testing.T, o Options, plain bool, f func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o.Logger = slog.New(slog.DiscardHandler)
		b := &bench{
			t: t, set: NewSet(o), pipes: &pipes{make(chan net.Conn), make(chan struct{})},
			served: make(chan string, 1000), hijacked: make(chan net.Conn),
			left: make(chan time.Duration),
		}
		b.server = &http.Server{
			ConnState: b.set.State, ConnContext: Context, ErrorLog: log.New(io.Discard, "", 0), Handler: b,
		}
		var listener net.Listener = b.set.Listener(b.pipes)
		if plain {
			b.server.Protocols = new(http.Protocols)
			b.server.Protocols.SetHTTP1(true)
			b.server.Protocols.SetUnencryptedHTTP2(true)
			listener = Cleartext{Listener: listener}
		} else {
			b.server.TLSConfig = &tls.Config{
				Certificates: []tls.Certificate{selfSigned(t)}, NextProtos: []string{"h2", "http/1.1"},
				SessionTicketsDisabled: true, // clients would have to read them
			}
			listener = NewSecure(listener, b.server.TLSConfig, 10*time.Second, b.server.ErrorLog)
		}
		ended := make(chan error)
		go func() { ended <- b.server.Serve(listener) }()
		synctest.Wait()
		f(b)
		b.server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		time.Sleep(2 * time.Minute) // for handlers and clients to end
	})
}

// ServeHTTP implements http.Handler.
func (b *bench) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.served <- r.URL.Path
	if TwoFramings(r) {
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	switch r.URL.Path {
	case "/slow":
		time.Sleep(time.Minute)
	case "/whole":
		_, _ = fmt.Fprint(w, CameWhole(r))
	case "/long":
		_, _ = w.Write(make([]byte, longAnswer))
	case "/abort":
		_, _ = w.Write(make([]byte, abortedAnswer))
		panic(http.ErrAbortHandler)
	case "/left":
		began := time.Now()
		<-r.Context().Done()
		b.left <- time.Since(began)
	case "/hijack/late":
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(3 * holdTime)) // the Reads tell
		time.Sleep(2 * holdTime)
		fallthrough
	case "/hijack":
		c, _, _ := http.NewResponseController(w).Hijack()
		b.hijacked <- c
	}
}

func selfSigned(t *testing.T) tls.Certificate {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))(t)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// dial opens a connection.
func (b *bench) dial() net.Conn {
	here, there := net.Pipe()
	b.t.Cleanup(func() { here.Close() })
	b.pipes.conns <- there
	return here
}

// client opens a connection for HTTP/1.1, in cleartext or over TLS.
func (b *bench) client(plain bool) net.Conn {
	if plain {
		return b.dial()
	}
	return b.secure("http/1.1")
}

// secure opens a connection over TLS.
func (b *bench) secure(protocol string) *tls.Conn {
	c := tls.Client(b.dial(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}})
	go func() { _ = c.Handshake() }()
	synctest.Wait()
	return c
}

// get sends a request and reads the answer.
func (b *bench) get(c net.Conn, path string) error {
	if _, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		return err
	}
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = errors.New(answer.Status)
	}
	return err
}

// greet begins HTTP/2. The server must send GOAWAY once before it closes the
// connection.
func (b *bench) greet(c net.Conn) {
	framer, away := http2.NewFramer(c, c), []uint32{} // the last streams
	go func() {
		for f, err := framer.ReadFrame(); err == nil; f, err = framer.ReadFrame() {
			if f, ok := f.(*http2.GoAwayFrame); ok {
				away = append(away, f.LastStreamID)
			}
		}
		if !slices.Equal(away, []uint32{0}) {
			b.t.Errorf("the connection is closed after GOAWAY %d, want one, with the stream 0", away)
		}
	}()
	must.Get(io.WriteString(c, http2.ClientPreface))(b.t)
	must.Do(b.t, framer.WriteSettings())
	synctest.Wait()
}

// stop leaves, shuts the server down and returns how long that took.
func (b *bench) stop() time.Duration {
	began := time.Now()
	b.set.Leave()
	for err := context.DeadlineExceeded; errors.Is(err, context.DeadlineExceeded) && time.Since(began) < time.Hour; {
		step, cancel := context.WithTimeout(b.t.Context(), 100*time.Millisecond)
		err = b.server.Shutdown(step)
		cancel()
	}
	b.set.Wait()
	return time.Since(began)
}

// drip sends something and then its last byte once a second.
func drip(c net.Conn, text string) {
	_, err := io.WriteString(c, text)
	for ; err == nil; _, err = c.Write([]byte{'a'}) {
		time.Sleep(time.Second)
	}
}

func discard(c net.Conn) { _, _ = io.Copy(io.Discard, c) }
