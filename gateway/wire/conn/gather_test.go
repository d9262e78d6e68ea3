package conn

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"authgate/internal/test/must"
)

// listed is a connection that lists what is written.
type listed struct {
	net.Conn
	writes []string
	fail   error // of each write
}

func (r *listed) Write(b []byte) (int, error) {
	if r.fail != nil {
		return 0, r.fail
	}
	r.writes = append(r.writes, string(b))
	return len(b), nil
}

func (r *listed) SetReadDeadline(time.Time) error { return nil }

func newGatherer(c net.Conn, keep keeping) *Gatherer {
	g := &Gatherer{Conn: c, Buffers: new(Buffers)}
	g.keep(keep)
	return g
}

// onPipe runs f in a bubble with a Gatherer on one end of a pipe, and the other end.
func onPipe(t *testing.T, keep keeping, f func(t *testing.T, g *Gatherer, there net.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		defer here.Close()
		defer there.Close()
		f(t, newGatherer(here, keep), there)
	})
}

// Writes that follow each other are sent in one, in their order. Short ones are sent
// at once, unless they are behind others or all are kept.
func TestGather(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("l", longWrite)
	for name, test := range map[string]struct {
		keep   keeping
		writes []string
		later  []bool   // flush must run
		before []string // that is sent before flush, and in all
		after  []string
	}{
		"short":           {keepAll, []string{"a", "b", "c"}, []bool{true, false, false}, nil, []string{"abc"}},
		"short, not kept": {keepLong, []string{"a", "b"}, []bool{false, false}, []string{"a", "b"}, []string{"a", "b"}},
		"behind a long one": {keepLong, []string{"a", long, "b"}, []bool{false, true, false}, []string{"a"},
			[]string{"a", long + "b"}},
		"as much as is kept": {keepLong, []string{long, long, long, long}, []bool{true, false, false, false}, nil,
			[]string{strings.Repeat(long, 4)}},
		"more than is kept": {keepLong, []string{long, long, long, long, "b"}, []bool{true, false, false, false, false},
			[]string{strings.Repeat(long, 4), "b"}, []string{strings.Repeat(long, 4), "b"}},
		"nothing is kept": {keepNothing, []string{long, "b"}, []bool{false, false}, []string{long, "b"},
			[]string{long, "b"}},
		"longer than any": {keepAll, []string{strings.Repeat(long, 5)}, []bool{false},
			[]string{strings.Repeat(long, 5)}, []string{strings.Repeat(long, 5)}},
		"nothing, between some": {keepAll, []string{"a", "", "b"}, []bool{true, false, false}, nil, []string{"ab"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := &listed{}
			g := newGatherer(to, test.keep)
			kept := 0
			for i, write := range test.writes {
				n, later, err := g.take([]byte(write))
				must.Do(t, err)
				if n != len(write) || later != test.later[i] {
					t.Errorf("write %d: %d of %d bytes, flush must run: %t", i, n, len(write), later)
				}
				kept += n
			}
			if !slices.Equal(to.writes, test.before) {
				t.Errorf("sent before flush: %.50q", to.writes)
			}
			if kept -= len(strings.Join(to.writes, "")); g.Kept() != kept {
				t.Errorf("%d bytes are kept, not %d", kept, g.Kept())
			}
			g.flush()
			if !slices.Equal(to.writes, test.after) || g.Kept() != 0 {
				t.Errorf("sent: %.50q, and %d bytes are kept", to.writes, g.Kept())
			}
		})
	}
}

// Short writes take little memory, and nothing that is sent takes any.
func TestGatherMemory(t *testing.T) {
	t.Parallel()
	to := &listed{}
	g := newGatherer(to, keepAll)
	for _, test := range []struct{ write, memory int }{
		{30, shortBuffer}, {shortBuffer - 30, shortBuffer}, {1, mostGathered},
	} {
		_, _, err := g.take(make([]byte, test.write))
		must.Do(t, err)
		if got := cap(g.pending); got != test.memory {
			t.Errorf("%d bytes take %d, want %d", g.Kept(), got, test.memory)
		}
	}
	g.flush()
	if len(to.writes) != 1 || len(to.writes[0]) != shortBuffer+1 || g.pending != nil {
		t.Errorf("%d writes; memory for %d bytes", len(to.writes), cap(g.pending))
	}
}

