package gateway

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Each direction is read by its own frames: a Close frame of the client does
// not count for the upstream.
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
		s := &socket{Conn: client, begun: make(chan struct{}), ended: make(chan struct{})}
		if got, err := io.ReadAll(s); err != nil || !bytes.Equal(got, c.sent) {
			t.Errorf("%s: %d bytes of %d, %v", name, len(got), len(c.sent), err)
		}
		if s.answered.Load() != c.want || s.toClient.closed {
			t.Errorf("%s: a Close frame of the client: %t, of the upstream: %t", name, s.answered.Load(), s.toClient.closed)
		}
	}
}

// ends are the two ends of a WebSocket through the gateway.
type ends struct {
	t                *testing.T
	client, upstream net.Conn
	fromGateway      *bufio.Reader // to the client
}

// upgrading is a WebSocket whose client has not read the answer yet.
func upgrading(t *testing.T, r *rig, dial func() net.Conn) *ends {
	t.Helper()
	return upgradingAt(t, r, dial, "/public/", "Accept: */*")
}

// upgradingAt is upgrading for a path, with a header line.
func upgradingAt(t *testing.T, r *rig, dial func() net.Conn, path, header string) *ends {
	t.Helper()
	e := &ends{t: t, client: dial()}
	e.fromGateway = bufio.NewReader(e.client)
	upstreams := make(chan net.Conn, 1)
	r.upstream.answering(func(q *http.Request) (*http.Response, error) {
		here, there := net.Pipe()
		upstreams <- here
		answer := response(q, http.StatusSwitchingProtocols, http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}}, "")
		answer.Body = there
		return answer, nil
	})
	e.say(e.client, []byte("GET "+path+" HTTP/1.1\r\nHost: gw.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+header+"\r\n\r\n"))
	e.upstream = <-upstreams
	return e
}

// switched reads the answer to the upgrade.
func (e *ends) switched() {
	e.t.Helper()
	answer, err := http.ReadResponse(e.fromGateway, nil)
	if err != nil {
		e.t.Fatal(err)
	}
	if connection := answer.Header["Connection"]; answer.StatusCode != 101 || len(connection) != 1 || connection[0] != "Upgrade" {
		e.t.Fatalf("%d, Connection: %q", answer.StatusCode, connection)
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
	if rest, _ := io.ReadAll(e.fromGateway); len(rest) > 0 {
		e.t.Errorf("the client gets %x after all", rest)
	}
}

// How WebSockets end that have to: after what time all are gone, and how many
// had to be cut off.
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
			e.hears("the client", e.fromGateway, goodbye)
			e.say(e.client, clientsBye)
			e.hears("the upstream", e.upstream, clientsBye)
			e.say(e.upstream, goodbye) // its own answer, which the client must not get
			e.upstream.Close()
			e.silent()
		}},
		"in the middle of a frame": {story: func(e *ends, leave func()) {
			e.say(e.upstream, text[:4])
			e.hears("the client", e.fromGateway, text[:4])
			leave()
			time.Sleep(time.Second)
			e.say(e.upstream, append(bytes.Clone(text[4:]), text...))
			e.hears("the client", e.fromGateway, append(bytes.Clone(text[4:]), goodbye...))
			e.say(e.upstream, text)
			e.say(e.client, clientsBye)
			e.hears("the upstream", e.upstream, clientsBye)
			e.upstream.Close()
			e.silent()
		}, after: time.Second},
		"in the middle of a header": {story: func(e *ends, leave func()) {
			e.say(e.upstream, text[:1])
			e.hears("the client", e.fromGateway, text[:1])
			leave()
			e.say(e.upstream, text[1:])
			e.hears("the client", e.fromGateway, append(bytes.Clone(text[1:]), goodbye...))
			e.client.Close()
			e.silent()
		}},
		"a frame that never ends": {story: func(e *ends, leave func()) {
			e.say(e.upstream, text[:4])
			e.hears("the client", e.fromGateway, text[:4])
			leave()
			e.silent()
		}, after: closeTime, cut: 1},
		"a client that does not answer": {story: func(e *ends, leave func()) {
			leave()
			e.hears("the client", e.fromGateway, goodbye)
			e.silent()
		}, after: closeTime, cut: 1},
		"a client that does not read": {story: func(_ *ends, leave func()) {
			leave()
		}, after: closeTime, cut: 1},
		"a deadline that is sooner": {story: func(e *ends, leave func()) {
			leave()
			e.hears("the client", e.fromGateway, goodbye)
		}, bound: 2 * time.Second, after: 2 * time.Second, cut: 1},
		"an upstream that does not read": {story: func(e *ends, leave func()) {
			go func() { _, _ = e.client.Write(frame(fin|2, 70_000, 0, true)) }()
			leave()
			e.hears("the client", e.fromGateway, goodbye)
		}, after: closeTime, cut: 1},
		"an upstream that does not end": {story: func(e *ends, leave func()) {
			leave()
			e.hears("the client", e.fromGateway, goodbye)
			e.say(e.client, clientsBye)
			e.hears("the upstream", e.upstream, clientsBye)
		}, after: closeTime, cut: 1},
		"a client that hangs up at once": {story: func(e *ends, leave func()) {
			leave()
			e.hears("the client", e.fromGateway, goodbye)
			e.client.Close()
		}},
		"one that does so behind its answer": {story: func(e *ends, leave func()) {
			leave()
			e.hears("the client", e.fromGateway, goodbye)
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
			e.hears("the client", e.fromGateway, []byte{0x88, 0})
			leave()
			if err := e.client.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
				e.t.Fatal(err)
			}
			e.silent() // for so long
			e.say(e.client, clientsBye)
			e.hears("the upstream", e.upstream, clientsBye)
			e.upstream.Close()
		}, after: time.Second},
		"the upstream is just closing": {story: func(e *ends, leave func()) {
			e.say(e.upstream, []byte{0x88})
			e.hears("the client", e.fromGateway, []byte{0x88})
			leave()
			e.say(e.upstream, []byte{0})
			e.hears("the client", e.fromGateway, []byte{0})
			e.upstream.Close()
			e.silent()
		}},
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
			got, err := io.ReadAll(e.fromGateway)
			if whole, ok := bytes.CutSuffix(got, goodbye); !ok || len(whole) < 500*len(text) || len(whole)%len(text) != 0 {
				e.t.Errorf("the client gets %d bytes that end in %x, %v", len(got), got[max(0, len(got)-20):], err)
			}
			flows.Wait()
		}, after: closeTime + time.Millisecond, cut: 1}, // it never answers; the last write is a little later
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listening(t, func(t *testing.T, r *rig, dial func() net.Conn) {
				e := upgrading(t, r, dial)
				defer e.client.Close()
				defer e.upstream.Close()
				e.switched()
				bound := c.bound
				if bound == 0 {
					bound = time.Hour
				}
				var left time.Time
				c.story(e, func() {
					left = time.Now()
					r.sockets.leave(left.Add(bound))
				})
				if n := r.sockets.wait(); n != c.cut || time.Since(left) != c.after {
					t.Errorf("%d were cut off and the last is gone after %v; want %d, %v", n, time.Since(left), c.cut, c.after)
				}
				if line := r.log.last(t, "request"); line["status"] != 101.0 {
					t.Errorf("logged %v", line)
				}
			})
		})
	}
}

