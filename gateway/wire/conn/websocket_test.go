package conn

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"authgate/internal/test/must"
)

// proxied is the response writer of a request that becomes a WebSocket.
type proxied struct {
	http.ResponseWriter
	sockets *WebSockets
	socket  *WebSocket
	cancel  func()
}

// Hijack implements http.Hijacker.
func (p *proxied) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	s, rw, err := p.sockets.Hijack(http.NewResponseController(p.ResponseWriter).Hijack, false, p.cancel)
	p.socket = s
	return s, rw, err
}

// proxy is a reverse proxy whose upstream switches to WebSocket, on a bench.
type proxy struct {
	*bench
	sockets   WebSockets
	upstreams chan net.Conn
	opened    chan *proxied
}

// RoundTrip implements http.RoundTripper.
func (p *proxy) RoundTrip(r *http.Request) (*http.Response, error) {
	here, there := net.Pipe()
	p.upstreams <- here
	return &http.Response{
		StatusCode: http.StatusSwitchingProtocols, ProtoMajor: 1, ProtoMinor: 1, Request: r, Body: there,
		Header: http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}},
	}, nil
}

// ServeHTTP implements http.Handler.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	answer := &proxied{ResponseWriter: w, sockets: &p.sockets, cancel: cancel}
	p.opened <- answer
	reverse := httputil.ReverseProxy{Rewrite: func(*httputil.ProxyRequest) {}, Transport: p,
		ErrorLog: log.New(io.Discard, "", 0)}
	reverse.ServeHTTP(answer, r.WithContext(ctx))
	p.sockets.Remove(answer.socket)
}

// onProxy runs f beside a proxy.
func onProxy(t *testing.T, f func(p *proxy)) {
	t.Helper()
	onBench(t, Options{}, true, func(b *bench) {
		p := &proxy{bench: b, upstreams: make(chan net.Conn, 1), opened: make(chan *proxied, 1)}
		b.server.Handler = p
		f(p)
	})
}

// ends are the two ends of a WebSocket through a proxy.
type ends struct {
	t                *testing.T
	client, upstream net.Conn
	fromProxy        *bufio.Reader // to the client
	answer           *proxied
}

// upgrade opens a WebSocket. Its client has not read the answer yet.
func (p *proxy) upgrade() *ends {
	p.t.Helper()
	client := p.dial()
	_ = client.SetDeadline(time.Now().Add(24 * time.Hour)) // long for a bubble, but not for ever
	e := &ends{t: p.t, client: client, fromProxy: bufio.NewReader(client)}
	e.say(client, []byte("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"))
	e.upstream, e.answer = <-p.upstreams, <-p.opened
	return e
}

func (e *ends) close() {
	e.client.Close()
	e.upstream.Close()
}

// switched reads the answer to the upgrade.
func (e *ends) switched() {
	e.t.Helper()
	if answer, err := http.ReadResponse(e.fromProxy, nil); err != nil ||
		answer.StatusCode != http.StatusSwitchingProtocols {
		e.t.Fatalf("%v, %v; want 101", answer, err)
	}
}

// words are what stories name.
var words = map[string][]byte{
	"text":        text,
	"half":        text[:4],
	"rest":        text[4:],
	"rest+text":   slices.Concat(text[4:], text),
	"goodbye":     goodbye,
	"signed-out":  append([]byte{0x88, 12, 0x03, 0xf0}, "signed out"...),
	"close":       {0x88, 0}, // a Close frame without a status
	"answer":      clientsBye,
	"half-answer": clientsBye[:3],
	"message":     frame(fin|opcodeText, 300, 2, true),
	"long":        frame(fin|2, 70_000, 0, true),
}

// tell carries out the steps of a story, such as "client sends text".
func (e *ends) tell(story string, steps map[string]func()) {
	e.t.Helper()
	for step := range strings.SplitSeq(story, ", ") {
		if do, ok := steps[step]; ok {
			do()
			continue
		}
		parts := strings.Fields(step)
		conn, from := e.client, io.Reader(e.fromProxy)
		if parts[0] == "upstream" {
			conn, from = e.upstream, e.upstream
		}
		switch verb, object := parts[1], parts[len(parts)-1]; {
		case verb == "sends":
			e.say(conn, words[object])
		case verb == "begins": // to send, and is not waited for
			go func() { _, _ = conn.Write(words[object]) }()
		case object == "end":
			if rest, _ := io.ReadAll(from); len(rest) > 0 {
				e.t.Errorf("the %s gets %x after all", parts[0], rest)
			}
		case verb == "gets":
			e.hears(parts[0], from, words[object])
		case verb == "closes":
			conn.Close()
		default:
			e.t.Fatalf("unknown step %q", step)
		}
	}
}

