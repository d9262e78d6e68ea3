package conn

import (
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"time"
)

// http2Preface are the bytes that a client of HTTP/2 sends first (RFC 9113, section 3.4).
const http2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// Cleartext is a listener without TLS whose clients may speak HTTP/2 from the first byte
// on. It goes on top of all other layers, so that the Set below knows the protocol, which
// it otherwise learns from TLS.
type Cleartext struct{ net.Listener }

// Accept implements net.Listener. The connections of the listener below must have a method
// CloseWrite, as those of a Set have.
func (l Cleartext) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &cleartextConn{halfConn: c.(halfConn), requests: requestsOn(c), missing: http2Preface}, nil
}

// cleartextConn is a connection that keeps the headers of requests, and sees whether it
// begins as HTTP/2 does.
type cleartextConn struct {
	halfConn
	requests
	missing string // bytes of the preface that are to come; empty: it was read, or something else
	http2   atomic.Bool
}

// NetConn returns the connection below, for under.
func (c *cleartextConn) NetConn() net.Conn { return c.halfConn }

// Read implements net.Conn.
func (c *cleartextConn) Read(b []byte) (int, error) {
	n, err := c.readAndKeep(b)
	if c.missing != "" {
		c.greet(b[:n])
	}
	return n, err
}

// SetDeadline implements net.Conn.
func (c *cleartextConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline implements net.Conn.
func (c *cleartextConn) SetReadDeadline(t time.Time) error { return c.background.deadline(t) }

// Close implements net.Conn.
func (c *cleartextConn) Close() error {
	c.background.close()
	return c.halfConn.Close()
}

// greet compares the bytes that have come with the preface.
func (c *cleartextConn) greet(came []byte) {
	rest, ok := strings.CutPrefix(c.missing, string(came[:min(len(came), len(c.missing))]))
	switch {
	case !ok:
		c.missing = ""
	case rest == "":
		c.missing = ""
		c.http2.Store(true)
		c.header.stop()
	default:
		c.missing = rest
	}
}
