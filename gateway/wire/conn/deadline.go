package conn

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// readDeadline sets the deadline of a connection's Reads when one needs it. net/http sets
// four for each request over HTTP/1.1, and only one of them comes before a Read. That one is
// mostly later than the one before it, so the connection below keeps the earlier one until
// it is reached.
type readDeadline struct {
	reads atomic.Int32 // that are in progress; rises under the lock alone

	mu    sync.Mutex
	until time.Time // of Reads; zero: none
	armed time.Time // of the connection below: until, or earlier; zero: none
	over  bool      // nothing is set any more
}

// set sets the deadline of the Read that is in progress, and of those to come.
func (d *readDeadline) set(c net.Conn, t time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch d.until = t; {
	case d.over:
		return net.ErrClosed
	case d.reads.Load() == 0:
		return nil
	}
	return d.arm(c)
}

// beginRead is called before each Read, and endRead after it.
func (d *readDeadline) beginRead(c net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.over && !d.until.IsZero() && (d.armed.IsZero() || d.until.Before(d.armed)) {
		_ = d.arm(c) // fails if the connection is closed, which Read tells better
	}
	d.reads.Add(1)
}

func (d *readDeadline) endRead() { d.reads.Add(-1) }

// extend is called when a Read has reached a deadline. It reports whether that was an
// earlier one than until, so that the Read is to be made again. until may have been set since.
func (d *readDeadline) extend(c net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	early := d.until.IsZero() || time.Now().Before(d.until)
	return early && !d.over && d.arm(c) == nil
}

// stop leaves the deadline to others.
func (d *readDeadline) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = true
}

// arm sets the deadline of the connection below. The caller holds the lock.
func (d *readDeadline) arm(c net.Conn) error {
	d.armed = d.until
	return c.SetReadDeadline(d.until)
}
