package http1

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
)

// TLSConn is a TLS connection that can be checked for unread bytes.
type TLSConn struct {
	*tls.Conn
	wire       *wire
	descriptor *descriptor // of the connection below TLS

	// IgnoreEOF takes the end of the connection below TLS for the end of TLS. Otherwise a Read there fails
	// with io.ErrUnexpectedEOF: anybody on the way could have ended it (RFC 8446, section 6.1).
	IgnoreEOF bool
}

// Handshake does a TLS handshake as a client on raw. It closes raw if it fails.
func Handshake(ctx context.Context, raw net.Conn, config *tls.Config) (*TLSConn, error) {
	w := &wire{Conn: raw}
	conn := tls.Client(w, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, err
	}
	return &TLSConn{Conn: conn, wire: w, descriptor: newDescriptor(raw)}, nil
}

// Read implements io.Reader.
func (c *TLSConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err == io.EOF && c.wire.ended && !c.IgnoreEOF {
		err = errTruncated
	}
	return n, err
}

// Abort closes the connection without the closing message of TLS, which could
// wait for an upstream that does not read.
func (c *TLSConn) Abort() { c.wire.Conn.Close() }

// Check reports whether the connection is open and has no unread bytes: neither
// in the system, nor encrypted or decrypted in the buffers of TLS.
func (c *TLSConn) Check() bool {
	if !c.descriptor.isClean() {
		return false
	}
	c.wire.held = true
	defer func() { c.wire.held = false }()
	var b [1]byte
	n, err := c.Read(b[:])
	return n == 0 && errors.Is(err, errHeld) && c.wire.between()
}

// wire is the connection below TLS. It finds the boundaries of the records that
// are read (RFC 8446, section 5.1).
type wire struct {
	net.Conn
	held   bool    // Read fails with errHeld
	ended  bool    // Read has returned io.EOF
	header [5]byte // of the current record
	have   int     // bytes of the header that have come
	left   int     // bytes of the payload that have not come yet
}

// Read implements net.Conn.
func (w *wire) Read(b []byte) (int, error) {
	if w.held {
		return 0, errHeld
	}
	n, err := w.Conn.Read(b)
	w.follow(b[:n])
	w.ended = w.ended || err == io.EOF
	return n, err
}

// between reports whether the last record is complete.
func (w *wire) between() bool { return w.have == 0 && w.left == 0 }

func (w *wire) follow(b []byte) {
	for len(b) > 0 {
		if w.left > 0 {
			n := min(w.left, len(b))
			w.left -= n
			b = b[n:]
			continue
		}
		n := copy(w.header[w.have:], b)
		w.have += n
		b = b[n:]
		if w.have == len(w.header) {
			w.have, w.left = 0, int(w.header[3])<<8|int(w.header[4])
		}
	}
}

// errHeld is temporary, so that TLS can read after it.
var errHeld error = heldError{}

type heldError struct{}

func (heldError) Error() string   { return "no bytes have come" }
func (heldError) Timeout() bool   { return true }
func (heldError) Temporary() bool { return true }
