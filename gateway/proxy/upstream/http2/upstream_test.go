package http2

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
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
