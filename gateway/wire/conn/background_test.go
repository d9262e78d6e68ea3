package conn

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"authgate/internal/test/must"
)

// countsReads is a connection that counts its Reads.
type countsReads struct {
	net.Conn
	reads atomic.Int32
}

func (c *countsReads) Read(b []byte) (int, error) {
	c.reads.Add(1)
	return c.Conn.Read(b)
}

// A request that is answered at once costs one Read.
func TestReadOfOneRequest(t *testing.T) {
	t.Parallel()
	onBench(t, Options{}, true, func(b *bench) {
		client, there := net.Pipe()
		defer client.Close()
		counted := &countsReads{Conn: there}
		b.pipes.conns <- counted
		const requests = 100
		var before int32
		for i := range 1 + requests {
			if err := b.get(client, "/"); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if i == 0 { // net/http looks for HTTP/2 before the first one
				before = counted.reads.Load()
			}
		}
		if got := counted.reads.Load() - before; got != requests {
			t.Errorf("%d requests took %d Reads", requests, got)
		}
	})
}

// The end of the connection cancels a request, a moment later if it comes at its beginning.
func TestClientLeaves(t *testing.T) {
	t.Parallel()
	for _, plain := range []bool{true, false} {
		for _, after := range []time.Duration{0, time.Minute} {
			onBench(t, Options{}, plain, func(b *bench) {
				client := b.client(plain)
				for range 3 { // a tick of one request meets another one
					if err := b.get(client, "/"); err != nil {
						t.Fatal(err)
					}
					time.Sleep(holdTime / 3)
				}
				go func() {
					_, _ = io.WriteString(client, "GET /left HTTP/1.1\r\nHost: a\r\n\r\n") // the handler tells
				}()
				synctest.Wait()
				time.Sleep(after)
				below := client
				if c, ok := client.(interface{ NetConn() net.Conn }); ok {
					below = c.NetConn()
				}
				below.Close()
				took := <-b.left - after
				if most := 2 * holdTime; took > most || after > 0 && took != 0 {
					t.Errorf("plain %t: a client that left after %v is noticed %v later", plain, after, took)
				}
			})
		}
	}
}

// The watch over a client takes no byte from the Reads that follow, and changes no deadline of theirs.
func TestWatchOverClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, there := net.Pipe()
		gone := 0
		b := background{conn: there, cancel: func() { gone++ }}
		slow := func() { // a request that is watched
			must.Do(t, b.beginWatch())
			time.Sleep(2 * holdTime)
		}
		write := func() {
			go func() { _, _ = client.Write([]byte("ab")) }() // Read tells
		}
		next := make([]byte, 4)
		for _, late := range []bool{false, true} {
			slow()
			if !late { // else after the watch
				write()
				synctest.Wait()
			}
			must.Do(t, b.deadline(time.Now().Add(time.Second)))
			if late {
				write()
			}
			for got := ""; got != "ab"; {
				n, err := b.readAfterWatch(next)
				if got += string(next[:n]); err != nil || !strings.HasPrefix("ab", got) {
					t.Fatalf("late %t: Read = %q, %v", late, got, err)
				}
			}
			began := time.Now()
			if _, err := b.readAfterWatch(next); !errors.Is(err, os.ErrDeadlineExceeded) ||
				time.Since(began) != time.Second {
				t.Errorf("late %t: a Read ends after %v: %v", late, time.Since(began), err)
			}
			must.Do(t, b.deadline(time.Time{}))
		}
		if gone > 0 {
			t.Error("a request is cancelled whose client is there")
		}
		slow()
		must.Do(t, client.Close())
		synctest.Wait()
		if _, err := b.readAfterWatch(next); gone != 1 || err != io.EOF {
			t.Errorf("the client has left: cancelled %d times, Read = %v", gone, err)
		}
		must.Do(t, b.beginWatch())
		if b.close(); gone != 2 {
			t.Error("the end of the connection does not cancel its request")
		}
		idle := background{conn: there, cancel: func() { gone++ }}
		if idle.close(); gone != 2 {
			t.Error("a connection without a request cancels one")
		}
		if err := idle.beginWatch(); !errors.Is(err, net.ErrClosed) || gone != 2 {
			t.Errorf("a request whose connection is closed: %v; want that net/http cancels it", err)
		}
	})
}

