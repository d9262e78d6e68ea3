package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"authgate/gateway/conn"
)

// door is a listener that one can knock at until it is closed.
type door struct {
	conns  chan net.Conn
	closed chan struct{}
}

func newDoor() *door { return &door{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (d *door) Accept() (net.Conn, error) {
	select {
	case conn := <-d.conns:
		return conn, nil
	case <-d.closed:
		return nil, net.ErrClosed
	}
}

func (d *door) Close() error {
	select {
	case <-d.closed:
		return net.ErrClosed // as listeners of a network do
	default:
		close(d.closed)
		return nil
	}
}

func (d *door) Addr() net.Addr { return &net.UnixAddr{Name: "door"} }

// dial is a new connection, an error if nobody listens.
func (d *door) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case <-d.closed:
		return nil, errors.New("connection refused")
	default:
	}
	select {
	case d.conns <- there:
		return here, nil
	case <-d.closed:
		return nil, errors.New("connection refused")
	}
}

// stopping is a Server on the clock of a bubble, and its end.
type stopping struct {
	*rig
	t             *testing.T
	public, admin *door
	stop          func()
	began         time.Time // the stop
	took          chan time.Duration
}

// shutdownTimes are those of baseConfig's gateway in these tests.
const shutdownTimes = "shutdown_delay: 15s\nshutdown_timeout: 60s\n"

// onceStopped runs f beside a Server, which has to be told to stop.
func onceStopped(t *testing.T, f func(s *stopping)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &stopping{rig: newRig(t, baseConfig+shutdownTimes), t: t, public: newDoor(), admin: newDoor(), took: make(chan time.Duration, 1)}
		server := &Server{gateway: s.Gateway, logger: s.logger}
		server.clients, server.probes = conn.NewSet(conn.Options{Logger: s.logger}), conn.NewSet(conn.Options{Logger: s.logger})
		for _, l := range []struct {
			name    string
			door    *door
			handler http.Handler
		}{{"https", s.public, s.Gateway}, {"http", newDoor(), s.Gateway}, {"admin", s.admin, server.admin(s.registry)}} {
			connections := server.connections(l.name)
			server.serving = append(server.serving, serving{l.name, connections.Listener(l.door), &http.Server{
				Handler: l.handler, ConnState: connections.State,
			}})
		}
		ctx, cancel := context.WithCancel(t.Context())
		s.stop = func() {
			s.began = time.Now()
			cancel()
			synctest.Wait()
		}
		go func() {
			if err := server.Serve(ctx); err != nil {
				t.Errorf("Serve: %v", err)
			}
			s.took <- time.Since(s.began)
		}()
		synctest.Wait()
		f(s)
	})
}

// until lets time pass up to some time after the stop.
func (s *stopping) until(after time.Duration) {
	time.Sleep(after - time.Since(s.began))
	synctest.Wait()
}

