package conn

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// The frames of the two directions are counted separately: a Close frame of the
// client is none of the upstream.
func TestSocketFollowsTheClient(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sent []byte
		want bool
	}{
		"a message":          {frame(fin|opcodeText, 300, 2, true), false},
		"a Close frame":      {clientsBye, true},
		"one behind another": {append(frame(fin|opcodeText, 70_000, 8, true), clientsBye...), true},
		"half of one":        {clientsBye[:7], false},
		"one in a payload":   {frame(fin|2, 0x88, 0, true), false},
	} {
		client := &recorded{}
		client.Write(c.sent)
		s := &WebSocket{Conn: client, begun: make(chan struct{}), ended: make(chan struct{})}
		if got, err := io.ReadAll(s); err != nil || !bytes.Equal(got, c.sent) {
			t.Errorf("%s: %d bytes of %d, %v", name, len(got), len(c.sent), err)
		}
		if s.answered.Load() != c.want || s.toClient.closed {
			t.Errorf("%s: a Close frame of the client: %t, of the upstream: %t", name, s.answered.Load(), s.toClient.closed)
		}
	}
}

// proxied is the response writer of a request that becomes a WebSocket.
type proxied struct {
	http.ResponseWriter
	sockets *WebSockets
	socket  *WebSocket
	cancel  func()
}

// Hijack implements http.Hijacker.
func (p *proxied) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	s, rw, err := p.sockets.Hijack(http.NewResponseController(p.ResponseWriter).Hijack, p.cancel)
	p.socket = s
	return s, rw, err
}

// proxy is a reverse proxy whose upstream switches to WebSocket, on the clock of
// a bubble.
type proxy struct {
	t         *testing.T
	sockets   WebSockets
	pipes     *pipes
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
	reverse := httputil.ReverseProxy{Rewrite: func(*httputil.ProxyRequest) {}, Transport: p, ErrorLog: log.New(io.Discard, "", 0)}
	reverse.ServeHTTP(answer, r.WithContext(ctx))
	p.sockets.Remove(answer.socket)
}

// onProxy runs f beside a proxy.
func onProxy(t *testing.T, f func(p *proxy)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &proxy{
			t: t, pipes: &pipes{make(chan net.Conn), make(chan struct{})},
			upstreams: make(chan net.Conn, 1), opened: make(chan *proxied, 1),
		}
		server := &http.Server{Handler: p}
		ended := make(chan error)
		go func() { ended <- server.Serve(p.pipes) }()
		f(p)
		server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
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
	client, there := net.Pipe()
	p.pipes.conns <- there
	if err := client.SetDeadline(time.Now().Add(24 * time.Hour)); err != nil { // long for a bubble, but not for ever
		p.t.Fatal(err)
	}
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
	answer, err := http.ReadResponse(e.fromProxy, nil)
	if err != nil {
		e.t.Fatal(err)
	}
	if answer.StatusCode != http.StatusSwitchingProtocols {
		e.t.Fatalf("%d", answer.StatusCode)
	}
}

func (e *ends) say(conn io.Writer, b []byte) {
	e.t.Helper()
	if _, err := conn.Write(b); err != nil {
		e.t.Fatal(err)
	}
}

// hears fails the test unless these bytes come.
func (e *ends) hears(who string, from io.Reader, want []byte) {
	e.t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(from, got); err != nil || !bytes.Equal(got, want) {
		e.t.Fatalf("%s gets %x, %v; want %x", who, got[:n], err, want)
	}
}

// silent fails the test unless nothing more comes to the client.
func (e *ends) silent() {
	e.t.Helper()
	if rest, _ := io.ReadAll(e.fromProxy); len(rest) > 0 {
		e.t.Errorf("the client gets %x after all", rest)
	}
}

