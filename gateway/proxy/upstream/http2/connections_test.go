package http2

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"authgate/gateway/proxy/upstream/http1"
)

// A connection that has fallen silent costs one request: the next one has another connection. One that
// answers others is kept, and one without requests in time is found by PINGs.
func TestSilence(t *testing.T) {
	t.Parallel()
	slow := func(p *peer, stream uint32, _ int) {
		if p.number > 1 || stream == 1 {
			p.respond(stream, "200")
			return
		}
		p.silent.Store(true)
	}
	inBubble(t, slow, func(u *upstream) {
		c := u.client(time.Second)
		defer c.CloseIdleConnections()
		if status, err := u.ask(c, "GET", nil); status != 200 {
			t.Errorf("before it is silent: %d, %v", status, err)
		}
		if _, err := u.ask(c, "GET", nil); !isTimeout(err) {
			t.Errorf("the first request: %v", err)
		}
		for range 3 {
			if status, err := u.ask(c, "POST", strings.NewReader("x")); status != 200 {
				t.Errorf("after that: %d, %v", status, err)
			}
		}
		if n := u.dialed.Load(); n != 2 {
			t.Errorf("%d connections, want 2", n)
		}
	})
	inBubble(t, slow, func(u *upstream) {
		c := u.client(time.Hour)
		defer c.CloseIdleConnections()
		if status, err := u.ask(c, "GET", nil); status != 200 {
			t.Errorf("before it is silent: %d, %v", status, err)
		}
		start := time.Now()
		_, err := u.ask(c, "POST", strings.NewReader("x"))
		if took := time.Since(start); err == nil || took > 10*time.Second || !http1.NoResponse(err) {
			t.Errorf("a silent connection fails after %v: %v", took, err)
		}
		if status, err := u.ask(c, "POST", strings.NewReader("x")); status != 200 {
			t.Errorf("after that: %d, %v", status, err)
		}
	})
}

// An application that is slow, on a connection that is alive, does not lose its connection.
func TestSlowApplication(t *testing.T) {
	t.Parallel()
	inBubble(t, func(*peer, uint32, int) {}, func(u *upstream) {
		c := u.client(30 * time.Second)
		defer c.CloseIdleConnections()
		for range 3 {
			if _, err := u.ask(c, "GET", nil); !isTimeout(err) {
				t.Errorf("%v", err)
			}
		}
		if n := u.dialed.Load(); n != 1 {
			t.Errorf("%d connections, want 1", n)
		}
	})
}

// A request that a closing upstream has not processed is sent on another connection, with any method.
// The upstream allows no more streams, in the same read.
func TestGoAway(t *testing.T) {
	t.Parallel()
	var closing bytes.Buffer
	framer := http2.NewFramer(&closing, nil)
	err := framer.WriteGoAway(1, http2.ErrCodeNo, nil)
	if err = errors.Join(err, framer.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams})); err != nil {
		t.Fatal(err)
	}
	answer := func(p *peer, stream uint32, _ int) {
		if p.number == 1 && stream > 1 {
			_, _ = p.out.Write(closing.Bytes())
			return
		}
		p.respond(stream, "200")
	}
	inBubble(t, answer, func(u *upstream) {
		c := New(Options{Dial: u.dial, Timeout: time.Minute, NoRepeat: true})
		defer c.CloseIdleConnections()
		for _, body := range []string{"first", "second", "third"} {
			if status, err := u.ask(c, "POST", strings.NewReader(body)); status != 200 {
				t.Errorf("%s: %d, %v", body, status, err)
			}
		}
		if got := strings.Join(u.bodies, " "); got != "first second second third" || u.dialed.Load() != 2 {
			t.Errorf("the upstream gets %q on %d connections", got, u.dialed.Load())
		}
	})
}

