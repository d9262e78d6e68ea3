package http1

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"time"
)

// conn is a connection to an upstream. One request uses it at a time.
type conn struct {
	net.Conn
	address string
	limit   time.Duration // of the header of a response
	limited io.LimitedReader
	br      *bufio.Reader
	aged    time.Time     // when it is too old for another request; zero: never
	lives   time.Duration // how long it may be idle, by the last response
	since   time.Time     // when it became idle
	until   time.Time     // until when it may carry another request then
	failed  error         // of Read
	unclear bool          // the last response has more than one framing

	header   []byte // as it came, of a response that is not plain, and the bytes after it
	inHeader bool   // header is being read
	again    []byte // bytes that Read returns before it reads on

	quiet  func() bool // reports whether the connection is open and nothing has come
	fields []Field     // of the last plain response
	lines  []line      // of the header of that; mostly, those of the next one are the same

	descriptor *descriptor // nil: start cannot use it
	request    []byte      // that the next Read sends before it reads
	deadline   time.Time   // of a write that must wait
	alarm      time.Time   // the read deadline, if hurry has set it
	unsent     error       // why the request was not sent whole
}

func newConn(c net.Conn, address string) *conn {
	k := &conn{Conn: c, address: address, lives: unannounced}
	if checked, ok := c.(interface{ Check() bool }); ok {
		k.quiet = checked.Check
	} else {
		k.descriptor = newDescriptor(c)
		k.quiet = k.descriptor.isClean
	}
	k.limited.R = k
	k.br = bufio.NewReader(&k.limited)
	return k
}

// Read implements io.Reader. It records the error, because http.ReadResponse only
// reports that half a line is malformed.
func (k *conn) Read(b []byte) (n int, err error) {
	switch {
	case k.request != nil:
		n, err = k.exchange(b)
	case len(k.again) > 0:
		n = copy(b, k.again)
		k.again = k.again[n:]
	default:
		n, err = k.Conn.Read(b)
	}
	if k.inHeader {
		k.header = append(k.header, b[:n]...)
	}
	if err != nil {
		k.failed = err
	}
	return n, err
}

// start sends a request on an idle connection that passes its check. Reads wait
// for fastWait or a little longer, and at most for timeout, as writes do. ok is
// false if nothing was sent; failed is the error of a write.
func (k *conn) start(request []byte, now time.Time, timeout time.Duration) (ok bool, failed error) {
	k.limited.N = maxHeader
	if k.descriptor == nil {
		if k.SetWriteDeadline(now.Add(timeout)) != nil || k.hurry(now, timeout) != nil || !k.isClean() {
			return false, nil
		}
		_, failed = k.Write(request)
		return true, failed
	}
	if k.br.Buffered() > 0 || k.hurry(now, timeout) != nil {
		return false, nil
	}
	k.request, k.deadline, k.unsent = request, now.Add(timeout), nil
	_, err := k.br.Peek(1) // an error comes again for those who read
	return err != errNotQuiet, k.unsent
}

// hurry sets the read deadline of the fast path, unless the last one is still good
// enough: a deadline is a timer, which costs as much as the header of a request.
func (k *conn) hurry(now time.Time, timeout time.Duration) error {
	if timeout < 2*fastWait {
		k.alarm = now.Add(min(fastWait, timeout))
	} else if k.alarm.Sub(now) >= fastWait {
		return nil
	} else {
		k.alarm = now.Add(2 * fastWait)
	}
	return k.SetReadDeadline(k.alarm)
}

// exchange sends the request of start, and reads.
func (k *conn) exchange(b []byte) (int, error) {
	request := k.request
	k.request = nil
	sent, n, err := k.descriptor.exchange(request, b)
	if sent == len(request) || err == errNotQuiet {
		return n, err
	}
	if err == nil {
		if err = k.SetWriteDeadline(k.deadline); err == nil {
			_, err = k.Write(request[sent:])
		}
	}
	if k.unsent = err; err != nil {
		return 0, err
	}
	return k.Conn.Read(b)
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

// isClean reports whether the connection is open and has no unread bytes.
func (k *conn) isClean() bool { return k.br.Buffered() == 0 && k.quiet() }

// conn returns a connection for a request, with that deadline: the owner's, an idle one that
// passes its check, or a new one. If an idle one has shown meanwhile that the request may
// not share its connection, conn sets use.closes.
func (c *Client) conn(r *http.Request, use *use, deadline time.Time) (k *conn, used bool, err error) {
	if err := r.Context().Err(); err != nil {
		return nil, false, err
	}
	k = c.take(r.URL.Host, *use, deadline)
	if used = k != nil; !used {
		k, err = c.open(r.Context(), r.URL.Host, deadline)
	}
	if err != nil || use.closes || !c.isolates(r) {
		return k, used, err
	}
	use.closes = true
	if used && !use.owned {
		k.Close()
		k, err = c.open(r.Context(), r.URL.Host, deadline)
		used = false
	}
	return k, used, err
}

// take returns a connection to address that has carried requests and passes its check,
// with that deadline. It returns nil if there is none, or if the request needs a new one.
func (c *Client) take(address string, use use, deadline time.Time) *conn {
	if use.owned { // else one that the owner has got since would come into the pool
		if k := use.owner.take(c, address); k != nil && c.passes(k, deadline) {
			return k
		}
	}
	if use.closes {
		return nil
	}
	now := time.Now()
	for k := c.takeIdle(address, now); k != nil; k = c.takeIdle(address, now) {
		if c.passes(k, deadline) {
			return k
		}
	}
	return nil
}

// takeIdle returns an idle connection that may still carry a request, nil if there is none.
func (c *Client) takeIdle(address string, now time.Time) *conn {
	k := c.idle.take(address, now)
	for k != nil && !now.Before(k.until) {
		k.Close()
		k = c.idle.take(address, now)
	}
	return k
}

// passes reports whether an idle connection passes its check, and sets its deadline. It
// closes one that does not.
func (c *Client) passes(k *conn, deadline time.Time) bool {
	k.alarm = time.Time{}
	if k.SetDeadline(deadline) == nil && k.isClean() { // a check after the old deadline fails
		return true
	}
	c.discard(k)
	return false
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
	k := newConn(dialed, address)
	k.limit = c.timeout
	k.aged = Aged(c.age)
	return k, nil
}
