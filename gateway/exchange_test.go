package gateway

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"authgate/gateway/web"
)

// Each exchange is counted and logged, whether the answer is the gateway's or the
// upstream's.
func TestExchangeAccount(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	alice := r.login(aliceIn)
	r.upstream.answering(func(q *http.Request) (*http.Response, error) {
		if strings.HasSuffix(q.URL.Opaque, "teapot") {
			return response(q, http.StatusTeapot, http.Header{}, "short and stout"), nil
		}
		return response(q, http.StatusOK, http.Header{}, "hello"), nil
	})
	for _, c := range []struct {
		method, target, header, route, mechanism, decision string
		status, bytes                                      int
		subject                                            any
	}{
		{"GET", "/public/", "", "public", "none", "allow", 200, 5, nil},
		{"GET", "/public/teapot?secret", "", "public", "none", "allow", 418, 15, nil},
		{"GET", "/session/", alice.cookie, "session", "session", "allow", 200, 5, "local:alice"},
		{"GET", "/bearer/", alice.bearer, "bearer", "bearer", "allow", 200, 5, "local:alice"},
		{"GET", "/basic/", basicHeader("service", "s3rvice"), "basic", "basic", "allow", 200, 5, "basic:service"},
		{"GET", "/basic/", basicHeader("service", "x"), "basic", "none", "challenge", 401, -1, nil},
		{"GET", "/session/", "", "session", "none", "challenge", 401, -1, nil},
		{"GET", "/session/", browser, "session", "none", "challenge", 302, 0, nil},
		{"GET", "/admin/", r.login(bobIn).cookie, "admin", "session", "forbid", 403, -1, "local:bob"},
		{"GET", "/nowhere", "", "none", "none", "error", 404, -1, nil},
		{"GET", "//", "", "none", "none", "error", 400, -1, nil},
		{"GET", "/me", alice.cookie, "authgate/me", "session", "allow", 200, -1, "local:alice"},
		{"GET", "/me", "", "authgate/me", "none", "challenge", 401, -1, nil},
		{"PUT", "/me", "", "authgate/me", "none", "error", 405, -1, nil},
		{"GET", "/signin", browser, "authgate/signin", "none", "allow", 200, -1, nil},
		{"GET", "/login", browser, "authgate/login", "none", "allow", 302, 0, nil},
		{"GET", "/.well-known/jwks.json", "", "authgate/.well-known/jwks.json", "none", "allow", 200, -1, nil},
	} {
		labels := []string{"route=" + c.route, "mechanism=" + c.mechanism, "decision=" + c.decision, fmt.Sprintf("code=%d", c.status)}
		before := r.sample("authgate_requests_total", labels...)
		timed := r.sample("authgate_request_duration_seconds", labels[0])
		w := r.do(c.method, c.target, "", c.header)
		if w.Code != c.status {
			t.Errorf("%s %s: %d, want %d", c.method, c.target, w.Code, c.status)
			continue
		}
		if c.bytes < 0 {
			c.bytes = w.Body.Len()
		}
		line := r.log.Last(t, "request")
		want := map[string]any{
			"method": c.method, "path": strings.TrimSuffix(c.target, "?secret"), "host": "gw.example", "client": "192.0.2.7",
			"route": c.route, "mechanism": c.mechanism, "decision": c.decision,
			"status": float64(c.status), "bytes": float64(c.bytes), "subject": c.subject,
		}
		for key, value := range want {
			if line[key] != value {
				t.Errorf("%s %s: logged %s %v, want %v", c.method, c.target, key, line[key], value)
			}
		}
		if got := r.sample("authgate_requests_total", labels...); got != before+1 {
			t.Errorf("%s %s: %v requests counted under %v, want %v", c.method, c.target, got, labels, before+1)
		}
		if got := r.sample("authgate_request_duration_seconds", labels[0]); got != timed+1 {
			t.Errorf("%s %s: %v durations, want %v", c.method, c.target, got, timed+1)
		}
	}
}

