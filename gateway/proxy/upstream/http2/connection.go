package http2

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"sync"
	"sync/atomic"
	"time"

	"authgate/gateway/proxy/upstream/http1"
)

// connection is a connection to an upstream.
type connection struct {
	*http.ClientConn
	address string
	guard   *guard
	greeted *greeted
	aged    time.Time   // when it is too old for another request; zero: never
	retired atomic.Bool // it takes no more requests
}

// connectionKey is the key of a connection in the context of its dial.
type connectionKey struct{}

// send sends a request on a connection that has a place for it. content is its body, nil if it has none.
func (c *Client) send(k *connection, r *http.Request, content *replay) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	w := &watch{limit: c.options.Timeout, cancel: cancel}
	q := r.WithContext(httptrace.WithClientTrace(ctx, w.trace()))
	if http1.Negotiates(r.Header["Authorization"]) { // would sign in a connection that others use
		q.Header = r.Header.Clone()
		q.Header.Del("Authorization")
	}
	var sent *attempt
	if content != nil {
		sent = &attempt{replay: content, watch: w, cancel: cancel}
		q.Body = sent
	}
	began := k.guard.heard()
	w.beginWait() // it may have to wait for its turn on the connection
	response, err := k.RoundTrip(q)
	w.stop()
	if err == nil {
		sent.settle()
		response.Body = &body{response.Body, sent, cancel}
		return response, nil
	}
	sent.finish()
	cause := context.Cause(ctx)
	cancel(nil)
	if cause == errEnded && errors.Is(err, context.Canceled) {
		err = errEnded // net/http has seen the end and the context at once
	}
	switch {
	case r.Context().Err() != nil:
		return nil, r.Context().Err()
	case cause != nil && cause != errEnded:
		if k.guard.heard() == began { // not a sign of life meanwhile
			c.retire(k)
		}
		return nil, cause
	case k.Err() != nil || unprocessed(err):
		c.retire(k)
	}
	return nil, explain(err)
}

// watch ends a request whose response takes too long.
type watch struct {
	limit  time.Duration
	cancel context.CancelCauseFunc

	mu     sync.Mutex
	timer  *time.Timer // runs while it is the upstream's turn
	over   bool
	budget budget
}

// trace follows a request. The errors that Got1xxResponse returns would be lost, because
// httptrace returns only those of the trace before.
func (w *watch) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		Wait100Continue: w.hold,
		WroteRequest:    func(httptrace.WroteRequestInfo) { w.beginWait() },
		Got1xxResponse: func(status int, h textproto.MIMEHeader) error {
			if err := w.budget.spend(h); err != nil {
				w.cancel(err)
			}
			if status == http.StatusProcessing {
				w.extend()
			}
			return nil
		},
	}
}

// beginWait begins the time in which the upstream must take a part of the request or, after
// the last one, send the header of its response.
func (w *watch) beginWait() {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.over:
	case w.timer == nil:
		w.timer = time.AfterFunc(w.limit, func() { w.cancel(errTimeout) })
	default:
		w.timer.Reset(w.limit)
	}
}

// hold stops that time while the client's next part is waited for.
func (w *watch) hold() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.over && w.timer != nil {
		w.timer.Stop()
	}
}

// extend begins it anew, if it is the upstream's turn.
func (w *watch) extend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.over && w.timer != nil && w.timer.Stop() {
		w.timer.Reset(w.limit)
	}
}

func (w *watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	if w.timer != nil {
		w.timer.Stop()
	}
}

// body is the body of a response.
type body struct {
	io.ReadCloser
	sent   *attempt // the body of the request, nil if it has none
	cancel context.CancelCauseFunc
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = explain(err)
	}
	return n, err
}

// Close implements io.Closer.
func (b *body) Close() error {
	defer b.cancel(nil)
	b.sent.finish() // Close waits until the body of the request is not read any more
	return b.ReadCloser.Close()
}

// guard is a connection on which a write fails if the upstream does not read for the
// time limit. The limit of a response begins only when the whole request is written.
type guard struct {
	net.Conn
	limit   time.Duration
	written atomic.Int64 // bytes since the upstream last sent something
	armed   atomic.Bool  // a deadline is set
	reads   atomic.Int64 // how often the upstream has sent something
}

// heard returns how often the upstream has sent something.
func (g *guard) heard() int64 { return g.reads.Load() }

// socketBuffer is how many bytes the buffers of a socket take in any case. They
// need no deadline, which would cost small requests a timer.
const socketBuffer = 16 << 10

// Write implements net.Conn. Each part has the time limit, however many writes a
// Gatherer has joined.
func (g *guard) Write(b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var written int
		written, err = g.write(b[n:min(n+socketBuffer, len(b))])
		n += written
	}
	return n, err
}

func (g *guard) write(b []byte) (int, error) {
	var deadline time.Time
	guarded := g.written.Add(int64(len(b))) > socketBuffer
	if guarded {
		deadline = time.Now().Add(g.limit)
	}
	if g.armed.Swap(guarded) || guarded {
		if err := g.SetWriteDeadline(deadline); err != nil {
			return 0, err
		}
	}
	return g.Conn.Write(b)
}

// Read implements net.Conn.
func (g *guard) Read(b []byte) (int, error) {
	n, err := g.Conn.Read(b)
	if n > 0 {
		g.written.Store(0)
		g.reads.Add(1)
	}
	return n, err
}

// errTimeout means that the header of the response did not come in time.
var errTimeout error = timeoutError{}

type timeoutError struct{}

func (timeoutError) Error() string   { return "the header of the response did not come in time" }
func (timeoutError) Timeout() bool   { return true }
func (timeoutError) Temporary() bool { return true }

var _ net.Error = timeoutError{}
