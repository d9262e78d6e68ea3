package forward

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http/httpguts"

	"authgate/gateway/proxy/upstream"
	"authgate/gateway/proxy/upstream/http1"
	"authgate/gateway/wire/conn"
)

// tape is a client's end. It notes what reaches the client, and in what order.
type tape struct {
	header http.Header
	notes  strings.Builder
	body   bytes.Buffer
	begun  bool
}

func (t *tape) Header() http.Header { return t.header }
func (t *tape) Flush()              {} // ReverseProxy does it by a timer

func (t *tape) WriteHeader(status int) {
	t.begun = status >= 200
	fmt.Fprintln(&t.notes, status)
	_ = t.header.Write(&t.notes) // in the order of the names
}

func (t *tape) Write(b []byte) (int, error) {
	if !t.begun {
		t.WriteHeader(http.StatusOK)
	}
	return t.body.Write(b)
}

// scripted is an upstream that answers as a script says. It notes what it gets.
type scripted struct {
	listener net.Listener

	mu     sync.Mutex
	answer string // to the requests for .../script, on the first connection
	closes bool   // after that answer
	conns  int
	any    bool // do not note on which connection a request came
	notes  strings.Builder
}

func newScripted(t testing.TB) *scripted {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	s := &scripted{listener: listener}
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go s.serve(c)
		}
	}()
	return s
}

// begin forgets what was noted.
func (s *scripted) begin(answer string, closes, anyConn bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer, s.closes, s.conns, s.any = answer, closes, 0, anyConn
	s.notes.Reset()
}

func (s *scripted) serve(c net.Conn) {
	defer c.Close()
	s.mu.Lock()
	number := s.conns
	s.conns++
	s.mu.Unlock()
	var got bytes.Buffer
	from := bufio.NewReader(io.TeeReader(c, &got))
	for {
		r, err := http.ReadRequest(from)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		s.mu.Lock()
		if s.any {
			fmt.Fprintf(&s.notes, "%q\n", got.String())
		} else {
			fmt.Fprintf(&s.notes, "on connection %d: %q\n", number, got.String())
		}
		answer, closes := "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", false
		if strings.Contains(r.RequestURI, "script") && number == 0 {
			answer, closes = s.answer, s.closes
		}
		s.mu.Unlock()
		got.Reset()
		if _, err := io.WriteString(c, answer); err != nil || closes {
			return
		}
	}
}

// way is a rig that forwards by one way.
type way struct {
	*rig
	up   *scripted
	fast int // how many requests the fast path has sent
}

// counted is a transport with the fast path that counts for a way.
type counted struct {
	*upstream.Transport
	way *way
}

func (c *counted) Start(ctx context.Context, p *http1.Plain) (*http1.Response, http.RoundTripper) {
	response, later := c.Transport.Start(ctx, p)
	if later != http.RoundTripper(c.Transport) { // a response or a request that was sent, which depends on time
		c.way.fast++
	}
	return response, later
}

func newWay(t testing.TB, fast string) *way {
	t.Helper()
	up := newScripted(t)
	w := &way{rig: newRig(t, urlKey("http://"+up.listener.Addr().String())+", fast_path: "+fast), up: up}
	for _, route := range w.routes {
		route.Transport = &counted{w.upstream.Transport(0), w}
	}
	return w
}

func newWays(t testing.TB) [2]*way { return [2]*way{newWay(t, "true"), newWay(t, "false")} }

// tell sends a request between two others, and returns all that reached the
// upstream and the client.
func (w *way) tell(t testing.TB, asks, answer string) string {
	t.Helper()
	var all strings.Builder
	w.up.begin(answer, !ends(asks, answer), streamed(t, asks))
	for _, each := range []string{
		"GET /public/first HTTP/1.1\r\nHost: gw.example\r\n\r\n", asks,
		"GET /session/last HTTP/1.1\r\nHost: gw.example\r\n\r\n",
	} {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(each)))
		if err != nil {
			t.Fatalf("%q: %v", each, err)
		}
		// ReverseProxy aborts only what a server serves.
		ctx := context.WithValue(conn.Context(t.Context(), nil), http.ServerContextKey, &http.Server{})
		r.RemoteAddr = "192.0.2.7:4711"
		r.Header["X-Request-Id"] = []string{"the-id"}
		r.Header.Add("Cookie", "session_id=secret")
		got := &tape{header: http.Header{}}
		w.log.Reset()
		aborted := w.abortable(got, r.WithContext(ctx))
		record := w.log.Last(t, "request")
		fmt.Fprintf(&all, "%q, aborted: %t, logged: %v, %v bytes\n%s",
			got.body.String(), aborted, record["status"], record["bytes"], got.notes.String())
	}
	w.upstream.CloseIdle()
	w.up.mu.Lock()
	defer w.up.mu.Unlock()
	return all.String() + w.up.notes.String()
}

func (w *way) abortable(to http.ResponseWriter, r *http.Request) (aborted bool) {
	defer func() { aborted = recover() == http.ErrAbortHandler }()
	w.ServeHTTP(to, r)
	return false
}

