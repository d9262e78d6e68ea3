package conn

import (
	"context"
	"net"
	"sync"
	"time"
)

// holdTime is how long a request is served before its client is watched. The fast path of package
// forward does not notice for as long that a client has left.
const holdTime = 50 * time.Millisecond

// background notices that the client of a request over HTTP/1.1 has left. net/http would know from a
// Read of one byte in the background, which it ends by a deadline in the past. For an answer that is
// ready at once, this would cost more than the rest of the work of net/http with the connection. So
// that Read returns nothing at once, and the one of watch takes its place in a request that takes
// longer than holdTime.
type background struct {
	conn   net.Conn           // which the Reads of net/http are made on
	cancel context.CancelFunc // of the requests on the connection; nil before Context

	mu       sync.Mutex
	until    time.Time // the deadline of Reads
	serving  bool      // a request that is to be watched, or is
	watching bool      // watch is running
	ending   bool      // endWatch waits for it
	ended    *sync.Cond
	came     []byte // the bytes that watch has read: none or one
	closed   bool

	// One tick serves many requests: to start and stop a timer for each would cost as much as
	// it saves.
	timer    *time.Timer
	ticking  bool
	requests int // that were served
	seen     int // of them at the last tick
}

// beginWatch is called in place of the Read in the background. As that does, it fails if the
// connection is closed.
func (b *background) beginWatch() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return net.ErrClosed
	}
	if b.timer == nil {
		b.ended = sync.NewCond(&b.mu)
		b.timer = time.AfterFunc(holdTime, b.tick)
		b.timer.Stop()
	}
	b.serving = true
	b.requests++
	b.start()
	return nil
}

// start makes sure that a tick follows. The caller holds the lock.
func (b *background) start() {
	if !b.ticking {
		b.ticking, b.seen = true, b.requests
		b.timer.Reset(holdTime)
	}
}

// tick begins to watch the client of a request that was served at the last tick too.
func (b *background) tick() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ticking = false
	switch {
	case !b.serving:
	case b.seen == b.requests:
		b.watching = true
		go b.watch()
	default:
		b.start()
	}
}

// watch cancels the request when a Read fails. It ends with the request, or with a byte of the next.
func (b *background) watch() {
	var next [1]byte
	n, err := b.conn.Read(next[:])
	b.mu.Lock()
	defer b.mu.Unlock()
	b.came = append(b.came, next[:n]...)
	if err != nil && !b.ending && b.cancel != nil {
		b.cancel() // the next Read returns the error too
	}
	b.watching = false
	b.ended.Broadcast()
}

// readAfterWatch reads for net/http, which has served the request if there was one.
func (b *background) readAfterWatch(p []byte) (int, error) {
	if b.endWatch() && len(p) > 0 {
		n := copy(p, b.came)
		b.came = b.came[n:]
		return n, nil
	}
	return b.conn.Read(p)
}

// endWatch ends the watch. It reports whether that has read something.
func (b *background) endWatch() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.serving = false
	if b.watching {
		b.ending = true
		_ = b.conn.SetReadDeadline(longAgo) // fails if the connection is closed, which Read tells
		for b.watching {
			b.ended.Wait()
		}
		_ = b.conn.SetReadDeadline(b.until) // likewise
		b.ending = false
	}
	return len(b.came) > 0
}

// deadline sets the deadline of Reads.
func (b *background) deadline(t time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.until = t
	if b.ending || b.serving && t.Equal(longAgo) {
		return nil // endWatch sets it; or net/http aborts its own Read in the background, which is none
	}
	return b.conn.SetReadDeadline(t)
}

// close is called when the connection is closed. The Read of watch may not have begun.
func (b *background) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	if b.serving && b.cancel != nil {
		b.cancel()
	}
}

// longAgo is before now.
var longAgo = time.Unix(1, 0)
