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
	since   time.Time // idle since
	failed  error     // what Read failed with
	unclear bool      // the last response has more than one framing
}

func newConn(c net.Conn, address string) *conn {
	k := &conn{Conn: c, address: address}
	k.limited.R = k
	k.br = bufio.NewReader(&k.limited)
	return k
}

// Read implements io.Reader. It keeps the error: http.ReadResponse says of half
// a line only that it is malformed.
func (k *conn) Read(b []byte) (int, error) {
	n, err := k.Conn.Read(b)
	if err != nil {
		k.failed = err
	}
	return n, err
}

// abort closes the connection at once, without the farewell of TLS. Reads and
// writes under way fail.
func (k *conn) abort() {
	if c, ok := k.Conn.(interface{ Abort() }); ok {
		c.Abort()
		return
	}
	k.Close()
}

// silent reports whether the connection is open and nothing has come over it
// that was not read.
func (k *conn) silent() bool {
	if k.br.Buffered() > 0 {
		return false
	}
	if c, ok := k.Conn.(interface{ Silent() bool }); ok {
		return c.Silent()
	}
	return silent(k.Conn)
}

// conn returns a connection to address that lasts until deadline: one that is
// idle and silent, or a new one.
func (c *Client) conn(ctx context.Context, address string, deadline time.Time) (k *conn, used bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	for k := c.idle.take(address); k != nil; k = c.idle.take(address) {
		if k.silent() && k.SetDeadline(deadline) == nil {
			return k, true, nil
		}
		k.Close()
	}
	k, err = c.open(ctx, address, deadline)
	return k, false, err
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
