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
	early    func(p *peer, stream uint32) // answers it when its header has come; may be nil
	stops    bool                         // it takes no more of a body than the first window
	streams  uint32                       // how many it allows; 0: any number
	settles  chan struct{}                // closed when it tells that; nil: at once
	absent   bool                         // it closes each connection at once
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
	mu     sync.Mutex  // held while it answers a frame
	number int         // from 1
	open   int         // requests that it has not answered
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

// endAfter is how long a connection lives after its last frame, so that the client gets that.
const endAfter = time.Millisecond

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
	if u.settles != nil {
		<-u.settles
	}
	if u.absent {
		return
	}
	if p.WriteSettings(u.settings()...) != nil {
		return
	}
	bodies := map[uint32]*bytes.Buffer{}
	for {
		frame, err := p.ReadFrame()
		if err != nil {
			return
		}
		if !u.take(p, frame, bodies) {
			go func() { _, _ = io.Copy(io.Discard, p.Conn) }() // else what the client still writes fails
			time.Sleep(endAfter)
			return
		}
	}
}

// take answers a frame. It reports whether others may follow.
func (u *upstream) take(p *peer, frame http2.Frame, bodies map[uint32]*bytes.Buffer) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := frame.Header().StreamID
	if bodies[id] == nil {
		bodies[id] = new(bytes.Buffer)
	}
	ended := false
	var err error
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
		if ended = f.StreamEnded(); u.early != nil {
			u.early(p, id)
		}
	case *http2.DataFrame:
		bodies[id].Write(f.Data())
		if ended = f.StreamEnded(); !ended && !u.stops && len(f.Data()) > 0 {
			err = errors.Join(p.WriteWindowUpdate(0, uint32(len(f.Data()))), p.WriteWindowUpdate(id, uint32(len(f.Data()))))
		}
	}
	if err != nil {
		return false
	}
	if ended {
		u.mu.Lock()
		u.bodies = append(u.bodies, bodies[id].String())
		u.mu.Unlock()
		u.answer(p, id, int(u.requests.Add(1)))
	}
	return !p.closes
}

func (u *upstream) settings() []http2.Setting {
	if u.streams == 0 {
		return nil
	}
	return []http2.Setting{{ID: http2.SettingMaxConcurrentStreams, Val: u.streams}}
}

// respond sends a header, and the end of the response if it is a final one.
func (p *peer) respond(stream uint32, status string, more ...string) {
	p.header(stream, status[0] != '1', status, more...)
}

// begin sends the header of a response with a body.
func (p *peer) begin(stream uint32, status string) { p.header(stream, false, status) }

func (p *peer) header(stream uint32, ends bool, status string, more ...string) {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	fields := append([]string{":status", status}, more...)
	for i := 0; i < len(fields); i += 2 {
		_ = encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}) // a Buffer takes all
	}
	_ = p.WriteHeaders(http2.HeadersFrameParam{ // the client may have gone
		StreamID: stream, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: ends,
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
						t.Errorf("%v to %s: %v after %v and %d requests, want %d",
							code, method, err, time.Since(start), u.requests.Load(), want)
					}
					if err != nil && !strings.Contains(err.Error(), code.String()) {
						t.Errorf("%v: the error is %v", code, err)
					}
					if needed, _ := NeedsHTTP1(err); needed {
						t.Errorf("%v asks for HTTP/1.1", code)
					}
				})
			}
		}
	}
}

// HTTP_1_1_REQUIRED, of a stream or of the connection, tells the caller to send the request over HTTP/1.1, with its
// whole body.
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
				if needed, may := NeedsHTTP1(err); !needed || may != again || u.requests.Load() != 1 {
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
		if k := c.reserve(open); k != nil || first.Err() != nil {
			t.Errorf("%v is reserved; the one in use: %v", k, first.Err())
		}
		first.Release()
		if first.Err() == nil {
			t.Error("it is not closed after its last request")
		}
	})
}