// A client that takes what was sent before the Close frame has time for that,
// up to the deadline.
func TestSocketsLeaveBehindMuch(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ takes, after time.Duration }{
		"it takes all":      {12 * time.Second, 4 * closeTime},
		"it takes nothing":  {0, closeTime},
		"it takes too long": {time.Hour, time.Minute},
	} {
		listening(t, func(t *testing.T, r *rig, dial func() net.Conn) {
			e := upgrading(t, r, dial)
			defer e.client.Close()
			defer e.upstream.Close()
			e.switched()
			left := time.Now()
			r.sockets.unsent = func(net.Conn) int {
				if c.takes == 0 {
					return 1000
				}
				return int(max(0, c.takes-time.Since(left)))
			}
			r.sockets.leave(left.Add(time.Minute))
			if n := r.sockets.wait(); n != 1 || time.Since(left) != c.after {
				t.Errorf("%s: %d were cut off after %v, want %v", name, n, time.Since(left), c.after)
			}
		})
	}
}

// A WebSocket that is opened while others leave, or whose client has not even
// got the answer, does as they do.
func TestSocketsLeaveLate(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]bool{"asked for before": false, "asked for after": true} {
		listening(t, func(t *testing.T, r *rig, dial func() net.Conn) {
			leave := func() { r.sockets.leave(time.Now().Add(time.Hour)); synctest.Wait() }
			if late {
				leave()
			}
			e := upgrading(t, r, dial)
			defer e.upstream.Close()
			go func() { _, _ = e.upstream.Write(text) }() // at once, as greetings come
			synctest.Wait()
			if !late {
				leave()
			}
			e.switched()
			got := make([]byte, 0, 20)
			for !bytes.HasSuffix(got, goodbye) {
				b, err := e.fromGateway.ReadByte()
				if err != nil {
					t.Fatalf("%s: %x, %v", name, got, err)
				}
				got = append(got, b)
			}
			if before := strings.TrimSuffix(string(got), string(goodbye)); before != "" && before != string(text) {
				t.Errorf("%s: the client gets %x", name, got)
			}
			e.client.Close()
			if n := r.sockets.wait(); n != 0 {
				t.Errorf("%s: %d were cut off", name, n)
			}
		})
	}
}

