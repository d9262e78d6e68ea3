package gateway

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/conn"
	"authgate/gateway/web"
)

// bodyPause is limits.body_pause of baseConfig.
const bodyPause = 2 * time.Minute

// Limits of the servers in these tests, as gateway/server has them.
const (
	readHeaderTime = 10 * time.Second
	idleTime       = 2 * time.Minute
)

// pipes is a listener for the near ends of pipes.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	conn, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes"} }

// listening runs f in a synctest bubble with a gateway that serves HTTP/1.1 and
// HTTP/2 over what dial opens. The upstream reads the whole body.
func listening(t *testing.T, f func(t *testing.T, r *rig, dial func() net.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, baseConfig)
		r.upstream.answer = func(q *http.Request) (*http.Response, error) {
			if q.Body != nil {
				if _, err := io.Copy(io.Discard, q.Body); err != nil {
					return nil, err
				}
			}
			return response(q, http.StatusOK, http.Header{}, ""), nil
		}
		server := &http.Server{
			Handler: r.Gateway, ConnContext: conn.Context, ReadHeaderTimeout: readHeaderTime, IdleTimeout: idleTime, Protocols: new(http.Protocols),
		}
		server.Protocols.SetHTTP1(true)
		server.Protocols.SetUnencryptedHTTP2(true)
		listener := make(pipes)
		ended := make(chan error)
		go func() { ended <- server.Serve(listener) }()
		defer func() {
			server.Close()
			if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
				t.Errorf("the server: %v", err)
			}
		}()
		f(t, r, func() net.Conn {
			here, there := net.Pipe()
			if err := here.SetDeadline(time.Now().Add(24 * time.Hour)); err != nil { // longer than any test waits
				t.Fatal(err)
			}
			listener <- there
			return here
		})
	})
}

// transportOver returns an HTTP client for one protocol over what dial opens.
func transportOver(dial func() net.Conn, protocol string) *http.Transport {
	transport := &http.Transport{
		Protocols:   new(http.Protocols),
		DialContext: func(context.Context, string, string) (net.Conn, error) { return dial(), nil },
	}
	transport.Protocols.SetHTTP1(protocol == "HTTP/1.1")
	transport.Protocols.SetUnencryptedHTTP2(protocol == "HTTP/2.0")
	return transport
}

// roundTrip sends a request over transport. The test closes the body at its end.
func roundTrip(t *testing.T, transport *http.Transport, method, path string, body io.Reader, header ...string) *http.Response {
	t.Helper()
	q, err := http.NewRequest(method, "http://gw.example"+path, body)
	if err != nil {
		t.Fatal(err)
	}
	q.Header = request(method, path, "", header...).Header
	answer, err := transport.RoundTrip(q)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { answer.Body.Close() })
	return answer
}

// ask sends a request, whose lines end in a line feed alone, and reads the
// response.
func ask(t *testing.T, conn net.Conn, text string) *http.Response {
	t.Helper()
	if _, err := io.WriteString(conn, strings.ReplaceAll(text, "\n", "\r\n")); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Fatal(err)
	}
	return response
}

// A refused request is answered even if its body never arrives. Then the connection
// closes, because it is unknown where the next request would begin.
func TestStalledBody(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		head string
		want int
	}{
		"a malformed target": {"POST /public/%00 HTTP/1.1", 400},
		"401":                {"POST /basic/ HTTP/1.1", 401},
		"401, as a page":     {"POST /session/ HTTP/1.1\nAccept: text/html", 401},
		"403":                {"POST /admin/ HTTP/1.1", 403},
		"404":                {"POST /nowhere HTTP/1.1", 404},
		"to the sign-in":     {"GET /session/ HTTP/1.1\nAccept: text/html", 302},
		"an own endpoint":    {"POST /logout HTTP/1.1", 400},
	} {
		for _, body := range []string{
			"Content-Length: 10\n\n", "Content-Length: 10\n\nhalf",
			"Transfer-Encoding: chunked\n\n", "Transfer-Encoding: chunked\n\n4\nhalf\n",
		} {
			listening(t, func(t *testing.T, r *rig, dial func() net.Conn) {
				header := "Host: gw.example\n"
				if c.want == 403 {
					header += r.login(bobIn).bearer + "\n"
				}
				start := time.Now()
				conn := dial()
				a := ask(t, conn, c.head+"\n"+header+body)
				if took := time.Since(start); a.StatusCode != c.want || took != web.BodyTime || !a.Close {
					t.Errorf("%s, %q: %d after %v, closing %t; want %d after %v", name, body, a.StatusCode, took, a.Close, c.want, web.BodyTime)
				}
				if n, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
					t.Errorf("%s, %q: the connection is still open: %d, %v", name, body, n, err)
				}
				if n := r.upstream.count(); n > 0 {
					t.Errorf("%s, %q: %d requests reached the upstream", name, body, n)
				}
			})
		}
	}
}

