package e2e

import (
	"bufio"
	"io"
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

// recorder is an upstream that records requests byte for byte and answers 200 "ok".
// It parses HTTP/1.1 itself, because net/http changes what it parses.
type recorder struct {
	url string

	mu  sync.Mutex
	got []message
}

// message is a request as it was on the wire.
type message struct {
	line    string   // the request line
	head    []string // header lines
	body    string   // without its chunks
	trailer []string // trailer lines
}

// record starts a recorder that ends with the test.
func record(t testing.TB) *recorder {
	t.Helper()
	r := &recorder{}
	r.url = listen(t, r.serve)
	return r
}

// listen starts an upstream that calls serve for each connection and closes it then.
// It and its connections end with the test.
func listen(t testing.TB, serve func(net.Conn)) (url string) {
	t.Helper()
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
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

// serve starts an upstream that ends with the test.
func serve(t testing.TB, handler http.HandlerFunc) (url string) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// serve answers the requests of a connection until it ends.
func (r *recorder) serve(conn net.Conn) {
	in := bufio.NewReader(conn)
	for {
		m, err := readMessage(in, conn)
		if err != nil {
			return
		}
		r.mu.Lock()
		r.got = append(r.got, m)
		r.mu.Unlock()
		answer := "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
		if !strings.HasPrefix(m.line, "HEAD ") {
			answer += "ok"
		}
		if _, err := io.WriteString(conn, answer); err != nil {
			return
		}
	}
}

// all returns the requests since the last call.
func (r *recorder) all() []message {
	r.mu.Lock()
	defer r.mu.Unlock()
	got := r.got
	r.got = nil
	return got
}

// one returns the one request since the last call.
func (r *recorder) one(t testing.TB) message {
	t.Helper()
	got := r.all()
	if len(got) != 1 {
		t.Fatalf("%d requests reached the upstream, expected one: %v", len(got), got)
	}
	return got[0]
}

// none fails the test if there was a request since the last call.
func (r *recorder) none(t testing.TB) {
	t.Helper()
	if got := r.all(); len(got) > 0 {
		t.Errorf("the upstream should not get this: %q", got)
	}
}

// target returns the request target.
func (m message) target() string {
	_, rest, _ := strings.Cut(m.line, " ")
	return rest[:max(strings.LastIndexByte(rest, ' '), 0)]
}

// values returns the values of a header in all spellings that an application may
// take for its name.
func (m message) values(name string) []string {
	var all []string
	for _, line := range slices.Concat(m.head, m.trailer) {
		if field, value, _ := strings.Cut(line, ":"); foldName(field) == foldName(name) {
			all = append(all, strings.TrimSpace(value))
		}
	}
	return all
}

// value returns the value of a header that is there at most once, else empty.
func (m message) value(t testing.TB, name string) string {
	t.Helper()
	all := m.values(name)
	if len(all) > 1 {
		t.Errorf("%s reached the upstream %d times: %q", name, len(all), all)
	}
	if len(all) == 0 {
		return ""
	}
	return all[0]
}

// foldName folds the name of a header as CGI does.
func foldName(name string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(tokenSeparators, r) {
			return '-'
		}
		return r
	}, strings.ToLower(strings.TrimSpace(name)))
}

// readMessage reads a request. It writes 100 Continue to out if the request waits
// for that.
func readMessage(in *bufio.Reader, out io.Writer) (message, error) {
	text := textproto.NewReader(in)
	line, err := text.ReadLine()
	if err != nil {
		return message{}, err
	}
	m := message{line: line}
	if m.head, err = readLines(text); err != nil {
		return m, err
	}
	if slices.ContainsFunc(m.values("Expect"), func(v string) bool { return strings.EqualFold(v, "100-continue") }) {
		if _, err := io.WriteString(out, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
			return m, err
		}
	}
	if len(m.values("Transfer-Encoding")) > 0 {
		body, err := io.ReadAll(httputil.NewChunkedReader(in))
		if err != nil {
			return m, err
		}
		m.body = string(body)
		m.trailer, err = readLines(text)
		return m, err
	}
	for _, length := range m.values("Content-Length") {
		n, err := strconv.Atoi(length)
		if err != nil {
			return m, err
		}
		body := make([]byte, n)
		if _, err := io.ReadFull(in, body); err != nil {
			return m, err
		}
		m.body += string(body)
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
