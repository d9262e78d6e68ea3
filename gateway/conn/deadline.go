package conn

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// readDeadline sets the deadline of a connection's Reads when one needs it. net/http sets
// four for each request over HTTP/1.1, and only one of them comes before a Read.
type readDeadline struct {
	reads atomic.Int32 // that are in progress; rises under the lock alone

	mu    sync.Mutex
	late  bool
	until time.Time // to be set before the next Read, if late
}

// set sets the deadline of the Read that is in progress, and of those to come.
func (d *readDeadline) set(c net.Conn, t time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.reads.Load() == 0 {
		d.late, d.until = true, t
		return nil
	}
	d.late = false
	return c.SetReadDeadline(t)
}

// begin is called before each Read, and end after it.
func (d *readDeadline) begin(c net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.late {
		_ = c.SetReadDeadline(d.until) // fails if the connection is closed, which Read tells better
		d.late = false
	}
	d.reads.Add(1)
}

func (d *readDeadline) end() { d.reads.Add(-1) }
