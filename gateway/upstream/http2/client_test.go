package http2

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"authgate/gateway/upstream/http1"
)

// upstream speaks HTTP/2 by hand, on pipes. It counts its connections and requests.
type upstream struct {
	t *testing.T
	// answer answers a request when its last frame has come.
	answer   func(p *peer, stream uint32, request int)
	stops    bool // it takes no more of a body than the first window
	dialed   atomic.Int64
	requests atomic.Int64
	mu       sync.Mutex
	bodies   []string // of the requests, in the order of their ends
}

// peer is a connection of an upstream.
type peer struct {
	*http2.Framer
	net.Conn
	out    queue       // what the Framer writes to
	number int         // from 1
	silent atomic.Bool // it says nothing any more
	closes bool        // after the answer
}

func (u *upstream) dial(_ context.Context, _ string, wrap func(net.Conn) net.Conn) (net.Conn, error) {
	here, there := net.Pipe()
	out := make(queue, 1<<10)
	p := &peer{Framer: http2.NewFramer(out, there), Conn: there, out: out, number: int(u.dialed.Add(1))}
	go func() {
		u.serve(p)
		close(out)
	}()
	go func() {
		defer there.Close()
		for b := range out {
			_, _ = there.Write(b) // the client may have gone
		}
	}()
	return wrap(here), nil
}

// queue holds what is written to a pipe, which has no buffer.
type queue chan []byte

func (q queue) Write(b []byte) (int, error) {
	q <- bytes.Clone(b)
	return len(b), nil
}

func (u *upstream) serve(p *peer) {
	if _, err := io.ReadFull(p.Conn, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	if p.WriteSettings() != nil {
		return
	}
	bodies := map[uint32]*bytes.Buffer{}
	for {
		frame, err := p.ReadFrame()
		if err != nil {
			return
		}
		id := frame.Header().StreamID
		if bodies[id] == nil {
			bodies[id] = new(bytes.Buffer)
		}
		ended := false
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				err = p.WriteSettingsAck()
			}
		case *http2.PingFrame:
			if !f.IsAck() && !p.silent.Load() {
				err = p.WritePing(true, f.Data)
			}
		case *http2.HeadersFrame:
			ended = f.StreamEnded()
		case *http2.DataFrame:
			bodies[id].Write(f.Data())
			if ended = f.StreamEnded(); !ended && !u.stops && len(f.Data()) > 0 {
				err = errors.Join(p.WriteWindowUpdate(0, uint32(len(f.Data()))), p.WriteWindowUpdate(id, uint32(len(f.Data()))))
			}
		}
		if err != nil {
			return
		}
		if ended {
			u.mu.Lock()
			u.bodies = append(u.bodies, bodies[id].String())
			u.mu.Unlock()
			if u.answer(p, id, int(u.requests.Add(1))); p.closes {
				return
			}
		}
	}
}

// respond sends a header, and the end of the response if it is a final one.
func (p *peer) respond(stream uint32, status string, more ...string) {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	fields := append([]string{":status", status}, more...)
	for i := 0; i < len(fields); i += 2 {
		_ = encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}) // a Buffer takes all
	}
	_ = p.WriteHeaders(http2.HeadersFrameParam{ // the client may have gone
		StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: status[0] != '1',
	})
}

func (u *upstream) client(limit time.Duration) *Client {
	return New(Options{Dial: u.dial, Timeout: limit})
}

// inBubble runs a test with an upstream on the clock of a bubble.
func inBubble(t *testing.T, answer func(p *peer, stream uint32, request int), test func(u *upstream)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		u := &upstream{t: t, answer: answer}
		test(u)
		time.Sleep(time.Hour) // until connections are closed
	})
}

// ask sends a request and returns its status, or 0.
func (u *upstream) ask(c *Client, method string, body io.Reader) (int, error) {
	r, err := http.NewRequestWithContext(u.t.Context(), method, "http://app.invalid/", body)
	if err != nil {
		u.t.Fatal(err)
	}
	response, err := c.RoundTrip(r)
	if err != nil {
		return 0, err
	}
	_, _ = io.Copy(io.Discard, response.Body)
	response.Body.Close()
	return response.StatusCode, nil
}

func isTimeout(err error) bool {
	var network net.Error
	return errors.As(err, &network) && network.Timeout()
}

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

// A stream that the upstream resets is an answer at once, with any code. It is repeated once if it may be.
func TestReset(t *testing.T) {
	t.Parallel()
	for code := http2.ErrCodeNo; code <= http2.ErrCodeInadequateSecurity; code++ {
		for method, want := range map[string]int64{"GET": 2, "POST": 1} {
			for _, noRepeat := range []bool{false, true} {
				answer := func(p *peer, stream uint32, _ int) { _ = p.WriteRSTStream(stream, code) }
				inBubble(t, answer, func(u *upstream) {
					c := New(Options{Dial: u.dial, Timeout: time.Minute, NoRepeat: noRepeat})
					defer c.CloseIdleConnections()
					start := time.Now()
					_, err := u.ask(c, method, nil)
					if noRepeat {
						want = 1
					}
					if err == nil || time.Since(start) > 0 || u.requests.Load() != want {
						t.Errorf("%v to %s: %v after %v and %d requests, want %d", code, method, err, time.Since(start), u.requests.Load(), want)
					}
					if err != nil && !strings.Contains(err.Error(), code.String()) {
						t.Errorf("%v: the error is %v", code, err)
					}
					if NeedsHTTP1(err) {
						t.Errorf("%v asks for HTTP/1.1", code)
					}
				})
			}
		}
	}
}

