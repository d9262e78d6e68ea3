package conn

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// connection is a connection that a Listener of a Set has accepted.
type connection struct {
	Gatherer
	belongings
	deadline readDeadline
	set      *Set
	listener *Listener
	written  atomic.Int64 // bytes
	bound    atomic.Int64 // the latest deadline of writes, in Unix nanoseconds; 0 for none
	limited  atomic.Bool  // SetWriteDeadline has set a deadline before
	closed   atomic.Bool
	release  sync.Once

	// Guarded by set.mu:
	outer      net.Conn    // the outermost layer, which http.Server has
	served     bool        // it has served a request, or HTTP/2 began
	counted    bool        // it counts in set.open
	waits      bool        // it waits for a request, and is in the list
	since      time.Time   // when it began to wait
	prev, next *connection // of the list
	dismissed  bool        // it is being closed, and serves no request
	flushed    bool        // nothing was unsent when it was dismissed
	told       int64       // written when Leave made HTTP/2 send GOAWAY; -1 if it has served a request since
}

// under returns the connection below the layers of c, or nil.
func under(c net.Conn) *connection {
	for {
		switch layer := c.(type) {
		case *connection:
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

// cut closes a connection at once, whatever is unsent. A Close of TLS would wait
// for seconds for a client that does not read.
func cut(c net.Conn) {
	if below := under(c); below != nil {
		below.refuseReads()
		below.closeNow()
	}
	c.Close()
}

// Reset ends the connection of r so that the client notices it: without the closing message of TLS, and with
// a reset of TCP. In HTTP/1.0 nothing else tells that an answer without a length is not whole.
func Reset(r *http.Request) {
	c := carrierOf(r)
	if c == nil || c.below == nil {
		return
	}
	if tcp, ok := c.below.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // fails if the connection has gone
	}
	cut(c.conn)
}

// unsentBytes returns how many bytes that were written to a connection the client's
// system has not acknowledged. It returns 0 if the system does not tell.
func unsentBytes(c net.Conn) int {
	below := under(c)
	if below == nil {
		return 0
	}
	n, _ := below.unsent()
	return n
}

// unsent returns how many bytes that were written the other side has not
// acknowledged, and whether the system tells.
func (c *connection) unsent() (n int, known bool) {
	kept := c.Kept() // first, because it is sent meanwhile
	n, known = c.set.unsent(c.Conn)
	return kept + n, known
}

// http2 reports whether the protocol is HTTP/2. The caller holds set.mu.
func (c *connection) http2() bool {
	if !c.served {
		return false // ConnectionState would wait for the handshake
	}
	switch layer := c.outer.(type) {
	case *tls.Conn:
		return layer.ConnectionState().NegotiatedProtocol == "h2"
	case *cleartextConn:
		return layer.http2.Load()
	}
	return false
}

// Read implements net.Conn. It returns nothing that comes after Close, also if it
// began before: such a request would get no answer.
func (c *connection) Read(b []byte) (int, error) {
	if c.closed.Load() {
		return 0, net.ErrClosed
	}
	c.deadline.beginRead(c.Conn)
	n, err := c.Gatherer.Read(b)
	for n == 0 && c.reached(err) && c.deadline.extend(c.Conn) {
		n, err = c.Gatherer.Read(b)
	}
	c.deadline.endRead()
	if n > 0 && c.closed.Load() {
		return 0, net.ErrClosed
	}
	return n, err
}

// reached reports whether err is that of a deadline of Reads. A Write that has failed by its
// own deadline ends each Read with the same error.
func (c *connection) reached(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) && c.failure() == nil
}

// Write implements net.Conn.
func (c *connection) Write(b []byte) (int, error) {
	n, err := c.Gatherer.Write(b)
	c.written.Add(int64(n))
	return n, err
}

// SetReadDeadline implements net.Conn. After Close the deadline belongs to stay.
func (c *connection) SetReadDeadline(t time.Time) error {
	return c.deadline.set(c.Conn, t)
}

// SetWriteDeadline implements net.Conn. Over HTTP/2, where deadlines of answers are not those
// of the connection, kept bytes have at least the time of lingering. Over HTTP/1.1, net/http
// removes the deadline after each answer, also if none was ever set.
func (c *connection) SetWriteDeadline(t time.Time) error {
	if t.IsZero() && !c.limited.Load() && c.Kept() == 0 {
		return nil
	}
	c.limited.Store(true)
	if c.keepsAll() && c.Kept() > 0 && t.After(time.Now()) { // tls.Conn.Close allows five seconds
		if until := c.set.lingerEnd(); until.After(t) {
			t = until
		}
	}
	if bound := c.bound.Load(); bound != 0 && (t.IsZero() || t.UnixNano() > bound) {
		t = time.Unix(0, bound)
	}
	return c.Gatherer.SetWriteDeadline(t)
}

// SetDeadline implements net.Conn.
func (c *connection) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// CloseWrite tells the client that nothing more comes.
func (c *connection) CloseWrite() error {
	if err := c.Settle(); err != nil {
		return err
	}
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return http.ErrNotSupported
}

// refuseReads is called before the connection is closed: no Read returns anything any more. It
// reports whether it was called before.
func (c *connection) refuseReads() (before bool) {
	before = c.closed.Swap(true)
	c.deadline.stop()
	return before
}

// closeNow closes the connection and removes it from the Set.
func (c *connection) closeNow() error {
	err := c.Conn.Close()
	c.release.Do(func() {
		c.belongings.closeOwned()
		c.listener.open.Add(-1)
		c.set.remove(c)
	})
	return err
}
