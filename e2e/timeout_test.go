package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// timeLimit is the timeout of the upstreams.
const timeLimit = time.Second

// TestUpstreamTimeout is about upstreams that do not answer in time. That the
// answer comes at all, and not before the timeout, is what shows here; tests in
// package gateway have the time, on a clock of their own.
func TestUpstreamTimeout(t *testing.T) {
	sleeps := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // net/http looks for the end of the connection behind it
		<-r.Context().Done()               // the gateway gives up
	}))
	t.Cleanup(sleeps.Close)
	silent := listen(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	half := listen(t, func(conn net.Conn) {
		if _, err := readMessage(bufio.NewReader(conn), conn); err == nil {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Le")
			_, _ = io.Copy(io.Discard, conn)
		}
	})
	deaf := listen(t, func(conn net.Conn) {
		_, _ = http.ReadRequest(bufio.NewReader(conn)) // its head, and nothing of its body
		<-t.Context().Done()
	})
	g := start(t, `
upstreams:
  sleeps: {url: "`+sleeps.URL+`", timeout: 1s}
  patient: {url: "`+sleeps.URL+`", timeout: 1h}
  silent: {url: "`+silent+`", timeout: 1s}
  half: {url: "`+half+`", timeout: 1s}
  deaf: {url: "`+deaf+`", timeout: 1s}
routes:
  - {match: /sleeps, upstream: sleeps, auth: [none]}
  - {match: /overridden, upstream: patient, timeout: 1s, auth: [none]}
  - {match: /silent, upstream: silent, auth: [none]}
  - {match: /half, upstream: half, auth: [none]}
  - {match: /deaf, upstream: deaf, auth: [none]}
`)
	large := strings.Repeat("x", 20<<20) // more than the buffers on the way take
	for _, test := range []struct{ name, method, path, body string }{
		{"it sleeps", "GET", "/sleeps", ""},
		{"it sleeps over a body", "POST", "/sleeps", "body"},
		{"the route's timeout goes before the upstream's", "GET", "/overridden", ""},
		{"for a body too", "POST", "/overridden", "body"},
		{"it takes the request and says nothing", "GET", "/silent", ""},
		{"it takes a body and says nothing", "POST", "/silent", "body"},
		{"it stops in the middle of the header", "GET", "/half", ""},
		{"it stops in the middle of the header, after a body", "POST", "/half", "body"},
		{"it stops reading a large body", "POST", "/deaf", large},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.body != large { // which keeps the machine busy
				t.Parallel()
			}
			for _, c := range []*http.Client{g.stranger(), g.stranger11()} {
				timesOut(t, func() (answer, error) { return g.try(c, test.method, test.path, test.body) })
			}
		})
	}
}

// TestUpstreamTimeoutOfRetries: an upstream that closes a connection where it
// was to answer gains no time by that.
func TestUpstreamTimeoutOfRetries(t *testing.T) {
	up := listen(t, func(conn net.Conn) {
		in := bufio.NewReader(conn)
		for {
			m, err := readMessage(in, conn)
			if err != nil {
				return
			}
			if m.target() != "/warm" {
				<-time.After(timeLimit * 6 / 10)
				return
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	})
	g := start(t, `
upstreams: {app: {url: "`+up+`", timeout: 1s}}
routes: [{match: /, upstream: app, auth: [none]}]
`)
	c := g.stranger()
	many(4, func(int) { _, _ = g.try(c, "GET", "/warm", "") }) // connections to use again
	// Each attempt ends before the timeout, so only all together can meet it;
	// else the answer was 502.
	wantProblem(t, g.do(c, "GET", "/cold", ""), http.StatusGatewayTimeout)
}

// timesOut fails the test unless the answer is 504, not before the timeout.
func timesOut(t *testing.T, ask func() (answer, error)) {
	t.Helper()
	began := time.Now()
	a, err := ask()
	if err != nil {
		t.Fatal(err)
	}
	wantProblem(t, a, http.StatusGatewayTimeout)
	if took := time.Since(began); took < timeLimit {
		t.Errorf("it took %v, less than the timeout", took)
	}
}

// wantProblem checks an error of the gateway itself, as JSON (design B.2).
func wantProblem(t *testing.T, a answer, status int) {
	t.Helper()
	var body struct {
		Title  string
		Status int
		Detail string
	}
	if err := json.Unmarshal([]byte(a.body), &body); err != nil {
		t.Errorf("the body %q is no JSON object: %v", a.body, err)
	}
	if a.status != status || body.Status != status || body.Title != http.StatusText(status) || body.Detail == "" {
		t.Errorf("status %d, body %s; expected %d with status, title and detail", a.status, a.body, status)
	}
	if got := a.header.Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type %q", got)
	}
	if got := a.header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("Cache-Control %q", got)
	}
}

