package conn

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// halfClosing is a connection one direction of which can be closed, unless its
// client has gone.
type halfClosing struct {
	net.Conn
	half, gone bool
}

func (c *halfClosing) CloseWrite() error {
	if c.gone {
		return io.ErrClosedPipe
	}
	c.half = true
	return nil
}

// ending is a connection that lingers, and its client.
type ending struct {
	*Conn
	half   *halfClosing
	client net.Conn
	began  time.Time
}

// newEnding returns a connection. rest returns how much is unsent after a time.
func newEnding(rest func(after time.Duration) int, until time.Duration) *ending {
	client, server := net.Pipe()
	half := &halfClosing{Conn: server}
	s := NewSet(Options{Logger: slog.New(slog.DiscardHandler)})
	e := &ending{half: half, client: client, began: time.Now()}
	s.unsent = func(net.Conn) (int, bool) { return rest(time.Since(e.began)), true }
	s.Linger(e.began.Add(until))
	s.open = 1
	e.Conn = &Conn{Conn: half, set: s, listener: s.Listener(nil), told: -1, counted: true}
	return e
}

// gone fails the test unless the connection is closed after that time, or a step
// later, with so many cut off.
func (e *ending) gone(t *testing.T, name string, after time.Duration, cut int) {
	t.Helper()
	got := e.set.Wait()
	if took := time.Since(e.began); got != cut || took < after || took > after+lingerStep {
		t.Errorf("%s: closed after %v, %d cut off; want %v, %d", name, took, got, after, cut)
	}
	if _, err := e.client.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("%s: the connection is open still: %v", name, err)
	}
	if e.set.open != 0 {
		t.Errorf("%s: %d connections are counted", name, e.set.open)
	}
}

// steady returns a rest that shrinks to nothing within that time.
func steady(within time.Duration) func(time.Duration) int {
	return func(after time.Duration) int { return int(max(0, within-after)) }
}

// always returns a rest that stays.
func always(rest int) func(time.Duration) int {
	return func(time.Duration) int { return rest }
}

// A connection lingers only after Linger, until its deadline, and as long as bytes
// are unsent and its client reads. What the client sends does not matter.
func TestLinger(t *testing.T) {
	t.Parallel()
	halts := func(after time.Duration) int { return int(10*time.Second - min(after, 7*time.Second)) }
	closes := func(e *ending) { _ = e.Close() }
	for name, c := range map[string]struct {
		rest  func(time.Duration) int
		until time.Duration
		sends bool
		end   func(e *ending)
		after time.Duration
		cut   int
		half  bool // the client was told that nothing more comes
	}{
		"no stop":                  {always(1000), -100 * time.Hour, false, closes, 0, 0, false},
		"too late":                 {always(1000), 0, false, closes, 0, 0, false},
		"all is sent":              {always(0), time.Minute, false, closes, 0, 0, false},
		"TLS says goodbye":         {always(lastWords), time.Minute, false, closes, 0, 0, false},
		"gets all of it":           {steady(20 * time.Second), time.Minute, false, closes, 20 * time.Second, 0, true},
		"sends while it reads":     {steady(20 * time.Second), time.Minute, true, closes, 20 * time.Second, 0, true},
		"does not read":            {always(1000), time.Minute, false, closes, lingerPause, 0, true},
		"sends instead of reading": {always(1000), time.Minute, true, closes, lingerPause, 0, true},
		"stops reading":            {halts, time.Minute, true, closes, 7*time.Second + lingerPause, 0, true},
		"takes too long":           {steady(time.Hour), time.Minute, true, closes, time.Minute, 1, true},
		"gone":                     {always(1000), time.Minute, false, func(e *ending) { e.half.gone = true; closes(e) }, 0, 0, false},
		"cut off":                  {always(1000), time.Minute, false, func(e *ending) { Cut(e.Conn) }, 0, 0, false},
		"cut off as it closes":     {always(1000), time.Minute, false, func(e *ending) { closes(e); Cut(e.Conn) }, 0, 0, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := newEnding(c.rest, c.until)
			defer e.client.Close()
			c.end(e)
			if took := time.Since(e.began); took > 0 || e.half.half != c.half {
				t.Errorf("%s: Close takes %v; the client was told that nothing more comes: %t, want %t", name, took, e.half.half, c.half)
			}
			var sending sync.WaitGroup
			if c.sends {
				sending.Go(func() {
					for err := error(nil); err == nil; _, err = e.client.Write([]byte("I have read so much")) {
						time.Sleep(time.Second)
					}
				})
			}
			e.gone(t, name, c.after, c.cut)
			sending.Wait()
		})
	}
}

// A lingering connection ends when its client closes it. With untilRead the client
// has time to read what its system has. On a system that does not tell what is
// unsent, a connection lingers for blindPause.
func TestLingerEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rest      func(time.Duration) int
		known     bool
		untilRead bool
		closes    time.Duration
		after     time.Duration
	}{
		"the client closes":     {steady(time.Hour), true, false, 3 * time.Second, 3 * time.Second},
		"it reads to the end":   {steady(10 * time.Second), true, true, 12 * time.Second, 12 * time.Second},
		"it does not read on":   {steady(10 * time.Second), true, true, time.Hour, 10*time.Second + lingerPause},
		"nothing can be known":  {always(0), false, true, time.Hour, blindPause},
		"nor whether all is in": {always(0), false, false, time.Hour, blindPause},
	} {
		synctest.Test(t, func(t *testing.T) {
			client, server := net.Pipe()
			defer client.Close()
			defer server.Close()
			time.AfterFunc(c.closes, func() { client.Close() })
			began := time.Now()
			s := stay{conn: server, until: began.Add(time.Minute), untilRead: c.untilRead}
			s.unsent = func(net.Conn) (int, bool) { return c.rest(time.Since(began)), c.known }
			cut := s.over()
			if took := time.Since(began); cut || took < c.after || took > c.after+lingerStep {
				t.Errorf("%s: %v, cut off: %t; want %v", name, took, cut, c.after)
			}
		})
	}
}

// Close ends Reads and Writes. What comes after Close is not read, also by a Read
// that began before.
func TestLingerClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnding(steady(10*time.Second), time.Minute)
		defer e.client.Close()
		writing, reading := make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := e.Write([]byte("no client reads this"))
			writing <- err
		}()
		go func() {
			n, err := e.Read(make([]byte, 1))
			if n > 0 {
				t.Errorf("%d bytes were read", n)
			}
			reading <- err
		}()
		synctest.Wait()
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		if err := <-writing; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the Write that was in progress: %v", err)
		}
		if _, err := e.client.Write([]byte("GET / HTTP/1.1")); err != nil {
			t.Errorf("the client is refused: %v", err)
		}
		_, read := e.Read(make([]byte, 1))
		for name, err := range map[string]error{
			"the Read that was in progress": <-reading, "a Read": read,
			"SetReadDeadline": e.SetReadDeadline(time.Now().Add(time.Hour)), "Close again": e.Close(),
		} {
			if !errors.Is(err, net.ErrClosed) {
				t.Errorf("%s: %v, want net.ErrClosed", name, err)
			}
		}
		e.gone(t, "closed", 10*time.Second, 0)
	})
}