// Requests share a connection, up to the number of streams that the upstream allows; without reuse each has its own.
// Idle ones are closed.
func TestConnections(t *testing.T) {
	t.Parallel()
	for noReuse, want := range map[bool]int64{false: 1, true: 5} {
		answer := func(p *peer, stream uint32, _ int) { p.respond(stream, "200") }
		inBubble(t, answer, func(u *upstream) {
			c := New(Options{Dial: u.dial, Timeout: time.Minute, NoReuse: noReuse})
			var all sync.WaitGroup
			for range 5 {
				all.Go(func() {
					if status, err := u.ask(c, "GET", nil); status != 200 {
						t.Errorf("%d, %v", status, err)
					}
				})
			}
			all.Wait()
			if n := u.dialed.Load(); n != want {
				t.Errorf("no reuse %t: %d connections, want %d", noReuse, n, want)
			}
			time.Sleep(2 * idleLives)
			synctest.Wait()
			c.mu.Lock()
			defer c.mu.Unlock()
			if len(c.conns) > 0 {
				t.Errorf("no reuse %t: %d connections are kept", noReuse, len(c.conns))
			}
		})
	}
}

// However many requests come at once, and however few an upstream takes, each gets a connection with a place for it.
func TestCrowd(t *testing.T) {
	t.Parallel()
	for _, n := range []struct{ streams, crowd, connections int }{{100, 2000, 20}, {1, 50, 50}, {1000, 2000, 2}} {
		answer := func(p *peer, stream uint32, _ int) {
			if p.open++; p.open > n.streams {
				_ = p.WriteRSTStream(stream, http2.ErrCodeRefusedStream)
				return
			}
			go func() {
				time.Sleep(time.Second) // the others come meanwhile
				p.mu.Lock()
				defer p.mu.Unlock()
				p.open--
				p.respond(stream, "200")
			}()
		}
		inBubble(t, answer, func(u *upstream) {
			u.streams = uint32(n.streams)
			c := u.client(time.Minute)
			defer c.CloseIdleConnections()
			if failed := u.crowd(c, n.crowd); failed > 0 {
				t.Errorf("%d streams: %d of %d requests fail", n.streams, failed, n.crowd)
			}
			if got := int(u.dialed.Load()); got != n.connections {
				t.Errorf("%d streams, %d requests: %d connections, want %d", n.streams, n.crowd, got, n.connections)
			}
		})
	}
}

// crowd sends n requests at once. It returns how many fail.
func (u *upstream) crowd(c *Client, n int) int {
	var all sync.WaitGroup
	var failed atomic.Int64
	for range n {
		all.Go(func() {
			if status, _ := u.ask(c, "GET", nil); status != 200 {
				failed.Add(1)
			}
		})
	}
	all.Wait()
	return int(failed.Load())
}

// An upstream may end each connection after one request, which is an answer for each. It may end each before the
// first one, which is an error after a few connections.
func TestShortConnections(t *testing.T) {
	t.Parallel()
	const crowd = 30
	answer := func(p *peer, stream uint32, _ int) {
		_ = p.WriteGoAway(stream, http2.ErrCodeNo, nil)
		p.respond(stream, "200")
		p.closes = true
	}
	inBubble(t, answer, func(u *upstream) {
		u.streams = 1
		if failed := u.crowd(u.client(time.Minute), crowd); failed > 0 || u.dialed.Load() != crowd {
			t.Errorf("one request each: %d of %d fail, with %d connections", failed, crowd, u.dialed.Load())
		}
	})
	inBubble(t, answer, func(u *upstream) {
		u.absent = true
		start := time.Now()
		if failed := u.crowd(u.client(time.Minute), crowd); failed != crowd || u.dialed.Load() > mostAttempts*crowd {
			t.Errorf("none: %d of %d fail, with %d connections", failed, crowd, u.dialed.Load())
		}
		if took := time.Since(start); took > 0 {
			t.Errorf("none: it takes %v", took)
		}
	})
}

// An upstream that does not say how many requests it takes is given up, and a request does not wait longer for its
// place than for an answer.
func TestSilentBeginning(t *testing.T) {
	t.Parallel()
	for limit, want := range map[time.Duration]time.Duration{time.Second: time.Second, time.Hour: pingAfter + pingWait} {
		inBubble(t, func(*peer, uint32, int) {}, func(u *upstream) {
			u.settles = make(chan struct{})
			c := u.client(limit)
			start := time.Now()
			if failed := u.crowd(c, 2); failed != 2 {
				t.Errorf("%d of 2 fail", failed)
			}
			if took := time.Since(start); took > mostAttempts*2*want {
				t.Errorf("with a limit of %v it takes %v", limit, took)
			}
			close(u.settles)
		})
	}
}

