package http1

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A response has the same meaning as for http.Transport, or is an error for both.
func TestMeaning(t *testing.T) {
	t.Parallel()
	huge := strings.Repeat("0123456789abcdef", 1<<16)
	for _, c := range []struct {
		name, says string
		fails      bool
	}{
		{"a length", okResponse, false},
		{"no body", header + "Content-Length: 0\r\n\r\n", false},
		{"chunks with trailers",
			chunked + "Trailer: X, Y\r\n\r\n2;ext=1\r\nok\r\n0\r\nX: y\r\nZ: unannounced\r\n\r\n", false},
		{"no chunks", chunked + "\r\n0\r\n\r\n", false},
		{"until the end", header + "X: y\r\n\r\nok", false},
		{"HTTP/1.0", "HTTP/1.0 200 OK\r\n\r\nok", false},
		{"HTTP/1.0 with chunks",
			"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", false},
		{"HTTP/2.0", "HTTP/2.0 200 OK\r\n\r\n", false},
		{"204", "HTTP/1.1 204 No Content\r\n\r\n", false},
		{"304", "HTTP/1.1 304 Not Modified\r\nEtag: \"x\"\r\nContent-Length: 70\r\n\r\n", false},
		{"only a header", header + "Connection: close\r\n\r\n", false},
		{"no reason", "HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\nok", false},
		{"a status of its own", "HTTP/1.1 799 Odd\r\nContent-Length: 2\r\n\r\nok", false},
		{"header lines of one name",
			header + "Set-Cookie: a=b\r\nSet-Cookie: c=d\r\nset-cookie: e\r\nContent-Length: 2\r\n\r\nok", false},
		{"a huge body", header + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(huge), huge), false},
		{"huge chunks", chunked + fmt.Sprintf("\r\n%x\r\n%s\r\n0\r\n\r\n", len(huge), huge), false},
		{"gzip", header + "Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\nno", false}, // which is not decoded
		{"a long header", header + "X: " + strings.Repeat("x", 100_000) + "\r\nContent-Length: 2\r\n\r\nok", false},
		{"early hints", "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + okResponse, false},
		{"continue", "HTTP/1.1 100 Continue\r\n\r\n" + okResponse, false},
		{"one length twice", header + "Content-Length: 2\r\nContent-Length: 2\r\n\r\nok", false},
		{"a length and chunks", chunked + "Content-Length: 7\r\n\r\n2\r\nok\r\n0\r\n\r\n", false},
		{"two lengths", header + "Content-Length: 2\r\nContent-Length: 3\r\n\r\nok", true},
		{"two lengths in a line", header + "Content-Length: 2, 2\r\n\r\nok", true},
		{"a negative length", header + "Content-Length: -2\r\n\r\nok", true},
		{"a signed length", header + "Content-Length: +2\r\n\r\nok", true},
		{"chunks twice", chunked + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", true},
		{"another coding", header + "Transfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", true},
		{"no name", header + ": 2\r\n\r\nok", true},
	} {
		final := strings.LastIndex(c.says, "HTTP/")
		end := final + strings.Index(c.says[final:], "\r\n\r\n") + 4
		for method, says := range map[string]string{"GET": c.says, "HEAD": c.says[:end]} {
			t.Run(c.name+" "+method, func(t *testing.T) {
				t.Parallel()
				u := newRawUpstream(t, sayAndClose(says))
				got, gotErr := meaning(t, newFixture(t, u.url()), method, u.url())
				want, wantErr := meaning(t, newTransport(t, dialTCP), method, u.url())
				if got != want || (gotErr == nil) != (wantErr == nil) {
					t.Errorf("it means\n%.300s %v\nto http.Transport\n%.300s %v", got, gotErr, want, wantErr)
				}
				if method == "GET" && (gotErr != nil) != c.fails {
					t.Errorf("error %v, want one: %t", gotErr, c.fails)
				}
			})
		}
	}
}

// A bounded number of informational responses is passed on. A switch of protocols
// that was not asked for is an error.
func TestInformational(t *testing.T) {
	t.Parallel()
	const (
		hint = "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
		most = MaxInformational / len(hint)
	)
	for _, c := range []struct {
		name, says string
		seen       []int
		fails      bool
	}{
		{"one", hint + okResponse, []int{103}, false},
		{"many", strings.Repeat(hint, most) + okResponse, slices.Repeat([]int{103}, most), false},
		{"too many", strings.Repeat(hint, most+1) + okResponse, slices.Repeat([]int{103}, most+1), true},
		{"100 unasked", "HTTP/1.1 100 Continue\r\n\r\n" + okResponse, []int{100}, false},
		{"101 unasked", "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", nil, true},
		{"101 without a protocol", "HTTP/1.1 101 Switching Protocols\r\n\r\n", nil, true},
		{"a header that is too long", header + "X: " + strings.Repeat("x", maxHeader) + "\r\n\r\n", nil, true},
		{"many headers that are too long",
			strings.Repeat("HTTP/1.1 103 Early Hints\r\nX: "+strings.Repeat("x", maxHeader/2)+"\r\n\r\n", 3) + okResponse,
			[]int{103}, true},
	} {
		f := newFixture(t, newRawUpstream(t, say(c.says)).url())
		var seen []int
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
				seen = append(seen, code)
				return nil
			},
		})
		body, err := f.send(ctx, "GET", nil)
		if (err != nil) != c.fails || !c.fails && body != "ok" || !slices.Equal(seen, c.seen) {
			t.Errorf("%s: %q, %v; seen %d, want %d", c.name, body, err, len(seen), len(c.seen))
		}
		if err != nil && statusOf(err) != 502 {
			t.Errorf("%s: %d (%v)", c.name, statusOf(err), err)
		}
	}
}

