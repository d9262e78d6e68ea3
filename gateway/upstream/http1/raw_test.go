package http1

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// meaning returns all of a response that the proxy uses.
func meaning(way http.RoundTripper, method, at string) (string, error) {
	r, err := http.NewRequest(method, at, nil)
	if err != nil {
		return "", err
	}
	response, err := way.RoundTrip(r)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	var s strings.Builder
	fmt.Fprintln(&s, response.Proto, response.Status, response.StatusCode, response.ContentLength, response.TransferEncoding, response.Close, response.Uncompressed)
	for _, h := range []http.Header{response.Header, response.Trailer} {
		for _, name := range slices.Sorted(maps.Keys(h)) {
			fmt.Fprintf(&s, "%s: %q\n", name, h[name])
		}
		fmt.Fprintln(&s)
	}
	s.Write(body)
	return s.String(), err
}

// A response has the same meaning as for http.Transport, or is an error for both.
func TestMeaning(t *testing.T) {
	t.Parallel()
	const (
		header  = "HTTP/1.1 200 OK\r\n"
		chunked = header + "Transfer-Encoding: chunked\r\n"
	)
	huge := strings.Repeat("0123456789abcdef", 1<<16)
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := io.WriteString(z, huge); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, says string
		fails      bool
	}{
		{"a length", okResponse, false},
		{"no body", header + "Content-Length: 0\r\n\r\n", false},
		{"chunks with trailers", chunked + "Trailer: X, Y\r\n\r\n2;ext=1\r\nok\r\n0\r\nX: y\r\nZ: unannounced\r\n\r\n", false},
		{"no chunks", chunked + "\r\n0\r\n\r\n", false},
		{"until the end", header + "X: y\r\n\r\nok", false},
		{"HTTP/1.0", "HTTP/1.0 200 OK\r\n\r\nok", false},
		{"HTTP/1.0 with chunks", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", false},
		{"204", "HTTP/1.1 204 No Content\r\n\r\n", false},
		{"304", "HTTP/1.1 304 Not Modified\r\nEtag: \"x\"\r\nContent-Length: 70\r\n\r\n", false},
		{"only a header", header + "Connection: close\r\n\r\n", false},
		{"no reason", "HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\nok", false},
		{"a status of its own", "HTTP/1.1 799 Odd\r\nContent-Length: 2\r\n\r\nok", false},
		{"header lines of one name", header + "Set-Cookie: a=b\r\nSet-Cookie: c=d\r\nset-cookie: e\r\nContent-Length: 2\r\n\r\nok", false},
		{"a huge body", header + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(huge), huge), false},
		{"huge chunks", chunked + fmt.Sprintf("\r\n%x\r\n%s\r\n0\r\n\r\n", len(huge), huge), false},
		{"gzip", header + fmt.Sprintf("Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", zipped.Len(), &zipped), false},
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
		{"a space in a name", header + "Content-Length : 2\r\n\r\nok", false},
		{"no name", header + ": 2\r\n\r\nok", true},
	} {
		for _, method := range []string{"GET", "HEAD"} {
			t.Run(c.name+" "+method, func(t *testing.T) {
				t.Parallel()
				says := c.says
				if method == "HEAD" {
					end := strings.LastIndex(says, "\r\n\r\n"+"HTTP/") + 4
					if end < 4 {
						end = 0
					}
					blank := strings.Index(says[end:], "\r\n\r\n")
					says = says[:end+blank+4]
				}
				u := newRawUpstream(t, func(_, _ int64, _ *http.Request, conn net.Conn) bool {
					_, _ = io.WriteString(conn, says) // an error shows at the other end
					return false
				})
				d := newFixture(t, time.Minute, u.url()).Client
				got, gotErr := meaning(d, method, u.url())
				transport := &http.Transport{DisableCompression: true}
				defer transport.CloseIdleConnections()
				want, wantErr := meaning(transport, method, u.url())
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

const poison = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison"

// A connection is closed after a response whose end is in doubt, so that a rest of
// it that comes later is not the response to the next request.
func TestLatePoison(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]string{
		"a length beside chunks":        "HTTP/1.1 200 OK\r\nContent-Length: 60\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
		"chunks beside a length":        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\ncONTENT-lENGTH: 60\r\n\r\n2\r\nok\r\n0\r\n\r\n",
		"both, in a long header":        "HTTP/1.1 200 OK\r\nContent-Length: 60\r\nX: " + strings.Repeat("x", 9000) + "\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"both after 1xx":                "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 60\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"chunks by a name with a space": "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding : chunked\r\n\r\nok",
		"204 with a length":             "HTTP/1.1 204 No Content\r\nContent-Length: 60\r\n\r\n",
		"204 with chunks":               "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.0 with chunks":          "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nok",
		"another version":               "HTTP/2.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"a status that does not exist":  "HTTP/1.1 042 What\r\nContent-Length: 2\r\n\r\nok",
		"two lengths":                   "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 60\r\n\r\nok",
		"a negative length":             "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
		"a size of a chunk that is bad": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-2\r\nok\r\n0\r\n\r\n",
		"a chunk that is too long":      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nokay\r\n0\r\n\r\n",
		"a trailer that is none":        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n x\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newRawUpstream(t, func(connection, n int64, _ *http.Request, conn net.Conn) bool {
				answer := okResponse
				if connection == 0 {
					if answer = first; n > 0 {
						answer = poison // the rest of the first response
					}
				}
				_, err := io.WriteString(conn, answer)
				return err == nil
			})
			f := newFixture(t, time.Minute, u.url())
			_, _ = f.send(t.Context(), "GET", nil) // an answer or an error
			for range 2 {
				if body, err := f.send(t.Context(), "GET", nil); err != nil || body != "ok" {
					t.Errorf("the next answer is %q, %v", body, err)
				}
			}
		})
	}
}

// counting returns a client that counts its connections.
func counting(dialed *atomic.Int64, timeout time.Duration) *Client {
	dialer := &net.Dialer{}
	return newClient(func(ctx context.Context, network, address string) (net.Conn, error) {
		dialed.Add(1)
		return dialer.DialContext(ctx, network, address)
	}, timeout)
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
		"framing":        {URL: &url.URL{Opaque: "/"}, Header: http.Header{"Transfer-Encoding": {"chunked"}, "Content-Length": {"4"}, "Trailer": {"X"}}},
	} {
		for _, method := range []string{"GET", "HEAD"} {
			var wires [2]string
			for i := range wires {
				var wire bytes.Buffer
				dial := func(context.Context, string, string) (net.Conn, error) {
					here, there := net.Pipe()
					go func() {
						defer there.Close()
						if _, err := http.ReadRequest(bufio.NewReader(io.TeeReader(there, &wire))); err == nil {
							_, _ = io.WriteString(there, "HTTP/1.1 204 No Content\r\n\r\n") // an error shows at the other end
						}
					}()
					return here, nil
				}
				d, transport := newClient(dial, time.Minute), &http.Transport{DialContext: dial, DisableCompression: true}
				q := r.Clone(t.Context())
				q.Method, q.URL.Scheme, q.URL.Host = method, "http", "127.0.0.1:9"
				if q.Header == nil {
					q.Header = http.Header{}
				}
				response, err := []http.RoundTripper{d, transport}[i].RoundTrip(q)
				if err == nil {
					response.Body.Close()
					wires[i] = wire.String()
				} else {
					wires[i] = "error"
				}
				d.CloseIdleConnections()
			}
			if wires[0] != wires[1] {
				t.Errorf("%s %s: the wire carries\n%q, with http.Transport\n%q", method, name, wires[0], wires[1])
			}
			if want := method + " " + target + " HTTP/1.1\r\nHost: app.example:8080\r\n"; name == "a target" && !strings.HasPrefix(wires[0], want) {
				t.Errorf("%s %s: the wire carries\n%q", method, name, wires[0])
			}
		}
	}
}

