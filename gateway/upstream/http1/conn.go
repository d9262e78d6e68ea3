package http1

import (
	"bufio"
	"context"
	"io"
	"net"
	"time"
)

// conn is a connection to an upstream. One request uses it at a time.
type conn struct {
	net.Conn
	address string
	limited io.LimitedReader
	br      *bufio.Reader
	since   time.Time   // when it became idle
	failed  error       // of Read
	unclear bool        // the last response has more than one framing
	quiet   func() bool // reports whether the connection is open and nothing has come
	fields  []Field     // of the last plain response
}

func newConn(c net.Conn, address string) *conn {
	k := &conn{Conn: c, address: address}
	if checked, ok := c.(interface{ Check() bool }); ok {
		k.quiet = checked.Check
	} else {
		k.quiet = newChecker(c).check
	}
	k.limited.R = k
	k.br = bufio.NewReader(&k.limited)
	return k
}

// Read implements io.Reader. It records the error, because http.ReadResponse only
// reports that half a line is malformed.
func (k *conn) Read(b []byte) (int, error) {
	n, err := k.Conn.Read(b)
	if err != nil {
		k.failed = err
	}
	return n, err
}

// abort closes the connection at once, without the closing message of TLS. Reads
// and writes fail.
func (k *conn) abort() {
	if c, ok := k.Conn.(interface{ Abort() }); ok {
		c.Abort()
		return
	}
	k.Close()
}

// check reports whether the connection is open and has no unread bytes.
func (k *conn) check() bool { return k.br.Buffered() == 0 && k.quiet() }

// conn returns a connection to address with that deadline: an idle one that
// passes its check, or a new one.
func (c *Client) conn(ctx context.Context, address string, deadline time.Time) (k *conn, used bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	if k := c.take(address, deadline); k != nil {
		return k, true, nil
	}
	k, err = c.open(ctx, address, deadline)
	return k, false, err
}

// take returns an idle connection to address that passes its check, with that
// deadline. It returns nil if there is none.
func (c *Client) take(address string, deadline time.Time) *conn {
	for k := c.idle.take(address); k != nil; k = c.idle.take(address) {
		if k.SetDeadline(deadline) == nil && k.check() { // a check after the old deadline fails
			return k
		}
		k.Close()
	}
	return nil
}

// open returns a new connection.
func (c *Client) open(ctx context.Context, address string, deadline time.Time) (*conn, error) {
	dialed, err := c.dial(ctx, address)
	if err != nil {
		return nil, err
	}
	if err := dialed.SetDeadline(deadline); err != nil {
		dialed.Close()
		return nil, err
	}
	return newConn(dialed, address), nil
}