// The time limit is for the header of the response, and not for its body. It counts
// once, also for a request on a used connection.
func TestTimeout(t *testing.T) {
	t.Parallel()
	const limit = 30 * time.Second
	for name, dial := range map[string]dialFunc{
		"the request is not read": pipe(func(net.Conn) {}),
		"nothing":                 answering(func(net.Conn, *http.Request) {}),
		"half a header": answering(func(c net.Conn, _ *http.Request) {
			_, _ = io.WriteString(c, header+"A: b\r\n") // the client may be gone
		}),
		"1xx alone": answering(func(c net.Conn, _ *http.Request) {
			time.Sleep(limit / 2) // of the bubble
			_, _ = io.WriteString(c, "HTTP/1.1 103 Early Hints\r\n\r\n")
		}),
		"a header byte by byte": answering(func(c net.Conn, _ *http.Request) {
			for _, b := range []byte(header + "Content-Length: 0\r\n\r\n") {
				time.Sleep(time.Second) // of the bubble
				if _, err := c.Write([]byte{b}); err != nil {
					return
				}
			}
		}),
	} {
		for _, used := range []int64{0, 1} {
			synctest.Test(t, func(t *testing.T) {
				f := newDialing(t, limit, dial)
				if used == 1 {
					k, err := dial(t.Context(), "")
					if err != nil {
						t.Fatal(err)
					}
					f.idle.put(newConn(open{k}, "app.invalid"), false)
				}
				start := time.Now()
				_, err := f.get(t, t.Context())
				if status := statusOf(err); status != 504 || time.Since(start) != limit || f.dialed.Load() != 1-used {
					t.Errorf("%s, %d used: %d (%v) after %v, %d connections",
						name, used, status, err, time.Since(start), f.dialed.Load())
				}
				time.Sleep(2 * limit) // of the bubble: the upstream ends before the test
			})
		}
	}
	synctest.Test(t, func(t *testing.T) {
		f := newDialing(t, limit, answering(func(c net.Conn, _ *http.Request) {
			time.Sleep(limit - time.Second)                              // of the bubble
			_, _ = io.WriteString(c, header+"Content-Length: 3\r\n\r\n") // an error shows at the other end
			for range 3 {
				time.Sleep(time.Hour)
				_, _ = io.WriteString(c, "x")
			}
		}))
		if body, err := f.send(t.Context(), "GET", nil); body != "xxx" || err != nil {
			t.Errorf("a slow body: %q, %v", body, err)
		}
	})
}

