package web

import (
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"authgate/gateway/wire/conn"
)

// Upload is a request's body on its way to an upstream. A client that stops in the middle would
// hold a connection of the gateway and one of the upstream without bound: an upstream's time to
// answer begins only when it has the request.
//
// Only a Read that waits counts as a pause, and only while the response is
// silent too: the upstream may be the one that does not read, and in a
// full-duplex stream the client may have nothing to send.
//
// Stop, Unread, Failure and Request may be called on nil: a request without a body.
type Upload struct {
	io.ReadCloser
	writer  http.ResponseWriter // of the server
	pause   time.Duration       // limits.body_pause
	began   time.Time
	reading atomic.Int32 // Reads that wait
	moved   atomic.Int64 // nanoseconds from began until the last sign of life
	stalled atomic.Bool  // the limit has passed
	request *http.Request
	broken  atomic.Pointer[error] // of Read: the client's fault
	closed  atomic.Bool           // by the gateway, after which Read fails
	whole   atomic.Bool           // at its end

	mu    sync.Mutex
	watch *time.Timer // nil: no Read waits
	over  bool        // at its end, broken or closed: the connection may be another request's
}

// Upload bounds the pauses in the request's body. It returns nil if there is none. The caller
// must call Stop before the exchange is finished.
func (ex *Exchange) Upload() *Upload {
	switch {
	case ex.Request.ContentLength == 0:
		return nil
	case ex.pace.bodyRead && ex.pace.upload != nil:
		return ex.pace.upload // by ReadWhole
	}
	body := &Upload{
		ReadCloser: ex.Request.Body, writer: ex.ResponseWriter,
		pause: ex.site.BodyPause, began: time.Now(), request: ex.Request,
	}
	ex.pace.upload = body
	if ex.pace.bodyRead || conn.CameWhole(ex.Request) {
		return body
	}
	body.mu.Lock() // until watch is set
	defer body.mu.Unlock()
	body.watch = time.AfterFunc(body.pause, body.checkPause)
	return body
}

// Request returns r with that body. It is a copy: net/http treats a body that waits for 100
// (Continue) in its own way, and recognises it by the request that it has made.
func (u *Upload) Request(r *http.Request) *http.Request {
	if u == nil {
		return r
	}
	to := *r
	to.Body = u
	return &to
}

// Read implements io.Reader. A transport may call it after it has answered.
func (u *Upload) Read(p []byte) (int, error) {
	u.move(time.Since(u.began))
	u.reading.Add(1)
	n, err := u.ReadCloser.Read(p)
	u.reading.Add(-1)
	if err != nil {
		if err != io.EOF && !u.closed.Load() {
			broken := err // so that only this one needs memory
			u.broken.CompareAndSwap(nil, &broken)
		}
		u.stopWatch(err == io.EOF)
	}
	return n, err
}

// Close implements io.Closer.
func (u *Upload) Close() error {
	u.closed.Store(true)
	u.stopWatch(false)
	return u.ReadCloser.Close()
}

// move notes a sign of life, so long after the beginning: the pause begins anew.
func (u *Upload) move(after time.Duration) { u.moved.Store(int64(after)) }

// checkPause ends a Read that has waited too long, and otherwise sets the time of
// the next check.
func (u *Upload) checkPause() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.over {
		return
	}
	left := u.pause
	if u.reading.Load() > 0 {
		left -= time.Since(u.began) - time.Duration(u.moved.Load())
	}
	if left > 0 {
		u.watch.Reset(left)
		return
	}
	u.stalled.Store(true)
	_ = http.NewResponseController(u.writer).SetReadDeadline(u.began) // in the past
}

// Stop removes the limit. The server watches the same connection while the
// answer goes on.
func (u *Upload) Stop() {
	if u != nil {
		u.stopWatch(false)
	}
}

func (u *Upload) stopWatch(whole bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if whole && !u.over {
		u.whole.Store(true)
	}
	if u.over = true; u.watch != nil {
		u.watch.Stop()
	}
}

// Unread reports whether there may be more of the body.
func (u *Upload) Unread() bool { return u != nil && !u.whole.Load() }

// Failure returns the error of a request that failed with err. A failure of the body is
// the client's: a 408 (RFC 9110, section 15.5.9) if it stopped coming, a 499 if
// the client left, and a 400 if it is malformed or shorter than announced. Any other one is err.
func (u *Upload) Failure(err error) error {
	switch {
	case u == nil:
		return err
	case u.stalled.Load():
		return &Error{Status: http.StatusRequestTimeout, Detail: "The body of the request stopped coming.", Cause: err}
	}
	broken := u.broken.Load()
	switch {
	case broken == nil:
		return err
	case u.clientGone(*broken):
		return &Error{Status: statusClientGone, Detail: "The client left.", Cause: *broken}
	}
	return &Error{Status: http.StatusBadRequest,
		Detail: "The body of the request is malformed, or shorter than announced.", Cause: *broken}
}

// hasFailed reports whether the rest of the body never comes. It is false for nil.
func (u *Upload) hasFailed() bool { return u != nil && (u.stalled.Load() || u.broken.Load() != nil) }

// clientGone reports whether a Read failed because the client has left. Over HTTP/1.1 a
// body that ends early ends with the connection; over HTTP/2 and HTTP/3 the stream goes on.
func (u *Upload) clientGone(err error) bool {
	if u.request.ProtoMajor > 1 {
		return u.request.Context().Err() != nil
	}
	var network net.Error
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.As(err, &network)
}
