package conn

import (
	"os"
	"sync"
	"time"
)

// holdTime is how long a background Read is held back. The fast path of package forward does
// not notice for as long that a client has left.
const holdTime = 50 * time.Millisecond

// background holds back the Read of one byte by which net/http learns, while it serves a
// request over HTTP/1.1, that the client has left. net/http ends that Read by a deadline in
// the past. For an answer that is ready at once, this would cost more than the rest of what
// net/http does with the connection.
type background struct {
	mu   sync.Mutex
	held bool
	late bool // the deadline of Reads is before longAgo
	over bool // the connection is closed
	wake chan error

	// One tick serves many Reads: to start and stop a timer for each would cost as much as
	// what is saved.
	timer   *time.Timer
	ticking bool
	reads   int // that were held
	seen    int // of them at the last tick
}

// hold returns when the Read is to be made: after holdTime, or at most twice as long. It returns
// the error of the Read if a deadline ends that before.
func (b *background) hold() error {
	b.mu.Lock()
	switch {
	case b.over:
		b.mu.Unlock()
		return nil // the Read tells
	case b.late:
		b.mu.Unlock()
		return os.ErrDeadlineExceeded
	}
	if b.timer == nil {
		b.wake = make(chan error, 1)
		b.timer = time.AfterFunc(holdTime, b.tick)
		b.timer.Stop()
	}
	b.held = true
	b.reads++
	b.start()
	b.mu.Unlock()
	return <-b.wake
}

// start makes sure that a tick follows. The caller holds the lock.
func (b *background) start() {
	if !b.ticking {
		b.ticking, b.seen = true, b.reads
		b.timer.Reset(holdTime)
	}
}

// tick lets a Read go on that was held at the last tick too.
func (b *background) tick() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ticking = false
	switch {
	case !b.held:
	case b.seen == b.reads:
		b.release(nil)
	default:
		b.start()
	}
}

// release ends what is held, if there is something, with err. The caller holds the lock.
func (b *background) release(err error) {
	if b.held {
		b.held = false
		b.wake <- err // has room
	}
}

// deadline is called for each deadline of Reads. One before longAgo ends what is held.
func (b *background) deadline(t time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.late = !t.IsZero() && t.Before(longAgo); b.late {
		b.release(os.ErrDeadlineExceeded)
	}
}

// close is called before the connection is closed: the Read that is held learns of it at once.
func (b *background) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = true
	b.release(nil)
}

// longAgo is after the deadline by which net/http ends a Read, and before any other.
var longAgo = time.Unix(60, 0)