// streamed reports whether the body of a request is sent on a goroutine of its own,
// which may be late to give the connection back.
func streamed(t testing.TB, asks string) bool {
	t.Helper()
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(asks)))
	if err != nil {
		t.Fatalf("%q: %v", asks, err)
	}
	return r.ContentLength < 0 || r.ContentLength > http1.SmallBody
}

// ends reports whether a client knows where the response ends.
func ends(asks, answer string) bool {
	method, _, _ := strings.Cut(asks, " ")
	from := bufio.NewReader(strings.NewReader(answer))
	for {
		response, err := http.ReadResponse(from, &http.Request{Method: method})
		if err != nil {
			return false
		}
		if response.StatusCode < 200 {
			continue
		}
		_, err = io.Copy(io.Discard, response.Body)
		return err == nil && !response.Close
	}
}

// inTime repeats what depends on time until it is as expected, but only while the
// machine is late: the fast path drops an idle connection if it does not run for 50 ms.
func inTime(expected func() bool) bool {
	const tries, late = 3, 50 * time.Millisecond
	for range tries {
		began := time.Now()
		if expected() {
			return true
		}
		if time.Since(began) < late {
			return false
		}
	}
	return false
}

// same compares what both ways do.
func same(t testing.TB, ways [2]*way, asks, answer string) {
	t.Helper()
	var fast, slow string
	if inTime(func() bool {
		fast, slow = ways[0].tell(t, asks, answer), ways[1].tell(t, asks, answer)
		return fast == slow
	}) {
		return
	}
	t.Errorf("request %q, response %.300q\nthe fast path:\n%s\nhttputil.ReverseProxy:\n%s", asks, answer, fast, slow)
}

const plainAnswer = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nDate: now\r\nContent-Length: 2\r\n\r\nok"

var fastRequests = []string{
	"GET /session/script?a=%zz HTTP/1.1\r\nHost: gw.example\r\nAccept: */*\r\n" +
		"User-Agent: curl\r\nCookie: theme=dark\r\n\r\n",
	"GET /session/script HTTP/1.1\r\nHost: gw.example\r\nConnection: keep-alive\r\nKeep-Alive: 5\r\nTe: trailers\r\n" +
		"X-Gone: x\r\nX_Set: x\r\nX-Auth-User: eve\r\nX-Forwarded-For: 1.2.3.4\r\nForwarded: for=x\r\n\r\n",
	"GET /public/script? HTTP/1.1\r\nHost: gw.example\r\nConnection: close, x-y\r\nX-Y: z\r\n\r\n",
	"HEAD /public/script HTTP/1.1\r\nHost: gw.example\r\n\r\n",
	"POST /any/script HTTP/1.1\r\nHost: gw.example\r\nContent-Length: 5\r\nOrigin: https://gw.example\r\n\r\nhello",
	"PUT /public/script HTTP/1.1\r\nHost: gw.example\r\nContent-Length: 0\r\n\r\n",
	"POST /public/script HTTP/1.1\r\nHost: gw.example\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
	"DELETE /public/script HTTP/1.1\r\nHost: gw.example\r\nTe: gzip, trailers\r\nProxy-Connection: keep-alive\r\n\r\n",
}

var fastAnswers = []string{
	plainAnswer, plainAnswer + "x", "", "HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 304 Not Modified\r\nEtag: x\r\n\r\n",
	"HTTP/1.1 500 Oh\r\nSet-Cookie: session_id=x\r\nSet-Cookie: a=b\r\nSet-Cookie2: c=d\r\n" +
		"Strict-Transport-Security: x\r\nContent-Length: 3\r\n\r\nno\n",
	"HTTP/1.1 200 OK\r\nCache-Control: public\r\nConnection: keep-alive\r\nKeep-Alive: timeout=5\r\n" +
		"Content-Length: 70000\r\n\r\n" + strings.Repeat("0123456789", 7000),
	"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n" + strings.Repeat("x", 8000),
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\nuntil the end",
	"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + plainAnswer, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 9000\r\n\r\n" +
		strings.Repeat("data: ab\n", 1000),
	"HTTP/1.1 200 OK\r\nTrailer: X\r\nContent-Length: 2\r\n\r\nok",
}

// The fast path and httputil.ReverseProxy send the same bytes to the upstream and
// to the client, and use connections in the same way.
func TestFastPath(t *testing.T) {
	t.Parallel()
	ways := newWays(t)
	for _, asks := range fastRequests {
		for _, answer := range fastAnswers {
			same(t, ways, asks, answer)
		}
	}
	ways = newWays(t)                        // whose upstream has sent no bytes that belong to no response
	for _, i := range []int{0, 1, 4, 5, 3} { // HEAD is the last, because the body of the answer belongs to no response
		asks, want, got := fastRequests[i], 2, -1
		if strings.HasPrefix(asks, "HEAD ") {
			want = 0
		}
		if !inTime(func() bool {
			before := ways[0].fast
			ways[0].tell(t, asks, plainAnswer)
			got = ways[0].fast - before
			return got == want
		}) { // the first one needs a connection
			t.Errorf("%q and another request: %d by the fast path, want %d", asks, got, want)
		}
	}
}

