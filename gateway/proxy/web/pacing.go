package web

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// BodyTime is how long own endpoints wait for a body, and how long an answer
	// waits for the rest of a body that is not read.
	BodyTime = 10 * time.Second
	// unpacedAnswer is how much of an answer needs no time limit, in bytes: about the size of the
	// buffers on the way to the client, which fill even if it does not read.
	unpacedAnswer = 16 << 10
	// AnswerPause is how long a client may take for the next part of an answer,
	// about 64 KiB.
	AnswerPause = 5 * time.Minute
	// answerRearm is how often the time limit is moved on at most.
	answerRearm = 5 * time.Second
)

// pacing bounds how slowly a client may send its request and read the answer.
// Deadlines belong to the connection, so w is always the server's writer.
// Writers without deadlines, as in tests, need none: errors are ignored.
type pacing struct {
	upload      *Upload   // the request's body on its way to an upstream; nil if there is none
	bodyLimited bool      // there is a time limit for the request's body
	bodyRead    bool      // to its end
	bodyBroken  bool      // the rest of it never comes
	first       bool      // the answer may come before the end of it
	paced       time.Time // when the time limit of the answer was moved on

	mu    sync.Mutex  // held to set a time limit of the answer
	ended atomic.Bool // cut was called
}

// limitBody sets the time limit for the rest of the request's body. It ends
// with the request: the server sets another one for the next on the connection.
func (p *pacing) limitBody(w http.ResponseWriter, r *http.Request) {
	if p.bodyLimited || p.bodyRead || r.ContentLength == 0 {
		return
	}
	p.bodyLimited = true
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(BodyTime))
}

// goOn notes that the answer goes on. With paced, the client must read it in time.
func (p *pacing) goOn(w http.ResponseWriter, paced bool) {
	now := time.Now()
	if paced {
		p.paceAnswer(w, now)
	}
	if p.upload != nil {
		p.upload.move(now.Sub(p.upload.began))
	}
}

// paceAnswer makes a client that does not read lose the connection. One that
// reads slowly gets everything.
func (p *pacing) paceAnswer(w http.ResponseWriter, now time.Time) {
	if now.Sub(p.paced) <= answerRearm {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended.Load() {
		p.paced = now
		_ = http.NewResponseController(w).SetWriteDeadline(now.Add(AnswerPause))
	}
}

// overQUIC reports whether a request came over HTTP/3. There an answer needs time
// limits from its first byte on: the client decides how much of it the buffers on
// the way take, and may allow nothing (RFC 9000, section 4.1).
func overQUIC(r *http.Request) bool { return r.ProtoMajor == 3 }

// unpaceAnswer sends the rest under the time limit, and removes the limit: the next answer on the
// connection has its own.
func (p *pacing) unpaceAnswer(w http.ResponseWriter, r *http.Request) {
	if p.paced.IsZero() || p.ended.Load() {
		return
	}
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(AnswerPause))
	if overQUIC(r) {
		return // the stream has no other answer, and the server sends the rest of this one
	}
	_ = control.Flush()
	_ = control.SetWriteDeadline(time.Time{})
}

// cut sets the last time limit of the answer.
func (p *pacing) cut(w http.ResponseWriter, within time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended.Store(true)
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(within))
}

// lastOnConnection reports whether the connection must close after the answer,
// because a time limit of it stays, or because it is unknown where the next request begins.
func (p *pacing) lastOnConnection(r *http.Request) bool {
	return r.ProtoMajor == 1 && (p.ended.Load() || p.bodyBroken || p.upload.hasFailed())
}