// When all WebSockets have ended after Leave, and how many were cut off.
func TestSocketsLeave(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		story func(e *ends, leave func())
		bound time.Duration // 0: an hour
		after time.Duration
		cut   int
	}{
		"told, answered, closed": {story: func(e *ends, leave func()) {
			leave()
			e.hears("the client", e.fromProxy, goodbye)
			e.say(e.client, clientsBye)
			e.hears("the upstream", e.upstream, clientsBye)
			e.say(e.upstream, goodbye) // its own answer, which the client must not get
			e.upstream.Close()
			e.silent()
		}},
		"in the middle of a frame": {story: func(e *ends, leave func()) {
			e.say(e.upstream, text[:4])
			e.hears("the client", e.fromProxy, text[:4])
			leave()
			time.Sleep(time.Second)
			e.say(e.upstream, append(bytes.Clone(text[4:]), text...))
			e.hears("the client", e.fromProxy, append(bytes.Clone(text[4:]), goodbye...))
			e.say(e.upstream, text)
			e.say(e.client, clientsBye)
			e.hears("the upstream", e.upstream, clientsBye)
			e.upstream.Close()
			e.silent()
		}, after: time.Second},
		"a frame that never ends": {story: func(e *ends, leave func()) {
			e.say(e.upstream, text[:4])
			e.hears("the client", e.fromProxy, text[:4])
			leave()
			e.silent()
		}, after: closeTime, cut: 1},
		"a client that does not answer": {story: func(e *ends, leave func()) {
			leave()
			e.hears("the client", e.fromProxy, goodbye)
			e.silent()
		}, after: closeTime, cut: 1},
		"a client that does not read": {story: func(_ *ends, leave func()) {
			leave()
		}, after: closeTime, cut: 1},
		"a deadline that is sooner": {story: func(e *ends, leave func()) {
			leave()
			e.hears("the client", e.fromProxy, goodbye)
		}, bound: 2 * time.Second, after: 2 * time.Second, cut: 1},
		"an upstream that does not read": {story: func(e *ends, leave func()) {
			go func() { _, _ = e.client.Write(frame(fin|2, 70_000, 0, true)) }()
			leave()
			e.hears("the client", e.fromProxy, goodbye)
		}, after: closeTime, cut: 1},
		"an upstream that does not end": {story: func(e *ends, leave func()) {
			leave()
			e.hears("the client", e.fromProxy, goodbye)
			e.say(e.client, clientsBye)
			e.hears("the upstream", e.upstream, clientsBye)
		}, after: closeTime, cut: 1},
		"a client that hangs up at once": {story: func(e *ends, leave func()) {
			leave()
			e.hears("the client", e.fromProxy, goodbye)
			e.client.Close()
		}},
		"one that does so behind its answer": {story: func(e *ends, leave func()) {
			leave()
			e.hears("the client", e.fromProxy, goodbye)
			e.say(e.client, clientsBye[:3])
			go func() { // the pipe to the upstream holds nothing back
				e.say(e.client, clientsBye[3:])
				e.client.Close()
			}()
			e.say(e.upstream, text) // which has much to say before it listens
			time.Sleep(time.Second)
			e.say(e.upstream, text)
			e.hears("the upstream", e.upstream, clientsBye)
			e.say(e.upstream, goodbye)
			e.upstream.Close()
		}, after: time.Second},
		"the upstream has closed already": {story: func(e *ends, leave func()) {
			e.say(e.upstream, []byte{0x88, 0})
			e.hears("the client", e.fromProxy, []byte{0x88, 0})
			leave()
			if err := e.client.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
				e.t.Fatal(err)
			}
			e.silent() // for so long
			e.say(e.client, clientsBye)
			e.hears("the upstream", e.upstream, clientsBye)
			e.upstream.Close()
		}, after: time.Second},
		"busy in both directions": {story: func(e *ends, leave func()) {
			var flows sync.WaitGroup
			for to, b := range map[net.Conn][]byte{e.upstream: text, e.client: frame(fin|opcodeText, 1000, 0, true)} {
				flows.Go(func() {
					for err := error(nil); err == nil; _, err = to.Write(b) {
						time.Sleep(time.Millisecond)
					}
				})
			}
			flows.Go(func() { _, _ = io.Copy(io.Discard, e.upstream) })
			time.AfterFunc(time.Second, leave)
			got, err := io.ReadAll(e.fromProxy)
			if whole, ok := bytes.CutSuffix(got, goodbye); !ok || len(whole) < 500*len(text) || len(whole)%len(text) != 0 {
				e.t.Errorf("the client gets %d bytes that end in %x, %v", len(got), got[max(0, len(got)-20):], err)
			}
			flows.Wait()
		}, after: closeTime + time.Millisecond, cut: 1}, // it never answers; the last write is a little later
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onProxy(t, func(p *proxy) {
				e := p.upgrade()
				defer e.close()
				e.switched()
				bound := c.bound
				if bound == 0 {
					bound = time.Hour
				}
				var left time.Time
				c.story(e, func() {
					left = time.Now()
					p.sockets.Leave(left.Add(bound))
				})
				if n := p.sockets.Wait(); n != c.cut || time.Since(left) != c.after {
					t.Errorf("%d were cut off and the last is gone after %v; want %d, %v", n, time.Since(left), c.cut, c.after)
				}
			})
		})
	}
}

