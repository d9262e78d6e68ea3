package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"authgate/internal/test/logtest"
)

// stopping is a Server that a test stops, on the clock of a bubble.
type stopping struct {
	*stub
	t             *testing.T
	log           *logtest.Buffer
	public, admin *door
	stop          func()
	began         time.Time          // when it was stopped
	took          chan time.Duration // the stop
}

// onceStopped runs f with a Server. f must stop it. The times are those of the
// configuration that runs at the stop.
func onceStopped(t *testing.T, f func(s *stopping)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &stopping{stub: &stub{}, t: t, log: &logtest.Buffer{},
			public: newDoor(), admin: newDoor(), took: make(chan time.Duration, 1)}
		server := newServer(options(s.stub, s.log))
		for _, l := range []struct {
			name    string
			door    *door
			handler http.Handler
		}{{nameHTTPS, s.public, s.stub}, {nameHTTP, newDoor(), s.stub}, {nameAdmin, s.admin, server.admin(nil)}} {
			connections := server.connections(l.name)
			server.serving = append(server.serving, serving{
				name: l.name, listener: connections.Listener(l.door),
				server: &http.Server{Handler: l.handler, ConnState: connections.State}})
		}
		ctx, cancel := context.WithCancel(t.Context())
		s.stop = func() {
			s.config.ShutdownDelay, s.config.ShutdownTimeout = 15*time.Second, time.Minute
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

// until waits until that time after the stop.
func (s *stopping) until(after time.Duration) {
	time.Sleep(after - time.Since(s.began))
	synctest.Wait()
}

// client returns a client that keeps its connections.
func (s *stopping) client(d *door) *http.Client {
	transport := &http.Transport{DialContext: d.dial}
	s.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// raw opens a connection and sends the text.
func (s *stopping) raw(d *door, text string) net.Conn {
	s.t.Helper()
	conn, err := d.dial(s.t.Context(), "", "")
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, text); err != nil {
		s.t.Fatal(err)
	}
	return conn
}

// get returns status and body of a response, and whether it closes the connection.
func get(c *http.Client, path string) string {
	answer, err := c.Get("http://a" + path)
	if err != nil {
		return "no answer"
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return "half an answer"
	}
	got := strings.TrimSpace(fmt.Sprintf("%d %s", answer.StatusCode, body))
	if answer.Close {
		got += ", closing"
	}
	return got
}

// unready fails the test unless probes are answered, and say that it stops.
func (s *stopping) unready(when any) {
	s.t.Helper()
	if got := get(s.client(s.admin), "/readyz"); !strings.HasPrefix(got, `503 {"status":"unready","reason":"stopping"}`) {
		s.t.Errorf("%v: readyz %s", when, got)
	}
}

// ended fails the test unless Serve returns that time after the stop, or as long
// after it as http.Server takes to notice, and the listeners are closed.
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

// During shutdown_delay the server is unready and answers as before, but each
// answer closes its connection.
func TestDrainDelays(t *testing.T) {
	t.Parallel()
	onceStopped(t, func(s *stopping) {
		kept, idle := s.client(s.public), s.client(s.public)
		for name, got := range map[string]string{"kept": get(kept, "/"), "idle": get(idle, "/")} {
			if got != "200" {
				t.Fatalf("before the stop, %s: %s", name, got)
			}
		}
		if got := get(s.client(s.admin), "/readyz"); got != `200 {"status":"ready"}` {
			t.Errorf("before the stop: %s", got)
		}
		s.stop()
		if line := s.log.Last(t, "stopping"); line["shutdown_delay"] != "15s" || line["shutdown_timeout"] != "1m0s" {
			t.Errorf("logged %v", line)
		}
		for _, after := range []time.Duration{0, 7 * time.Second, 15*time.Second - 1} {
			s.until(after)
			s.unready(after)
			for name, c := range map[string]*http.Client{"kept": kept, "new": s.client(s.public)} {
				if got := get(c, "/"); got != "200, closing" {
					t.Errorf("after %v on a %s connection: %s", after, name, got)
				}
			}
		}
		if got := get(idle, "/"); got != "200, closing" {
			t.Errorf("on a connection that was idle: %s", got)
		}
		s.until(15*time.Second + 1)
		if got := get(kept, "/"); got != "no answer" {
			t.Errorf("after the delay: %s", got)
		}
		s.ended(15 * time.Second)
	})
}

// Requests in flight when the listeners close have shutdown_timeout. The admin
// listener closes last.
func TestDrainWaits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		takes, end time.Duration
		whole      bool
	}{
		"within both":               {74 * time.Second, 74 * time.Second, true},
		"longer than that":          {80 * time.Second, 75 * time.Second, false},
		"not longer than the delay": {10 * time.Second, 15 * time.Second, true},
	} {
		onceStopped(t, func(s *stopping) {
			s.serve = func(w http.ResponseWriter, r *http.Request) {
				select {
				case <-r.Context().Done():
					panic(http.ErrAbortHandler)
				case <-time.After(c.takes):
					_, _ = io.WriteString(w, "late") // the client tells if it fails
				}
			}
			answered := make(chan string, 1)
			go func() { answered <- get(s.client(s.public), "/") }()
			synctest.Wait()
			s.stop()
			s.until(c.end - 1)
			s.unready(name + ", just before the end")
			s.ended(c.end)
			if got := <-answered; strings.HasPrefix(got, "200 late") != c.whole {
				t.Errorf("%s: the request gets %s", name, got)
			}
			cut := s.log.Records(t, "requests were cut off")
			if (len(cut) == 0) != c.whole || len(cut) == 1 && cut[0]["listener"] != "https" {
				t.Errorf("%s: logged %v", name, cut)
			}
		})
	}
}