func TestExchangePanic(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	secret := "the cause of it all"
	r.upstream.answering(func(*http.Request) (*http.Response, error) { panic(secret) })
	w := r.do("GET", "/public/", "")
	if w.Code != 500 || strings.Contains(w.Body.String(), secret) || problemOf(t, w).Detail != "The gateway failed." {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	line := r.log.Last(t, "panic")
	if line["panic"] != secret || !strings.Contains(fmt.Sprint(line["stack"]), "exchange_test.go") || line["level"] != "ERROR" {
		t.Errorf("logged %v", line)
	}
	if access := r.log.Last(t, "request"); access["status"] != float64(500) || access["decision"] != "error" || access["request_id"] != line["request_id"] {
		t.Errorf("logged %v", access)
	}
	if n := r.sample("authgate_requests_total", "route=public", "decision=error", "code=500"); n != 1 {
		t.Errorf("counted %v times", n)
	}
}

// brokenBody is a body that fails in the middle.
type brokenBody struct{ fail func() error }

func (b *brokenBody) Read(p []byte) (int, error) {
	if b.fail == nil {
		return 0, io.EOF
	}
	fail := b.fail
	b.fail = func() error { return fail() }
	if len(p) == 0 {
		return 0, nil
	}
	return 0, fail()
}

func (b *brokenBody) Close() error { return nil }

// An answer that has begun cannot become an error. It is cut off, so that the client
// notices that it is not whole.
func TestExchangeCutOff(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func() error{
		"the upstream breaks": func() error { return errors.New("reset") },
		"the gateway panics":  func() error { panic("half-way") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, baseConfig)
			r.upstream.answering(func(q *http.Request) (*http.Response, error) {
				answer := response(q, 200, http.Header{}, "")
				answer.ContentLength = -1
				answer.Body = io.NopCloser(io.MultiReader(strings.NewReader("half"), &brokenBody{fail}))
				return answer, nil
			})
			server := httptest.NewServer(r)
			defer server.Close()
			answer, err := http.Get(server.URL + "/public/")
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			body, err := io.ReadAll(answer.Body)
			if string(body) != "half" || !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("the client gets %q and %v, want an error", body, err)
			}
			server.Close() // waits for the handler
			line := r.log.Last(t, "request")
			if line["status"] != float64(200) || line["bytes"] != float64(4) || line["error"] == nil {
				t.Errorf("logged %v", line)
			}
		})
	}
}

func TestExchangeAbort(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	r.upstream.answering(func(*http.Request) (*http.Response, error) { panic(http.ErrAbortHandler) })
	aborted(t, func() { r.do("GET", "/public/", "") })
	if panics := r.log.Records(t, "panic"); len(panics) > 0 {
		t.Errorf("an abort is logged as a panic: %v", panics)
	}
	if lines := r.log.Records(t, "request"); len(lines) != 1 {
		t.Errorf("%d lines in the access log", len(lines))
	}
}

// The client, the log and the upstream get the same request ID.
func TestRequestIDEverywhere(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	for _, header := range []string{"X-Request-Id: mine", "X-Request-Id: not mine"} {
		r.do("GET", "/public/", "", header)
		seen := r.upstream.last().Header["X-Request-Id"]
		logged := r.log.Last(t, "request")["request_id"]
		if len(seen) != 1 || seen[0] != logged || (seen[0] == "mine") != strings.HasSuffix(header, ": mine") {
			t.Errorf("%s: the upstream gets %q, the log has %v", header, seen, logged)
		}
		w := r.do("GET", "/nowhere", "", header)
		if got := w.Header().Get("X-Request-Id"); got == "" || got != r.log.Last(t, "request")["request_id"] {
			t.Errorf("%s: the client gets %q", header, got)
		}
	}
}

// Lines of the log are bounded, whatever a client sends.
func TestLogIsBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	long := strings.Repeat("x", 50_000)
	for _, q := range []*http.Request{
		request("GET", "/"+long, ""),
		request("GET", "/public/"+long+"?"+long, "", "User-Agent: "+long, "X-Request-Id: "+long),
		request("GET", "//"+long, ""),
		request("GET", long, ""),
		request("GET", "/"+strings.Repeat("é", 1000), ""), // cut within a character
		{Method: long, RequestURI: "/", Host: "gw.example", Header: http.Header{}},
		{Method: "GET", RequestURI: "/public/", Host: long, Header: http.Header{}},
	} {
		before := len(r.log.String())
		r.ServeHTTP(httptest.NewRecorder(), q)
		if grown := len(r.log.String()) - before; grown > 3000 {
			t.Errorf("the log grows by %d bytes", grown)
		}
	}
	r.log.Records(t, "") // every line is still JSON
}

