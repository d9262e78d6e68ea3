package conn

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"runtime/debug"
	"sync"
	"time"
)

// secureListener is a listener with TLS. Its connections have finished their handshakes, so that
// those over HTTP/1.1 can keep the headers of requests: net/http takes HTTP/2 from a
// *tls.Conn alone, and makes no handshake on anything else.
type secureListener struct {
	net.Listener
	config *tls.Config
	limit  time.Duration
	failed *log.Logger

	begin   sync.Once
	ready   chan net.Conn
	closing context.Context
	stop    context.CancelCauseFunc
}

// NewSecure returns a listener on l. A handshake may take until limit; failed gets a line
// for each that fails.
func NewSecure(l net.Listener, config *tls.Config, limit time.Duration, failed *log.Logger) net.Listener {
	s := &secureListener{Listener: l, config: config, limit: limit, failed: failed, ready: make(chan net.Conn)}
	s.closing, s.stop = context.WithCancelCause(context.Background())
	return s
}

// Accept implements net.Listener.
func (s *secureListener) Accept() (net.Conn, error) {
	s.begin.Do(func() { go s.accept() })
	select {
	case c := <-s.ready:
		return c, nil
	case <-s.closing.Done():
		return nil, context.Cause(s.closing)
	}
}

// Close implements net.Listener. It ends the handshakes.
func (s *secureListener) Close() error {
	s.stop(net.ErrClosed)
	return s.Listener.Close()
}

// accept accepts connections until the listener fails or is closed.
func (s *secureListener) accept() {
	for {
		c, err := s.Listener.Accept()
		if err != nil {
			s.stop(err)
			return
		}
		go s.greet(c)
	}
}

// greet makes the handshake of a connection, and hands it to Accept. A panic, as in
// GetCertificate, ends this connection alone, as in net/http.
func (s *secureListener) greet(raw net.Conn) {
	defer func() {
		if panicked := recover(); panicked != nil {
			s.failed.Printf("http: panic in the TLS handshake of %s: %v\n%s", raw.RemoteAddr(), panicked, debug.Stack())
			raw.Close()
		}
	}()
	ctx, cancel := context.WithTimeout(s.closing, s.limit)
	defer cancel()
	secured := tls.Server(raw, s.config)
	if err := secured.HandshakeContext(ctx); err != nil {
		s.fail(raw, err)
		return
	}
	var c net.Conn = secured
	switch secured.ConnectionState().NegotiatedProtocol {
	case "", "http/1.1":
		c = &secureConn{secured, requestsOn(secured)}
	}
	select {
	case s.ready <- c:
	case <-s.closing.Done():
		c.Close()
	}
}

// fail closes a connection whose handshake failed. A client that speaks HTTP instead of TLS
// gets the answer of net/http.
func (s *secureListener) fail(raw net.Conn, err error) {
	reason := err.Error()
	var header tls.RecordHeaderError
	if errors.As(err, &header) && header.Conn != nil && speaksHTTP(header.RecordHeader) {
		reason = "client sent an HTTP request to an HTTPS server"
		_ = raw.SetWriteDeadline(time.Now().Add(goodbyeTime)) // fails if the connection has gone
		_, _ = io.WriteString(raw, "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n")
	}
	s.failed.Printf("http: TLS handshake error from %s: %s", raw.RemoteAddr(), reason)
	raw.Close()
}

// speaksHTTP reports whether a connection begins with a method of HTTP.
func speaksHTTP(begin [5]byte) bool {
	switch string(begin[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO":
		return true
	}
	return false
}

// secureConn is a connection over TLS and HTTP/1.1 that keeps the headers of requests.
type secureConn struct {
	*tls.Conn
	requests
}

// Read implements net.Conn.
func (c *secureConn) Read(b []byte) (int, error) { return c.readAndKeep(b) }

// SetDeadline implements net.Conn.
func (c *secureConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline implements net.Conn.
func (c *secureConn) SetReadDeadline(t time.Time) error { return c.background.deadline(t) }

// Close implements net.Conn.
func (c *secureConn) Close() error {
	c.background.close()
	return c.Conn.Close()
}
