package http2

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
)

// mostReplayed is the longest body that is sent again, in bytes.
const mostReplayed = 64 << 10

// replay is the body of a request that may be sent again. It keeps the bytes that the client sent.
//
// net/http waits for a Read of the body before it tells that the upstream has reset the stream, and a client
// may send nothing for a long time. So the end of an attempt cancels the context for which net/http waits.
// The Read goes on, and its bytes are for the next attempt.
type replay struct {
	client io.Reader // sends the body

	mu      sync.Mutex
	changed sync.Cond // no attempt is reading, or an attempt has ended or is over
	reading bool      // an attempt waits for the client
	read    []byte    // what has come
	lost    bool      // more has come than is kept
	err     error     // after the bytes that have come

	settled atomic.Bool // a response has begun, so it is not sent again
}

// newReplay returns the body of r, nil if it has none.
func newReplay(r *http.Request) *replay {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	p := &replay{client: r.Body}
	p.changed.L = &p.mu
	return p
}

// failure returns the error of the client, nil if there is none.
func (p *replay) failure() error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == io.EOF {
		return nil
	}
	return p.err
}

// whole reports whether the body can be sent from its beginning. It is true for nil.
func (p *replay) whole() bool {
	if p == nil {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.lost
}

// restore gives r its body again, from the beginning. It reports false if that is not
// possible. It does nothing for nil.
func (p *replay) restore(r *http.Request) bool {
	if !p.whole() {
		return false
	}
	if p != nil {
		r.Body = io.NopCloser(&attempt{replay: p, watch: &watch{over: true}})
	}
	return true
}

// attempt is the body of a request that is sent once.
type attempt struct {
	*replay
	watch  *watch
	cancel context.CancelCauseFunc // of the attempt

	sent  int         // bytes of read
	alone bool        // all of read is sent, nothing is kept any more, and no other attempt reads
	waits atomic.Bool // for the client
	ended atomic.Bool // no more of the body is wanted
	over  bool        // nor of the response
}

// errEnded cancels an attempt whose body is no longer wanted, while net/http waits for a part of it.
var errEnded = errors.New("the upstream ended the exchange over HTTP/2")

// Read implements io.Reader.
func (a *attempt) Read(b []byte) (int, error) {
	if a.alone {
		return a.pass(b)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sent == len(a.read) && a.err == nil {
		a.watch.hold()
		defer a.watch.beginWait()
	}
	for a.reading && a.sent == len(a.read) && !a.ended.Load() { // an attempt before this one
		a.changed.Wait()
	}
	switch {
	case a.ended.Load():
		return 0, http.ErrBodyReadAfterClose
	case a.sent < len(a.read):
		n := copy(b, a.read[a.sent:])
		a.sent += n
		return n, nil
	case a.err != nil:
		return 0, a.err
	}
	return a.next(b)
}

// next reads the next part from the client. The caller holds the lock.
func (a *attempt) next(b []byte) (int, error) {
	a.reading = true
	a.waits.Store(true)
	a.mu.Unlock()
	n, err := a.client.Read(b)
	a.mu.Lock()
	a.waits.Store(false)
	a.reading, a.err = false, err
	switch {
	case a.lost:
	case a.ended.Load() || !a.settled.Load() && len(a.read)+n <= mostReplayed:
		a.read = append(a.read, b[:n]...)
		a.sent = len(a.read)
	default:
		a.lost, a.read, a.sent = true, nil, 0
	}
	a.alone = a.settled.Load()
	if !a.ended.Load() {
		return n, err
	}
	a.changed.Broadcast()
	for !a.over { // else net/http sees that the context has ended, and drops the response
		a.changed.Wait()
	}
	return 0, http.ErrBodyReadAfterClose
}

// pass reads the next part from the client while the exchange goes both ways. net/http ends that only with the
// response, so there is none that it could drop.
func (a *attempt) pass(b []byte) (int, error) {
	a.waits.Store(true)
	defer a.waits.Store(false)
	if a.ended.Load() { // before Close could see that Read waits
		return 0, http.ErrBodyReadAfterClose
	}
	return a.client.Read(b)
}

// Close implements io.Closer. It does not close the client's body, which may be sent
// again: the server closes it.
func (a *attempt) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended.Swap(true) {
		return nil
	}
	if a.waits.Load() {
		a.cancel(errEnded)
	}
	a.changed.Broadcast()
	return nil
}

// settle tells that the response has begun. It does nothing for nil.
func (a *attempt) settle() {
	if a != nil {
		a.settled.Store(true)
	}
}

// finish tells that nothing more is wanted of the response. It does nothing for nil.
func (a *attempt) finish() {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	a.changed.Broadcast()
}