// client is one with connections of its own, to which it sticks.
func (s *stopping) client(d *door) *http.Client {
	transport := &http.Transport{DialContext: d.dial}
	s.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// get asks for something and returns status and body, and whether the
// connection is of no use for the next request.
func (s *stopping) get(c *http.Client, path string) (status int, body string, closing bool, err error) {
	answer, err := c.Get("http://gw.example" + path)
	if err != nil {
		return 0, "", false, err
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(content), answer.Close, err
}

// ready reports what readiness says.
func (s *stopping) ready() string {
	_, body, _, err := s.get(s.client(s.admin), "/readyz")
	if err != nil {
		return err.Error()
	}
	var h struct{ Status, Reason string }
	if err := json.Unmarshal([]byte(body), &h); err != nil {
		return err.Error()
	}
	return strings.TrimSpace(h.Status + " " + h.Reason)
}

// ended fails the test unless Serve returns so long after the stop, or as much
// later as a server looks whether connections are closed.
func (s *stopping) ended(after time.Duration) {
	s.t.Helper()
	const poll = 2 * tellEvery
	if took := <-s.took; took < after || took > after+poll {
		s.t.Errorf("Serve returns %v after the stop, want %v", took, after)
	}
	for name, d := range map[string]*door{"public": s.public, "admin": s.admin} {
		if conn, err := d.dial(s.t.Context(), "", ""); err == nil {
			conn.Close()
			s.t.Errorf("the %s listener is still open", name)
		}
	}
}

// Until shutdown_delay is over the gateway says that it is unready, and
// answers; each answer asks the client to go elsewhere.
func TestDrainDelays(t *testing.T) {
	t.Parallel()
	onceStopped(t, func(s *stopping) {
		kept, idle := s.client(s.public), s.client(s.public)
		for _, c := range []*http.Client{kept, idle} {
			if status, _, closing, err := s.get(c, "/public/"); status != 200 || closing || err != nil {
				t.Fatalf("before the stop: %d, closing %t, %v", status, closing, err)
			}
		}
		if got := s.ready(); got != "ready" {
			t.Errorf("before the stop: %s", got)
		}
		s.stop()
		for _, after := range []time.Duration{0, 7 * time.Second, 15*time.Second - 1} {
			s.until(after)
			if got := s.ready(); got != "unready stopping" {
				t.Errorf("after %v: %s", after, got)
			}
			for name, c := range map[string]*http.Client{"kept": kept, "new": s.client(s.public)} {
				for path, want := range map[string]int{"/public/": 200, "/basic/": 401, "/nowhere": 404, "/login": 302} {
					if status, _, closing, err := s.get(c, path); status != want || !closing || err != nil {
						t.Errorf("after %v on a %s connection: %s %d, closing %t, %v", after, name, path, status, closing, err)
					}
				}
			}
		}
		if status, _, _, err := s.get(idle, "/public/"); status != 200 || err != nil {
			t.Errorf("on a connection that was idle: %d, %v", status, err)
		}
		s.until(15*time.Second + 1)
		if status, _, _, err := s.get(kept, "/public/"); err == nil {
			t.Errorf("after the delay: %d", status)
		}
		s.ended(15 * time.Second)
	})
}

// What is under way when the listeners close has shutdown_timeout, and only
// then comes the end of the admin listener.
func TestDrainWaits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		takes, end time.Duration
		whole      bool
	}{
		"within the timeout":        {40 * time.Second, 40 * time.Second, true},
		"within both":               {74 * time.Second, 74 * time.Second, true},
		"longer than that":          {80 * time.Second, 75 * time.Second, false},
		"not longer than the delay": {10 * time.Second, 15 * time.Second, true},
		"done before":               {0, 15 * time.Second, true},
	} {
		onceStopped(t, func(s *stopping) {
			s.upstream.answering(func(q *http.Request) (*http.Response, error) {
				select {
				case <-q.Context().Done():
					return nil, q.Context().Err()
				case <-time.After(c.takes):
					return response(q, 200, http.Header{}, "late"), nil
				}
			})
			answered := make(chan string, 1)
			go func() {
				status, body, _, err := s.get(s.client(s.public), "/public/")
				answered <- fmt.Sprint(status, body, err)
			}()
			synctest.Wait()
			s.stop()
			s.until(c.end - 1)
			if got := s.ready(); got != "unready stopping" {
				t.Errorf("%s: just before the end: %s", name, got)
			}
			s.ended(c.end)
			if got := <-answered; (got == "200late<nil>") != c.whole {
				t.Errorf("%s: the request gets %s", name, got)
			}
			cut := s.log.records(t, "requests were cut off")
			if (len(cut) == 0) != c.whole || len(cut) == 1 && cut[0]["listener"] != "https" {
				t.Errorf("%s: logged %v", name, cut)
			}
		})
	}
}

// stuck is a connection that cannot be closed before it is let go. TLS is like
// that while a client holds up an answer of TLS itself, to a KeyUpdate.
type stuck struct {
	net.Conn
	free chan struct{}
}

func (s *stuck) Close() error {
	<-s.free
	return s.Conn.Close()
}

// A connection that cannot be closed does not keep a gateway from its end.
func TestDrainStuck(t *testing.T) {
	t.Parallel()
	onceStopped(t, func(s *stopping) {
		here, there := net.Pipe()
		defer here.Close()
		free := make(chan struct{})
		defer close(free)
		s.public.conns <- &stuck{there, free}
		fmt.Fprint(here, "GET /public/ HTTP/1.1\r\nHost: gw.example\r\n\r\n")
		if answer, err := http.ReadResponse(bufio.NewReader(here), nil); err != nil || answer.StatusCode != 200 {
			t.Fatalf("%v, %v", answer, err)
		}
		synctest.Wait() // it is idle
		s.stop()
		s.ended(75*time.Second + cutTime)
		if line := s.log.last(t, "connections that could not be closed are left behind"); line["level"] != "WARN" {
			t.Errorf("logged %v", line)
		}
	})
}

