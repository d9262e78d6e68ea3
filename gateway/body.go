package gateway

import (
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// pacedBody is a request's body on its way to an upstream. A client that stops
// in the middle would hold a connection here and one at the upstream without
// bound, because an upstream's time to answer begins when it has the request.
//
// Only a Read that waits counts as a pause, and only while the response is
// silent too: the upstream may be the one that does not read, and in a
// full-duplex stream the client may have nothing to say.
type pacedBody struct {
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

// pace bounds the pauses in the request's body. It returns nil if there is
// none. The caller must call end before the request is done.
func (ex *exchange) pace() *pacedBody {
	if ex.r.ContentLength == 0 {
		return nil
	}
	body := &pacedBody{
		ReadCloser: ex.r.Body, control: http.NewResponseController(ex.ResponseWriter),
		pause: ex.st.config.Limits.BodyPause, began: time.Now(),
	}
	body.mu.Lock() // until watch is set
	defer body.mu.Unlock()
	body.watch = time.AfterFunc(body.pause, body.look)
	// In a copy: net/http treats a body that waits for 100 (Continue) in its own
	// way, and recognises it by the request that it has made.
	r := *ex.r
	r.Body = body
	ex.r, ex.upload = &r, body
	return body
}

// Read implements io.Reader. A transport may call it after it has answered.
func (b *pacedBody) Read(p []byte) (int, error) {
	b.move()
	b.reading.Add(1)
	n, err := b.ReadCloser.Read(p)
	b.reading.Add(-1)
	if err != nil {
		b.end(err == io.EOF)
	}
	return n, err
}

// Close implements io.Closer.
func (b *pacedBody) Close() error {
	b.end(false)
	return b.ReadCloser.Close()
}

// move notes a sign of life: the pause begins anew.
func (b *pacedBody) move() { b.moved.Store(int64(time.Since(b.began))) }

// look ends a Read that has waited too long, and otherwise sets the time of
// the next look.
func (b *pacedBody) look() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return
	}
	left := b.pause
	if b.reading.Load() > 0 {
		left -= time.Since(b.began) - time.Duration(b.moved.Load())
	}
	if left > 0 {
		b.watch.Reset(left)
		return
	}
	b.stalled.Store(true)
	// Servers that know no deadlines (tests) have none to miss.
	_ = b.control.SetReadDeadline(b.began) // in the past
}

// end makes the limit pass no more. The server watches the same connection
// while the answer goes on.
func (b *pacedBody) end(whole bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.whole = b.whole || whole && !b.over
	b.over = true
	b.watch.Stop()
}

// unread reports whether there may be more of the body.
func (b *pacedBody) unread() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.whole
}

const (
	// unpacedAnswer is how much of an answer needs no time limit, in bytes: about
	// what the buffers on the way to the client take without its doing.
	unpacedAnswer = 16 << 10
	// answerPause is how long a client may take for the next copyBuffer bytes.
	answerPause = 5 * time.Minute
	// answerRearm is how often the time limit is moved on at most.
	answerRearm = 5 * time.Second
)

// paceAnswer makes a client that does not read lose the connection. One that
// reads slowly gets everything.
func (ex *exchange) paceAnswer() {
	if now := time.Now(); now.Sub(ex.paced) > answerRearm {
		ex.stream.mu.Lock()
		defer ex.stream.mu.Unlock()
		if ex.stream.ended.Load() != nil {
			return // which has set a nearer one
		}
		ex.paced = now
		_ = http.NewResponseController(ex.ResponseWriter).SetWriteDeadline(now.Add(answerPause))
	}
}

// unpaceAnswer sends what is left under the limit, and takes it off: the next
// answer on the connection has one of its own.
func (ex *exchange) unpaceAnswer() {
	if ex.paced.IsZero() || ex.status == http.StatusSwitchingProtocols || ex.stream.ended.Load() != nil {
		return
	}
	control := http.NewResponseController(ex.ResponseWriter)
	_ = control.SetWriteDeadline(time.Now().Add(answerPause))
	_ = control.Flush()
	_ = control.SetWriteDeadline(time.Time{})
}

// errStalled is the answer to a client whose body stopped (RFC 9110, section
// 15.5.9).
func errStalled(err error) error {
	return &httpError{status: http.StatusRequestTimeout, detail: "The body of the request stopped coming.", cause: err}
}
