package gateway

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
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
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"authgate/gateway/store"
	"authgate/gateway/upstream/http1"
)

// rawApplication is an upstream that answers whatever it is asked with these
// bytes, again and again if endless, and then closes the connection.
func rawApplication(t *testing.T, bytes string, endless bool) *rig {
	t.Helper()
	a := newApplication(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		for {
			if _, err := io.WriteString(conn, bytes); err != nil || !endless {
				return
			}
		}
	})
	r := newRig(t, strings.Replace(baseConfig, "store:", "tls: {hsts: 48h}\nstore:", 1))
	if err := r.reload(edit(t, r.yaml(), "http://app.invalid", a.URL)); err != nil {
		t.Fatal(err)
	}
	return r
}

// yaml is the configuration that rawApplication's rig began with.
func (r *rig) yaml() string {
	return strings.Replace(baseConfig, "store:", "tls: {hsts: 48h}\nstore:", 1)
}

// An upstream that hints without end is at fault, by whichever way requests go
// to it, and its client is not flooded.
func TestInformationalFlood(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "OPTIONS"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			r := rawApplication(t, "HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n", true)
			server := httptest.NewServer(r.Gateway)
			defer server.Close()
			hints := 0
			const tooMany = 1000
			trace := &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error {
				if hints++; hints > tooMany {
					return fmt.Errorf("more than %d of them", tooMany)
				}
				return nil
			}}
			q, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), method, server.URL+"/public/", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := http.DefaultTransport.RoundTrip(q)
			if err != nil {
				t.Fatalf("after %d hints: %v", hints, err)
			}
			answer.Body.Close()
			if answer.StatusCode != http.StatusBadGateway || hints > http1.MaxInformational+1 {
				t.Errorf("%d after %d hints, want 502 after %d at most", answer.StatusCode, hints, http1.MaxInformational)
			}
		})
	}
}

// Hints before the answer take nothing from it.
func TestInformationalKeepsHeaders(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"GET", "POST"} {
		for hints, bytes := range map[int]string{
			0: "",
			1: "HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n",
			2: strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\nStrict-Transport-Security: max-age=1\r\n\r\n", 2),
		} {
			r := rawApplication(t, bytes+"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok", false)
			server := httptest.NewServer(r.Gateway)
			q, err := http.NewRequest(method, server.URL+"/public/", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := http.DefaultTransport.RoundTrip(q)
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			if got := answer.Header["Strict-Transport-Security"]; answer.StatusCode != 200 || len(got) != 1 || got[0] != "max-age=172800" {
				t.Errorf("%s after %d hints: %d with Strict-Transport-Security %q", method, hints, answer.StatusCode, got)
			}
			server.Close()
		}
	}
}

// An upstream that switches protocols although nobody asked it to is at fault,
// and gets no tunnel to the client, however it says so.
func TestSwitchUnasked(t *testing.T) {
	t.Parallel()
	for name, header := range map[string]string{
		"WebSocket": "Connection: Upgrade\r\nUpgrade: websocket\r\n", "HTTP/2": "Connection: Upgrade\r\nUpgrade: h2c\r\n",
		"to nothing": "", "Connection alone": "Connection: Upgrade\r\n", "Upgrade alone": "Upgrade: websocket\r\n",
		"to an empty name": "Connection: Upgrade\r\nUpgrade: \r\n", "with a length": "Connection: Upgrade\r\nUpgrade: x\r\nContent-Length: 4\r\n",
	} {
		for _, method := range []string{"GET", "POST", "OPTIONS"} {
			t.Run(name+" "+method, func(t *testing.T) {
				t.Parallel()
				r := rawApplication(t, "HTTP/1.1 101 Switching Protocols\r\n"+header+"\r\nevil", false)
				server := httptest.NewServer(r.Gateway)
				defer server.Close()
				q, err := http.NewRequest(method, server.URL+"/public/", http.NoBody)
				if err != nil {
					t.Fatal(err)
				}
				answer, err := http.DefaultTransport.RoundTrip(q)
				if err != nil {
					t.Fatal(err)
				}
				defer answer.Body.Close()
				body, err := io.ReadAll(answer.Body)
				if answer.StatusCode != http.StatusBadGateway || err != nil || strings.Contains(string(body), "evil") {
					t.Errorf("%d %q, %v", answer.StatusCode, body, err)
				}
			})
		}
	}
}

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

