package http1

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http/httpguts"
)

// fastWay sends plain requests by the fast path, as the gateway does.
type fastWay struct{ *Client }

func (w fastWay) RoundTrip(r *http.Request) (*http.Response, error) {
	if streams(r) || r.Method == http.MethodHead || r.Method == http.MethodOptions {
		return w.Client.RoundTrip(r)
	}
	r = r.Clone(r.Context())
	if _, ok := r.Header["User-Agent"]; !ok {
		r.Header["User-Agent"] = nil
	}
	p := &Plain{
		Method: r.Method, Path: r.URL.EscapedPath(), Query: r.URL.RawQuery, Host: r.URL.Host, Fields: fieldsOf(r.Header),
	}
	if hasBody(r) {
		var err error
		if p.Body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(p.Body))
	}
	response, rest := w.Start(r.Context(), time.Now(), r.URL.Host, p)
	switch {
	case rest != nil:
		return rest.RoundTrip(r)
	case response == nil:
		return w.Client.RoundTrip(r)
	}
	defer response.Close() // again, which does nothing
	defer response.Close()
	answer := &http.Response{StatusCode: response.Status, Header: http.Header{}, Request: r}
	response.AddTo(answer.Header)
	if response.Body == nil {
		answer.Body = response.Stream(r.Context())
	} else {
		answer.Body = io.NopCloser(bytes.NewReader(bytes.Clone(response.Body)))
	}
	return answer, nil
}

// fieldsOf returns the fields of a header.
func fieldsOf(h http.Header) []Field {
	var fields []Field
	for name, values := range h {
		for _, value := range values {
			fields = append(fields, Field{name, value})
		}
	}
	return fields
}

// part is a part of a response, sent that long after the one before. "close"
// closes the connection.
type part struct {
	after time.Duration
	bytes string
}

// A response means the same by both ways, whenever its parts come, and takes the
// same time.
func TestFastPathDelays(t *testing.T) {
	t.Parallel()
	const (
		soon, late = fastWait - time.Millisecond, 2*fastWait + time.Millisecond
		long       = header + "Content-Length: 6000\r\n\r\n"
	)
	x := strings.Repeat("x", 6000)
	longest := header + "X: " + strings.Repeat("x", maxHeader-len(okResponse)+len("ok")-len("X: \r\n")) + "\r\n"
	for name, c := range map[string]struct {
		parts  []part
		cancel time.Duration // when the client leaves; 0: it stays
		want   string
	}{
		"at once":     {[]part{{0, okResponse}}, 0, "200 ok"},
		"soon":        {[]part{{soon, okResponse}}, 0, "200 ok"},
		"late":        {[]part{{late, okResponse}}, 0, "200 ok"},
		"a late body": {[]part{{0, okResponse[:len(okResponse)-1]}, {late, "k"}}, 0, "200 ok"},
		"in small parts": {[]part{{soon / 2, okResponse[:5]}, {soon / 2, okResponse[5:30]}, {0, okResponse[30:]}},
			0, "200 ok"},
		"a late half header": {[]part{{0, okResponse[:30]}, {time.Second, okResponse[30:]}}, 0, "200 ok"},
		"never":              {nil, 0, "504"},
		"half, then never":   {[]part{{0, okResponse[:30]}}, 0, "504"},
		"closes":             {[]part{{0, "close"}}, 0, "200 again"},
		"closes late":        {[]part{{late, "close"}}, 0, "200 again"},
		"closes amid":        {[]part{{0, okResponse[:30]}, {0, "close"}}, 0, "502"},
		"closes amid, late":  {[]part{{0, okResponse[:30]}, {late, "close"}}, 0, "502"},
		"a short body":       {[]part{{0, okResponse[:len(okResponse)-1]}, {0, "close"}}, 0, "200 o 502"},
		"a long body":        {[]part{{0, long + x[:100]}, {time.Hour, x[100:]}}, 0, "200 " + x},
		"a long body ends":   {[]part{{0, long + x[:100]}, {time.Hour, "close"}}, 0, "200 " + x[:100] + " 502"},
		"leaves":             {nil, late, "499"},
		"leaves amid":        {[]part{{0, okResponse[:30]}}, time.Second, "499"},
		"leaves a long body": {[]part{{0, long + x[:100]}}, time.Second, "200 " + x[:100] + " 499"},
		"a long header":      {[]part{{0, longest + okResponse[len(header):]}}, 0, "200 ok"},
		"a longer header":    {[]part{{0, longest + "Y: \r\n" + okResponse[len(header):]}}, 0, "502"},
		"early hints":        {[]part{{0, "HTTP/1.1 103 Early Hints\r\n\r\n"}, {late, okResponse}}, 0, "200 ok"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for way := range 2 {
				synctest.Test(t, func(t *testing.T) {
					f := newDialing(t, time.Minute, partly(c.parts))
					if _, err := f.send(t.Context(), "GET", nil); err != nil { // now a connection is idle
						t.Fatal(err)
					}
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					if c.cancel > 0 {
						time.AfterFunc(c.cancel, cancel)
					}
					start := time.Now()
					got := outcome([]http.RoundTripper{f.Client, fastWay{f.Client}}[way], newRequest(t, ctx, "GET", f.url+"/", nil))
					if got != c.want {
						t.Errorf("way %d: %.40q, want %.40q", way, got, c.want)
					}
					var total time.Duration
					for _, p := range c.parts {
						total += p.after
					}
					switch {
					case c.cancel > 0:
						total = c.cancel
					case strings.HasPrefix(c.want, "504"):
						total = time.Minute
					}
					if took := time.Since(start); took != total {
						t.Errorf("way %d: took %v, want %v", way, took, total)
					}
				})
			}
		})
	}
}