// An upstream that takes fewer requests than before may make those wait for each other in net/http that have a place,
// but not for ever.
func TestTurn(t *testing.T) {
	t.Parallel()
	answer := func(p *peer, stream uint32, _ int) {
		_ = p.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1})
		p.respond(stream, "200")
	}
	inBubble(t, answer, func(u *upstream) {
		u.streams = 3
		c := u.client(30 * time.Second)
		defer c.CloseIdleConnections()
		r, err := http.NewRequestWithContext(u.t.Context(), "GET", "http://app.invalid/", nil)
		if err != nil {
			t.Fatal(err)
		}
		var taken [3]*connection
		for i := range taken {
			if taken[i], err = c.take(u.t.Context(), "app.invalid:80"); err != nil {
				t.Fatal(err)
			}
		}
		for i, times := range []bool{false, true, false} {
			start := time.Now()
			response, err := c.send(taken[i], r, nil)
			if isTimeout(err) != times || time.Since(start) > 30*time.Second {
				t.Errorf("request %d: %v after %v", i, err, time.Since(start))
			}
			if err == nil {
				response.Body.Close()
			}
		}
	})
}

// A connection that retires while a request looks for one does not get it.
func TestRetired(t *testing.T) {
	t.Parallel()
	inBubble(t, nil, func(u *upstream) {
		c := u.client(time.Minute)
		defer c.CloseIdleConnections()
		first, err := c.take(u.t.Context(), "app.invalid:80")
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		open := c.conns["app.invalid:80"]
		c.retire(first)
		if k := c.reserve(open, time.Now()); k != nil || first.Err() != nil {
			t.Errorf("%v is reserved; the one in use: %v", k, first.Err())
		}
		first.Release()
		if first.Err() == nil {
			t.Error("it is not closed after its last request")
		}
	})
}

// A connection that is too old takes no further request. Those that it carries go on.
func TestMaxAge(t *testing.T) {
	t.Parallel()
	var release chan struct{}
	answer := func(p *peer, stream uint32, request int) {
		if request > 1 {
			p.respond(stream, "200")
			return
		}
		p.begin(stream, "200")
		go func() {
			<-release
			p.mu.Lock()
			defer p.mu.Unlock()
			_ = p.WriteData(stream, true, []byte("x"))
		}()
	}
	inBubble(t, answer, func(u *upstream) {
		const age = 16 * time.Second
		release = make(chan struct{}) // of the bubble
		c := New(Options{Dial: u.dial, Timeout: time.Minute, MaxAge: age})
		defer c.CloseIdleConnections()
		r, err := http.NewRequest("GET", "http://app.invalid/", nil)
		if err != nil {
			t.Fatal(err)
		}
		long, err := c.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for _, step := range []struct {
			after time.Duration
			want  int64
		}{{0, 1}, {age * 13 / 16, 1}, {age, 2}, {age + age*13/16, 2}, {2 * age, 3}} { // ages differ by an eighth
			time.Sleep(time.Until(began.Add(step.after)))
			if status, err := u.ask(c, "GET", nil); status != 200 {
				t.Errorf("after %v: %d, %v", step.after, status, err)
			}
			if n := u.dialed.Load(); n != step.want {
				t.Errorf("after %v: %d connections, want %d", step.after, n, step.want)
			}
		}
		close(release)
		if body, err := io.ReadAll(long.Body); string(body) != "x" || err != nil {
			t.Errorf("the first response: %q, %v", body, err)
		}
		long.Body.Close()
	})
}

// An error has the code of a GOAWAY, also one that no RFC knows.
func TestGoAwayCode(t *testing.T) {
	t.Parallel()
	for code, want := range map[http2.ErrCode]string{http2.ErrCodeEnhanceYourCalm: "ENHANCE_YOUR_CALM", 0x63: "0x63"} {
		for _, last := range []uint32{0, 1} { // without the request and with it
			answer := func(p *peer, _ uint32, _ int) {
				_ = p.WriteGoAway(last, code, nil)
				p.closes = true
			}
			inBubble(t, answer, func(u *upstream) {
				c := u.client(time.Minute)
				defer c.CloseIdleConnections()
				if _, err := u.ask(c, "POST", nil); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%v, last stream %d: %v", code, last, err)
				}
			})
		}
	}
}
