package http1

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// releaseAfter is how long the client goes on writing a request after the end of
// its response.
const releaseAfter = 50 * time.Millisecond

// stream sends a request on a connection and reads the response at the same time.
func (c *Client) stream(k *conn, r *http.Request, use use) (*http.Response, error) {
	stop := context.AfterFunc(r.Context(), k.abort)
	up := &upload{client: c, conn: k}
	q, body := outgoing(r, use.closes)
	up.body = body
	if expectsContinue(r) {
		up.expected = make(chan struct{})
		body.wait = up.wait
	}
	go up.run(q)
	response, err := k.readResponse(r, up)
	if err != nil {
		err = k.fail(r, stop, err)
		if failed := up.broken(); failed != nil && r.Context().Err() == nil {
			err = failed
		}
		up.respond()
		return nil, err
	}
	if err := up.respond(); err != nil {
		return nil, k.fail(r, stop, err)
	}
	e := exchange{client: c, conn: k, ctx: r.Context(), stop: stop, upload: up}
	if reusable(r, response, k.unclear) {
		e.keep(response, use)
	}
	return e.deliver(response)
}

// source is the body of a request that the client sends.
type source struct {
	io.ReadCloser
	wait   func() error          // waits for the 100; nil if nothing is to be waited for
	broken atomic.Pointer[error] // of Read
}

// failure returns the error of Read, or nil.
func (s *source) failure() error {
	if err := s.broken.Load(); err != nil {
		return *err
	}
	return nil
}

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	if s.wait != nil {
		if err := s.wait(); err != nil {
			return 0, err
		}
		s.wait = nil
	}
	n, err := s.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		s.broken.Store(&err)
	}
	return n, err
}

// upload is a request that is written while the response is read.
type upload struct {
	client   *Client
	conn     *conn
	body     *source
	expected chan struct{} // closed when the upstream asks for the body or responds; nil without Expect
	once     sync.Once
	failed   error // of Write; only run uses it

	mu        sync.Mutex
	responded bool        // the header of the response has come, or never will
	watched   bool        // the body of the response is being read
	ended     bool        // nothing more is written
	err       error       // why it ended; nil if the whole request was written
	late      *time.Timer // set if the response ended first
	giveBack  func()      // called when nothing more is written before late
	draining  bool        // drain has begun
}

// run writes the request.
func (u *upload) run(q *http.Request) {
	w := u.client.writers.Get().(*bufio.Writer)
	w.Reset(u)
	err := q.Write(w)
	if err == nil {
		err = w.Flush()
	}
	w.Reset(nil)
	u.client.writers.Put(w)
	// Request.Write hides the cause.
	if failed := u.body.failure(); failed != nil {
		err = failed
	} else if u.failed != nil {
		err = u.failed
	}
	u.endUpload(err)
}

// ReadFrom implements io.ReaderFrom. It sends each part of the body as it comes.
func (u *upload) ReadFrom(r io.Reader) (int64, error) {
	return io.CopyBuffer(struct{ io.Writer }{u}, r, make([]byte, writeBuffer))
}

// Write implements io.Writer. It fails if the upstream does not read for the time
// limit.
func (u *upload) Write(b []byte) (int, error) {
	if u.failed = u.conn.SetWriteDeadline(time.Now().Add(u.client.timeout)); u.failed != nil {
		return 0, u.failed
	}
	n, err := u.conn.Write(b)
	u.failed = err
	return n, err
}

// endUpload is called when nothing more is written. The time limit of the
// response header begins.
func (u *upload) endUpload(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ended, u.err = true, err
	switch {
	case u.body.failure() != nil || !u.responded && errors.Is(err, os.ErrDeadlineExceeded):
		u.conn.abort() // the body failed, or the upstream does not read
	case !u.responded:
		// If this fails, reading the response fails too.
		_ = u.conn.SetReadDeadline(time.Now().Add(u.client.timeout))
	case u.late != nil:
		if u.late.Stop() && err == nil {
			u.giveBack()
		} else {
			u.conn.abort()
		}
	case err != nil && u.watched:
		u.drain()
	}
}

// respond is called when the header of the response has come, or never will. It
// removes the time limit.
func (u *upload) respond() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.responded = true
	u.proceed()
	return u.conn.SetReadDeadline(time.Time{})
}

// broken returns why the request could not be written, if that explains more than
// the error of the response.
func (u *upload) broken() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ended && (u.body.failure() != nil || errors.Is(u.err, os.ErrDeadlineExceeded)) {
		return u.err
	}
	return nil
}

// done reports whether the whole request was written.
func (u *upload) done() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.ended && u.err == nil
}

// finished reports whether nothing more is written.
func (u *upload) finished() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.ended
}

// release gives the connection back as soon as the request is written too. That
// takes no longer than releaseAfter if the upstream has read the request. If it has
// not, the connection is closed, because the next request would begin in the
// middle of this one (RFC 9112, section 9.3).
func (u *upload) release(e *exchange) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case !u.ended:
		kept := *e
		u.giveBack, u.late = kept.giveBack, time.AfterFunc(releaseAfter, u.conn.abort)
	case u.err == nil:
		e.giveBack()
	default:
		u.conn.abort()
	}
}

// wait waits for the 100, or for continueAfter.
func (u *upload) wait() error {
	late := time.NewTimer(continueAfter)
	defer late.Stop()
	select {
	case <-u.expected:
	case <-late.C:
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.responded {
		return errNotWanted
	}
	return nil
}

// proceed ends wait.
func (u *upload) proceed() {
	if u.expected != nil {
		u.once.Do(func() { close(u.expected) })
	}
}

// watch is called while the body of the response is read. If the request could not
// be written, the rest of its body is read all the same, because net/http notices
// only then that the client has gone.
func (u *upload) watch() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.watched = true
	if u.ended && u.err != nil {
		u.drain()
	}
}

// drain reads the rest of the request's body, and closes the connection if that
// fails. The caller holds the lock.
func (u *upload) drain() {
	if u.draining {
		return
	}
	u.draining = true
	go func() {
		if _, err := io.Copy(io.Discard, u.body.ReadCloser); err != nil {
			u.conn.abort()
		}
	}()
}
