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

// TestUpstreamFails: an upstream that does not answer in time gives 504, one
// that cannot be reached or answers nonsense 502, and a response that breaks off
// breaks off for the client. Tests of package gateway have the times.
func TestUpstreamFails(t *testing.T) {
	t.Parallel()
	sleeps := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // net/http notices the end of the connection after that
		<-r.Context().Done()
	}))
	t.Cleanup(sleeps.Close)
	deaf := listen(t, func(conn net.Conn) {
		_, _ = http.ReadRequest(bufio.NewReader(conn)) // the header, and nothing of the body
		<-t.Context().Done()
	})
	breaking := func(answer string, stays bool) string {
		return listen(t, func(conn net.Conn) {
			if _, err := readMessage(bufio.NewReader(conn), conn); err == nil {
				_, _ = io.WriteString(conn, answer)
			}
			if stays {
				_, _ = io.Copy(io.Discard, conn)
			}
		})
	}
	config := "upstreams:\n  patient: {url: \"" + sleeps.URL + "\", timeout: 1h}\n"
	routes := "routes:\n  - {match: /route, upstream: patient, timeout: 1s, auth: [none]}\n"
	for name, url := range map[string]string{
		"sleeps": sleeps.URL, "deaf": deaf, "half": breaking("HTTP/1.1 200 OK\r\nContent-Le", true),
		"refuses": "http://" + freeAddress(t), "mute": breaking("", false), "noise": breaking("SSH-2.0-OpenSSH_9.9\r\n", false),
		"header": breaking("HTTP/1.1 200 OK\r\nContent-Length: 1", false),
		"body":   breaking("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this", false),
		"chunks": breaking("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nonly this\r\n", false),
	} {
		config += "  " + name + ": {url: \"" + url + "\", timeout: " + map[bool]string{true: "1s", false: "1m"}[name == "sleeps" || name == "deaf" || name == "half"] + "}\n"
		routes += "  - {match: /" + name + ", upstream: " + name + ", auth: [none]}\n"
	}
	g := start(t, config+routes)
	large := strings.Repeat("x", 20<<20) // more than the buffers on the way take
	for path, want := range map[string]struct {
		status int // 0: the response breaks off
		bodies []string
	}{
		"/sleeps": {504, []string{"", "body"}}, "/route": {504, []string{"", "body"}}, "/half": {504, []string{"", "body"}}, "/deaf": {504, []string{large}},
		"/refuses": {502, []string{"", "body"}}, "/mute": {502, []string{"", "body"}}, "/noise": {502, []string{"", "body"}}, "/header": {502, []string{"", "body"}},
		"/body": {0, []string{"", "body"}}, "/chunks": {0, []string{"", "body"}},
	} {
		t.Run(path, func(t *testing.T) {
			if path != "/deaf" { // the large body keeps the machine busy
				t.Parallel()
			}
			for _, c := range []*http.Client{g.stranger(), g.stranger11()} {
				for _, body := range want.bodies {
					method := map[bool]string{true: "GET", false: "POST"}[body == ""]
					began := time.Now()
					a, err := g.try(c, method, path, body)
					switch {
					case want.status == 0 && err == nil:
						t.Errorf("%s: the response ended well: %d %q", method, a.status, a.body)
					case want.status != 0 && err != nil:
						t.Errorf("%s: %v", method, err)
					case want.status != 0:
						wantProblem(t, a, want.status)
					}
					if took := time.Since(began); want.status == http.StatusGatewayTimeout && took < time.Second {
						t.Errorf("%s: 504 after %v, less than the timeout", method, took)
					}
				}
			}
		})
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

// TestClientLeaves: when a client leaves, the request to the upstream ends.
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
	g := start(t, targets+app(slow.URL))
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