// A request that is not watched yet delays neither the one behind it nor the protocol after it.
func TestPipelinedAtOnce(t *testing.T) {
	t.Parallel()
	for _, plain := range []bool{true, false} {
		onBench(t, Options{}, plain, func(b *bench) {
			client := b.client(plain)
			const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
			began := time.Now()
			go func() { _, _ = io.WriteString(client, get+get+"GET /hijack HTTP/1.1\r\nHost: a\r\n\r\n") }() // the answers tell
			answers := bufio.NewReader(client)
			for range 2 {
				answer := must.Get(http.ReadResponse(answers, nil))(t)
				must.Do(t, answer.Body.Close())
			}
			there := <-b.hijacked
			go func() { _, _ = client.Write([]byte{'a'}) }() // Read tells
			if _, err := there.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took != 0 {
				t.Errorf("plain %t: the answers and a byte took %v", plain, took)
			}
			must.Do(t, there.SetReadDeadline(time.Now().Add(time.Second)))
			_, err := there.Read(make([]byte, 1))
			if !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != time.Second {
				t.Errorf("plain %t: a Read with a deadline took %v: %v", plain, time.Since(began), err)
			}
			_ = there.Close() // the client does not read the end of TLS
		})
	}
}

// A connection that is hijacked is not watched any more, and has the deadlines of its new owner.
func TestHijackedLate(t *testing.T) {
	t.Parallel()
	for _, plain := range []bool{true, false} {
		onBench(t, Options{}, plain, func(b *bench) {
			client := b.client(plain)
			go func() { _, _ = io.WriteString(client, "GET /hijack/late HTTP/1.1\r\nHost: a\r\n\r\n") }() // the handler tells
			there := <-b.hijacked
			if requestsOf(there).background.watching {
				t.Errorf("plain %t: the client is watched", plain)
			}
			began, next := time.Now(), make([]byte, 2)
			time.AfterFunc(time.Second, func() { _, _ = client.Write([]byte{'a'}) }) // Read tells
			if n, err := there.Read(next); n != 1 || err != nil {
				t.Errorf("plain %t: a Read without a deadline ends after %v: %v", plain, time.Since(began), err)
			}
			began = time.Now()
			must.Do(t, there.SetDeadline(began.Add(time.Second)))
			_, err := there.Read(next)
			if !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != time.Second {
				t.Errorf("plain %t: a Read with a deadline ends after %v: %v", plain, time.Since(began), err)
			}
			_ = there.Close() // the client does not read the end of TLS
		})
	}
}

// A client that sends requests before it has the answers lets one watch go on through them. net/http, which
// ends its own Read in the background by a deadline in the past, does not end the watch: it cancels nothing.
func TestWatchOutlastsAbort(t *testing.T) {
	t.Parallel()
	for _, watched := range []bool{true, false} { // when net/http does so
		synctest.Test(t, func(t *testing.T) {
			client, there := net.Pipe()
			defer client.Close()
			defer there.Close()
			canceled := false
			b := &background{conn: there, cancel: func() { canceled = true }}
			must.Do(t, b.beginWatch())
			if watched {
				time.Sleep(2 * holdTime)
				synctest.Wait()
			}
			must.Do(t, b.deadline(longAgo))
			time.Sleep(2 * holdTime)
			synctest.Wait()
			must.Do(t, b.deadline(time.Time{}))
			go func() { _, _ = io.WriteString(client, "x") }()
			var next [1]byte
			if n, err := b.readAfterWatch(next[:]); canceled || err != nil || string(next[:n]) != "x" {
				t.Errorf("watched: %t; canceled: %t; read %q, %v", watched, canceled, next[:n], err)
			}
		})
	}
}
