package web

import (
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Upload is a request's body on its way to an upstream. A client that stops in
// the middle would hold a connection of the gateway and one of the upstream
// without bound, because an upstream's time to answer begins when it has the
// request.
//
// Only a Read that waits counts as a pause, and only while the response is
// silent too: the upstream may be the one that does not read, and in a
// full-duplex stream the client may have nothing to send.
//
// Stop, Unread and Failure may be called on nil: a request without a body.
type Upload struct {
	io.ReadCloser
	control *http.ResponseController
	pause   time.Duration // limits.body_pause
	began   time.Time
	reading atomic.Int32 // Reads that wait
	moved   atomic.Int64 // nanoseconds from began until the last sign of life
	stalled atomic.Bool  // the limit has passed

	mu    sync.Mutex
	watch *time.Timer
	over  bool // at its end, broken or closed: the connection may be another request's
	whole bool // at its end
}

// Upload bounds the pauses in the request's body. It returns the request to
// forward, with that body, and nil if there is none. The caller must call Stop
// before the exchange is finished.
func (ex *Exchange) Upload() (*http.Request, *Upload) {
	if ex.Request.ContentLength == 0 {
		return ex.Request, nil
	}
	body := &Upload{
		ReadCloser: ex.Request.Body, control: http.NewResponseController(ex.ResponseWriter),
		pause: ex.site.BodyPause, began: time.Now(),
	}
	body.mu.Lock() // until watch is set
	defer body.mu.Unlock()
	body.watch = time.AfterFunc(body.pause, body.check)
	// In a copy: net/http treats a body that waits for 100 (Continue) in its own
	// way, and recognises it by the request that it has made.
	r := *ex.Request
	r.Body = body
	ex.upload = body
	return &r, body
}

// Read implements io.Reader. A transport may call it after it has answered.
func (u *Upload) Read(p []byte) (int, error) {
	u.move(time.Since(u.began))
	u.reading.Add(1)
	n, err := u.ReadCloser.Read(p)
	u.reading.Add(-1)
	if err != nil {
		u.end(err == io.EOF)
	}
	return n, err
}

// Close implements io.Closer.
func (u *Upload) Close() error {
	u.end(false)
	return u.ReadCloser.Close()
}

// move notes a sign of life, so long after the beginning: the pause begins anew.
func (u *Upload) move(after time.Duration) { u.moved.Store(int64(after)) }

// check ends a Read that has waited too long, and otherwise sets the time of
// the next check.
func (u *Upload) check() {
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
	_ = u.control.SetReadDeadline(u.began) // in the past
}

// Stop removes the limit. The server watches the same connection while the
// answer goes on.
func (u *Upload) Stop() {
	if u != nil {
		u.end(false)
	}
}

func (u *Upload) end(whole bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.whole = u.whole || whole && !u.over
	u.over = true
	u.watch.Stop()
}

// Unread reports whether there may be more of the body.
func (u *Upload) Unread() bool {
	if u == nil {
		return false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return !u.whole
}

// Failure returns the error of a request that failed with err: a 408 (RFC 9110,
// section 15.5.9) if the client stopped sending the body, else err.
func (u *Upload) Failure(err error) error {
	if u == nil || !u.stalled.Load() {
		return err
	}
	return &Error{Status: http.StatusRequestTimeout, Detail: "The body of the request stopped coming.", Cause: err}
}
