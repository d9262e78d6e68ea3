package gateway

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"
)

const (
	// maxResponseHeader bounds the header of a response, in bytes.
	maxResponseHeader = 1 << 20
	// maxInformational is how many 1xx responses may come before the real one.
	maxInformational = 5
	// idleSweep is how often connections are looked at that nobody uses, and
	// idleLives how long they are kept.
	idleSweep = 30 * time.Second
	idleLives = 60 * time.Second
)

// errInformational: the upstream sends hints instead of an answer.
var errInformational = fmt.Errorf("more than %d informational responses", maxInformational)

// direct sends GET and HEAD requests to plain HTTP/1.1 upstreams. It writes
// and reads on the goroutine of the request, where http.Transport hands each
// request to two other goroutines and waits for them: that is what most of the
// cost of a small request over a bare connection is. Requests with a body,
// upgrades and everything else take the Transport.
//
// What goes over the wire is written and read by net/http (Request.Write,
// ReadResponse). A connection is used again only after a response was read to
// its end, with nothing behind it, when neither side wants to close it, and
// when it is silent: bytes that nobody asked for would be taken for the answer
// to somebody else's request.
type direct struct {
	dial      func(ctx context.Context, network, address string) (net.Conn, error)
	timeout   time.Duration // until the response header
	transport *http.Transport

	mu       sync.Mutex
	idle     map[string][]*directConn // by address, the last used at the end
	sweeping bool
}

// directConn is a connection to an upstream. One request uses it at a time.
type directConn struct {
	net.Conn
	address string
	limited io.LimitedReader
	br      *bufio.Reader
	bw      *bufio.Writer
	since   time.Time // idle since
	failed  error     // what Read failed with
	unclear bool      // the last response has two framings
}

// Read implements io.Reader. It keeps the error, because who reads a header
// line by line says of half a line only that it is malformed.
func (c *directConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		c.failed = err
	}
	return n, err
}

func newDirect(dial func(ctx context.Context, network, address string) (net.Conn, error), timeout time.Duration, transport *http.Transport) *direct {
	return &direct{dial: dial, timeout: timeout, transport: transport, idle: map[string][]*directConn{}}
}

// RoundTrip implements http.RoundTripper.
func (d *direct) RoundTrip(r *http.Request) (*http.Response, error) {
	if !simple(r) {
		return d.transport.RoundTrip(r)
	}
	deadline := time.Now().Add(d.timeout) // for all attempts together
	for {
		c, reused, err := d.conn(r.Context(), r.URL.Host, deadline)
		if err != nil {
			return nil, err
		}
		response, err := d.exchange(c, r)
		if err == nil {
			return response, nil
		}
		c.Close()
		var gone *goneError
		if r.Context().Err() != nil {
			return nil, r.Context().Err()
		}
		if !reused || !errors.As(err, &gone) {
			return nil, err
		}
		// The upstream closed the connection while it was idle. Nothing was
		// answered, and GET and HEAD may be sent again (RFC 9110, section 9.2.2).
	}
}

// simple reports whether a request is one that direct sends.
func simple(r *http.Request) bool {
	return r.URL.Scheme == "http" && bare(r) && (r.Body == nil || r.Body == http.NoBody)
}

// bare reports whether a request is a GET or HEAD without a body or anything
// that asks for more than an answer.
func bare(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	if r.ContentLength != 0 || len(r.TransferEncoding) > 0 || r.Close {
		return false
	}
	for _, name := range [...]string{"Upgrade", "Connection", "Expect"} {
		if _, ok := r.Header[name]; ok {
			return false
		}
	}
	return true
}

// goneError is the end of a connection before any of the response.
type goneError struct{ err error }

func (e *goneError) Error() string { return "the upstream closed the connection: " + e.err.Error() }
func (e *goneError) Unwrap() error { return e.err }

