package gateway

import (
	"bytes"
	"crypto/tls"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"authgate/gateway/store"
)

// effort is how many requests a stress test makes: few, or as many as
// AUTHGATE_STRESS says.
func effort(t testing.TB, few int) int {
	t.Helper()
	many := os.Getenv("AUTHGATE_STRESS")
	if many == "" {
		return few
	}
	n, err := strconv.Atoi(many)
	if err != nil || n <= 0 {
		t.Fatalf("AUTHGATE_STRESS=%s: expected a number of requests", many)
	}
	return n
}

// resetter is a client over HTTP/2 that resets what it asks for.
type resetter struct {
	conn   net.Conn
	mu     sync.Mutex // held while a frame is written
	framer *http2.Framer
	next   uint32
	block  bytes.Buffer
	fields *hpack.Encoder
}

func newResetter(conn net.Conn) (*resetter, error) {
	c := &resetter{conn: conn, framer: http2.NewFramer(conn, conn), next: 1}
	c.fields = hpack.NewEncoder(&c.block)
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		return nil, err
	}
	return c, c.framer.WriteSettings()
}

// read answers what has to be answered until the connection ends.
func (c *resetter) read() {
	for {
		frame, err := c.framer.ReadFrame()
		if err != nil {
			return
		}
		c.mu.Lock()
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				_ = c.framer.WriteSettingsAck() // the next frame tells of a connection that is gone
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				_ = c.framer.WritePing(true, f.Data)
			}
		}
		c.mu.Unlock()
	}
}

// ask sends a request and returns its stream.
func (c *resetter) ask(path string) (uint32, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	stream := c.next
	c.next += 2
	c.block.Reset()
	for _, f := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "gw.example"}, {":path", path}} {
		if err := c.fields.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
			return 0, err
		}
	}
	return stream, c.framer.WriteHeaders(http2.HeadersFrameParam{
		StreamID: stream, BlockFragment: c.block.Bytes(), EndStream: true, EndHeaders: true,
	})
}

func (c *resetter) reset(stream uint32) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.framer.WriteRSTStream(stream, http2.ErrCodeCancel)
}

// TestResetAmidHints: a client that resets its streams while hints for them
// are on the way does not make two goroutines use one map, which ends the
// process. AUTHGATE_STRESS=N makes N requests.
func TestResetAmidHints(t *testing.T) {
	t.Parallel()
	r, _ := benchRigOn(t, store.NewMemory(nil))
	hinting := make(chan struct{}, 1)
	hints := textproto.MIMEHeader{}
	for i := range 20 { // for the encoder to take its time
		hints.Set("X-Hint-"+strconv.Itoa(i), "</style.css>; rel=preload")
	}
	st := r.state.Load()
	for i := range st.routing.routes {
		st.routing.routes[i].transport = roundTrip(func(q *http.Request) (*http.Response, error) {
			select {
			case hinting <- struct{}{}:
			default:
			}
			trace := httptrace.ContextClientTrace(q.Context())
			for range 3 {
				if err := trace.Got1xxResponse(http.StatusEarlyHints, hints); err != nil {
					return nil, err
				}
			}
			return response(q, http.StatusOK, http.Header{}, "ok"), nil
		})
	}
	server := httptest.NewUnstartedServer(r.Gateway)
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()

	requests := effort(t, 2000)
	for asked := 0; asked < requests; {
		conn, err := tls.Dial("tcp", server.Listener.Addr().String(), &tls.Config{
			InsecureSkipVerify: true, NextProtos: []string{"h2"}, // of httptest
		})
		if err != nil {
			t.Fatal(err)
		}
		c, err := newResetter(conn)
		if err != nil {
			t.Fatal(err)
		}
		var reading sync.WaitGroup
		reading.Go(c.read)
		for range min(1000, requests-asked) {
			stream, err := c.ask("/public/")
			if err != nil {
				t.Fatal(err)
			}
			<-hinting
			asked++
			for range rand.N(20) {
				runtime.Gosched() // the reset comes at any moment of the hints
			}
			if err := c.reset(stream); err != nil {
				t.Fatal(err)
			}
		}
		conn.Close()
		reading.Wait()
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