// The end of the context closes the connection at once, and so does a body that
// breaks off. The body returns its error again and again.
func TestBrokenResponse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, says string
		closes     bool // the upstream closes the connection, else the client leaves
		body       string
		want       error
	}{
		{"no header", "", false, "", context.Canceled},
		{"half a header", header + "A: b\r\n", false, "", context.Canceled},
		{"half a body", header + "Content-Length: 5\r\n\r\nab", false, "ab", context.Canceled},
		{"half a body of an upstream that leaves", header + "Content-Length: 5\r\n\r\nab", true, "ab", io.ErrUnexpectedEOF},
	} {
		synctest.Test(t, func(t *testing.T) {
			closed := make(chan struct{})
			f := newDialing(t, time.Hour, answering(func(conn net.Conn, _ *http.Request) {
				defer close(closed)
				_, _ = io.WriteString(conn, c.says) // an error shows at the other end
				if c.closes {
					time.Sleep(time.Minute) // of the bubble
					conn.Close()
				}
				_, _ = conn.Read(make([]byte, 1)) // until the client closes it
			}))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if !c.closes {
				time.AfterFunc(time.Minute, cancel)
			}
			start, body := time.Now(), []byte(nil)
			response, err := f.get(t, ctx)
			if err == nil {
				body, err = io.ReadAll(response.Body)
				response.Body.Close()
				if _, again := response.Body.Read(make([]byte, 1)); again != err {
					t.Errorf("%s: %v, then %v", c.name, err, again)
				}
			}
			if took := time.Since(start); !errors.Is(err, c.want) || string(body) != c.body || took != time.Minute {
				t.Errorf("%s: %q, %v after %v", c.name, body, err, took)
			}
			<-closed
			if f.idle.take("app.invalid", time.Now()) != nil {
				t.Errorf("%s: the connection is kept", c.name)
			}
		})
	}
}

// A client that leaves when the whole response has come loses nothing, and does not
// disturb the next request on the connection.
func TestLeaveAfterResponse(t *testing.T) {
	t.Parallel()
	for _, early := range []bool{true, false} { // before or after the body is read
		synctest.Test(t, func(t *testing.T) {
			f := newDialing(t, time.Hour, answering(func(c net.Conn, _ *http.Request) {
				_, _ = io.WriteString(c, okResponse) // an error shows at the other end
				_, _ = c.Read(make([]byte, 1))
			}))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			response, err := f.get(t, ctx)
			if err != nil {
				t.Fatal(err)
			}
			if early {
				cancel()
			}
			if body, err := io.ReadAll(response.Body); string(body) != "ok" || err != nil {
				t.Errorf("%q, %v", body, err)
			}
			cancel()
			synctest.Wait()
			if early {
				if f.idle.take("app.invalid", time.Now()) != nil {
					t.Error("a connection is kept whose deadline may still be set")
				}
				return
			}
			c := idleOne(t, f.Client)
			if err := c.SetDeadline(time.Now().Add(time.Hour)); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Write([]byte("x")); err != nil {
				t.Errorf("the next request on the connection: %v", err)
			}
		})
	}
}

