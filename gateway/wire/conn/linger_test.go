package conn

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"authgate/internal/test/must"
)

// Leave closes connections without a whole request header at once, those of HTTP/2
// after GOAWAY. The rest of the time is what http.Server takes to notice.
func TestLeave(t *testing.T) {
	t.Parallel()
	const look = 70 * time.Millisecond
	for name, c := range map[string]struct {
		plain bool
		open  func(b *bench)
		took  time.Duration
	}{
		"nothing sent":            {true, func(b *bench) { b.dial() }, 0},
		"idle after a request":    {true, func(b *bench) { _ = b.get(b.dial(), "/") }, 0},
		"a byte each second":      {true, func(b *bench) { go drip(b.dial(), "GET / HTTP/1.1\r\n") }, 0},
		"TLS, nothing sent":       {false, func(b *bench) { b.dial() }, 0},
		"TLS, a byte each second": {false, func(b *bench) { go drip(b.dial(), "\x16\x03\x01\x02\x00") }, 0},
		"TLS, no request":         {false, func(b *bench) { go discard(b.secure("http/1.1")) }, 0},
		"TLS, idle":               {false, func(b *bench) { c := b.secure("http/1.1"); _ = b.get(c, "/"); go discard(c) }, 0},
		"TLS, it does not read":   {false, func(b *bench) { _ = b.get(b.secure("http/1.1"), "/") }, goodbyeTime},
		"HTTP/2, no preface":      {false, func(b *bench) { go discard(b.secure("h2")) }, 0},
		"HTTP/2, no request":      {false, func(b *bench) { b.greet(b.secure("h2")) }, goodbyeTime},
		"HTTP/2 without TLS":      {true, func(b *bench) { b.greet(b.dial()) }, goodbyeTime},
		"half a preface":          {true, func(b *bench) { _, _ = io.WriteString(b.dial(), http2.ClientPreface[:20]) }, 0},
		"a request that goes on":  {true, func(b *bench) { go func() { _ = b.get(b.dial(), "/slow") }() }, time.Minute},
		"one over TLS that does": {false, func(b *bench) {
			c := b.secure("http/1.1")
			go func() { _ = b.get(c, "/slow"); discard(c) }()
		}, time.Minute},
	} {
		onBench(t, Options{}, c.plain, func(b *bench) {
			for range 3 {
				c.open(b)
			}
			synctest.Wait()
			if took := b.stop(); took < c.took || took > c.took+look {
				t.Errorf("%s: the stop took %v, want %v", name, took, c.took)
			}
		})
	}
}

// What is kept is unsent, and is sent before the end that CloseWrite tells.
func TestKeptUnsent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnding(always(3), 0)
		e.KeepAll()
		must.Get(e.Write([]byte("last")))(t)
		if got := unsentBytes(e.connection); got != 7 {
			t.Errorf("%d bytes are unsent, want 7", got)
		}
		go func() {
			if err := e.CloseWrite(); err != nil || !e.half.half {
				t.Errorf("CloseWrite: %v, closed: %t", err, e.half.half)
			}
			e.Close()
		}()
		if got, _ := io.ReadAll(e.client); string(got) != "last" {
			t.Errorf("the client gets %q", got)
		}
	})
}

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
	*connection
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
	e.connection = &connection{
		Gatherer: Gatherer{Conn: half, Buffers: &s.buffers}, set: s, listener: s.Listener(nil), told: -1, counted: true,
	}
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
		"gone": {always(1000), time.Minute, false,
			func(e *ending) { e.half.gone = true; closes(e) }, 0, 0, false},
		"cut off": {always(1000), time.Minute, false, func(e *ending) { cut(e.connection) }, 0, 0, false},
		"cut off as it closes": {
			always(1000), time.Minute, false, func(e *ending) { closes(e); cut(e.connection) }, 0, 0, true,
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := newEnding(c.rest, c.until)
			defer e.client.Close()
			c.end(e)
			if took := time.Since(e.began); took > 0 || e.half.half != c.half {
				t.Errorf("%s: Close takes %v; the client was told that nothing more comes: %t, want %t",
					name, took, e.half.half, c.half)
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

// What a connection over HTTP/2 keeps reaches a slow client although tls.Conn.Close
// allows five seconds, but not after the time of lingering. Over HTTP/1.1 deadlines stay:
// they are those of answers.
func TestLingerKept(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		keep  keeping
		reads time.Duration // when the client reads
		want  int
	}{
		"slow":           {keepAll, 20 * time.Second, longWrite},
		"too slow":       {keepAll, 40 * time.Second, 0},
		"HTTP/1.1":       {keepLong, 4 * time.Second, longWrite},
		"HTTP/1.1, slow": {keepLong, 20 * time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newEnding(always(0), 30*time.Second)
				e.keep(test.keep)
				must.Get(e.Write(make([]byte, longWrite)))(t)
				go func() { // as tls.Conn.Close
					_ = e.SetWriteDeadline(time.Now().Add(5 * time.Second))
					_ = e.SetWriteDeadline(time.Now())
					e.Close()
				}()
				time.Sleep(test.reads) // moves the clock of the bubble
				got, _ := io.ReadAll(e.client)
				if len(got) != test.want {
					t.Errorf("the client gets %d bytes, want %d", len(got), test.want)
				}
			})
		})
	}
}

// The client gets what was written of an answer that is cut off.
func TestAbortedAnswer(t *testing.T) {
	t.Parallel()
	for name, plain := range map[string]bool{"plain": true, "TLS": false} {
		onBench(t, Options{}, plain, func(b *bench) {
			var c net.Conn
			if c = b.dial(); !plain {
				c = b.secure("http/1.1")
			}
			_, _ = io.WriteString(c, "GET /abort HTTP/1.1\r\nHost: a\r\n\r\n")
			answer := must.Get(http.ReadResponse(bufio.NewReader(c), nil))(t)
			got, err := io.ReadAll(answer.Body)
			if len(got) != abortedAnswer || !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s: the client gets %d bytes, %v; want %d", name, len(got), err, abortedAnswer)
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