// halting is a connection whose writes wait in the middle, once gate is set.
type halting struct {
	net.Conn
	gate chan struct{}
}

func (h *halting) Write(b []byte) (int, error) {
	if h.gate == nil {
		return h.Conn.Write(b)
	}
	half, err := h.Conn.Write(b[:len(b)/2])
	<-h.gate
	if err != nil {
		return half, err
	}
	rest, err := h.Conn.Write(b[half:])
	return half + rest, err
}

// haltingListener accepts TLS over halting connections.
type haltingListener struct {
	net.Listener
	config *tls.Config
}

func (l haltingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return tls.Server(&halting{Conn: c}, l.config), nil
}

// The fast path hands over a response of which half a TLS record has come.
func TestFastPathHalfRecord(t *testing.T) {
	t.Parallel()
	server, client := newTLS()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gate := make(chan struct{})
	u := serveRaw(t, haltingListener{listener, server}, func(_, n int64, _ *http.Request, c net.Conn) bool {
		if n == 1 {
			c.(*tls.Conn).NetConn().(*halting).gate = gate
		}
		_, err := io.WriteString(c, okResponse)
		return err == nil
	})
	f := newDialing(t, time.Minute, secured(client))
	f.url = u.url()
	if _, err := f.send(t.Context(), "GET", nil); err != nil { // now a connection is idle
		t.Fatal(err)
	}
	r := newRequest(t, t.Context(), "GET", f.url, nil)
	response, rest := f.Start(t.Context(), time.Now(), r.URL.Host, &Plain{Method: "GET", Path: "/", Host: "app"})
	if response != nil || rest == nil {
		t.Fatalf("the fast path has %v, %v", response, rest)
	}
	close(gate)
	if got := outcome(rest, r); got != "200 ok" {
		t.Errorf("got %q", got)
	}
}

// partly returns a dialer. The first connection answers the second request with
// the parts, all else is answered at once.
func partly(parts []part) dialFunc {
	first := true
	return func(context.Context, string) (net.Conn, error) {
		here, there := net.Pipe()
		answers := [][]part{{{0, header + "Content-Length: 5\r\n\r\nagain"}}}
		if first {
			answers = append(answers, parts)
		}
		first = false
		go func() {
			requests := bufio.NewReader(there)
			for _, answer := range answers {
				if _, err := http.ReadRequest(requests); err != nil {
					break
				}
				for _, p := range answer {
					time.Sleep(p.after)
					if p.bytes == "close" {
						there.Close()
						return
					}
					_, _ = io.WriteString(there, p.bytes) // the client may be gone
				}
			}
			_, _ = io.Copy(io.Discard, there)
			there.Close()
		}()
		return open{tcpLike{here}}, nil
	}
}

// outcome returns the status and the body of the response, and the status of each
// error.
func outcome(way http.RoundTripper, r *http.Request) string {
	response, err := way.RoundTrip(r)
	if err != nil {
		return fmt.Sprint(statusOf(err))
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Sprintf("%d %s %d", response.StatusCode, body, statusOf(err))
	}
	return fmt.Sprintf("%d %s", response.StatusCode, body)
}

