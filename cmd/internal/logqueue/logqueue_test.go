package logqueue

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"authgate/internal/test/logtest"
)

// reader is what reads a log: it takes nothing until a test lets it.
type reader struct {
	logtest.Buffer
	turns chan turn
}

// turn is what becomes of a write.
type turn struct {
	bytes int // that are taken before err
	err   error
}

func (r *reader) Write(lines []byte) (int, error) {
	next := <-r.turns
	if next.err == nil {
		next.bytes = len(lines)
	}
	_, _ = r.Buffer.Write(lines[:next.bytes]) // it never fails
	return next.bytes, next.err
}

// read lets the reader take one write.
func (r *reader) read() { r.fail(0, nil) }

// fail lets a write fail after some bytes.
func (r *reader) fail(bytes int, err error) {
	r.turns <- turn{bytes, err}
	synctest.Wait()
}

// queued runs f with a queue on a reader, in a bubble.
func queued(t *testing.T, f func(*testing.T, *Queue, *reader)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &reader{turns: make(chan turn)}
		q := New(r, func(lost int) []byte { return fmt.Appendf(nil, "lost %d\n", lost) })
		f(t, q, r)
		close(r.turns) // it reads everything
		q.Close(time.Hour)
	})
}

// say writes a line that is due at once.
func (q *Queue) say(line string) {
	_, _ = q.Write([]byte(line + "\n")) // it never fails
	q.Flush()
	synctest.Wait()
}

// fill writes long lines until the first is dropped, and returns them.
func (q *Queue) fill() string {
	long := strings.Repeat("x", longLine-1)
	var kept strings.Builder
	for before := q.Dropped(); ; kept.WriteString(long + "\n") {
		if q.say(long); q.Dropped() > before {
			return kept.String()
		}
	}
}

// Nothing waits for a reader that takes nothing. A bounded number of bytes waits for it,
// and all that it gets later is in order, with the number of the lost lines at their place.
func TestStuck(t *testing.T) {
	t.Parallel()
	queued(t, func(t *testing.T, q *Queue, r *reader) {
		began := time.Now()
		q.say("first")
		kept := q.fill()
		q.say("short")
		if took := time.Since(began); took > 0 {
			t.Errorf("the writes took %v", took)
		}
		if n := len(kept); n > size || n < size-longLine {
			t.Errorf("%d bytes wait, want about %d", n, size)
		}
		if got := q.Problem(); got != "nothing reads the log; lines lost: 2" || q.Dropped() != 2 {
			t.Errorf("the problem is %q, dropped %d", got, q.Dropped())
		}
		r.read()
		q.say("later")
		r.read()
		r.read()
		if r.String() != "first\n"+kept+"lost 2\nlater\n" {
			t.Errorf("written: %q", strings.ReplaceAll(r.String(), strings.Repeat("x", longLine-1), "x"))
		}
		if got := q.Problem(); got != "" || q.Dropped() != 2 {
			t.Errorf("the problem is %q, dropped %d", got, q.Dropped())
		}
		if q.say("last"); cap(q.lines) > 2*batch {
			t.Errorf("the queue holds %d bytes after the stall", cap(q.lines))
		}
	})
}

// A write that takes long is a problem before lines are lost.
func TestSlow(t *testing.T) {
	t.Parallel()
	queued(t, func(t *testing.T, q *Queue, r *reader) {
		for _, step := range []struct {
			do   func()
			want string
		}{
			{func() { time.Sleep(time.Hour) }, ""},
			{func() { q.say("a") }, ""},
			{func() { time.Sleep(stuckTime - 1) }, ""},
			{func() { time.Sleep(time.Nanosecond) }, "nothing reads the log"},
			{r.read, ""},
			{func() { time.Sleep(time.Hour) }, ""},
		} {
			if step.do(); q.Problem() != step.want {
				t.Errorf("the problem is %q, want %q", q.Problem(), step.want)
			}
		}
	})
}