// The same holds for a response with another byte at any place, without one, or
// cut off there.
func TestFastPathMutations(t *testing.T) {
	t.Parallel()
	ways := newWays(t)
	const answer = "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nX-Y: z\r\nContent-Length: 2\r\n\r\nok"
	for i := range answer {
		same(t, ways, fastRequests[0], answer[:i])
		same(t, ways, fastRequests[0], answer[:i]+answer[i+1:])
		for _, b := range []string{"\r", "\n", " ", ":", "\x00", "0", "\xff"} {
			same(t, ways, fastRequests[0], answer[:i]+b+answer[i+1:])
		}
	}
}

// A token of the gateway that proved nothing reaches no upstream, by either way.
func TestOwnTokensStayHere(t *testing.T) {
	t.Parallel()
	for i, w := range newWays(t) {
		asks := "GET /public/script HTTP/1.1\r\nHost: gw.example\r\nX-Other: y\r\nAuthorization: "
		for token, kept := range map[string]bool{"Token " + ownToken + "own": true, "Token another": false} {
			got := w.tell(t, asks+token+"\r\n\r\n", plainAnswer)
			if strings.Contains(got, token) == kept || !strings.Contains(got, "X-Other: y") {
				t.Errorf("way %d: with %q, the upstream gets %s", i, token, got)
			}
		}
	}
}

// lateReader is a client's end that reads only after another has got an answer.
type lateReader struct {
	tape
	meanwhile func()
}

func (l *lateReader) Write(b []byte) (int, error) {
	if l.meanwhile != nil {
		l.meanwhile()
	}
	return l.tape.Write(b)
}

// A client that reads late holds no connection to the upstream, by either way.
func TestLateReaderHoldsNoConnection(t *testing.T) {
	t.Parallel()
	for i, w := range newWays(t) {
		ask := func(to http.ResponseWriter, body *bytes.Buffer) {
			t.Helper()
			if w.ServeHTTP(to, request("GET", "/public/")); body.String() != "ok" {
				t.Errorf("way %d: the answer is %q", i, body)
			}
		}
		first, second := &tape{header: http.Header{}}, &tape{header: http.Header{}}
		late := &lateReader{tape: tape{header: http.Header{}}, meanwhile: func() { ask(second, &second.body) }}
		ask(first, &first.body) // now a connection is idle
		ask(late, &late.body)
		w.up.mu.Lock()
		if w.up.conns != 1 {
			t.Errorf("way %d: %d connections", i, w.up.conns)
		}
		w.up.mu.Unlock()
	}
}

// deaf is the end of a client to which nothing can be sent.
type deaf struct{ tape }

func (*deaf) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// The failure of a client is not reported as one of the upstream, by either way. A
// failure of the upstream is.
func TestWhoseFailure(t *testing.T) {
	t.Parallel()
	const part = "HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\nx"
	for i, w := range newWays(t) {
		for _, c := range []struct {
			to     http.ResponseWriter
			answer string
			closes bool
			want   int // warnings
		}{
			{&deaf{tape{header: http.Header{}}}, part + strings.Repeat("x", 8999), false, 0},
			{&tape{header: http.Header{}}, part, true, 1},
		} {
			w.up.begin(c.answer, c.closes, false)
			w.ServeHTTP(&tape{header: http.Header{}}, request("GET", "/public/first")) // now a connection is idle
			q := request("GET", "/public/script")
			q = q.WithContext(context.WithValue(q.Context(), http.ServerContextKey, &http.Server{}))
			w.log.Reset()
			if !w.abortable(c.to, q) {
				t.Errorf("way %d: the answer is not aborted", i)
			}
			if n := strings.Count(w.log.String(), `"WARN"`); n != c.want {
				t.Errorf("way %d: %d warnings, want %d:\n%s", i, n, c.want, w.log)
			}
			w.upstream.CloseIdle()
		}
	}
}

// The same holds for any request and any response.
func FuzzFastPath(f *testing.F) {
	for i, answer := range fastAnswers {
		f.Add(fastRequests[i%len(fastRequests)], answer)
	}
	ways := newWays(f)
	f.Fuzz(func(t *testing.T, asks, answer string) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(asks)))
		if err != nil || r.Header["Expect"] != nil || r.Header["Upgrade"] != nil || len(answer) > 1<<16 {
			return // TestContinue and TestWebSockets have those
		}
		for name, values := range r.Header { // a server refuses it
			if !httpguts.ValidHeaderFieldName(name) ||
				slices.ContainsFunc(values, func(v string) bool { return !httpguts.ValidHeaderFieldValue(v) }) {
				return
			}
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return // the body would be waited for
		}
		same(t, ways, asks, answer)
	})
}