// A response that breaks the rules is one: its request is not repeated, and the error does not speak of a reset.
func TestInvalidResponse(t *testing.T) {
	t.Parallel()
	inBubble(t, func(p *peer, stream uint32, _ int) { p.respond(stream, "ok") }, func(u *upstream) {
		c := u.client(time.Minute)
		defer c.CloseIdleConnections()
		_, err := u.ask(c, "GET", nil)
		const want = "broke the rules of HTTP/2: PROTOCOL_ERROR"
		if err == nil || !strings.Contains(err.Error(), want) || u.requests.Load() != 1 {
			t.Errorf("%v after %d requests", err, u.requests.Load())
		}
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

// An upstream may answer, reset a stream or close its connection before the body of the request has come. That is an
// answer at once, although the client sends nothing meanwhile.
func TestEarlyEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		early  func(p *peer, stream uint32)
		status int // 0: an error, with the code
		code   string
	}{
		{"answer", func(p *peer, stream uint32) { p.respond(stream, "413") }, 413, ""},
		{"answer with a body", func(p *peer, stream uint32) {
			p.begin(stream, "200")
			_ = p.WriteData(stream, true, []byte("x"))
		}, 200, ""},
		{"reset", func(p *peer, stream uint32) { _ = p.WriteRSTStream(stream, http2.ErrCodeCancel) }, 0, "CANCEL"},
		{"end", func(p *peer, _ uint32) { p.closes = true }, 0, ""},
	} {
		inBubble(t, nil, func(u *upstream) {
			u.early = c.early
			client := u.client(time.Hour)
			defer client.CloseIdleConnections()
			body, sender := io.Pipe()
			defer time.AfterFunc(time.Minute, func() { sender.Close() }).Stop()
			start := time.Now()
			status, err := u.ask(client, "POST", body)
			if status != c.status || time.Since(start) > endAfter {
				t.Errorf("%s: %d, %v after %v", c.name, status, err, time.Since(start))
			}
			if err != nil && !strings.Contains(err.Error(), c.code) {
				t.Errorf("%s: the error is %v", c.name, err)
			}
			sender.Close()
		})
	}
}

// What a client sends after the end of an attempt belongs to the next one.
func TestBodyAfterEnd(t *testing.T) {
	t.Parallel()
	var peers []*peer
	answer := func(p *peer, stream uint32, _ int) { p.respond(stream, "200") }
	inBubble(t, answer, func(u *upstream) {
		u.early = func(p *peer, _ uint32) { peers = append(peers, p) }
		c := u.client(time.Minute)
		defer c.CloseIdleConnections()
		body, sender := io.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			if status, err := u.ask(c, "POST", body); status != 200 {
				t.Errorf("%d, %v", status, err)
			}
		}()
		send := func(part string) {
			if _, err := io.WriteString(sender, part); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		send("first ")
		_ = peers[0].WriteGoAway(0, http2.ErrCodeNo, nil)
		synctest.Wait()
		send("second ")
		send("third")
		sender.Close()
		<-done
		if got := strings.Join(u.bodies, ","); got != "first second third" || len(peers) != 2 {
			t.Errorf("the upstream gets %q on %d connections", got, len(peers))
		}
	})
}

// A response that comes before the body of the request is whole, although the client goes on sending.
func TestEarlyResponse(t *testing.T) {
	t.Parallel()
	var p *peer
	inBubble(t, nil, func(u *upstream) {
		u.early = func(connection *peer, stream uint32) {
			p = connection
			p.begin(stream, "413")
		}
		c := u.client(time.Minute)
		defer c.CloseIdleConnections()
		body, sender := io.Pipe()
		r, err := http.NewRequestWithContext(u.t.Context(), "POST", "http://app.invalid/", body)
		if err != nil {
			t.Fatal(err)
		}
		response, err := c.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, err := sender.Write(make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		_ = p.WriteData(1, true, []byte("too large"))
		if got, err := io.ReadAll(response.Body); string(got) != "too large" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		response.Body.Close()
		sender.Close()
	})
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