// append accepts what clients usually send.
func TestPlainRequest(t *testing.T) {
	t.Parallel()
	for _, p := range []*Plain{
		{Method: "GET", Path: "/a%20b", Query: "c=%zz", Host: "app.example:80",
			Fields: []Field{{"User-Agent", "curl"}, {"Accept", "*/*"}, {"Accept", "a"}}},
		{Method: "POST", Path: "/", Host: "[::1]", Body: []byte("x")},
	} {
		if _, ok := p.append(nil); !ok {
			t.Errorf("refused: %+v", p)
		}
	}
}

// What append accepts, it writes as Request.Write does.
func FuzzPlainRequest(f *testing.F) {
	f.Add("GET", "/a%20b", "c=%zz", "app.example:80", "X-Y", " v ", []byte(nil))
	f.Add("POST", "/", "", "[::1]", "User-Agent", "curl", []byte("x"))
	f.Add("POST", "/", "", "a", "X", "", []byte(nil))
	f.Add("GET", "/", "", "a", "X", "", []byte("x"))
	f.Add("GET", "/\x7f", "", "a", "X", "", []byte(nil))
	f.Add("GET", "/", "\n", "[fe80::1%25en0]", "X", "", []byte(nil))
	f.Add("GET", "/", "", "[fe80::1%25en0]", "X", "", []byte(nil))
	f.Add("PUT", "//x", "", "a", "Content-Length", "7", []byte(nil))
	f.Add("DELETE", "/", "", "a%b", "X Y", "a\r\nb: c", []byte(nil))
	f.Fuzz(func(t *testing.T, method, path, query, host, name, value string, body []byte) {
		if !httpguts.ValidHeaderFieldName(method) {
			return // RoundTrip refuses it
		}
		header := http.Header{"User-Agent": nil, "B": {"b"}, name: {value, value + "2"}}
		p := &Plain{
			Method: method, Path: path, Query: query, ForceQuery: len(body)%2 == 0, Host: host,
			Body: body, Fields: fieldsOf(header),
		}
		got, ok := p.append(nil)
		if !ok {
			return
		}
		r := &http.Request{
			Method: method, Host: host, Header: header, ContentLength: int64(len(body)),
			URL: &url.URL{Scheme: "http", Host: "app.invalid", Opaque: path, RawQuery: query, ForceQuery: p.ForceQuery},
		}
		if len(body) > 0 {
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		var want bytes.Buffer
		if err := serialize(&want, r, false); err != nil || string(got) != want.String() {
			t.Errorf("%q\nRequest.Write: %q, %v", got, want.String(), err)
		}
	})
}

// What plainResponse accepts, readResponse understands in the same way, and it may
// be followed by another response.
func FuzzPlainResponse(f *testing.F) {
	for _, says := range plainResponses {
		f.Add([]byte(says))
	}
	f.Fuzz(func(t *testing.T, says []byte) {
		wire := func() *conn { return newConn(readerConn{nil, bytes.NewReader(says)}, "") }
		k := wire()
		k.limited.N = maxHeader
		got := k.plainResponse()
		if got == nil {
			return
		}
		h := http.Header{}
		got.AddTo(h)
		other, r := wire(), &http.Request{Method: "GET", Header: http.Header{}}
		want, err := other.readResponse(r, nil)
		if err != nil {
			t.Fatalf("%q is not a response: %v", says, err)
		}
		if !reusable(r, want, other.unclear) {
			t.Errorf("after %q the connection must be closed", says)
		}
		for _, name := range []string{"Connection", "Keep-Alive"} { // httputil.ReverseProxy removes them
			want.Header.Del(name)
		}
		if got.Status != want.StatusCode || got.length != max(want.ContentLength, 0) ||
			!maps.EqualFunc(h, want.Header, slices.Equal) {
			t.Errorf("%q: %d, %d bytes, %v; ReadResponse: %d, %d bytes, %v",
				says, got.Status, got.length, h, want.StatusCode, want.ContentLength, want.Header)
		}
		if body, err := io.ReadAll(want.Body); got.Body != nil && (err != nil || !bytes.Equal(got.Body, body)) {
			t.Errorf("%q: the body is %q; ReadResponse: %q, %v", says, got.Body, body, err)
		}
	})
}

// readerConn is a connection that can only be read.
type readerConn struct {
	net.Conn
	io.Reader
}

func (c readerConn) Read(p []byte) (int, error) { return c.Reader.Read(p) }

// plainResponses are plain or nearly plain.
var plainResponses = []string{
	okResponse, okResponse + "x", "HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 304 \r\nEtag: x\r\n\r\n",
	"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n",
	header + "Connection: keep-alive\r\nKeep-Alive: timeout=5\r\nx-y:\t z \r\nX-Y: w\r\nContent-Length: 0\r\n\r\n",
	header + "Content-Length: 6000\r\n\r\n", header + "Content-Length: 007\r\n\r\n1234567",
	header + "Content-Type: text/css\r\nContent-Length: 2\r\n\r\nok",
	header + "Content-Type: application/json; x=y\r\nContent-Length: 2\r\n\r\nok",
	header + "Pragma: no-cache\r\nContent-Length: 2\r\n\r\nok",
	header + "Content-Length: 2x\r\n\r\nok",
	header + "Content-Length: 2\r\nContent-Length: 2\r\n\r\nok", header + "Content-Length: 0\r\nContent-Length: 0\r\n\r\n",
	header + "Content-Length: +2\r\n\r\nok",
	header + "Content-Type: text/event-stream\r\nContent-Length: 2\r\n\r\nok",
	header + "Connection: close\r\nContent-Length: 2\r\n\r\nok",
	header + "Connection: keep-alive, x\r\nContent-Length: 2\r\n\r\nok",
	header + "Content-Length: 2\r\nX: a\r\n b\r\n\r\nok", header + "Content-Length: 2\r\nX : a\r\n\r\nok",
	header + "Content-Length: 2\nX: a\r\n\r\nok",
	header + "\r\n", header + "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\nok",
	"HTTP/1.1 204 No\r\nContent-Length: 0\r\n\r\n",
	"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 100 Continue\r\n\r\n" + okResponse,
	"HTTP/1.1 2000 OK\r\nContent-Length: 2\r\n\r\nok",
}

// plainResponse accepts what applications usually send.
func TestPlainResponse(t *testing.T) {
	t.Parallel()
	for i, says := range plainResponses {
		k := newConn(readerConn{nil, strings.NewReader(says)}, "")
		k.limited.N = maxHeader
		if got := k.plainResponse() != nil; got != (i < 11) {
			t.Errorf("%q is plain: %t", says, got)
		}
	}
}

// A limit that is shorter than the wait of the fast path holds for it too.
func TestFastPathShortLimit(t *testing.T) {
	t.Parallel()
	const limit = fastWait / 2
	for way := range 2 {
		synctest.Test(t, func(t *testing.T) {
			f := newDialing(t, limit, partly([]part{{limit + time.Millisecond, okResponse}}))
			if _, err := f.send(t.Context(), "GET", nil); err != nil { // now a connection is idle
				t.Fatal(err)
			}
			start := time.Now()
			got := outcome([]http.RoundTripper{f.Client, fastWay{f.Client}}[way],
				newRequest(t, t.Context(), "GET", f.url+"/", nil))
			if took := time.Since(start); got != "504" || took != limit {
				t.Errorf("way %d: %q after %v, want 504 after %v", way, got, took, limit)
			}
			time.Sleep(limit) // until the upstream is done
		})
	}
}

// A request that the buffers of the connection do not take at once is sent whole,
// when the upstream reads.
func TestFastPathSlowReader(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "socket") // its buffers, unlike those of TCP, do not grow
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ready := make(chan struct{})
	serveRaw(t, listener, func(_, n int64, r *http.Request, c net.Conn) bool {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return false
		}
		_, err = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		if n == 0 {
			<-ready // reads nothing of the next request before
		}
		return err == nil
	})
	f := newDialing(t, time.Minute, func(ctx context.Context, _ string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, "unix", socket)
		if err == nil {
			err = c.(*net.UnixConn).SetWriteBuffer(1)
		}
		return c, err
	})
	post := func(body string) string {
		return outcome(fastWay{f.Client}, newRequest(t, t.Context(), "POST", f.url+"/", strings.NewReader(body)))
	}
	if got := post("x"); got != "200 x" {
		t.Fatal(got)
	}
	time.AfterFunc(fastWait/2, func() { close(ready) })
	long := strings.Repeat("y", SmallBody)
	if got := post(long); got != "200 "+long {
		t.Errorf("%.40q (%d bytes)", got, len(got))
	}
	if n := f.dialed.Load(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}