// The time limit counts once, also for a request on a used connection, and for one
// that the upstream never reads.
func TestTimeoutOnce(t *testing.T) {
	t.Parallel()
	const limit = 200 * time.Millisecond
	release := make(chan struct{})
	u := newRawUpstream(t, func(_, n int64, _ *http.Request, conn net.Conn) bool {
		if n > 0 {
			<-release
			return false
		}
		_, err := io.WriteString(conn, okResponse)
		return err == nil
	})
	defer close(release)
	f := newFixture(t, limit, u.url())
	if _, err := f.send(t.Context(), "GET", nil); err != nil {
		t.Fatal(err)
	}
	_, err := f.send(t.Context(), "GET", nil)
	if status := statusOf(err); status != 504 || u.requests.Load() != 2 || u.connections.Load() != 1 {
		t.Errorf("%d (%v), %d requests on %d connections", status, err, u.requests.Load(), u.connections.Load())
	}
	synctest.Test(t, func(t *testing.T) {
		dial := func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe() // nobody reads
			t.Cleanup(func() { there.Close() })
			return here, nil
		}
		start := time.Now()
		_, err := getPiped(t.Context(), newClient(dial, time.Minute))
		if status := statusOf(err); status != 504 || time.Since(start) != time.Minute {
			t.Errorf("unread: %d (%v) after %v", status, err, time.Since(start))
		}
	})
}