func (e *ends) say(conn io.Writer, b []byte) {
	e.t.Helper()
	must.Get(conn.Write(b))(e.t)
}

// hears fails the test unless these bytes come.
func (e *ends) hears(who string, from io.Reader, want []byte) {
	e.t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(from, got); err != nil || !bytes.Equal(got, want) {
		e.t.Fatalf("the %s gets %x, %v; want %x", who, got[:n], err, want)
	}
}

// When a WebSocket ends after Leave or SignOut, and how many are cut off.
func TestSocketsEnd(t *testing.T) {
	t.Parallel()
	const limit = time.Second // of SignOut
	for name, c := range map[string]struct {
		story string
		bound time.Duration // of Leave; 0: an hour
		after time.Duration
		cut   int
		takes time.Duration // how long the client reads what was sent before
	}{
		"told, answered, closed": {story: "leave, client gets goodbye, client sends answer, upstream gets answer, " +
			"upstream sends goodbye, upstream closes, client gets end"},
		"in the middle of a frame": {
			story: "upstream sends half, client gets half, leave, a second later, upstream sends rest+text, " +
				"client gets rest, client gets goodbye, upstream sends text, client sends answer, upstream gets answer, " +
				"upstream closes, client gets end",
			after: time.Second,
		},
		"a frame that never ends": {story: "upstream sends half, client gets half, leave, client gets end",
			after: closeTime, cut: 1},
		"a client that does not answer": {story: "leave, client gets goodbye, client gets end", after: closeTime, cut: 1},
		"a client that does not read":   {story: "leave", after: closeTime, cut: 1},
		"a deadline that is sooner": {story: "leave, client gets goodbye",
			bound: 2 * time.Second, after: 2 * time.Second, cut: 1},
		"a client that reads much": {story: "leave", bound: time.Minute, after: 4 * closeTime, cut: 1,
			takes: 12 * time.Second},
		"a client that reads too much":   {story: "leave", bound: time.Minute, after: time.Minute, cut: 1, takes: time.Hour},
		"an upstream that does not read": {story: "client begins long, leave, client gets goodbye", after: closeTime, cut: 1},
		"an upstream that does not end": {story: "leave, client gets goodbye, client sends answer, upstream gets answer",
			after: closeTime, cut: 1},
		"a client that hangs up at once": {story: "leave, client gets goodbye, client closes"},
		"a client that hangs up after its answer": {
			story: "leave, client gets goodbye, client sends half-answer, client finishes, upstream sends text, " +
				"a second later, upstream sends text, upstream gets answer, upstream sends goodbye, upstream closes",
			after: time.Second,
		},
		"an upstream that has closed already": {
			story: "upstream sends close, client gets close, leave, nothing for a second, client sends answer, " +
				"upstream gets answer, upstream closes",
			after: time.Second,
		},

		"signed out, the client goes on": {story: "sign out, client gets signed-out, client sends message, " +
			"client sends message, client sends answer, upstream gets answer, upstream closes, client gets end"},
		"signed out, the client does not answer": {story: "sign out, client gets signed-out, client talks, upstream gets end",
			after: limit},
		"signed out, the client does not read": {story: "sign out, upstream gets end", after: limit},
		"signed out, in the middle of a frame": {story: "upstream sends half, client gets half, sign out, client gets end",
			after: limit},
		"signed out after Leave, no second Close": {story: "leave, client gets goodbye, sign out, client gets end",
			after: limit},
		"signed out, then Leave, no second Close": {story: "sign out, client gets signed-out, leave, client gets end",
			after: limit},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onProxy(t, func(p *proxy) {
				e := p.upgrade()
				defer e.close()
				e.switched()
				var began time.Time
				p.sockets.unsent = func(net.Conn) int { return int(max(0, c.takes-time.Since(began))) }
				var talking sync.WaitGroup
				defer talking.Wait()
				e.tell(c.story, map[string]func(){
					"a second later": func() { time.Sleep(time.Second) },
					"leave": func() {
						began = time.Now()
						p.sockets.Leave(began.Add(cmp.Or(c.bound, time.Hour)))
						synctest.Wait()
					},
					"sign out": func() {
						began = time.Now()
						p.sockets.SignOut(e.answer.socket, limit)
						synctest.Wait()
					},
					"nothing for a second": func() {
						_ = e.client.SetReadDeadline(time.Now().Add(time.Second)) // a pipe accepts it
						e.tell("client gets end", nil)
					},
					"client finishes": func() { // while the proxy does not read
						go func() {
							e.say(e.client, clientsBye[3:])
							e.client.Close()
						}()
					},
					"client talks": func() {
						talking.Go(func() {
							for err := error(nil); err == nil; _, err = e.client.Write(words["message"]) {
								time.Sleep(time.Millisecond)
							}
						})
					},
				})
				if n := p.sockets.Wait(); n != c.cut || time.Since(began) != c.after {
					t.Errorf("%d were cut off and the last is gone after %v; want %d, %v", n, time.Since(began), c.cut, c.after)
				}
			})
		})
	}
}