// The bytes of each request are those that http.Transport writes.
func TestWrites(t *testing.T) {
	t.Parallel()
	many := http.Header{}
	for i := range 300 {
		many.Set(fmt.Sprintf("X-%d", i), strings.Repeat("v", i))
	}
	const target = "/a%20b;c/%C3%A9?x=%zz&&y"
	for name, r := range map[string]*http.Request{
		"a target": {
			URL: &url.URL{Opaque: "/a%20b;c/%C3%A9", RawQuery: "x=%zz&&y"}, Host: "app.example:8080",
			Header: http.Header{"Accept": {"a", "b"}, "Te": {"trailers"}, "X-Odd": {" a\tb "}},
		},
		"an odd path":    {URL: &url.URL{Opaque: "/a//b/%2e%2E/%zz;x?y"}},
		"a star":         {URL: &url.URL{Opaque: "*"}},
		"two slashes":    {URL: &url.URL{Opaque: "//evil.example/x"}},
		"no path":        {URL: &url.URL{}},
		"a query of ''":  {URL: &url.URL{Opaque: "/", ForceQuery: true}},
		"many headers":   {URL: &url.URL{Opaque: "/"}, Header: many},
		"no User-Agent":  {URL: &url.URL{Opaque: "/"}, Header: http.Header{"User-Agent": nil}},
		"an User-Agent":  {URL: &url.URL{Opaque: "/"}, Header: http.Header{"User-Agent": {"x/1"}}},
		"another host":   {URL: &url.URL{Opaque: "/"}, Host: "bücher.example:81"},
		"a host of junk": {URL: &url.URL{Opaque: "/"}, Host: "a b"},
		"framing": {URL: &url.URL{Opaque: "/"}, Header: http.Header{
			"Transfer-Encoding": {"chunked"}, "Content-Length": {"4"}, "Trailer": {"X"},
		}},
	} {
		for _, method := range []string{"GET", "HEAD"} {
			var wires [2]string
			for i := range wires {
				var wire bytes.Buffer
				dial := pipe(func(c net.Conn) {
					defer c.Close()
					if _, err := http.ReadRequest(bufio.NewReader(io.TeeReader(c, &wire))); err == nil {
						_, _ = io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n") // an error shows at the other end
					}
				})
				q := r.Clone(t.Context())
				q.Method, q.URL.Scheme, q.URL.Host = method, "http", "127.0.0.1:9"
				if q.Header == nil {
					q.Header = http.Header{}
				}
				way := []http.RoundTripper{newDialing(t, time.Minute, dial), newTransport(t, dial)}[i]
				wires[i] = "error"
				if response, err := way.RoundTrip(q); err == nil {
					response.Body.Close()
					wires[i] = wire.String()
				}
			}
			if wires[0] != wires[1] {
				t.Errorf("%s %s: the wire carries\n%q, with http.Transport\n%q", method, name, wires[0], wires[1])
			}
			if want := method + " " + target + " HTTP/1.1\r\nHost: app.example:8080\r\n"; name == "a target" &&
				!strings.HasPrefix(wires[0], want) {
				t.Errorf("%s %s: the wire carries\n%q", method, name, wires[0])
			}
		}
	}
}

// No error quotes what an upstream sent.
func TestErrorsQuoteNothing(t *testing.T) {
	t.Parallel()
	const secret = "sid-sesame"
	for _, says := range []string{
		secret + "\r\n\r\n", "HTTP/1.1 " + secret + "\r\n\r\n", secret + " 200 OK\r\n\r\n", header + secret + "\r\n\r\n",
		header + "Content-Length: " + secret + "\r\n\r\n",
		header + "Content-Length: 1\r\nContent-Length: " + secret + "\r\n\r\n",
		header + "Transfer-Encoding: " + secret + "\r\n\r\n", header + ": " + secret + "\r\n\r\n",
		chunked + "\r\n" + secret + "\r\n",
		"HTTP/1.1 101 " + secret + "\r\nUpgrade: " + secret + "\r\nConnection: upgrade\r\n\r\n",
		chunked + "\r\n0\r\n" + secret + "\r\n\r\n", chunked + "Trailer: Content-Length\r\n\r\n",
	} {
		f := newFixture(t, newRawUpstream(t, sayAndClose(says)).url())
		for _, body := range []io.Reader{nil, strings.NewReader("small"), io.MultiReader(strings.NewReader("long"))} {
			_, err := f.send(t.Context(), "POST", body)
			if err == nil || strings.Contains(err.Error(), "sesame") || strings.Contains(err.Error(), "Content-Length") {
				t.Errorf("%q: %v", says, err)
			}
		}
	}
}

// A method that is not a token is refused: it could add words to the request line.
func TestMethodIsToken(t *testing.T) {
	t.Parallel()
	f := newDialing(t, time.Minute, nil) // it would panic
	for _, method := range []string{"GET /admin HTTP/1.1\r\nX:", "A B", "GET\t", "é"} {
		r := newRequest(t, t.Context(), "GET", f.url, nil)
		r.Method = method
		if _, err := f.RoundTrip(r); !errors.Is(err, errMethod) {
			t.Errorf("%q: %v", method, err)
		}
	}
}