// stuck is a connection whose Close waits. TLS does that while the client does not
// read an answer of TLS itself, such as to a KeyUpdate.
type stuck struct {
	net.Conn
	free chan struct{}
}

func (s *stuck) Close() error {
	<-s.free
	return s.Conn.Close()
}

const plainRequest = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

// A connection that cannot be closed does not delay the end for long.
func TestDrainStuck(t *testing.T) {
	t.Parallel()
	onceStopped(t, func(s *stopping) {
		here, there := net.Pipe()
		defer here.Close()
		free := make(chan struct{})
		defer close(free)
		s.public.conns <- &stuck{there, free}
		fmt.Fprint(here, plainRequest)
		if answer, err := http.ReadResponse(bufio.NewReader(here), nil); err != nil || answer.StatusCode != 200 {
			t.Fatalf("%v, %v", answer, err)
		}
		synctest.Wait() // it is idle
		s.stop()
		s.ended(75*time.Second + cutTime)
		if line := s.log.Last(t, "connections that could not be closed are left behind"); line["level"] != "WARN" {
			t.Errorf("logged %v", line)
		}
	})
}

// A connection without a request is closed after the delay, even if its client
// sends.
func TestDrainWithoutRequests(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]string{
		"silent": "", "half a header": "GET / HTTP/1.1\r\nA: ", "idle": plainRequest,
	} {
		onceStopped(t, func(s *stopping) {
			for _, d := range []*door{s.public, s.admin} {
				client := s.raw(d, first)
				go func() { _, _ = io.Copy(io.Discard, client) }()
				go func() {
					for err := error(nil); err == nil && name == "half a header"; _, err = io.WriteString(client, "a") {
						time.Sleep(time.Second)
					}
				}()
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
			time.Sleep(2 * time.Second) // for the goroutines of the clients
		})
	}
}

// WebSockets end after the delay, and the server waits for them.
func TestDrainWebSockets(t *testing.T) {
	t.Parallel()
	for answers, end := range map[bool]time.Duration{true: 15 * time.Second, false: 20 * time.Second} {
		onceStopped(t, func(s *stopping) {
			s.serve = func(w http.ResponseWriter, _ *http.Request) {
				socket, _, err := s.sockets.Hijack(http.NewResponseController(w).Hijack, false, func() {})
				if err != nil {
					t.Error(err)
					return
				}
				defer s.sockets.Remove(socket)
				_, _ = socket.Read(make([]byte, 100)) // the answer of the client, or the end
				socket.Close()
			}
			client := s.raw(s.public, plainRequest)
			synctest.Wait()
			s.stop()
			const goingAway, answer = "\x88\x02\x03\xe9", "\x88\x82\x00\x00\x00\x00\x03\xe9"
			got := make([]byte, len(goingAway))
			_, err := io.ReadFull(client, got)
			if after := time.Since(s.began); err != nil || string(got) != goingAway || after != 15*time.Second {
				t.Errorf("the client gets %x after %v, %v", got, after, err)
			}
			if answers {
				_, _ = io.WriteString(client, answer)
				client.Close()
			} else {
				s.until(end - 1)
				s.unready("before the end of a WebSocket whose client does not answer")
			}
			s.ended(end)
			if cut := s.log.Records(t, "WebSockets were cut off"); len(cut) > 0 == answers {
				t.Errorf("a client that answers, %t: logged %v", answers, cut)
			}
		})
	}
}
