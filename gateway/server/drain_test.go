package server

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/config"
	"authgate/gateway/logtest"
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

// onceStopped runs f with a Server. f must stop it.
func onceStopped(t *testing.T, f func(s *stopping)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &stopping{
			stub: &stub{config: config.Config{ShutdownDelay: 15 * time.Second, ShutdownTimeout: time.Minute}},
			t:    t, log: &logtest.Buffer{}, public: newDoor(), admin: newDoor(), took: make(chan time.Duration, 1),
		}
		server := newServer(options(s.stub, s.log))
		for _, l := range []struct {
			name    string
			door    *door
			handler http.Handler
		}{{nameHTTPS, s.public, s.stub}, {nameHTTP, newDoor(), s.stub}, {nameAdmin, s.admin, server.admin(nil)}} {
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

// until waits until that time after the stop.
func (s *stopping) until(after time.Duration) {
	time.Sleep(after - time.Since(s.began))
	synctest.Wait()
}

// client returns a client that keeps its connections.
func (s *stopping) client(d *door) *http.Client {
	transport := &http.Transport{DialContext: d.dial}
	s.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// get returns status and body of a response, and whether it closes the connection.
func (s *stopping) get(c *http.Client, path string) (status int, body string, closing bool, err error) {
	answer, err := c.Get("http://a" + path)
	if err != nil {
		return 0, "", false, err
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(content), answer.Close, err
}

// readiness returns what /readyz says.
func (s *stopping) readiness() string {
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
		for _, c := range []*http.Client{kept, idle} {
			if status, _, closing, err := s.get(c, "/"); status != 200 || closing || err != nil {
				t.Fatalf("before the stop: %d, closing %t, %v", status, closing, err)
			}
		}
		if got := s.readiness(); got != "ready" {
			t.Errorf("before the stop: %s", got)
		}
		s.stop()
		for _, after := range []time.Duration{0, 7 * time.Second, 15*time.Second - 1} {
			s.until(after)
			if got := s.readiness(); got != "unready stopping" {
				t.Errorf("after %v: %s", after, got)
			}
			for name, c := range map[string]*http.Client{"kept": kept, "new": s.client(s.public)} {
				if status, _, closing, err := s.get(c, "/"); status != 200 || !closing || err != nil {
					t.Errorf("after %v on a %s connection: %d, closing %t, %v", after, name, status, closing, err)
				}
			}
		}
		if status, _, _, err := s.get(idle, "/"); status != 200 || err != nil {
			t.Errorf("on a connection that was idle: %d, %v", status, err)
		}
		s.until(15*time.Second + 1)
		if status, _, _, err := s.get(kept, "/"); err == nil {
			t.Errorf("after the delay: %d", status)
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
		"within the timeout":        {40 * time.Second, 40 * time.Second, true},
		"within both":               {74 * time.Second, 74 * time.Second, true},
		"longer than that":          {80 * time.Second, 75 * time.Second, false},
		"not longer than the delay": {10 * time.Second, 15 * time.Second, true},
		"done before":               {0, 15 * time.Second, true},
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
			go func() {
				status, body, _, err := s.get(s.client(s.public), "/")
				answered <- fmt.Sprint(status, body, err)
			}()
			synctest.Wait()
			s.stop()
			s.until(c.end - 1)
			if got := s.readiness(); got != "unready stopping" {
				t.Errorf("%s: just before the end: %s", name, got)
			}
			s.ended(c.end)
			if got := <-answered; (got == "200late<nil>") != c.whole {
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

// A connection that cannot be closed does not delay the end for long.
func TestDrainStuck(t *testing.T) {
	t.Parallel()
	onceStopped(t, func(s *stopping) {
		here, there := net.Pipe()
		defer here.Close()
		free := make(chan struct{})
		defer close(free)
		s.public.conns <- &stuck{there, free}
		fmt.Fprint(here, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		if answer, err := http.ReadResponse(bufio.NewReader(here), nil); err != nil || answer.StatusCode != 200 {
			t.Fatalf("%v, %v", answer, err)
		}
		synctest.Wait() // it is idle
		s.stop()
		s.ended(75*time.Second + cutTime)
		if lines := s.log.Records(t, "connections that could not be closed are left behind"); len(lines) != 1 || lines[0]["level"] != "WARN" {
			t.Errorf("logged %v", lines)
		}
	})
}

// A connection without a request is closed after the delay, even if its client
// sends.
func TestDrainWithoutRequests(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]string{
		"silent": "", "half a header": "GET / HTTP/1.1\r\nA: ", "idle": "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
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
			time.Sleep(2 * time.Second) // for the goroutines of the clients
		})
	}
}

// The times are those of the configuration that runs at the stop.
func TestDrainAfterReload(t *testing.T) {
	t.Parallel()
	onceStopped(t, func(s *stopping) {
		s.config.ShutdownDelay = 3 * time.Second
		s.stop()
		if lines := s.log.Records(t, "stopping"); len(lines) != 1 || lines[0]["shutdown_delay"] != "3s" || lines[0]["shutdown_timeout"] != "1m0s" {
			t.Errorf("logged %v", lines)
		}
		s.ended(3 * time.Second)
	})
}

// WebSockets end after the delay, and the server waits for them.
func TestDrainWebSockets(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answers bool
		end     time.Duration
	}{"a client that answers": {true, 15 * time.Second}, "one that does not": {false, 20 * time.Second}} {
		onceStopped(t, func(s *stopping) {
			s.serve = func(w http.ResponseWriter, _ *http.Request) {
				socket, _, err := s.sockets.Hijack(http.NewResponseController(w).Hijack, func() {})
				if err != nil {
					t.Error(err)
					return
				}
				defer s.sockets.Remove(socket)
				_, _ = socket.Read(make([]byte, 100)) // the answer of the client, or the end
				socket.Close()
			}
			client, err := s.public.dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			fmt.Fprint(client, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			synctest.Wait()
			s.stop()
			const goingAway, answer = "\x88\x02\x03\xe9", "\x88\x82\x00\x00\x00\x00\x03\xe9"
			got := make([]byte, len(goingAway))
			if _, err := io.ReadFull(client, got); err != nil || string(got) != goingAway {
				t.Errorf("%s: the client gets %x, %v", name, got, err)
			}
			if after := time.Since(s.began); after != 15*time.Second {
				t.Errorf("%s: told after %v", name, after)
			}
			if c.answers {
				_, _ = io.WriteString(client, answer)
				client.Close()
			} else {
				s.until(c.end - 1)
				if got := s.readiness(); got != "unready stopping" {
					t.Errorf("%s: before its end: %s", name, got)
				}
			}
			s.ended(c.end)
			if cut := s.log.Records(t, "WebSockets were cut off"); len(cut) > 0 == c.answers {
				t.Errorf("%s: logged %v", name, cut)
			}
		})
	}
}