// A connection without a request is closed when the delay is over, though its
// client sends.
func TestDrainWithoutRequests(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]string{
		"silent": "", "half a header": "GET /public/ HTTP/1.1\r\nA: ", "idle": "GET /public/ HTTP/1.1\r\nHost: gw.example\r\n\r\n",
	} {
		onceStopped(t, func(s *stopping) {
			for _, d := range []*door{s.public, s.admin} {
				client, err := d.dial(t.Context(), "", "")
				if err != nil {
					t.Fatal(err)
				}
				defer client.Close()
				go func() {
					_, err := io.WriteString(client, first)
					for ; err == nil && name == "half a header"; _, err = io.WriteString(client, "a") {
						time.Sleep(time.Second)
					}
				}()
				go func() { _, _ = io.Copy(io.Discard, client) }()
			}
			if name != "idle" {
				time.Sleep(readHeaderTime / 2)
			}
			synctest.Wait()
			s.stop()
			s.ended(15 * time.Second)
			if strings.Contains(s.log.String(), "cut off") {
				t.Errorf("%s: something was cut off", name)
			}
			time.Sleep(2 * time.Second) // for the clients to notice
		})
	}
}

// The times that count are those of the configuration that runs.
func TestDrainAfterReload(t *testing.T) {
	t.Parallel()
	onceStopped(t, func(s *stopping) {
		if err := s.reload(baseConfig + "shutdown_delay: 3s\n"); err != nil {
			t.Fatal(err)
		}
		s.stop()
		if line := s.log.last(t, "stopping"); line["shutdown_delay"] != "3s" || line["shutdown_timeout"] != "30s" {
			t.Errorf("logged %v", line)
		}
		s.ended(3 * time.Second)
	})
}

// WebSockets go on until the delay is over, and the server waits for them.
func TestDrainWebSockets(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answers bool
		end     time.Duration
	}{"a client that answers": {true, 15 * time.Second}, "one that does not": {false, 15*time.Second + 5*time.Second}} {
		onceStopped(t, func(s *stopping) {
			client, err := s.public.dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			fromGateway, upstream := upgraded(t, s.rig, client, "/public/", "Accept: */*")
			defer upstream.Close()
			s.stop()
			s.until(15*time.Second - 1)
			const message, goingAway = "\x81\x05hello", "\x88\x02\x03\xe9"
			go func() { _, _ = io.WriteString(upstream, message) }() // the client tells if it fails
			got := make([]byte, len(message+goingAway))
			if _, err := io.ReadFull(fromGateway, got); err != nil || string(got) != message+goingAway {
				t.Errorf("%s: the client gets %x, %v", name, got, err)
			}
			if after := time.Since(s.began); after != 15*time.Second {
				t.Errorf("%s: told after %v", name, after)
			}
			if c.answers {
				const answer = "\x88\x82\x00\x00\x00\x00\x03\xe9"
				go func() { _, _ = io.WriteString(client, answer) }()
				got := make([]byte, len(answer))
				if _, err := io.ReadFull(upstream, got); err != nil || string(got) != answer {
					t.Errorf("%s: the upstream gets %x, %v", name, got, err)
				}
				upstream.Close()
			} else {
				s.until(c.end - 1)
				if got := s.ready(); got != "unready stopping" {
					t.Errorf("%s: while it is waited for: %s", name, got)
				}
			}
			s.ended(c.end)
			if cut := s.log.records(t, "WebSockets were cut off"); len(cut) > 0 == c.answers {
				t.Errorf("%s: logged %v", name, cut)
			}
		})
	}
}

// Hints do not ask the client to go elsewhere, the answer behind them does,
// and a switch to WebSocket is one.
func TestDrainingAnswers(t *testing.T) {
	t.Parallel()
	r := rawApplication(t, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", false)
	r.draining.Store(true)
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
		r.draining.Store(true)
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
			r.draining.Store(draining)
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