// What is written arrives, whole and in its order, whatever the lengths and the
// speed of the reader.
func TestGatherAll(t *testing.T) {
	t.Parallel()
	for _, keep := range []keeping{keepLong, keepAll, keepNothing} {
		here, there := net.Pipe()
		g := newGatherer(here, keep)
		var sent bytes.Buffer
		go func() {
			for range 300 {
				b := make([]byte, rand.IntN(20)*rand.IntN(8<<10))
				for i := range b {
					b[i] = byte(rand.Uint32())
				}
				sent.Write(b)
				if _, err := g.Write(b); err != nil {
					t.Error(err)
				}
			}
			if err := errors.Join(g.Settle(), g.Close()); err != nil {
				t.Error(err)
			}
		}()
		got := must.Get(io.ReadAll(there))(t)
		if !bytes.Equal(got, sent.Bytes()) {
			t.Errorf("%d: %d bytes were sent, and %d others arrived", keep, sent.Len(), len(got))
		}
	}
}

// blocking is a connection whose writes wait for a hook.
type blocking struct {
	listed
	hook func()
}

func (b *blocking) Write(p []byte) (int, error) {
	b.hook()
	return b.listed.Write(p)
}

// While bytes are sent, what follows waits behind them, and one goroutine sends all.
func TestGatherBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		next := make(chan bool)
		to := &blocking{}
		g := newGatherer(to, keepLong)
		to.hook = func() {
			<-next
			if g.passes(1) {
				t.Error("a write passes what is being sent")
			}
		}
		long := strings.Repeat("l", longWrite)
		must.Get(g.Write([]byte(long)))(t)
		synctest.Wait()
		for range 3 {
			if _, later, err := g.take([]byte("b")); later || err != nil {
				t.Errorf("another flush: %t, %v", later, err)
			}
		}
		if kept := g.Kept(); kept != longWrite+3 {
			t.Errorf("%d bytes are kept", kept)
		}
		next <- true
		next <- true
		synctest.Wait()
		if !slices.Equal(to.writes, []string{long, "bbb"}) || !g.passes(1) {
			t.Errorf("sent: %.9q; a short write passes: %t", to.writes, g.passes(1))
		}
	})
}

// A write waits while as much is kept as may be.
func TestGatherWaits(t *testing.T) {
	t.Parallel()
	onPipe(t, keepAll, func(t *testing.T, g *Gatherer, there net.Conn) {
		go func() {
			time.Sleep(time.Minute) // moves the clock of the bubble
			_, _ = io.Copy(io.Discard, there)
		}()
		start := time.Now()
		must.Get(g.Write(make([]byte, mostGathered-1)))(t)
		synctest.Wait()
		must.Get(g.Write([]byte("a")))(t)
		if took := time.Since(start); took > 0 || g.Kept() != mostGathered {
			t.Errorf("%d bytes are kept after %v", g.Kept(), took)
		}
		must.Get(g.Write([]byte("b")))(t)
		if took := time.Since(start); took != time.Minute {
			t.Errorf("the write took %v, want that it waits for the reader", took)
		}
	})
}

// After kept bytes could not be sent, reads and writes fail, whatever the deadlines.
func TestGatherFails(t *testing.T) {
	t.Parallel()
	onPipe(t, keepLong, func(t *testing.T, g *Gatherer, _ net.Conn) {
		must.Do(t, g.SetWriteDeadline(time.Now().Add(time.Second)))
		must.Get(g.Write(make([]byte, longWrite)))(t)
		synctest.Wait()
		must.Get(g.Write([]byte("a")))(t)
		read := func(what string) {
			t.Helper()
			if _, err := g.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: %v", what, err)
			}
		}
		read("a Read that has begun")
		must.Do(t, g.SetDeadline(time.Time{}))
		read("the next Read")
		if _, err := g.Write([]byte("b")); !errors.Is(err, os.ErrDeadlineExceeded) || g.Kept() != 0 {
			t.Errorf("the next Write: %v, and %d bytes are kept", err, g.Kept())
		}
	})
}