// Nobody waits for a WebSocket that came to nothing.
func TestSocketsRefused(t *testing.T) {
	t.Parallel()
	var sockets sockets
	if s, _, err := sockets.hijack(func() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, errBroken }, nil); err != errBroken || s != nil {
		t.Errorf("%v, %v", s, err)
	}
	sockets.leave(time.Now())
	if n := sockets.wait(); n != 0 {
		t.Errorf("%d were cut off", n)
	}
}

// A server forgets a connection while it is taken over, and who waits for the
// last WebSocket has to know of it by then.
func TestSocketsBeingHijacked(t *testing.T) {
	t.Parallel()
	var sockets sockets
	taking, goOn, hijacked, waited := make(chan struct{}), make(chan struct{}), make(chan *socket), make(chan struct{})
	go func() {
		s, _, err := sockets.hijack(func() (net.Conn, *bufio.ReadWriter, error) {
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
		sockets.wait()
		close(waited)
	}()
	for range 1000 {
		runtime.Gosched() // it may begin to wait, or not wait at all
	}
	another, _, err := sockets.hijack(func() (net.Conn, *bufio.ReadWriter, error) { return &recorded{}, nil, nil }, nil)
	if err != nil { // or it would hang: a client can hold up its own hijacking
		t.Error(err)
	}
	sockets.remove(another)
	close(goOn)
	s := <-hijacked
	select {
	case <-waited:
		t.Error("nobody waits for it")
	default:
	}
	sockets.remove(s)
	<-waited
}

// halfClosing is a connection one direction of which can be closed.
type halfClosing struct {
	net.Conn
	half bool
}

func (c *halfClosing) CloseWrite() error { c.half = true; return nil }

// When both sides have said goodbye and the upstream is gone, nobody waits for
// the client to close its connection too.
func TestSocketDone(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"the client answers", "the upstream ends"} {
		synctest.Test(t, func(t *testing.T) {
			client, gateway := net.Pipe()
			defer client.Close()
			defer gateway.Close()
			conn := &halfClosing{Conn: gateway}
			s := &socket{Conn: conn, begun: make(chan struct{}), ended: make(chan struct{})}
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
