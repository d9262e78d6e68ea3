package conn

import (
	"net"
	"sync"
	"time"
)

// readDeadline sets the deadline of a connection's Reads when one needs it. net/http sets
// four for each request over HTTP/1.1, and only one of them comes before a Read.
type readDeadline struct {
	mu    sync.Mutex
	reads int // that are in progress
	late  bool
	until time.Time // to be set before the next Read, if late
}

// set sets the deadline of the Read that is in progress, and of those to come.
func (d *readDeadline) set(c net.Conn, t time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.reads == 0 {
		d.late, d.until = true, t
		return nil
	}
	d.late = false
	return c.SetReadDeadline(t)
}

// begin is called before each Read, and end after it. If begin fails, there is no Read and
// no end.
func (d *readDeadline) begin(c net.Conn) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.late {
		if err := c.SetReadDeadline(d.until); err != nil {
			return err
		}
		d.late = false
	}
	d.reads++
	return nil
}

func (d *readDeadline) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reads--
}