// The time limit of a body does not apply to the next body on the connection, which
// goes to the upstream.
func TestBodyLimitEnds(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]string{
		"a refusal":               "POST /basic/",
		"a redirect":              "POST /basic",
		"an own endpoint":         "POST /logout",
		"an own endpoint refuses": "POST /login",
	} {
		listening(t, func(t *testing.T, r *rig, dial func() net.Conn) {
			conn := dial()
			for _, head := range []string{first, "POST /public/"} {
				for _, wait := range []time.Duration{time.Second, web.BodyTime - time.Second} {
					time.AfterFunc(wait, func() { _, _ = io.WriteString(conn, "body") }) // after an error, the answer is another one
					if a := ask(t, conn, head+" HTTP/1.1\nHost: gw.example\nContent-Length: 4\n\n"); a.Close {
						t.Errorf("after %s: %d, and the connection ends", name, a.StatusCode)
					}
				}
			}
			time.Sleep(idleTime - time.Second)
			time.AfterFunc(bodyPause-time.Second, func() { _, _ = io.WriteString(conn, "body") })
			if a := ask(t, conn, "POST /public/ HTTP/1.1\nHost: gw.example\nContent-Length: 4\n\n"); a.StatusCode != 200 || a.Close {
				t.Errorf("after %s: %d to a slow body", name, a.StatusCode)
			}
			if n := r.upstream.count(); n != 3 {
				t.Errorf("%d requests reached the upstream", n)
			}
		})
	}
}

// A body on its way to an upstream may take any time, but its pauses are bounded.
func TestPausedBody(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pauses []time.Duration // between the ten bytes of the body
		want   int
	}{
		"whole at once":   {nil, 200},
		"slow":            {[]time.Duration{time.Minute, bodyPause - time.Second, bodyPause - time.Second}, 200},
		"a pause":         {[]time.Duration{time.Second, bodyPause + 2*web.BodyTime}, 408},
		"never any of it": {[]time.Duration{time.Hour}, 408},
	} {
		listening(t, func(t *testing.T, r *rig, dial func() net.Conn) {
			conn := dial()
			after := time.Duration(0)
			for _, pause := range c.pauses {
				after += pause
				time.AfterFunc(after, func() { _, _ = io.WriteString(conn, "b") }) // after an error, the answer is another one
			}
			head := "POST /public/ HTTP/1.1\nHost: gw.example\nContent-Length: 10\n\n"
			a := ask(t, conn, head+strings.Repeat("b", 10-len(c.pauses)))
			if a.StatusCode != c.want || a.Close != (c.want != 200) {
				t.Errorf("%s: %d, closing %t; want %d", name, a.StatusCode, a.Close, c.want)
			}
			if c.want != 200 {
				return
			}
			time.Sleep(idleTime - time.Second)
			if a := ask(t, conn, "GET /public/ HTTP/1.1\nHost: gw.example\n\n"); a.StatusCode != 200 {
				t.Errorf("%s: %d to the next request", name, a.StatusCode)
			}
		})
	}
}

// An upstream may answer before it has the body. The gateway waits for the rest of
// the body as long as before an answer of its own; it does not wait for a body that
// the client sends only after a 100 (Continue).
func TestEarlyAnswer(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]time.Duration{"": web.BodyTime, "Expect: 100-continue\n": 0} {
		listening(t, func(t *testing.T, r *rig, dial func() net.Conn) {
			r.upstream.answer = func(q *http.Request) (*http.Response, error) {
				return response(q, http.StatusConflict, http.Header{}, "no"), nil
			}
			start := time.Now()
			a := ask(t, dial(), "POST /public/ HTTP/1.1\nHost: gw.example\n"+header+"Content-Length: 10\n\n")
			if took := time.Since(start); a.StatusCode != http.StatusConflict || took != want {
				t.Errorf("%q: %d after %v, want it after %v", header, a.StatusCode, took, want)
			}
		})
	}
}