// TestUpstreamLateBody: the timeout ends with the response header.
func TestUpstreamLateBody(t *testing.T) {
	t.Parallel()
	const headerLimit = 10 * time.Second // on a busy machine a header takes its time
	late := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush() // the test sees whether it came
		<-time.After(headerLimit)
		_, _ = io.WriteString(w, "late")
	}))
	t.Cleanup(late.Close)
	g := start(t, `
upstreams: {late: {url: "`+late.URL+`", timeout: `+headerLimit.String()+`}}
routes: [{match: /, upstream: late, auth: [none]}]
`)
	if a := g.do(g.stranger(), "GET", "/", ""); a.status != http.StatusOK || a.body != "late" {
		t.Errorf("status %d, body %q", a.status, a.body)
	}
}

// TestUpstreamBreaks is about upstreams that cannot be reached or go away in
// the middle of something.
func TestUpstreamBreaks(t *testing.T) {
	t.Parallel()
	breaking := func(answer string) string {
		return listen(t, func(conn net.Conn) {
			if _, err := readMessage(bufio.NewReader(conn), conn); err == nil {
				_, _ = io.WriteString(conn, answer)
			}
		})
	}
	g := start(t, `
upstreams:
  refuses: {url: "http://127.0.0.1:`+freePort(t)+`"}
  mute: {url: "`+breaking("")+`"}
  noise: {url: "`+breaking("SSH-2.0-OpenSSH_9.9\r\n")+`"}
  header: {url: "`+breaking("HTTP/1.1 200 OK\r\nContent-Length: 1")+`"}
  body: {url: "`+breaking("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this")+`"}
  chunks: {url: "`+breaking("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nonly this\r\n")+`"}
routes:
  - {match: /refuses, upstream: refuses, auth: [none]}
  - {match: /mute, upstream: mute, auth: [none]}
  - {match: /noise, upstream: noise, auth: [none]}
  - {match: /header, upstream: header, auth: [none]}
  - {match: /body, upstream: body, auth: [none]}
  - {match: /chunks, upstream: chunks, auth: [none]}
`)
	for protocol, c := range map[string]*http.Client{"HTTP/2": g.stranger(), "HTTP/1.1": g.stranger11()} {
		for method, body := range map[string]string{"GET": "", "POST": "body"} {
			for _, path := range []string{"/refuses", "/mute", "/noise", "/header"} {
				t.Run(protocol+" "+method+path, func(t *testing.T) { wantProblem(t, g.do(c, method, path, body), http.StatusBadGateway) })
			}
			for _, path := range []string{"/body", "/chunks"} {
				t.Run(protocol+" "+method+path, func(t *testing.T) {
					if a, err := g.try(c, method, path, body); err == nil {
						t.Errorf("the response ended well: %d %q", a.status, a.body)
					}
				})
			}
		}
	}
}

// TestClientLeaves: an upstream need not go on for a client that has left.
func TestClientLeaves(t *testing.T) {
	t.Parallel()
	began, ended := make(chan struct{}), make(chan error)
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		began <- struct{}{}
		select {
		case <-r.Context().Done():
			ended <- nil
		case <-time.After(patience):
			ended <- errors.New("the request to the upstream goes on though the client left")
		}
	}))
	t.Cleanup(slow.Close)
	g := start(t, "routes: [{match: /, upstream: app, auth: [none]}]\n"+app(slow.URL))
	for _, c := range []*http.Client{g.stranger(), g.stranger11()} {
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan error)
		go func() {
			request, err := http.NewRequestWithContext(ctx, "GET", g.base+"/", nil)
			if err == nil {
				_, err = c.Do(request)
			}
			left <- err
		}()
		<-began
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("the client: %v", err)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	until(t, "499 in the access log", func() bool { return strings.Count(g.log.String(), `"status":499`) == 2 })
}
