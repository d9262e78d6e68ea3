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

// releaseAfter is how long a request may still be written when its response is
// at its end.
const releaseAfter = 50 * time.Millisecond

// stream sends a request while it reads the response.
func (c *Client) stream(r *http.Request) (*http.Response, error) {
	k, _, err := c.conn(r.Context(), r.URL.Host, time.Time{})
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(r.Context(), k.abort)
	up := &upload{client: c, conn: k}
	q, body := outgoing(r, c.noReuse)
	up.body = body
	if expectsContinue(r) {
		up.expected = make(chan struct{})
		body.wait = up.wait
	}
	go up.run(q)
	response, err := k.answer(r, up)
	if err != nil {
		err = k.fail(r, stop, err)
		if failed := up.broken(); failed != nil && r.Context().Err() == nil {
			err = failed
		}
		up.answer()
		return nil, err
	}
	if err := up.answer(); err != nil {
		return nil, k.fail(r, stop, err)
	}
	a := answered{client: c, conn: k, ctx: r.Context(), stop: stop, upload: up}
	a.reusable = !c.noReuse && reusable(r, response, k.unclear)
	return a.take(response)
}

// source is the body of a request on its way to the upstream.
type source struct {
	io.ReadCloser
	wait   func() error          // for the upstream to want the body; nil: at once
	broken atomic.Pointer[error] // that a Read failed with
}

// failure is what reading failed with, nil if it did not.
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

// upload is a request that is written while its response is read.
type upload struct {
	client   *Client
	conn     *conn
	body     *source
	expected chan struct{} // closed when the upstream asks for the body or answers; nil: nothing is waited for
	once     sync.Once
	failed   error // of the connection; belongs to run

	mu       sync.Mutex
	answered bool        // the header of the response has come
	watched  bool        // the body of the response is read
	ended    bool        // nothing more is written
	err      error       // why it ended, nil: the request is whole
	late     *time.Timer // runs when the response has ended first
	drains   bool
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
	// Request.Write hides what it failed with.
	if failed := u.body.failure(); failed != nil {
		err = failed
	} else if u.failed != nil {
		err = u.failed
	}
	u.end(err)
}

// ReadFrom implements io.ReaderFrom: parts of the body go on as they come.
func (u *upload) ReadFrom(r io.Reader) (int64, error) {
	return io.CopyBuffer(struct{ io.Writer }{u}, r, make([]byte, writeBuffer))
}

// Write implements io.Writer. An upstream that does not read fails like one
// that does not answer.
func (u *upload) Write(b []byte) (int, error) {
	if u.failed = u.conn.SetWriteDeadline(time.Now().Add(u.client.timeout)); u.failed != nil {
		return 0, u.failed
	}
	n, err := u.conn.Write(b)
	u.failed = err
	return n, err
}

// end is called when nothing more is written. From now on the time limit of
// the response header counts.
func (u *upload) end(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ended, u.err = true, err
	switch {
	case u.body.failure() != nil || !u.answered && errors.Is(err, os.ErrDeadlineExceeded):
		u.conn.abort() // the client does not send, or the upstream does not read
	case !u.answered:
		// A connection that is closed fails by itself.
		_ = u.conn.SetReadDeadline(time.Now().Add(u.client.timeout))
	case u.late != nil:
		if u.late.Stop() && err == nil {
			u.client.idle.put(u.conn)
		} else {
			u.conn.abort()
		}
	case err != nil && u.watched:
		u.drain()
	}
}

// answer is called when the header of the response has come, or never will.
func (u *upload) answer() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.answered = true
	u.goOn()
	return u.conn.SetReadDeadline(time.Time{})
}

// broken returns why the request could not be written, if that is more than
// the upstream says.
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

// release gives the connection back when the request is written as well. An
// upstream that has read everything need not wait for long; another one has
// answered early, and its connection would begin the next request in the
// middle of this one (RFC 9112, section 9.3).
func (u *upload) release() {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case !u.ended:
		u.late = time.AfterFunc(releaseAfter, u.conn.abort)
	case u.err == nil:
		u.client.idle.put(u.conn)
	default:
		u.conn.abort()
	}
}

// wait returns when the upstream wants the body, or has not said so for long.
func (u *upload) wait() error {
	late := time.NewTimer(continueAfter)
	defer late.Stop()
	select {
	case <-u.expected:
	case <-late.C:
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.answered {
		return errNotWanted
	}
	return nil
}

// goOn lets the body be sent.
func (u *upload) goOn() {
	if u.expected != nil {
		u.once.Do(func() { close(u.expected) })
	}
}

// watch is called while the body of the response is read. If the upstream does
// not take the rest of the request, the rest is read all the same: a server
// notices that its client has gone only when it reads.
func (u *upload) watch() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.watched = true
	if u.ended && u.err != nil {
		u.drain()
	}
}

// drain reads the rest of the request, and closes the connection if that
// fails. The caller holds the lock.
func (u *upload) drain() {
	if u.drains {
		return
	}
	u.drains = true
	go func() {
		if _, err := io.Copy(io.Discard, u.body.ReadCloser); err != nil {
			u.conn.abort()
		}
	}()
}