// conn returns a connection to address that lasts until deadline: one that is
// idle and silent, or a new one.
func (d *direct) conn(ctx context.Context, address string, deadline time.Time) (c *directConn, reused bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	for {
		c := d.take(address)
		if c == nil {
			break
		}
		if err := c.SetDeadline(deadline); err == nil && silent(c.Conn) {
			return c, true, nil
		}
		c.Close()
	}
	dialed, err := d.dial(ctx, "tcp", hostPort(address))
	if err != nil {
		return nil, false, err
	}
	c = &directConn{Conn: dialed, address: address}
	c.limited.R = c
	c.br, c.bw = bufio.NewReader(&c.limited), bufio.NewWriter(dialed)
	if err := c.SetDeadline(deadline); err != nil {
		c.Close()
		return nil, false, err
	}
	return c, false, nil
}

// hostPort is address with the port of http where it names none.
func hostPort(address string) string {
	if _, _, err := net.SplitHostPort(address); err == nil {
		return address
	}
	return address + ":80"
}

// exchange sends r and reads the header of the response.
func (d *direct) exchange(c *directConn, r *http.Request) (*http.Response, error) {
	// A client that leaves ends the exchange by its deadline.
	stop := context.AfterFunc(r.Context(), func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	response, err := d.sendAndRead(c, r)
	if err != nil {
		stop()
		return nil, err
	}
	body := &directBody{ReadCloser: response.Body, ctx: r.Context(), direct: d, conn: c, stop: stop, reusable: reusable(response) && !c.unclear}
	if response.Body == http.NoBody || r.Method == http.MethodHead {
		body.end(true)
		return response, nil
	}
	if length := response.ContentLength; length < 0 || int64(c.br.Buffered()) < length {
		if err := c.SetDeadline(time.Time{}); err != nil { // the body takes its time
			body.end(false)
			return nil, err
		}
		if r.Context().Err() != nil { // it may have set the deadline that was just removed
			body.end(false)
			return nil, r.Context().Err()
		}
	}
	response.Body = body
	return response, nil
}

func (d *direct) sendAndRead(c *directConn, r *http.Request) (*http.Response, error) {
	err := r.Write(c.bw)
	if err == nil {
		err = c.bw.Flush()
	}
	if err == nil {
		c.limited.N = maxResponseHeader
		_, err = c.br.Peek(1)
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, err
	case err != nil:
		return nil, &goneError{err}
	}
	for range maxInformational + 1 {
		buffered, unread := c.br.Buffered(), c.limited.N
		head, _ := c.br.Peek(buffered) // what is there is there
		response, err := http.ReadResponse(c.br, r)
		switch {
		case err == nil:
		case c.limited.N <= 0:
			return nil, fmt.Errorf("the response header is longer than %d bytes", maxResponseHeader)
		case errors.Is(c.failed, os.ErrDeadlineExceeded):
			return nil, c.failed
		default:
			return nil, err
		}
		if response.StatusCode == http.StatusSwitchingProtocols {
			return nil, errors.New("the upstream switches protocols unasked")
		}
		if response.StatusCode >= 200 || response.StatusCode < 100 {
			// ReadResponse removes a Content-Length beside chunks, so the bytes
			// tell, unless the buffer was filled anew.
			c.unclear = len(response.TransferEncoding) > 0 &&
				(c.limited.N != unread || namesLength(head[:buffered-c.br.Buffered()]))
			c.limited.N = 1<<63 - 1 // a body may be of any length
			return response, nil
		}
		if err := informational(r.Context(), response); err != nil {
			return nil, err
		}
	}
	return nil, errInformational
}

// reusable reports whether an upstream, and whatever there is on the way to it,
// sees the end of a response where it is seen here and goes on after it. One
// that sees it later could add bytes when somebody else's request is under way.
// HTTP/1.0 has no chunks, but who speaks it may not know (RFC 9112, section 6.1).
func reusable(response *http.Response) bool {
	if response.Close || response.ProtoMajor != 1 || response.ProtoMinor == 0 || response.StatusCode < 200 {
		return false
	}
	for name := range response.Header {
		if !httpguts.ValidHeaderFieldName(name) {
			return false // "Transfer-Encoding :" is one to some
		}
	}
	length := response.Header.Get("Content-Length")
	return response.StatusCode != http.StatusNoContent || len(response.TransferEncoding) == 0 && (length == "" || length == "0")
}

// namesLength reports whether a header has a Content-Length.
func namesLength(header []byte) bool {
	const name = "content-length"
	for line := range bytes.Lines(header) {
		if len(line) > len(name) && bytes.EqualFold(line[:len(name)], []byte(name)) {
			return true
		}
	}
	return false
}

// informational tells of a 1xx response, which goes to the client as well.
func informational(ctx context.Context, response *http.Response) error {
	if trace := httptrace.ContextClientTrace(ctx); trace != nil && trace.Got1xxResponse != nil {
		return trace.Got1xxResponse(response.StatusCode, textproto.MIMEHeader(response.Header))
	}
	return nil
}

// directBody is the body of a response; its end gives the connection back.
type directBody struct {
	io.ReadCloser
	ctx      context.Context // the client's
	direct   *direct
	conn     *directConn // nil after the end
	stop     func() bool
	reusable bool
	err      error // of the end, which every later Read repeats
}

// Read implements io.Reader.
func (b *directBody) Read(p []byte) (int, error) {
	if b.conn == nil {
		return 0, b.err
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		if err != io.EOF && b.ctx.Err() != nil {
			err = b.ctx.Err() // why the deadline is over
		}
		b.err = err
		b.end(err == io.EOF)
	}
	return n, err
}

// Close implements io.Closer. A body that was not read to its end takes its
// connection with it.
func (b *directBody) Close() error {
	if b.conn != nil {
		b.err = http.ErrBodyReadAfterClose
	}
	b.end(false)
	return nil
}

// end is called when nothing more will be read; whole tells that everything
// was.
func (b *directBody) end(whole bool) {
	c := b.conn
	if c == nil {
		return
	}
	b.conn = nil
	alive := b.stop() // else the client has left, and the deadline with it
	if !whole || !alive || !b.reusable || c.br.Buffered() > 0 {
		c.Close()
		return
	}
	b.direct.put(c)
}

// take returns the idle connection that was used last, nil if there is none.
func (d *direct) take(address string) *directConn {
	d.mu.Lock()
	defer d.mu.Unlock()
	idle := d.idle[address]
	if len(idle) == 0 {
		return nil
	}
	last := len(idle) - 1
	c := idle[last]
	idle[last] = nil
	d.idle[address] = idle[:last]
	return c
}

// put keeps a connection for the next request.
func (d *direct) put(c *directConn) {
	c.since = time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.idle[c.address]) >= idlePerHost {
		c.Close()
		return
	}
	d.idle[c.address] = append(d.idle[c.address], c)
	if !d.sweeping {
		d.sweeping = true
		time.AfterFunc(idleSweep, d.sweep)
	}
}

// sweep closes connections that have been idle for long, as long as there
// are idle ones.
func (d *direct) sweep() {
	d.mu.Lock()
	defer d.mu.Unlock()
	left := d.drop(time.Now().Add(-idleLives))
	d.sweeping = left > 0
	if d.sweeping {
		time.AfterFunc(idleSweep, d.sweep)
	}
}

// drop closes what has been idle since before that instant and returns how
// many are left. The lock is held.
func (d *direct) drop(before time.Time) (left int) {
	for address, idle := range d.idle {
		old := 0
		for old < len(idle) && idle[old].since.Before(before) {
			idle[old].Close()
			old++
		}
		d.idle[address] = append([]*directConn(nil), idle[old:]...)
		left += len(idle) - old
	}
	return left
}

// CloseIdleConnections closes the connections that nobody uses.
func (d *direct) CloseIdleConnections() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drop(time.Now().Add(time.Hour))
	d.transport.CloseIdleConnections()
}
