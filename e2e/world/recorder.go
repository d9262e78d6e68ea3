package world

import (
	"bufio"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Recorder is an upstream that records requests byte for byte and answers 200 "ok".
// It parses HTTP/1.1 itself, because net/http changes the header that it parses.
type Recorder struct {
	URL string

	mu  sync.Mutex
	got []Message
}

// Message is a request as it was on the wire.
type Message struct {
	Line    string   // the request line
	Head    []string // header lines
	Body    string   // without its chunks
	Trailer []string // trailer lines
	From    string   // the address of the client, which with its port is one of a connection
}

// Record starts a recorder that ends with the test.
func Record(t testing.TB) *Recorder {
	t.Helper()
	r := &Recorder{}
	r.URL = Listen(t, r.serve)
	return r
}

// Listen starts an upstream that calls serve for each connection and closes it then.
// It and its connections end with the test.
func Listen(t testing.TB, serve func(net.Conn)) (url string) {
	t.Helper()
	l := Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	var serving sync.WaitGroup
	var conns sync.Map
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conns.Store(conn, true)
			serving.Go(func() {
				defer conn.Close()
				serve(conn)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		conns.Range(func(conn, _ any) bool {
			conn.(net.Conn).Close()
			return true
		})
		serving.Wait()
	})
	return "http://" + l.Addr().String()
}

// Serve starts an upstream that ends with the test.
func Serve(t testing.TB, handler http.HandlerFunc) (url string) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// serve answers the requests of a connection until it ends.
func (r *Recorder) serve(conn net.Conn) {
	in := bufio.NewReader(conn)
	for {
		m, err := ReadMessage(in, conn)
		if err != nil {
			return
		}
		m.From = conn.RemoteAddr().String()
		r.mu.Lock()
		r.got = append(r.got, m)
		r.mu.Unlock()
		answer := "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
		if !strings.HasPrefix(m.Line, "HEAD ") {
			answer += "ok"
		}
		if _, err := io.WriteString(conn, answer); err != nil {
			return
		}
	}
}

// All returns the requests since the last call.
func (r *Recorder) All() []Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	got := r.got
	r.got = nil
	return got
}

// One returns the one request since the last call.
func (r *Recorder) One(t testing.TB) Message {
	t.Helper()
	got := r.All()
	if len(got) != 1 {
		t.Fatalf("%d requests reached the upstream, expected one: %v", len(got), got)
	}
	return got[0]
}

// None fails the test if there was a request since the last call.
func (r *Recorder) None(t testing.TB) {
	t.Helper()
	if got := r.All(); len(got) > 0 {
		t.Errorf("the upstream should not get this: %q", got)
	}
}

// AskedFor returns the requests for a target.
func (r *Recorder) AskedFor(target string) []Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.got), func(m Message) bool { return m.Target() != target })
}

// Target returns the request target.
func (m Message) Target() string {
	_, rest, _ := strings.Cut(m.Line, " ")
	return rest[:max(strings.LastIndexByte(rest, ' '), 0)]
}

// Values returns the values of a header in all spellings that an application may
// take for its name.
func (m Message) Values(name string) []string {
	var all []string
	for _, line := range slices.Concat(m.Head, m.Trailer) {
		if field, value, _ := strings.Cut(line, ":"); foldName(field) == foldName(name) {
			all = append(all, strings.TrimSpace(value))
		}
	}
	return all
}

// Value returns the value of a header that is there at most once, else empty.
func (m Message) Value(t testing.TB, name string) string {
	t.Helper()
	all := m.Values(name)
	if len(all) > 1 {
		t.Errorf("%s reached the upstream %d times: %q", name, len(all), all)
	}
	if len(all) == 0 {
		return ""
	}
	return all[0]
}

// TokenSeparators are the characters of header names that are neither letters nor
// digits (RFC 9110, section 5.6.2).
const TokenSeparators = "!#$%&'*+-.^_`|~"

// foldName folds the name of a header as CGI does.
func foldName(name string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(TokenSeparators, r) {
			return '-'
		}
		return r
	}, strings.ToLower(strings.TrimSpace(name)))
}

// ReadMessage reads a request. It writes 100 Continue to out if the request waits
// for that.
func ReadMessage(in *bufio.Reader, out io.Writer) (Message, error) {
	text := textproto.NewReader(in)
	line, err := text.ReadLine()
	if err != nil {
		return Message{}, err
	}
	m := Message{Line: line}
	if m.Head, err = readLines(text); err != nil {
		return m, err
	}
	if slices.ContainsFunc(m.Values("Expect"), func(v string) bool { return strings.EqualFold(v, "100-continue") }) {
		if _, err := io.WriteString(out, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
			return m, err
		}
	}
	if len(m.Values("Transfer-Encoding")) > 0 {
		body, err := io.ReadAll(httputil.NewChunkedReader(in))
		if err != nil {
			return m, err
		}
		m.Body = string(body)
		m.Trailer, err = readLines(text)
		return m, err
	}
	for _, length := range m.Values("Content-Length") {
		n, err := strconv.Atoi(length)
		if err != nil {
			return m, err
		}
		body := make([]byte, n)
		if _, err := io.ReadFull(in, body); err != nil {
			return m, err
		}
		m.Body += string(body)
	}
	return m, nil
}

// readLines reads lines up to an empty one.
func readLines(text *textproto.Reader) ([]string, error) {
	var lines []string
	for {
		line, err := text.ReadLine()
		if err != nil || line == "" {
			return lines, err
		}
		lines = append(lines, line)
	}
}

// NewRequestID is an X-Request-Id of digits, so that it has no word of internals.
func NewRequestID() string { return strconv.FormatUint(rand.Uint64(), 10) }
