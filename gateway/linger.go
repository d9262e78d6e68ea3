package gateway

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// lingerPause is how long nothing may come over a connection that lingers, or
// go, before its client is given up.
const lingerPause = 5 * time.Second

// lingering are the connections that end in a stop. What a client sends to a
// connection that is closed is answered with a reset, and what has not got to
// the client by then is lost. Over HTTP/2 clients do send while they read: how
// much they have read; and net/http closes the connection a second after it
// has handed the last answer to the system, which may have megabytes to send.
//
// So during a stop Close says that nothing more comes, and the connection
// stays until its client has read that and closes it as well.
type lingering struct {
	mu    sync.Mutex
	until time.Time // the deadline of the stop; zero while there is none
	n     int
	left  *sync.Cond // tells who waits that there is one less
	cut   int        // how many had something to send at the deadline
}

// begin makes connections linger from now on until the deadline of the stop.
func (l *lingering) begin(deadline time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = deadline
}

// add counts a connection if it is to linger, and says until when.
func (l *lingering) add() (until time.Time, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !time.Now().Before(l.until) {
		return time.Time{}, false
	}
	l.n++
	return l.until, true
}

// remove forgets a connection that is closed.
func (l *lingering) remove(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n--
	if cut {
		l.cut++
	}
	if l.left != nil {
		l.left.Signal()
	}
}

// wait returns when none is left, and how many were cut off.
func (l *lingering) wait() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left = sync.NewCond(&l.mu)
	for l.n > 0 {
		l.left.Wait()
	}
	return l.cut
}

// lingeringListener is the listener under TLS: its connections linger.
type lingeringListener struct {
	*net.TCPListener
	lingering *lingering
}

// Accept implements net.Listener.
func (l *lingeringListener) Accept() (net.Conn, error) {
	conn, err := l.AcceptTCP()
	if err != nil {
		return nil, err
	}
	return &lingeringConn{halfConn: conn, lingering: l.lingering, unsent: unsent}, nil
}

// halfConn is what is needed of a net.TCPConn.
type halfConn interface {
	net.Conn
	CloseWrite() error
}

// lingeringConn is a connection whose Close is that of halfConn but in a stop.
type lingeringConn struct {
	halfConn
	lingering *lingering
	unsent    func(net.Conn) int // what the system has to send yet
	closed    atomic.Bool
}

// Read implements net.Conn. What comes after Close is nobody's, even where the
// Read was there before: a request must not be served that has no answer.
func (c *lingeringConn) Read(b []byte) (int, error) {
	if c.closed.Load() {
		return 0, net.ErrClosed
	}
	n, err := c.halfConn.Read(b)
	if n > 0 && c.closed.Load() {
		return 0, net.ErrClosed
	}
	return n, err
}

// Close implements net.Conn.
func (c *lingeringConn) Close() error {
	if c.closed.Swap(true) {
		return net.ErrClosed
	}
	until, ok := c.lingering.add()
	if !ok {
		return c.halfConn.Close()
	}
	_ = c.SetWriteDeadline(time.Now()) // ends a Write under way; with the connection gone there is none
	if err := c.CloseWrite(); err != nil {
		c.lingering.remove(false)
		return c.halfConn.Close() // the client was faster
	}
	go func() {
		cut := c.linger(until)
		c.halfConn.Close()
		c.lingering.remove(cut)
	}()
	return nil
}

// SetReadDeadline implements net.Conn. After Close the deadline is that of linger.
func (c *lingeringConn) SetReadDeadline(t time.Time) error {
	if c.closed.Load() {
		return net.ErrClosed
	}
	return c.halfConn.SetReadDeadline(t)
}

// linger returns when the client has closed its side, is given up, or, which
// it reports, has not got everything by the deadline.
func (c *lingeringConn) linger(until time.Time) (cut bool) {
	rest := c.unsent(c.halfConn)
	for b := make([]byte, 1024); ; {
		pause := min(lingerPause, time.Until(until))
		_ = c.halfConn.SetReadDeadline(time.Now().Add(pause)) // a connection that is gone says so below
		_, err := c.halfConn.Read(b)
		switch {
		case err == nil:
			continue
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return false
		}
		before := rest
		rest = c.unsent(c.halfConn)
		if pause < lingerPause {
			return rest > 0
		}
		if rest == before {
			return false
		}
	}
}

// underTLS is the connection that TLS goes over. Its Close is at once, even in
// a stop.
func underTLS(conn *tls.Conn) net.Conn {
	if c, ok := conn.NetConn().(*lingeringConn); ok {
		return c.halfConn
	}
	return conn.NetConn()
}
