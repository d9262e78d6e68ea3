// Package logqueue writes a log in a goroutine of its own, so that requests, reloads and
// stops never wait for the reader of the log. Lines wait in memory of a bounded size. Those
// that do not fit are dropped and counted, and a line in their place says how many.
package logqueue

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"
)

const (
	// size is how many bytes wait at most, beside those that are being written.
	size = 1 << 20
	// batch is how many bytes are written at once under load.
	batch = 32 << 10
	// Delay is how long lines wait at most for others, and the pause after a write that
	// failed.
	Delay = 100 * time.Millisecond

	// longLine is more than almost all lines have, in bytes.
	longLine = 4 << 10
	// stuckTime is how long a write may take until Problem reports it.
	stuckTime = time.Second
)

// Queue is an io.Writer that does not wait for the writer below it. It is safe for
// concurrent use.
type Queue struct {
	w       io.Writer
	note    func(lost int) []byte
	delayed *time.Timer   // wakes the goroutine
	wake    chan struct{} // lines are due
	closing chan struct{} // closed by Close
	ended   chan struct{} // closed when the goroutine has ended

	mu      sync.Mutex    // not held during a write
	lines   []byte        // that wait
	lost    int           // lines that were dropped behind them
	dropped int           // lines that were ever dropped
	began   time.Time     // the write in progress; zero: there is none
	failure error         // of the last write
	room    chan struct{} // closed when lines are taken; nil: no call of Wait waits
	inVain  bool          // a call of Wait has waited in vain since
}

// New returns a queue that writes to w. Each call of Write is a line. note returns the
// line that tells how many were lost.
func New(w io.Writer, note func(lost int) []byte) *Queue {
	q := &Queue{w: w, note: note,
		wake: make(chan struct{}, 1), closing: make(chan struct{}), ended: make(chan struct{})}
	q.delayed = time.AfterFunc(Delay, q.Flush)
	q.delayed.Stop()
	go q.run()
	return q
}

// Write implements io.Writer. It never fails: a failed write could not be logged.
func (q *Queue) Write(line []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.fits(len(line)) {
		q.lost++
		q.dropped++
		return len(line), nil
	}
	if len(q.lines) == 0 {
		q.delayed.Reset(Delay)
	}
	if q.lines = append(q.lines, line...); len(q.lines) >= batch {
		q.flush()
	}
	return len(line), nil
}

// fits reports whether a line has room. After a line without room there is none for
// shorter ones, so that the number of the lost has its place between those that are kept.
func (q *Queue) fits(line int) bool {
	return q.lost == 0 && (len(q.lines) == 0 || len(q.lines)+line <= size)
}

// Wait waits until there is room for a line, at most for a time. If one call has waited in
// vain, those after it return at once until lines are written again: an event that is
// one of many would delay the others.
func (q *Queue) Wait(most time.Duration) {
	q.mu.Lock()
	if q.inVain || q.fits(longLine) {
		q.mu.Unlock()
		return
	}
	if q.room == nil {
		q.room = make(chan struct{})
	}
	room := q.room
	q.mu.Unlock()
	select {
	case <-room:
	case <-time.After(most):
		q.mu.Lock()
		q.inVain = q.inVain || q.room == room
		q.mu.Unlock()
	}
}

// Flush makes all lines due. It does not wait until they are written.
func (q *Queue) Flush() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.lines) > 0 {
		q.flush()
	}
}

func (q *Queue) flush() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// Close writes the remaining lines, as far as that succeeds within a time.
func (q *Queue) Close(within time.Duration) {
	close(q.closing)
	select {
	case <-q.ended:
	case <-time.After(within):
	}
}

// Dropped returns how many lines were ever dropped.
func (q *Queue) Dropped() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dropped
}

// Problem returns why lines are lost or late, or an empty string.
func (q *Queue) Problem() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	problem := ""
	switch {
	case q.failure != nil:
		problem = "the log cannot be written: " + q.failure.Error()
	case q.lost > 0 || !q.began.IsZero() && time.Since(q.began) >= stuckTime:
		problem = "nothing reads the log"
	}
	if q.lost > 0 {
		problem += fmt.Sprintf("; lines lost: %d", q.lost)
	}
	return problem
}

// run writes lines until Close.
func (q *Queue) run() {
	defer close(q.ended)
	var lines []byte
	for open := true; open || len(lines) > 0; {
		select {
		case <-q.wake:
		case <-q.closing:
			open = false
		}
		lines = q.take(lines)
		q.write(lines)
	}
}

// take returns all lines that wait. Later ones get the memory of those before.
func (q *Queue) take(before []byte) []byte {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.delayed.Stop()
	lines := q.lines
	if q.lost > 0 {
		lines = append(lines, q.note(q.lost)...)
	}
	if q.lost, q.lines = 0, before[:0]; cap(before) > 2*batch {
		q.lines = nil // the memory of a stall
	}
	if q.inVain = false; q.room != nil {
		close(q.room)
		q.room = nil
	}
	if len(lines) > 0 {
		q.began = time.Now()
	}
	return lines
}

// write writes lines. It repeats a failed write until that succeeds, or Close is called.
func (q *Queue) write(lines []byte) {
	for len(lines) > 0 {
		n, err := q.w.Write(lines)
		if q.report(err); err == nil {
			return
		}
		if errors.Is(err, syscall.EPIPE) { // the next reader has not seen the beginning of the line
			n = bytes.LastIndexByte(lines[:n], '\n') + 1
		}
		lines = lines[n:]
		select {
		case <-q.closing:
			return
		case <-time.After(Delay):
		}
	}
}

// report notes the result of a write.
func (q *Queue) report(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.failure = err; err == nil {
		q.began = time.Time{}
	}
}
