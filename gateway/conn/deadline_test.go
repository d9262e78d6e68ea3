package conn

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// countsDeadlines is a connection that counts how often a deadline of Reads is set.
type countsDeadlines struct {
	net.Conn
	set int
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