// HTTP_1_1_REQUIRED, of a stream or of the connection, tells the caller to send the request over HTTP/1.1, with its whole body.
func TestNeedsHTTP1(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(p *peer, stream uint32, request int){
		"RST_STREAM": func(p *peer, stream uint32, _ int) { _ = p.WriteRSTStream(stream, http2.ErrCodeHTTP11Required) },
		"GOAWAY": func(p *peer, _ uint32, _ int) {
			_ = p.WriteGoAway(0, http2.ErrCodeHTTP11Required, nil)
			p.closes = true
		},
	} {
		for size, again := range map[int]bool{0: true, 1: true, mostReplayed: true, mostReplayed + 1: false} {
			inBubble(t, answer, func(u *upstream) {
				c := u.client(time.Minute)
				defer c.CloseIdleConnections()
				content := strings.Repeat("x", size)
				r, err := http.NewRequest("POST", "http://app.invalid/", io.MultiReader(strings.NewReader(content)))
				if err != nil {
					t.Fatal(err)
				}
				_, err = c.RoundTrip(r)
				if NeedsHTTP1(err) != again || u.requests.Load() != 1 {
					t.Errorf("%s, %d bytes: %v after %d requests", name, size, err, u.requests.Load())
				}
				if !again {
					return
				}
				if left, err := io.ReadAll(r.Body); string(left) != content || err != nil {
					t.Errorf("%s, %d bytes: %d are left, %v", name, size, len(left), err)
				}
			})
		}
	}
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

// Informational responses pass up to 64 KiB, and a 102 begins the time limit anew.
func TestInformational(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, status string
		times        int
		pause        time.Duration
		field        string
		passes       bool
	}{
		{"many", "103", 1000, 0, "x", true},
		{"too many bytes", "103", 70, 0, strings.Repeat("x", 1<<10), false},
		{"102 extends the limit", "102", 5, 900 * time.Millisecond, "x", true},
		{"103 does not", "103", 5, 900 * time.Millisecond, "x", false},
	} {
		answer := func(p *peer, stream uint32, _ int) {
			for range c.times {
				time.Sleep(c.pause)
				p.respond(stream, c.status, "x", c.field)
			}
			p.respond(stream, "200")
		}
		inBubble(t, answer, func(u *upstream) {
			client := u.client(time.Second)
			defer client.CloseIdleConnections()
			var seen atomic.Int64
			ctx := httptrace.WithClientTrace(u.t.Context(), &httptrace.ClientTrace{
				Got1xxResponse: func(int, textproto.MIMEHeader) error { seen.Add(1); return nil },
			})
			r, err := http.NewRequestWithContext(ctx, "GET", "http://app.invalid/", nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := client.RoundTrip(r)
			if (err == nil) != c.passes || c.passes && (response.StatusCode != 200 || int(seen.Load()) != c.times) {
				t.Errorf("%s: %v, %v; %d seen", c.name, response, err, seen.Load())
			}
			if err == nil {
				response.Body.Close()
			}
		})
	}
}

// Requests share a connection, up to the number of streams that the upstream allows; without reuse each has its own. Idle ones are closed.
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

// An error in the body of a request is that of the client.
func TestBrokenBody(t *testing.T) {
	t.Parallel()
	broken := errors.New("the client has left")
	inBubble(t, func(*peer, uint32, int) {}, func(u *upstream) {
		c := u.client(time.Minute)
		defer c.CloseIdleConnections()
		_, err := u.ask(c, "POST", io.MultiReader(strings.NewReader("x"), failing{broken}))
		if !errors.Is(err, broken) {
			t.Errorf("%v", err)
		}
	})
}

// An upload that the upstream does not take is given up after the time limit. One that the client does not send is not.
func TestStalledUpload(t *testing.T) {
	t.Parallel()
	for _, stops := range []bool{true, false} {
		inBubble(t, func(p *peer, stream uint32, _ int) { p.respond(stream, "200") }, func(u *upstream) {
			u.stops = stops
			c := u.client(30 * time.Second)
			defer c.CloseIdleConnections()
			start := time.Now()
			status, err := u.ask(c, "POST", &slow{parts: 4})
			took := time.Since(start)
			if stops && (!isTimeout(err) || took > 5*time.Minute) || !stops && (status != 200 || took < 4*time.Minute) {
				t.Errorf("the upstream stops %t: %d, %v after %v", stops, status, err, took)
			}
		})
	}
}

// slow is a body in parts of 32 KiB, each after a minute.
type slow struct{ parts int }

func (s *slow) Read(b []byte) (int, error) {
	if s.parts--; s.parts < 0 {
		return 0, io.EOF
	}
	time.Sleep(time.Minute)
	return copy(b, make([]byte, 32<<10)), nil
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