// A client that goes on reading what was sent before the Close frame has time for
// it, up to the deadline.
func TestSocketsLeaveBehindMuch(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ takes, after time.Duration }{
		"it takes all":      {12 * time.Second, 4 * closeTime},
		"it takes nothing":  {0, closeTime},
		"it takes too long": {time.Hour, time.Minute},
	} {
		onProxy(t, func(p *proxy) {
			e := p.upgrade()
			defer e.close()
			e.switched()
			left := time.Now()
			p.sockets.unsent = func(net.Conn) int {
				if c.takes == 0 {
					return 1000
				}
				return int(max(0, c.takes-time.Since(left)))
			}
			p.sockets.Leave(left.Add(time.Minute))
			if n := p.sockets.Wait(); n != 1 || time.Since(left) != c.after {
				t.Errorf("%s: %d were cut off after %v, want %v", name, n, time.Since(left), c.after)
			}
		})
	}
}

// Leave also ends WebSockets that are opened after it, and those whose clients
// have not read the answer yet.
func TestSocketsLeaveLate(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]bool{"asked for before": false, "asked for after": true} {
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
			got := make([]byte, 0, 20)
			for !bytes.HasSuffix(got, goodbye) {
				b, err := e.fromProxy.ReadByte()
				if err != nil {
					t.Fatalf("%s: %x, %v", name, got, err)
				}
				got = append(got, b)
			}
			if before := strings.TrimSuffix(string(got), string(goodbye)); before != "" && before != string(text) {
				t.Errorf("%s: the client gets %x", name, got)
			}
			e.client.Close()
			if n := p.sockets.Wait(); n != 0 {
				t.Errorf("%s: %d were cut off", name, n)
			}
		})
	}
}

var errHijack = errors.New("hijacking failed")

// Wait does not wait for a WebSocket that failed to open.
func TestSocketsRefused(t *testing.T) {
	t.Parallel()
	var sockets WebSockets
	if s, _, err := sockets.Hijack(func() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, errHijack }, nil); err != errHijack || s != nil {
		t.Errorf("%v, %v", s, err)
	}
	sockets.Leave(time.Now())
	if n := sockets.Wait(); n != 0 {
		t.Errorf("%d were cut off", n)
	}
}

// Wait waits for a connection that is being hijacked: http.Server has forgotten
// it by then.
func TestSocketsBeingHijacked(t *testing.T) {
	t.Parallel()
	var sockets WebSockets
	taking, goOn, hijacked, waited := make(chan struct{}), make(chan struct{}), make(chan *WebSocket), make(chan struct{})
	go func() {
		s, _, err := sockets.Hijack(func() (net.Conn, *bufio.ReadWriter, error) {
			close(taking)
			<-goOn
			return &recorded{}, nil, nil
		}, nil)
		if err != nil {
			t.Error(err)
		}
		hijacked <- s
	}()
	<-taking
	go func() {
		sockets.Wait()
		close(waited)
	}()
	for range 1000 {
		runtime.Gosched() // Wait may begin, or return
	}
	another, _, err := sockets.Hijack(func() (net.Conn, *bufio.ReadWriter, error) { return &recorded{}, nil, nil }, nil)
	if err != nil { // one hijacking does not hold up another
		t.Error(err)
	}
	sockets.Remove(another)
	close(goOn)
	s := <-hijacked
	select {
	case <-waited:
		t.Error("Wait has returned before it was removed")
	default:
	}
	sockets.Remove(s)
	<-waited
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
				e.hears("the client", client, goodbye)
				_, _ = client.Write(clientsBye)
			}()
			if first == "the upstream ends" {
				if err := s.CloseWrite(); err != nil || !conn.half {
					t.Errorf("%s: %v, half closed: %t", first, err, conn.half)
				}
			}
			e.hears("the upstream", s, clientsBye)
			if first == "the client answers" {
				if err := s.CloseWrite(); !errors.Is(err, net.ErrClosed) || conn.half {
					t.Errorf("%s: %v, half closed: %t", first, err, conn.half)
				}
			}
			if n, err := s.Read(make([]byte, 1)); n != 0 || err != io.EOF {
				t.Errorf("%s: then %d bytes, %v", first, n, err)
			}
		})
	}
}