// The time limit of a body that has arrived does not end a long response.
func TestLongAnswerAfterBody(t *testing.T) {
	t.Parallel()
	listening(t, func(t *testing.T, r *rig, dial func() net.Conn) {
		r.upstream.answer = func(q *http.Request) (*http.Response, error) {
			if _, err := io.Copy(io.Discard, q.Body); err != nil {
				return nil, err
			}
			select {
			case <-q.Context().Done():
				return nil, q.Context().Err()
			case <-time.After(time.Hour):
			}
			return response(q, http.StatusOK, http.Header{}, ""), nil
		}
		if a := ask(t, dial(), "POST /public/ HTTP/1.1\nHost: gw.example\nContent-Length: 4\n\nbody"); a.StatusCode != 200 {
			t.Errorf("%d", a.StatusCode)
		}
	})
}

// Over HTTP/2 the gateway does not wait for a body that it does not read, and the
// time limit is that of one stream.
func TestStalledBodyHTTP2(t *testing.T) {
	t.Parallel()
	listening(t, func(t *testing.T, r *rig, dial func() net.Conn) {
		dials := 0
		transport := transportOver(func() net.Conn { dials++; return dial() }, "HTTP/2.0")
		defer transport.CloseIdleConnections()
		send := func(method, path string, bodyAfter time.Duration, header ...string) (int, time.Duration) {
			body, comes := io.Pipe()
			late := time.AfterFunc(bodyAfter, func() { comes.Close() })
			defer func() { late.Stop(); comes.Close() }()
			q, err := http.NewRequest(method, "http://gw.example"+path, body)
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range header {
				name, value, _ := strings.Cut(line, ": ")
				q.Header.Set(name, value)
			}
			start := time.Now()
			a, err := transport.RoundTrip(q)
			if err != nil {
				t.Fatal(err)
			}
			a.Body.Close()
			return a.StatusCode, time.Since(start)
		}
		bob := r.login(bobIn)
		for _, c := range []struct {
			method, path string
			header       []string
			want         int
			took         time.Duration
		}{
			{"POST", "/basic/", nil, 401, 0},
			{"POST", "/admin/", []string{bob.bearer}, 403, 0},
			{"GET", "/session/", []string{browser}, 302, 0},
			{"POST", "/login", nil, 400, web.BodyTime},
		} {
			if got, took := send(c.method, c.path, time.Hour, c.header...); got != c.want || took != c.took {
				t.Errorf("%s: %d after %v, want %d after %v", c.path, got, took, c.want, c.took)
			}
		}
		if n := r.upstream.count(); n > 0 {
			t.Errorf("%d requests reached the upstream", n)
		}
		if got, _ := send("POST", "/public/", bodyPause-time.Second); got != 200 || r.upstream.count() != 1 || dials != 1 {
			t.Errorf("a slow body on the same connection: %d, %d requests upstream, %d connections", got, r.upstream.count(), dials)
		}
	})
}

// A client that does not read the response loses the connection, because it holds
// one to the upstream too. A client that reads slowly gets everything.
func TestStalledReader(t *testing.T) {
	t.Parallel()
	listening(t, func(t *testing.T, r *rig, dial func() net.Conn) {
		r.upstream.answer = func(q *http.Request) (*http.Response, error) {
			answer := response(q, http.StatusOK, http.Header{}, "")
			answer.Body, answer.ContentLength = endlessBody{}, 1<<40
			return answer, nil
		}
		slow, stalled := dial(), dial()
		for _, conn := range []net.Conn{slow, stalled} {
			fmt.Fprint(conn, "GET /public/ HTTP/1.1\r\nHost: gw.example\r\n\r\n")
			if answer, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || answer.StatusCode != http.StatusOK {
				t.Fatalf("%v, %v", answer, err)
			}
		}
		buffer := make([]byte, copyBuffer)
		for range 60 {
			time.Sleep(time.Minute)
			if _, err := slow.Read(buffer); err != nil {
				t.Fatalf("the client that reads slowly: %v", err)
			}
		}
		synctest.Wait()
		if got := r.load.inFlight.Load(); got != 1 {
			t.Errorf("after an hour %d requests are in flight, want one", got)
		}
		slow.Close()
		stalled.Close()
	})
}

