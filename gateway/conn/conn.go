package conn

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Conn is the connection of a client, as a listener of a Set accepts it.
type Conn struct {
	net.Conn
	set      *Set
	listener *Listener
	written  atomic.Int64 // bytes
	bound    atomic.Int64 // when writes end at the latest, Unix nanoseconds; 0: never
	closed   atomic.Bool
	release  sync.Once

	// Guarded by set.mu:
	outer      net.Conn  // what the server has
	served     bool      // a request was served, or HTTP/2 began
	counted    bool      // in set.open
	waits      bool      // for a request; it is in the list then
	since      time.Time // when it began to wait
	prev, next *Conn     // in the list
	dismissed  bool      // it is being closed, and serves no request
	settled    bool      // there was nothing to send when that began
	told       int64     // what was written when HTTP/2 was to say GOAWAY; -1: it has served a request since
}

// under returns the Conn that lies under the layers of c, or nil.
func under(c net.Conn) *Conn {
	for {
		switch layer := c.(type) {
		case *Conn:
			return layer
		case interface{ NetConn() net.Conn }: // TLS
			c = layer.NetConn()
		case interface{ Raw() net.Conn }: // the PROXY protocol
			c = layer.Raw()
		default:
			return nil
		}
	}
}

// Gone reports whether the client of a connection has closed its side, also
// where nothing reads from it. Systems that cannot tell report false.
func Gone(c net.Conn) bool {
	below := under(c)
	return below != nil && hungUp(below.Conn)
}

// Cut closes a connection and all its layers at once, whatever is unsent. TLS
// would try for seconds to say so to a client that does not read.
func Cut(c net.Conn) {
	if below := under(c); below != nil {
		below.closed.Store(true)
		below.end()
	}
	c.Close()
}

// Unsent returns how many of the bytes that were written to a connection the
// client's system has not confirmed; 0 where that cannot be known.
func Unsent(c net.Conn) int {
	below := under(c)
	if below == nil {
		return 0
	}
	n, _ := below.set.unsent(below.Conn)
	return n
}

// http2 reports whether HTTP/2 is spoken. The caller holds set.mu.
func (c *Conn) http2() bool {
	if !c.served {
		return false // and the state of TLS may have to wait for the client
	}
	layer, ok := c.outer.(*tls.Conn)
	return ok && layer.ConnectionState().NegotiatedProtocol == "h2"
}

// Read implements net.Conn. What comes after Close is not read, even where the
// Read began before: a request must not be served that gets no answer.
func (c *Conn) Read(b []byte) (int, error) {
	if c.closed.Load() {
		return 0, net.ErrClosed
	}
	n, err := c.Conn.Read(b)
	if n > 0 && c.closed.Load() {
		return 0, net.ErrClosed
	}
	return n, err
}

// Write implements net.Conn.
func (c *Conn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.written.Add(int64(n))
	return n, err
}

// SetReadDeadline implements net.Conn. After Close the deadline is that of
// linger.
func (c *Conn) SetReadDeadline(t time.Time) error {
	if c.closed.Load() {
		return net.ErrClosed
	}
	return c.Conn.SetReadDeadline(t)
}

// SetWriteDeadline implements net.Conn.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	if bound := c.bound.Load(); bound != 0 && (t.IsZero() || t.UnixNano() > bound) {
		t = time.Unix(0, bound)
	}
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline implements net.Conn.
func (c *Conn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// CloseWrite tells the client that nothing more comes.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return http.ErrNotSupported
}

// end closes the connection and takes it off the account.
func (c *Conn) end() error {
	err := c.Conn.Close()
	c.release.Do(func() {
		c.listener.open.Add(-1)
		c.set.remove(c)
	})
	return err
}
