package conn

import (
	"errors"
	"net"
	"os"
	"time"
)

const (
	// lingerPause is how long a connection lingers while its client reads nothing.
	lingerPause = 5 * time.Second
	// blindPause is how long a connection lingers if the system does not tell how
	// much is unsent.
	blindPause = 500 * time.Millisecond
	// lingerStep is the longest time between two checks of a lingering connection.
	lingerStep = 50 * time.Millisecond
	// closePause is how long Close sends kept bytes, as tls.Conn.Close does.
	closePause = 5 * time.Second
	// lastWords is how many bytes TLS sends at most after an answer.
	lastWords = 64
)

// Linger makes each connection that is closed from now on stay open until the
// client's system has all bytes, or until the given time. Without that, the
// system sends the rest after Close, but answers anything from the client with
// a reset, which destroys the rest. Clients of HTTP/2 always send something:
// they confirm the bytes that they have read.
func (s *Set) Linger(until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = until
}

// lingerEnd returns the time that Linger was called with, or zero.
func (s *Set) lingerEnd() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.until
}

// Leave closes the connections that wait for a request now or later. Call it
// before http.Server.Shutdown, which sends GOAWAY on the connections of HTTP/2;
// Leave closes those a moment later.
func (s *Set) Leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaving = true
	var told []*connection
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

// dismissTold closes the connections of HTTP/2 that have waited since Leave, on
// which a GOAWAY was written since, and whose clients have all from before it.
// http.Server closes the others later.
func (s *Set) dismissTold(told []*connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range told {
		if !c.waits || c.told < 0 {
			continue
		}
		since := c.written.Load() - c.told
		if n, _ := c.unsent(); since > 0 && int64(n) <= since {
			s.dismiss(c)
			c.flushed = true // only the GOAWAY is unsent
		}
	}
}

// Wait waits until no connection lingers and Leave has closed its connections.
// It returns how many were cut off with unsent bytes.
func (s *Set) Wait() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.ending > 0 {
		s.left.Wait()
	}
	return s.cut
}

// Close implements net.Conn. It waits for the client only to send the kept rest of an
// answer over HTTP/1.1 that was cut off. Otherwise nothing is kept: the end of an answer
// sends it before, and so does tls.Conn.Close.
func (c *connection) Close() error {
	if c.refuseReads() {
		return net.ErrClosed
	}
	if c.Kept() > 0 && !c.keepsAll() {
		c.sendKept()
	}
	stay := c.set.stay(c)
	if stay == nil {
		return c.closeNow()
	}
	_ = c.Conn.SetWriteDeadline(time.Now()) // ends a Write; fails if the connection has gone
	if err := c.CloseWrite(); err != nil {
		c.set.leave(false)
		return c.closeNow() // the client has gone
	}
	go func() {
		cut := stay.over()
		c.closeNow()
		c.set.leave(cut)
	}()
	return nil
}

// sendKept sends the kept bytes, for a while, but not after the time of lingering.
func (c *connection) sendKept() {
	until := time.Now().Add(closePause)
	if end := c.set.lingerEnd(); !end.IsZero() && end.Before(until) {
		until = end
	}
	if time.Now().Before(until) {
		_ = c.SetWriteDeadline(until) // fails if the connection has gone
		_ = c.Settle()
	}
}

// stay is a lingering connection.
type stay struct {
	conn   net.Conn
	unsent func(net.Conn) (n int, known bool)
	until  time.Time
	// untilRead: the client sends while it reads, so the connection stays until the
	// client closes it.
	untilRead bool
}

// stay returns nil if a connection does not linger.
func (s *Set) stay(c *connection) *stay {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.flushed || !time.Now().Before(s.until) {
		return nil
	}
	if n, known := s.unsent(c.Conn); known && n <= lastWords {
		return nil
	}
	s.ending++
	return &stay{conn: c.Conn, unsent: s.unsent, until: s.until, untilRead: c.http2()}
}

// leave removes a connection from those that Wait waits for.
func (s *Set) leave(cut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending--
	if cut {
		s.cut++
	}
	s.left.Broadcast()
}

// over waits until the client has everything, has closed the connection, or has
// read nothing for too long. It reports whether bytes were unsent at the
// deadline.
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

// discard reads for some time. It reports whether the connection is still open.
func (s *stay) discard(lasting time.Duration) bool {
	_ = s.conn.SetReadDeadline(time.Now().Add(lasting)) // if it fails, Read does too
	var b [1024]byte
	for {
		if _, err := s.conn.Read(b[:]); err != nil {
			return errors.Is(err, os.ErrDeadlineExceeded)
		}
	}
}