// A reader that has gone loses nothing of what waits for the next one, which begins with a
// whole line. A file on a full disk goes on where the write failed.
func TestFailedWrites(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		bytes int
		err   error
		want  string
	}{
		{0, syscall.EPIPE, "first\nsecond\n"},
		{2, syscall.EPIPE, "fifirst\nsecond\n"},
		{len("first\nsec"), syscall.EPIPE, "first\nsecsecond\n"},
		{len("first\nsec"), syscall.ENOSPC, "first\nsecond\n"},
		{2, syscall.EAGAIN, "first\nsecond\n"},
	} {
		queued(t, func(t *testing.T, q *Queue, r *reader) {
			q.say("first\nsecond")
			for range 3 {
				if r.fail(c.bytes, fmt.Errorf("write: %w", c.err)); !strings.Contains(q.Problem(), "write: "+c.err.Error()) {
					t.Errorf("%v: the problem is %q", c.err, q.Problem())
				}
				c.bytes = 0
			}
			if r.read(); r.String() != c.want || q.Problem() != "" {
				t.Errorf("%v after %d bytes: written %q, problem %q", c.err, c.bytes, r.String(), q.Problem())
			}
		})
	}
}

// Wait returns when there is room, or after its time. After one that has waited in vain, others
// do not wait, until the reader is back.
func TestWait(t *testing.T) {
	t.Parallel()
	queued(t, func(t *testing.T, q *Queue, r *reader) {
		wait := func(want time.Duration) {
			t.Helper()
			began := time.Now()
			if q.Wait(time.Second); time.Since(began) != want {
				t.Errorf("it waits %v, want %v", time.Since(began), want)
			}
		}
		wait(0)
		q.say("first")
		wait(0)
		q.fill()
		time.AfterFunc(time.Second/2, func() { r.turns <- turn{} })
		wait(time.Second / 2)
		q.fill()
		wait(time.Second)
		wait(0)
		r.read()
		wait(0)
		q.fill()
		wait(time.Second)
	})
}

// Close writes what is left, and does not wait for a reader that takes nothing or has gone.
func TestClose(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		after time.Duration // it reads
		err   error
		want  string
		took  time.Duration
	}{
		{"a reader", 0, nil, "first\nlast\n", 0},
		{"a slow reader", time.Second / 2, nil, "first\nlast\n", time.Second / 2},
		{"no reader", time.Hour, nil, "", time.Second},
		{"a reader that has gone", 0, syscall.EPIPE, "", 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := &reader{turns: make(chan turn)}
			q := New(r, nil)
			q.say("first")
			closed := make(chan struct{})
			go func() {
				select {
				case <-time.After(c.after):
				case <-closed:
				}
				for {
					select {
					case r.turns <- turn{err: c.err}:
					case <-q.ended:
						return
					}
				}
			}()
			began := time.Now()
			_, err := q.Write([]byte("last\n"))
			q.Close(time.Second)
			if took := time.Since(began); took != c.took || r.String() != c.want || err != nil {
				t.Errorf("%s: Close took %v, want %v; written %q, %v", c.name, took, c.took, r.String(), err)
			}
			close(closed)
			<-q.ended
		})
	}
}

// Lines of several goroutines are whole, none is lost while there is a reader, and those of
// each goroutine are in order.
func TestConcurrentLines(t *testing.T) {
	t.Parallel()
	const writers, lines = 4, 2000
	written := &logtest.Buffer{}
	q := New(written, nil)
	done := make(chan error, writers)
	for w := range writers {
		go func() {
			var failed error
			for i := range lines {
				_, err := fmt.Fprintf(q, "%d %d\n", w, i)
				failed = errors.Join(failed, err)
			}
			done <- failed
		}()
	}
	for range writers {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	q.Close(time.Minute)
	next := make([]int, writers)
	for line := range written.Lines() {
		var w, i int
		if _, err := fmt.Sscanf(line, "%d %d\n", &w, &i); err != nil || next[w] != i {
			t.Fatalf("%q, want line %d of that writer; %v", line, next[w], err)
		}
		next[w]++
	}
	for w, n := range next {
		if n != lines {
			t.Errorf("writer %d: %d lines of %d", w, n, lines)
		}
	}
}