// reading is a connection that has a byte to read, after a hook.
type reading struct {
	listed
	hook func()
}

func (r *reading) Read(b []byte) (int, error) {
	r.hook()
	return 1, nil
}

// A Read that is in progress when sending fails returns nothing: what it has read would
// get no answer.
func TestGatherFailsReading(t *testing.T) {
	t.Parallel()
	c := &reading{listed: listed{fail: io.ErrClosedPipe}}
	g := newGatherer(c, keepAll)
	c.hook = func() {
		if _, _, err := g.take([]byte("a")); err != nil {
			t.Error(err)
		}
		g.flush()
	}
	if n, err := g.Read(make([]byte, 1)); n != 0 || !errors.Is(err, c.fail) {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// A write fails that is sent at once and cannot be. The next one may succeed.
func TestGatherFailsAtOnce(t *testing.T) {
	t.Parallel()
	to := &listed{fail: io.ErrClosedPipe}
	g := newGatherer(to, keepLong)
	if n, err := g.Write([]byte("a")); n != 0 || !errors.Is(err, to.fail) {
		t.Errorf("%d bytes, %v", n, err)
	}
	to.fail = nil
	must.Get(g.Write([]byte("b")))(t)
	if !slices.Equal(to.writes, []string{"b"}) {
		t.Errorf("sent: %q", to.writes)
	}
}

// A past deadline, or none, does not keep what was written before from the reader.
// It waits for the reader until the deadline before.
func TestGatherEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func() time.Time{
		"past": time.Now,
		"none": func() time.Time { return time.Time{} },
	} {
		for reads, want := range map[bool]time.Duration{true: 0, false: time.Second} {
			onPipe(t, keepAll, func(t *testing.T, g *Gatherer, there net.Conn) {
				must.Do(t, g.SetWriteDeadline(time.Now().Add(time.Second)))
				must.Get(g.Write([]byte("last")))(t)
				got := make(chan string, 1)
				if reads {
					go func() {
						b := make([]byte, 4)
						_, _ = io.ReadFull(there, b)
						got <- string(b)
					}()
				} else {
					got <- "last"
				}
				start := time.Now()
				must.Do(t, g.SetWriteDeadline(end()))
				if took := time.Since(start); took != want || g.Kept() != 0 {
					t.Errorf("%s, read: %t: it took %v, want %v; %d bytes are kept", name, reads, took, want, g.Kept())
				}
				if arrived := <-got; arrived != "last" {
					t.Errorf("%s: arrived: %q", name, arrived)
				}
			})
		}
	}
}

// A client that reads slowly gets a long answer to its end, although the server closes
// the connection after it.
func TestGatherClose(t *testing.T) {
	t.Parallel()
	for _, plain := range []bool{true, false} {
		onBench(t, Options{}, plain, func(b *bench) {
			c := b.dial
			if !plain {
				c = func() net.Conn { return b.secure("http/1.1") }
			}
			client := c()
			must.Get(io.WriteString(client, "GET /long HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"))(t)
			answer := must.Get(http.ReadResponse(bufio.NewReader(client), nil))(t)
			got, err := 0, error(nil)
			for part := make([]byte, mostGathered/8); err == nil; {
				var n int
				n, err = io.ReadFull(answer.Body, part)
				got += n
				time.Sleep(10 * time.Second) // longer than tls.Conn.Close allows for what is left
			}
			if got != longAnswer || err != io.EOF {
				t.Errorf("plain %t: the client gets %d bytes and %v", plain, got, err)
			}
		})
	}
}