// A body that broke off returns its error again and again.
func TestBodyError(t *testing.T) {
	t.Parallel()
	read := func(t *testing.T, end func(net.Conn, context.CancelFunc, io.Closer), want error) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		goOn := make(chan io.Closer, 1)
		d := piped(time.Hour, func(c net.Conn, _ *http.Request) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab") // an error shows at the other end
			end(c, cancel, <-goOn)
		})
		response, err := getPiped(ctx, d)
		if err != nil {
			t.Fatal(err)
		}
		goOn <- response.Body
		_, first := io.ReadAll(response.Body)
		response.Body.Close()
		_, second := response.Body.Read(make([]byte, 1))
		if !errors.Is(first, want) || !errors.Is(second, want) {
			t.Errorf("%v, then %v; want %v", first, second, want)
		}
		if d.idle.take("app.invalid") != nil {
			t.Error("the connection is kept")
		}
	}
	synctest.Test(t, func(t *testing.T) {
		read(t, func(c net.Conn, _ context.CancelFunc, _ io.Closer) { c.Close() }, io.ErrUnexpectedEOF)
	})
	synctest.Test(t, func(t *testing.T) {
		read(t, func(_ net.Conn, cancel context.CancelFunc, _ io.Closer) { cancel() }, context.Canceled)
	})
	synctest.Test(t, func(t *testing.T) {
		d := piped(time.Hour, func(c net.Conn, _ *http.Request) { _, _ = io.WriteString(c, okResponse) }) // an error shows at the other end
		ctx, cancel := context.WithCancel(t.Context())
		response, err := getPiped(ctx, d)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if body, err := io.ReadAll(response.Body); err != nil || string(body) != "ok" {
			t.Errorf("what had come: %q, %v", body, err)
		}
		if d.idle.take("app.invalid") != nil {
			t.Error("a connection is kept whose deadline may still be set")
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var dialed atomic.Int64
	if _, err := getPiped(ctx, counting(&dialed, time.Hour)); !errors.Is(err, context.Canceled) || dialed.Load() != 0 {
		t.Errorf("a client that had left: %v, %d connections", err, dialed.Load())
	}
}

// At most idlePerHost connections are kept.
func TestIdleBound(t *testing.T) {
	t.Parallel()
	d := newClient(nil, time.Minute)
	for range idlePerHost + 3 {
		here, there := net.Pipe()
		defer there.Close()
		d.idle.put(newConn(here, "app"))
	}
	if n := len(d.idle.conns["app"]); n != idlePerHost {
		t.Errorf("%d connections are idle, want %d", n, idlePerHost)
	}
	c := d.idle.take("app")
	d.CloseIdleConnections()
	if d.idle.take("app") != nil {
		t.Error("an idle connection is not closed")
	}
	if err := c.SetDeadline(time.Time{}); err != nil {
		t.Errorf("a connection in use was closed: %v", err)
	}
	c.Close()
}

// Each request gets its own response, whatever happens to the connections.
func TestNobodyElses(t *testing.T) {
	t.Parallel()
	const clients, each = 64, 200
	u := newRawUpstream(t, func(_, _ int64, r *http.Request, conn net.Conn) bool {
		id, close, fate := r.URL.RawQuery, "", rand.N(20)
		if fate == 0 {
			close = "Connection: close\r\n"
		}
		answer := fmt.Sprintf("HTTP/1.1 200 OK\r\nX-Id: %s\r\n%sContent-Length: %d\r\n\r\n%s", id, close, len(id), id)
		if fate == 1 {
			answer += poison
		}
		if fate == 2 {
			answer = fmt.Sprintf("HTTP/1.1 200 OK\r\nX-Id: %s\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", id, len(id), id)
		}
		_, err := io.WriteString(conn, answer)
		return err == nil && fate > 3 // 3: closes without announcing it
	})
	var dialed atomic.Int64
	d := counting(&dialed, time.Minute)
	defer d.CloseIdleConnections()
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			for n := range each {
				id := fmt.Sprintf("%d-%d", i, n)
				got, err := meaning(d, "GET", u.url()+"/?"+id)
				if err != nil || !strings.HasSuffix(got, "\n\n"+id) || !strings.Contains(got, fmt.Sprintf("X-Id: [%q]\n", id)) {
					t.Errorf("%s got %q, %v", id, got, err)
					return
				}
			}
		})
	}
	all.Wait()
	if n := dialed.Load(); n < clients/4 || n >= clients*each/2 {
		t.Errorf("%d connections for %d requests", n, clients*each)
	}
}

// BenchmarkClient is a small request over loopback, beside http.Transport.
func BenchmarkClient(b *testing.B) {
	u := newRawUpstream(b, say(okResponse))
	dialer := &net.Dialer{}
	d, transport := newClient(dialer.DialContext, time.Minute), &http.Transport{DisableCompression: true}
	defer d.CloseIdleConnections()
	for name, way := range map[string]http.RoundTripper{"http1": d, "http.Transport": transport} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			r, err := http.NewRequestWithContext(b.Context(), "GET", u.url(), nil)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				response, err := way.RoundTrip(r)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, response.Body); err != nil {
					b.Fatal(err)
				}
				response.Body.Close()
			}
		})
	}
}
