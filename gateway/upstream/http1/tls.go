package http1

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
)

// TLSConn is a connection over TLS that can tell whether it is silent.
type TLSConn struct {
	*tls.Conn
	wire *wire
}

// Handshake makes a TLS connection of raw. It closes raw when it fails.
func Handshake(ctx context.Context, raw net.Conn, config *tls.Config) (*TLSConn, error) {
	w := &wire{Conn: raw}
	conn := tls.Client(w, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, err
	}
	return &TLSConn{conn, w}, nil
}

// Abort closes the connection without the farewell of TLS, which may wait for
// an upstream that does not read.
func (c *TLSConn) Abort() { c.wire.Conn.Close() }

// Silent reports whether the connection is open and nothing has come over it
// that was not read. Bytes may wait in the system, in what TLS has read but
// not decrypted, and in what it has decrypted.
func (c *TLSConn) Silent() bool {
	if !silent(c.wire.Conn) {
		return false
	}
	c.wire.held = true
	defer func() { c.wire.held = false }()
	var b [1]byte
	n, err := c.Read(b[:])
	return n == 0 && errors.Is(err, errHeld) && c.wire.between()
}

// wire is the connection under TLS. It follows the records (RFC 8446, section
// 5.1) that are read.
type wire struct {
	net.Conn
	held   bool    // nothing more is read
	header [5]byte // of the record under way
	have   int     // bytes of it
	left   int     // bytes of the record's payload that are still to come
}

// Read implements net.Conn.
func (w *wire) Read(b []byte) (int, error) {
	if w.held {
		return 0, errHeld
	}
	n, err := w.Conn.Read(b)
	w.follow(b[:n])
	return n, err
}

// between reports whether all that was read is whole records.
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

// errHeld is an error after which TLS can read on.
var errHeld error = heldError{}

type heldError struct{}

func (heldError) Error() string   { return "nothing has come" }
func (heldError) Timeout() bool   { return true }
func (heldError) Temporary() bool { return true }