// duplexUpstream responds while it reads: it sends each message of messages, and
// ends the response when messages is closed.
func duplexUpstream(r *rig, messages <-chan string) {
	r.upstream.answer = func(q *http.Request) (*http.Response, error) {
		out, in := io.Pipe()
		go func() {
			_, err := io.Copy(io.Discard, q.Body)
			in.CloseWithError(err) // nothing more to answer; an error ends the response
		}()
		go func() {
			for m := range messages {
				_, _ = io.WriteString(in, m) // lost once the response has ended
			}
			in.Close()
		}()
		answer := response(q, http.StatusOK, http.Header{}, "")
		answer.Body, answer.ContentLength = out, -1
		return answer, nil
	}
}

// A full-duplex stream goes on while its response does, even if its client sends
// nothing. It is cut when neither sends anything.
func TestSilentClientOfAStream(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pauses []time.Duration // between the messages of the response
		cut    bool
	}{
		"the response goes on": {[]time.Duration{bodyPause - time.Second, bodyPause - time.Second, time.Minute, bodyPause - time.Second}, false},
		"both are silent":      {[]time.Duration{time.Minute, bodyPause + time.Second}, true},
	} {
		listening(t, func(t *testing.T, r *rig, dial func() net.Conn) {
			messages := make(chan string)
			duplexUpstream(r, messages)
			transport := transportOver(dial, "HTTP/2.0")
			defer transport.CloseIdleConnections()
			body, comes := io.Pipe()
			defer comes.Close()
			q, err := http.NewRequest("POST", "http://gw.example/public/", body)
			if err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = io.WriteString(comes, "hello") }()
			var began time.Time
			sent := make(chan struct{})
			defer func() { <-sent }()
			go func() {
				defer close(sent)
				defer close(messages)
				began = time.Now()
				messages <- "m"
				for _, pause := range c.pauses {
					time.Sleep(pause)
					messages <- "m"
				}
			}()
			answer, err := transport.RoundTrip(q)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			got, err := io.ReadAll(answer.Body)
			if !c.cut && (err != nil || string(got) != strings.Repeat("m", len(c.pauses)+1)) {
				t.Errorf("%s: %q, %v after %v", name, got, err, time.Since(began))
			}
			if took := time.Since(began); c.cut && (err == nil || took != time.Minute+bodyPause) {
				t.Errorf("%s: %q, %v after %v; want a cut after %v of silence", name, got, err, took, bodyPause)
			}
		})
	}
}

// The time in which the upstream does not read does not count as a pause of the
// client.
func TestUpstreamThatReadsLate(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		listening(t, func(t *testing.T, r *rig, dial func() net.Conn) {
			r.upstream.answer = func(q *http.Request) (*http.Response, error) {
				if _, err := io.ReadFull(q.Body, make([]byte, 1)); err != nil {
					return nil, err
				}
				time.Sleep(3 * bodyPause)
				n, err := io.Copy(io.Discard, q.Body)
				if err != nil || n != 1<<20 {
					return nil, errors.Join(err, errBroken)
				}
				return response(q, http.StatusOK, http.Header{}, ""), nil
			}
			transport := transportOver(dial, protocol)
			defer transport.CloseIdleConnections()
			q, err := http.NewRequest("POST", "http://gw.example/public/", strings.NewReader(strings.Repeat("b", 1<<20+1)))
			if err != nil {
				t.Fatal(err)
			}
			answer, err := transport.RoundTrip(q)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			if answer.StatusCode != http.StatusOK {
				t.Errorf("%s: %d\n%s", protocol, answer.StatusCode, r.log)
			}
		})
	}
}

// limits.body_pause of the configuration applies that runs when the request arrives.
func TestBodyPauseReloads(t *testing.T) {
	t.Parallel()
	listening(t, func(t *testing.T, r *rig, dial func() net.Conn) {
		r.mustReload(baseConfig + "limits: {body_pause: 3s}\n")
		conn := dial()
		start := time.Now()
		if _, err := io.WriteString(conn, "POST /public/ HTTP/1.1\r\nHost: gw.example\r\nContent-Length: 10\r\n\r\nhalf"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		time.Sleep(3*time.Second - time.Since(start) - 1)
		synctest.Wait()
		if r.load.inFlight.Load() != 1 {
			t.Error("the request has ended before body_pause")
		}
		if answer, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || answer.StatusCode != http.StatusRequestTimeout {
			t.Errorf("%v, %v", answer, err)
		}
	})
}
