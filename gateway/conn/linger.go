package conn

import (
	"errors"
	"net"
	"os"
	"time"
)

const (
	// lingerPause is how long what is unsent may stay the same before a client
	// is given up.
	lingerPause = 5 * time.Second
	// blindPause is how long a connection lingers where the system does not tell
	// what is unsent.
	blindPause = 500 * time.Millisecond
	// lingerStep is how often connections that linger are looked at, at most.
	lingerStep = 50 * time.Millisecond
	// lastWords is the most that TLS adds behind an answer, in bytes.
	lastWords = 64
)

// Linger makes connections stay, when they are closed from now on, until the
// client's system has what was written to them, and no longer than until. The
// system does send it after a connection is closed, but not when the client
// sends something as well: that is answered with a reset. Over HTTP/2 clients
// tell how much they have read.
func (s *Set) Linger(until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = until
}

// Leave closes the connections that wait for a request, and those that come
// from now on. Over HTTP/2 the server has to say GOAWAY first, so Leave goes
// before its Shutdown; the connections that it takes for idle are closed a
// moment later.
func (s *Set) Leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaving = true
	var told []*Conn
	for c := s.first; c != nil; {
		next := c.next
		if c.http2() {
			c.told = c.written.Load()
			told = append(told, c)
		} else {
			s.dismiss(c)
		}
		c = next
	}
	if len(told) > 0 {
		time.AfterFunc(goodbyeTime, func() { s.dismissTold(told) })
	}
}

// dismissTold closes those of the connections over HTTP/2 that have waited
// since, on which something was written since (the GOAWAY), and whose clients
// have everything from before. The server closes others later.
func (s *Set) dismissTold(told []*Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range told {
		if !c.waits || c.told < 0 {
			continue
		}
		since := c.written.Load() - c.told
		if n, _ := s.unsent(c.Conn); since > 0 && int64(n) <= since {
			s.dismiss(c)
			c.settled = true // but for the GOAWAY
		}
	}
}

// Wait returns when no connection lingers and those are closed that Leave
// closes. It returns how many were cut off that had something to send.
func (s *Set) Wait() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.ending > 0 {
		s.left.Wait()
	}
	return s.cut
}

// Close implements net.Conn. It does not wait for the client.
func (c *Conn) Close() error {
	if c.closed.Swap(true) {
		return net.ErrClosed
	}
	stay := c.set.stay(c)
	if stay == nil {
		return c.end()
	}
	_ = c.Conn.SetWriteDeadline(time.Now()) // ends a Write under way; with the connection gone there is none
	if err := c.CloseWrite(); err != nil {
		c.set.leave(false)
		return c.end() // the client was faster
	}
	go func() {
		cut := stay.over()
		c.end()
		c.set.leave(cut)
	}()
	return nil
}

// stay is the time that a connection lingers.
type stay struct {
	conn   net.Conn
	unsent func(net.Conn) (n int, known bool)
	until  time.Time
	// untilRead: the client sends while it reads, so the connection has to be
	// there until the client closes it.
	untilRead bool
}

// stay counts a connection that is to linger. It returns nil if it is not.
func (s *Set) stay(c *Conn) *stay {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.settled || !time.Now().Before(s.until) {
		return nil
	}
	if n, known := s.unsent(c.Conn); known && n <= lastWords {
		return nil
	}
	s.ending++
	return &stay{conn: c.Conn, unsent: s.unsent, until: s.until, untilRead: c.http2()}
}

// leave forgets a connection that was ending.
func (s *Set) leave(cut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending--
	if cut {
		s.cut++
	}
	s.left.Broadcast()
}

// over returns when the client has everything or has closed the connection, or
// is given up. It reports whether something was unsent at the deadline.
func (s *stay) over() (cut bool) {
	rest, known := s.unsent(s.conn)
	moved, pause := time.Now(), lingerPause
	if !known {
		pause = blindPause
	}
	for step := time.Millisecond; ; step = min(2*step, lingerStep) {
		if !s.discard(min(step, time.Until(s.until))) {
			return false
		}
		now := time.Now()
		before := rest
		rest, _ = s.unsent(s.conn)
		if rest < before {
			moved = now
		}
		switch {
		case known && rest == 0 && !s.untilRead:
			return false
		case !now.Before(s.until):
			return rest > 0
		case now.Sub(moved) >= pause:
			return false
		}
	}
}

// discard reads for some time. It reports whether the connection is there
// still.
func (s *stay) discard(lasting time.Duration) bool {
	_ = s.conn.SetReadDeadline(time.Now().Add(lasting)) // a connection that is gone says so below
	var b [1024]byte
	for {
		if _, err := s.conn.Read(b[:]); err != nil {
			return errors.Is(err, os.ErrDeadlineExceeded)
		}
	}
}