// Leave also ends WebSockets that are opened after it, and those whose clients
// have not read the answer yet.
func TestSocketsLeaveLate(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		onProxy(t, func(p *proxy) {
			leave := func() { p.sockets.Leave(time.Now().Add(time.Hour)); synctest.Wait() }
			if late {
				leave()
			}
			e := p.upgrade()
			defer e.close()
			go func() { _, _ = e.upstream.Write(text) }() // at once, as greetings come
			synctest.Wait()
			if !late {
				leave()
			}
			e.switched()
			got := make([]byte, len(text)+len(goodbye))
			_ = e.client.SetReadDeadline(time.Now().Add(time.Second))
			n, _ := io.ReadFull(e.fromProxy, got) // the greeting, or not, and the Close frame
			if before, ok := bytes.CutSuffix(got[:n], goodbye); !ok || len(before) > 0 && !bytes.Equal(before, text) {
				t.Errorf("opened after Leave: %t: the client gets %x, want %x, perhaps behind %x", late, got[:n], goodbye, text)
			}
			e.client.Close()
			if n := p.sockets.Wait(); n != 0 {
				t.Errorf("opened after Leave: %t: %d were cut off", late, n)
			}
		})
	}
}

// Wait waits for a connection that is being hijacked, because http.Server has
// forgotten it by then, and not for one that failed to open.
func TestSocketsBeingHijacked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var sockets WebSockets
		goOn, waited := make(chan error), false
		hijack := func() (net.Conn, *bufio.ReadWriter, error) {
			return &recorded{}, bufio.NewReadWriter(bufio.NewReader(&recorded{}), nil), <-goOn
		}
		open := func() *WebSocket {
			s, _, _ := sockets.Hijack(hijack, false, nil)
			return s
		}
		var first, refused *WebSocket
		var opening, waiting sync.WaitGroup
		opening.Go(func() { first = open() })
		opening.Go(func() { refused = open() })
		synctest.Wait()
		waiting.Go(func() { sockets.Wait(); waited = true })
		synctest.Wait()
		goOn <- io.EOF // one hijacking does not hold up another
		goOn <- nil
		opening.Wait()
		synctest.Wait()
		if first == nil {
			first, refused = refused, first
		}
		if waited || first == nil || refused != nil {
			t.Errorf("Wait has returned before the WebSocket was removed: %t; opened: %v, %v, want one", waited, first, refused)
		}
		sockets.Remove(first)
		waiting.Wait()
	})
}

// After both Close frames and the end of the upstream, the proxy does not wait for
// the client to close the connection.
func TestSocketDone(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"the client answers", "the upstream ends"} {
		synctest.Test(t, func(t *testing.T) {
			client, server := net.Pipe()
			defer client.Close()
			defer server.Close()
			conn := &halfClosing{Conn: server}
			s := &WebSocket{Conn: conn, begun: make(chan struct{}), ended: make(chan struct{})}
			e := &ends{t: t}
			go s.leave(closeGoingAway, "")
			go func() {
				e.hears("client", client, goodbye)
				_, _ = client.Write(clientsBye)
			}()
			var want error // of CloseWrite
			if first == "the client answers" {
				e.hears("upstream", s, clientsBye)
				want = net.ErrClosed
			}
			if err := s.CloseWrite(); err != want || conn.half != (want == nil) {
				t.Errorf("%s: %v, half closed: %t; want %v", first, err, conn.half, want)
			}
			if first == "the upstream ends" {
				e.hears("upstream", s, clientsBye)
			}
			if n, err := s.Read(make([]byte, 1)); n != 0 || err != io.EOF {
				t.Errorf("%s: then %d bytes, %v", first, n, err)
			}
		})
	}
}

