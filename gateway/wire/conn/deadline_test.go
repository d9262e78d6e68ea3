package conn

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"authgate/internal/test/must"
)

// countsDeadlines is a connection that counts how often a deadline of Reads and of Writes is set.
type countsDeadlines struct {
	net.Conn
	set, writes int
}

func (c *countsDeadlines) SetWriteDeadline(t time.Time) error {
	c.writes++
	return c.Conn.SetWriteDeadline(t)
}

func (c *countsDeadlines) SetReadDeadline(t time.Time) error {
	c.set++
	return c.Conn.SetReadDeadline(t)
}

func TestReadDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		below := &countsDeadlines{Conn: near}
		c := &connection{Gatherer: Gatherer{Conn: below}}

		// Of several deadlines that come before a Read, the last one counts.
		for _, after := range []time.Duration{-time.Second, time.Hour, time.Minute} {
			if err := c.SetReadDeadline(time.Now().Add(after)); err != nil {
				t.Fatal(err)
			}
		}
		read := func() error {
			_, err := c.Read(make([]byte, 1))
			return err
		}
		begin := time.Now()
		if err := read(); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begin) != time.Minute {
			t.Errorf("a Read ended after %s with %v, want after a minute", time.Since(begin), err)
		}
		if below.set != 1 {
			t.Errorf("the deadline was set %d times for one Read", below.set)
		}
		// A later one is set when the earlier one is reached, and ends a Read at its time.
		if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		got := make(chan error)
		go func() { got <- read() }()
		synctest.Wait()
		go func() { _, _ = far.Write([]byte{'a'}) }() // read tells
		if err := <-got; err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		before := below.set
		if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		begin = time.Now()
		if err := read(); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begin) != time.Minute {
			t.Errorf("a Read ended after %s with %v, want after a minute", time.Since(begin), err)
		}
		if below.set != before+1 {
			t.Errorf("a later deadline was set %d times", below.set-before)
		}
		// It stays for the next Read.
		if err := read(); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a Read after the deadline: %v", err)
		}

		// A Read that is in progress gets a new one at once.
		if err := c.SetReadDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error)
		go func() { ended <- read() }()
		synctest.Wait()
		if err := c.SetReadDeadline(time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a Read in progress ended with %v", err)
		}

		// A deadline that cannot be set any more hides no end of the connection.
		if err := c.SetReadDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		far.Close()
		if err := read(); err != io.EOF {
			t.Errorf("a Read after the other side has closed: %v, want EOF", err)
		}
	})
}

// meanwhile is a connection that does something when a Read has reached its deadline.
type meanwhile struct {
	net.Conn
	do func()
}

func (c *meanwhile) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if do := c.do; do != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		c.do = nil
		do()
	}
	return n, err
}

// A deadline that is set at the moment at which the connection below reaches an earlier one
// ends the Read at its own time.
func TestReadDeadlineAtTheOther(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{-time.Second, 0, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			near, far := net.Pipe()
			defer far.Close()
			below := &meanwhile{Conn: near}
			c := &connection{Gatherer: Gatherer{Conn: below}}
			must.Do(t, c.SetReadDeadline(time.Now().Add(time.Hour)))
			go func() { _, _ = far.Write([]byte{'a'}) }() // Read tells
			if _, err := c.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			must.Do(t, c.SetReadDeadline(time.Time{})) // below, the hour stays
			below.do = func() { must.Do(t, c.SetReadDeadline(time.Now().Add(after))) }
			begin := time.Now()
			_, err := c.Read(make([]byte, 1))
			want := time.Hour + max(0, after)
			if took := time.Since(begin); took != want || !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("a deadline %v after the other: the Read ended after %v with %v, want after %v", after, took, err, want)
			}
		})
	}
}

// Writes that cannot be sent end a Read without a deadline.
func TestReadAfterFailedWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		c := &connection{Gatherer: Gatherer{Conn: near, Buffers: new(Buffers)}}
		must.Do(t, c.SetWriteDeadline(time.Now().Add(time.Second)))
		must.Get(c.Write(make([]byte, longWrite)))(t) // is kept, and nobody reads it
		begin := time.Now()
		_, err := c.Read(make([]byte, 1))
		if took := time.Since(begin); took != time.Second || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a Read ended after %v with %v", took, err)
		}
	})
}

// A client keeps a connection no longer than the time limits of http.Server allow, whatever
// deadlines earlier requests have left, and whether the Read that watched for its end began.
func TestTimeLimits(t *testing.T) {
	t.Parallel()
	const headerTime, idleTime, dripTime = 10 * time.Second, 2 * time.Minute, 3 * time.Second
	const header = "GET / HTTP/1.1\r\nA: "
	for _, c := range []struct {
		before []string // paths of requests
		sent   string   // then, and a byte each second
		want   time.Duration
	}{
		{nil, "", headerTime},
		{nil, "G", headerTime},
		{nil, header, headerTime},
		{[]string{"/"}, "", idleTime},
		{[]string{"/"}, header, headerTime},
		{[]string{"/", "/slow", "/"}, header, headerTime},
		{[]string{"/", "/slow"}, "", idleTime},
		{[]string{"/", "/slow"}, header, headerTime},
		{[]string{"/slow", "/"}, "G", dripTime + headerTime}, // the header's time begins at the fourth byte
	} {
		for _, plain := range []bool{true, false} {
			onBench(t, Options{}, plain, func(b *bench) {
				b.server.ReadHeaderTimeout, b.server.IdleTimeout = headerTime, idleTime
				client := b.client(plain)
				for _, path := range c.before {
					must.Do(t, b.get(client, path))
				}
				began := time.Now()
				if c.sent != "" {
					go drip(client, c.sent)
				}
				discard(client)
				if took := time.Since(began); took != c.want {
					t.Errorf("plain %t: %q after %q: the connection lasts %v, want %v", plain, c.sent, c.before, took, c.want)
				}
			})
		}
	}
}

// A deadline of Writes is removed only if one may be there.
func TestWriteDeadline(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	defer far.Close()
	below := &countsDeadlines{Conn: near}
	c := &connection{Gatherer: Gatherer{Conn: below}}
	for i, step := range []struct {
		deadline time.Time
		set      int // so far
	}{
		{time.Time{}, 0},
		{time.Now().Add(-time.Second), 1},
		{time.Time{}, 2},
	} {
		must.Do(t, c.SetWriteDeadline(step.deadline))
		if below.writes != step.set {
			t.Errorf("step %d: a deadline was set %d times so far, want %d", i+1, below.writes, step.set)
		}
	}
	go func() { _, _ = io.ReadFull(far, make([]byte, 1)) }() // Write tells
	if _, err := c.Write([]byte{'a'}); err != nil {
		t.Errorf("a Write after the deadline was removed: %v", err)
	}
}