// SignOut closes a WebSocket with 1008, and nothing that the client sends after
// that reaches the upstream.
func TestSocketSignedOut(t *testing.T) {
	t.Parallel()
	farewell := append([]byte{0x88, 12, 0x03, 0xf0}, "signed out"...)
	for name, story := range map[string]func(e *ends){
		"answered": func(e *ends) {
			e.hears("the client", e.fromProxy, farewell)
			e.say(e.client, clientsBye)
			e.hears("the upstream", e.upstream, clientsBye)
			e.upstream.Close()
			e.silent()
		},
		"it goes on talking": func(e *ends) {
			e.hears("the client", e.fromProxy, farewell)
			e.say(e.client, frame(fin|opcodeText, 300, 2, true))
			e.say(e.client, append(frame(fin|opcodeText, 5, 0, true), clientsBye...))
			e.hears("the upstream", e.upstream, clientsBye)
			e.upstream.Close()
			e.silent()
		},
		"it does not answer": func(e *ends) {
			e.hears("the client", e.fromProxy, farewell)
			var talking sync.WaitGroup
			talking.Go(func() {
				for err := error(nil); err == nil; _, err = e.client.Write(frame(fin|opcodeText, 5, 0, true)) {
					time.Sleep(time.Millisecond)
				}
			})
			if got, _ := io.ReadAll(e.upstream); len(got) > 0 {
				e.t.Errorf("%d bytes reach the upstream", len(got))
			}
			talking.Wait()
		},
		"it does not read": func(e *ends) {
			if got, _ := io.ReadAll(e.upstream); len(got) > 0 {
				e.t.Errorf("%d bytes reach the upstream", len(got))
			}
		},
		"the upstream is in the middle of a frame": func(e *ends) {
			if got, _ := io.ReadAll(e.fromProxy); len(got) > 0 {
				e.t.Errorf("the client gets %x", got)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onProxy(t, func(p *proxy) {
				const limit = time.Second
				e := p.upgrade()
				defer e.close()
				e.switched()
				e.say(e.client, text)
				e.hears("the upstream", e.upstream, text)
				if strings.HasPrefix(name, "the upstream") {
					e.say(e.upstream, text[:4])
					e.hears("the client", e.fromProxy, text[:4])
				}
				time.Sleep(time.Minute)
				p.sockets.SignOut(e.answer.socket, limit)
				ended := time.Now()
				story(e)
				p.sockets.Wait()
				if took := time.Since(ended); took > limit+time.Millisecond { // in which a client notices
					t.Errorf("ended after %v", took)
				}
			})
		})
	}
}

// After Leave, SignOut sends no second Close frame.
func TestSocketSignedOutInAStop(t *testing.T) {
	t.Parallel()
	onProxy(t, func(p *proxy) {
		const limit = time.Second
		e := p.upgrade()
		defer e.close()
		e.switched()
		p.sockets.Leave(time.Now().Add(time.Hour))
		e.hears("the client", e.fromProxy, goodbye)
		p.sockets.SignOut(e.answer.socket, limit)
		ended := time.Now()
		e.silent()
		if took := time.Since(ended); took > limit {
			t.Errorf("ended after %v", took)
		}
	})
}

// securely returns a TLS connection of a Set, and its client, which reads nothing
// after the handshake.
func securely(t *testing.T, set *Set) (server *tls.Conn, client net.Conn) {
	t.Helper()
	client, there := net.Pipe()
	p := &pipes{make(chan net.Conn, 1), make(chan struct{})}
	p.conns <- there
	accepted, err := set.Listener(p).Accept()
	if err != nil {
		t.Fatal(err)
	}
	server = tls.Server(accepted, &tls.Config{
		Certificates:           []tls.Certificate{selfSigned(t)},
		SessionTicketsDisabled: true, // the client would have to read them
	})
	shaken := make(chan error)
	go func() { shaken <- tls.Client(client, &tls.Config{InsecureSkipVerify: true}).Handshake() }()
	if err := server.Handshake(); err != nil {
		t.Fatal(err)
	}
	if err := <-shaken; err != nil {
		t.Fatal(err)
	}
	return server, client
}

// cut does not wait for a client that does not read the closing message of TLS.
func TestSocketCut(t *testing.T) {
	t.Parallel()
	for name, writes := range map[string]bool{"idle": false, "busy": true} {
		synctest.Test(t, func(t *testing.T) {
			set := NewSet(Options{Logger: slog.New(slog.DiscardHandler)})
			set.Linger(time.Now().Add(time.Minute))
			server, client := securely(t, set)
			defer client.Close()
			canceled := false
			s := &WebSocket{Conn: server, cancelUpstream: func() { canceled = true }, begun: make(chan struct{}), ended: make(chan struct{})}
			over := make(chan error, 2)
			go func() {
				_, err := s.Read(make([]byte, 1))
				over <- err
			}()
			if writes {
				go func() {
					_, err := s.Write(text)
					over <- err
				}()
			} else {
				over <- net.ErrClosed
			}
			synctest.Wait()
			began := time.Now()
			s.cut()
			for range cap(over) {
				if err := <-over; err == nil {
					t.Errorf("%s: a Read or Write succeeds", name)
				}
			}
			set.Wait()
			if _, err := client.Write([]byte{0}); err == nil || !canceled || time.Since(began) != 0 {
				t.Errorf("%s: cut off after %v, %v, canceled: %t", name, time.Since(began), err, canceled)
			}
		})
	}
}