// cut does not wait for a client that does not read the closing message of TLS.
func TestSocketCut(t *testing.T) {
	t.Parallel()
	for name, writes := range map[string]bool{"idle": false, "busy": true} {
		onBench(t, Options{}, false, func(b *bench) {
			client := b.secure("http/1.1")
			must.Get(io.WriteString(client, "GET /hijack HTTP/1.1\r\nHost: a\r\n\r\n"))(t)
			b.set.Linger(time.Now().Add(time.Minute))
			canceled := false
			s := &WebSocket{Conn: <-b.hijacked, cancelUpstream: func() { canceled = true },
				begun: make(chan struct{}), ended: make(chan struct{})}
			var underWay sync.WaitGroup
			try := func(do func([]byte) (int, error)) {
				if n, err := do(bytes.Clone(text)); err == nil {
					t.Errorf("%s: a Read or Write of %d bytes succeeds", name, n)
				}
			}
			underWay.Go(func() { try(s.Read) })
			if writes {
				underWay.Go(func() { try(s.Write) })
			}
			synctest.Wait()
			began := time.Now()
			s.cut()
			underWay.Wait()
			b.set.Wait()
			if _, err := client.Write([]byte{0}); err == nil || !canceled || time.Since(began) != 0 {
				t.Errorf("%s: cut off after %v, %v, canceled: %t", name, time.Since(began), err, canceled)
			}
		})
	}
}

// script is a reader that returns chunks, then an error. It notes how long the buffers are.
type script struct {
	chunks  []string
	err     error
	buffers []int
}

func (s *script) Read(b []byte) (int, error) {
	s.buffers = append(s.buffers, len(b))
	if len(s.chunks) == 0 {
		return 0, s.err
	}
	n := copy(b, s.chunks[0])
	if s.chunks[0] = s.chunks[0][n:]; s.chunks[0] == "" {
		s.chunks = s.chunks[1:]
	}
	return n, nil
}

// A WebSocket waits with a small buffer, and copies with a large one while each read brings much. The end
// is no error.
func TestSocketCarries(t *testing.T) {
	t.Parallel()
	short, long := strings.Repeat("s", 100), strings.Repeat("l", 2*carried)
	for name, c := range map[string]struct {
		chunks  []string
		err     error
		buffers []int
	}{
		"nothing":          {nil, io.EOF, []int{atRest}},
		"messages":         {[]string{short, short}, io.EOF, []int{atRest, atRest, atRest}},
		"long, then short": {[]string{long, short}, io.EOF, []int{atRest, carried, carried, carried, atRest}},
		"records of TLS": {[]string{long[:16<<10], long[:16<<10], long[:busy-1]}, io.EOF,
			[]int{atRest, carried, carried, carried, atRest}},
		"failure":                     {[]string{short}, io.ErrUnexpectedEOF, []int{atRest, atRest}},
		"failure after a full buffer": {[]string{long[:atRest]}, io.ErrUnexpectedEOF, []int{atRest, carried}},
	} {
		from, to := &script{chunks: slices.Clone(c.chunks), err: c.err}, &strings.Builder{}
		s := &WebSocket{buffers: &sync.Pool{}}
		n, err := s.carry(to, from)
		if want := strings.Join(c.chunks, ""); to.String() != want || n != int64(len(want)) {
			t.Errorf("%s: %d bytes of %d came, and carry says %d", name, to.Len(), len(want), n)
		}
		if c.err == io.EOF {
			c.err = nil
		}
		if err != c.err || !slices.Equal(from.buffers, c.buffers) {
			t.Errorf("%s: error %v and buffers %v, want %v and %v", name, err, from.buffers, c.err, c.buffers)
		}
	}
	failing := writerFunc(func(b []byte) (int, error) { return 3, io.ErrClosedPipe })
	s := &WebSocket{buffers: &sync.Pool{}}
	if n, err := s.carry(failing, &script{chunks: []string{short}}); n != 3 || err != io.ErrClosedPipe {
		t.Errorf("a writer that fails: %d, %v", n, err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }
