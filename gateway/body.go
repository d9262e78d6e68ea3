package gateway

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// bodyPause is how long a client may pause in the middle of a body on its
	// way to an upstream.
	bodyPause = 2 * time.Minute
	// bodyRearm is how often the time limit is moved on at most.
	bodyRearm = 5 * time.Second
)

// pacedBody is a request's body that must keep coming. Without it a client
// that stops holds a connection here and one at the upstream for as long as it
// likes, because an upstream's time to answer begins when it has the request.
type pacedBody struct {
	io.ReadCloser
	control *http.ResponseController
	stalled atomic.Bool // the limit has passed

	mu    sync.Mutex
	armed time.Time // when the limit was moved on
	over  bool      // at its end, broken or closed: the connection may be another request's
	whole bool      // at its end
}

// pace bounds the pauses in the request's body, nil if there is none.
func (ex *exchange) pace() *pacedBody {
	if ex.r.ContentLength == 0 {
		return nil
	}
	body := &pacedBody{ReadCloser: ex.r.Body, control: http.NewResponseController(ex.ResponseWriter)}
	ex.r.Body = body
	return body
}

// Read implements io.Reader. A transport may call it after it has answered.
func (b *pacedBody) Read(p []byte) (int, error) {
	b.arm(time.Now())
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.stalled.Store(errors.Is(err, os.ErrDeadlineExceeded))
		b.end(err == io.EOF)
	}
	return n, err
}

// Close implements io.Closer.
func (b *pacedBody) Close() error {
	b.end(false)
	return b.ReadCloser.Close()
}

func (b *pacedBody) arm(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.over && now.Sub(b.armed) > bodyRearm {
		b.armed = now
		// Servers that know no deadlines (tests) have none to miss.
		_ = b.control.SetReadDeadline(now.Add(bodyPause))
	}
}

// end takes the limit off where the body was whole: the answer may take
// longer, and the server watches the same connection meanwhile.
func (b *pacedBody) end(whole bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if whole && !b.over {
		b.whole = true
		_ = b.control.SetReadDeadline(time.Time{})
	}
	b.over = true
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
	unpacedAnswer = socketBuffer
	// answerPause is how long a client may take for the next copyBuffer bytes.
	answerPause = 5 * time.Minute
)

// paceAnswer makes a client that does not read lose the connection. One that
// reads slowly gets everything.
func (ex *exchange) paceAnswer() {
	if now := time.Now(); now.Sub(ex.paced) > bodyRearm {
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