func TestLogHoldsNoSecret(t *testing.T) {
	t.Parallel()
	r := newRig(t, cookieDelivery)
	secrets := []string{"wonderland", "s3rvice", "c2VydmljZTpzM3J2aWNl", "queryvalue", "b0dy"}
	for _, c := range r.do("POST", "/login", aliceIn, jsonType).Result().Cookies() {
		secrets = append(secrets, c.Value)
		r.do("GET", "/any/?queryvalue", "", "Cookie: "+c.Name+"="+c.Value)
		r.do("GET", "/any/", "", "Authorization: Bearer "+c.Value)
		r.do("GET", "/any/", "", "Authorization: Bearer "+c.Value+"x")
		r.do("POST", "/refresh", refreshBody(c.Value), jsonType)
		r.do("POST", "/refresh", refreshBody(c.Value), jsonType)
		r.do("GET", "//"+"?"+c.Value, "")
		r.do("POST", "/logout", "", "Cookie: "+c.Name+"="+c.Value)
	}
	r.do("GET", "/basic/", "", basicHeader("service", "s3rvice"))
	r.do("GET", "/basic/", "", basicHeader("service", "wonderland"))
	r.do("POST", "/login", `{"username":"wonderland","password":"x"}`, jsonType) // in the wrong field
	r.do("POST", "/login", "username=wonderland&password=x", formType)
	for _, body := range []string{`{"b0dy":1,"b0dy":2}`, `b0dy`, `{"username":"b0dy","password":b0dy}`, `{"username":"alice","password":"b0dy\q"}`} {
		r.do("POST", "/login", body, jsonType)
		r.do("POST", "/refresh", body, jsonType)
	}
	r.do("POST", "/login", "username=alice&password=b0dy%zz&b0dy", formType)
	log := r.log.String()
	for _, secret := range secrets {
		if strings.Contains(log, secret) {
			t.Errorf("the log holds %q", secret)
		}
	}
	if strings.Contains(log, "%zz") {
		t.Error("the log holds a part of a password")
	}
}

// aborted fails the test unless f ends in the panic by which net/http cuts off
// an answer.
func aborted(t *testing.T, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if p := recover(); p != http.ErrAbortHandler {
			t.Errorf("the handler ends with %v, want http.ErrAbortHandler", p)
		}
	}()
	f()
}

// The log has no bytes of what an upstream sends.
func TestUpstreamBytesStayOutOfLog(t *testing.T) {
	t.Parallel()
	const secret = "sid-sesame"
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	for _, says := range []string{
		secret + "\r\n\r\n", "HTTP/1.1 " + secret + "\r\n\r\n", secret + " 200 OK\r\n\r\n", ok + "HTTP/1.1 200 OK\r\nSet-Cookie: " + secret + "\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: " + secret + "\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: " + secret + "\r\n\r\n",
		"HTTP/1.1 200 OK\r\n" + secret + "\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + secret + "\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n" + secret + "\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: " + secret + "\r\n\r\n2\r\nok\r\n0\r\n" + secret + ": \x01\r\n\r\n",
		"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + secret + "\r\n\r\n",
		"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: \x01" + secret + "\r\n\r\n",
		"HTTP/1.1 103 Early Hints\r\nX: " + secret + "\r\n\r\n" + secret + "\r\n\r\n",
	} {
		r := rawApplication(t, says, false)
		server := httptest.NewUnstartedServer(r.Gateway)
		server.Config.ErrorLog = web.LibraryLog(r.service.Logger.Handler(), slog.LevelDebug)
		server.Start()
		for _, method := range []string{"GET", "HEAD", "POST"} {
			for _, upgrade := range []string{"", "Connection: Upgrade\r\nUpgrade: websocket\r\n"} {
				conn, err := net.Dial("tcp", server.Listener.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(conn, "%s /public/ HTTP/1.1\r\nHost: gw.example\r\nContent-Length: 0\r\n%s\r\n", method, upgrade)
				if a, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method}); err == nil && a.StatusCode != http.StatusSwitchingProtocols {
					_, _ = io.Copy(io.Discard, a.Body) // which may be cut off
				}
				conn.Close()
			}
		}
		server.Close() // when all requests are logged
		if strings.Contains(r.log.String(), "sesame") {
			t.Errorf("%q: the log has\n%s", says, r.log)
		}
		r.log.Last(t, web.AccessMessage) // every line is a record
	}
}