// Hints do not ask the client to go elsewhere, the answer behind them does,
// and a switch to WebSocket is one.
func TestDrainingAnswers(t *testing.T) {
	t.Parallel()
	r := rawApplication(t, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", false)
	r.Drain()
	server := httptest.NewServer(r.Gateway)
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET /public/ HTTP/1.1\r\nHost: gw.example\r\n\r\n")
	all, err := io.ReadAll(bufio.NewReader(conn)) // the server closes the connection
	if err != nil {
		t.Fatal(err)
	}
	hint, final, _ := strings.Cut(string(all), "\r\n\r\n")
	if !strings.Contains(hint, "103") || strings.Contains(hint, "Connection") {
		t.Errorf("the hint is %q", hint)
	}
	if n := strings.Count(final, "Connection: close\r\n"); n != 1 || !strings.HasPrefix(final, "HTTP/1.1 200") {
		t.Errorf("the answer is %q", final)
	}
	listening(t, func(t *testing.T, r *rig, dial func() net.Conn) {
		r.Drain()
		client := dial()
		_, upstream := upgraded(t, r, client, "/public/", "Accept: */*") // with the one value of Connection that it should have
		client.Close()
		upstream.Close()
	})
}

// Over HTTP/2 the server says with GOAWAY that the connection takes no
// further requests, and which it has taken (RFC 9113, section 6.8).
func TestDrainingHTTP2(t *testing.T) {
	t.Parallel()
	for _, draining := range []bool{false, true} {
		listening(t, func(t *testing.T, r *rig, dial func() net.Conn) {
			if draining {
				r.Drain()
			}
			conn := dial()
			defer conn.Close()
			var header strings.Builder
			encoder := hpack.NewEncoder(&header)
			for _, f := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":authority", "gw.example"}, {":path", "/public/"}} {
				if err := encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
					t.Fatal(err)
				}
			}
			framer := http2.NewFramer(conn, conn)
			go func() {
				_, _ = io.WriteString(conn, http2.ClientPreface)
				_ = framer.WriteSettings()
				_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte(header.String()), EndStream: true, EndHeaders: true})
			}()
			answered, gone := false, false
			if err := conn.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
				t.Fatal(err)
			}
			for {
				f, err := framer.ReadFrame()
				if err != nil {
					break // closed, or silent
				}
				answered = answered || f.Header().StreamID == 1 && f.Header().Flags.Has(http2.FlagDataEndStream)
				if away, ok := f.(*http2.GoAwayFrame); ok {
					gone = true
					if away.ErrCode != http2.ErrCodeNo || away.LastStreamID != 1 {
						t.Errorf("GOAWAY with %v, stream %d", away.ErrCode, away.LastStreamID)
					}
				}
			}
			if !answered || gone != draining {
				t.Errorf("draining %t: answered %t, GOAWAY %t", draining, answered, gone)
			}
		})
	}
}

// upgraded opens a WebSocket through a gateway. fromGateway has what comes after the
// response.
func upgraded(t *testing.T, r *rig, client net.Conn, path, header string) (fromGateway *bufio.Reader, upstream net.Conn) {
	t.Helper()
	upstreams := make(chan net.Conn, 1)
	r.upstream.answering(func(q *http.Request) (*http.Response, error) {
		here, there := net.Pipe()
		upstreams <- here
		answer := response(q, http.StatusSwitchingProtocols, http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}}, "")
		answer.Body = there
		return answer, nil
	})
	if _, err := io.WriteString(client, "GET "+path+" HTTP/1.1\r\nHost: gw.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+header+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	fromGateway = bufio.NewReader(client)
	answer, err := http.ReadResponse(fromGateway, nil)
	if err != nil {
		t.Fatal(err)
	}
	if connection := answer.Header["Connection"]; answer.StatusCode != 101 || len(connection) != 1 || connection[0] != "Upgrade" {
		t.Fatalf("%d, Connection: %q", answer.StatusCode, connection)
	}
	return fromGateway, <-upstreams
}

// A WebSocket whose login ends is closed with 1008, and the log says why.
func TestSocketSignedOut(t *testing.T) {
	t.Parallel()
	listening(t, func(t *testing.T, r *rig, dial func() net.Conn) {
		in := r.login(aliceIn)
		client := dial()
		defer client.Close()
		fromGateway, upstream := upgraded(t, r, client, "/session/", in.cookie)
		defer upstream.Close()
		time.Sleep(time.Minute)
		r.do("POST", "/logout", "", in.cookie)
		ended := time.Now()
		if got, _ := io.ReadAll(fromGateway); string(got) != "\x88\x0c\x03\xf0signed out" {
			t.Errorf("the client gets %x", got)
		}
		r.sockets.Wait()
		if took := time.Since(ended); took > within {
			t.Errorf("ended after %v", took)
		}
		if line := r.log.last(t, "request"); line["status"] != 101.0 || !strings.HasPrefix(fmt.Sprint(line["reason"]), "the login has ended") {
			t.Errorf("logged %v", line)
		}
	})
}
