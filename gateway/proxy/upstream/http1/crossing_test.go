package http1

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// answerTo returns a whole response that only that person may see.
func answerTo(id string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nX-Id: %s\r\nContent-Length: %d\r\n\r\n%s", id, len(id), id)
}

// misbehavior is how an upstream answers a request: what it sends at once, and what
// it sends before its answer to the next request on the connection.
type misbehavior struct {
	method    string // empty: any
	now, owed func(id string) string
	closes    bool
}

func headed(header string) func(id string) string {
	return func(id string) string { return fmt.Sprintf("HTTP/1.1 "+header, id, len(id)) }
}

func itself(id string) string     { return id }
func nothing(string) string       { return "" }
func chunkOf(id string) string    { return fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(id), id) }
func twoAnswers(id string) string { return answerTo(id) + answerTo(id) }

const (
	withLength = "\r\nX-Id: %s\r\nContent-Length: %d\r\n\r\n"
	withChunks = "\r\nX-Id: %s\r\nX-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n"
)

// misbehaviors are ways in which a response could get to another person.
var misbehaviors = []misbehavior{
	{"HEAD", headed("200 OK" + withLength), itself, false},
	{"HEAD", headed("200 OK" + withChunks), chunkOf, false},
	{"HEAD", headed("200 OK" + withLength), answerTo, false},
	{"HEAD", twoAnswers, nothing, false},
	{"", headed("204 No Content" + withLength), answerTo, false},
	{"", headed("204 No Content" + withChunks), answerTo, false},
	{"", func(id string) string {
		return "HTTP/1.1 204 No Content\r\nX-Id: " + id + "\r\n\r\n" + answerTo(id)
	}, nothing, false},
	{"", headed("304 Not Modified" + withLength), answerTo, false},
	{"", headed("304 Not Modified" + withChunks), answerTo, false},
	{"", func(id string) string {
		return "HTTP/1.1 304 Not Modified\r\nX-Id: " + id + "\r\n\r\n" + answerTo(id)
	}, nothing, false},
	{"", twoAnswers, nothing, false},
	{"", func(id string) string { return answerTo(id) + "x" }, nothing, false},
	{"", func(id string) string {
		return "HTTP/1.1 200 OK\r\nContent-Length: 900\r\nX-Id: " + id +
			"\r\nTransfer-Encoding: chunked\r\n\r\n" + chunkOf(id)
	}, answerTo, false},
	{"", func(id string) string {
		return "HTTP/1.1 103 Early Hints\r\nContent-Length: 900\r\n\r\n" + answerTo(id)
	}, answerTo, false},
	{"", func(id string) string { return strings.Replace(answerTo(id), "1.1", "1.0", 1) }, answerTo, false},
	{"", func(id string) string {
		return "HTTP/1.1 200 OK\r\nContent-Length: 900\r\nX-Id: " + id +
			"\r\nTransfer-Encoding : chunked\r\n\r\n" + chunkOf(id)
	}, answerTo, false},
	{"", func(id string) string {
		return strings.Replace(answerTo(id), "\r\n", "\r\nConnection: close\r\n", 1)
	}, answerTo, false},
	{"", func(id string) string { return strings.Replace(answerTo(id), "200", "042", 1) }, answerTo, false},
	{"", answerTo, nothing, true},
	{"", nothing, nothing, true},
	{"", func(id string) string { return answerTo(id)[:30] }, nothing, true},
	{"", func(id string) string { return strings.TrimSuffix(answerTo(id), id) }, nothing, true},
}

// misbehave serves a connection. It misbehaves now and then.
func misbehave() answerRaw {
	var mu sync.Mutex
	owed := map[net.Conn]string{}
	return func(_, n int64, r *http.Request, conn net.Conn) bool {
		id := r.URL.RawQuery
		early := r.ContentLength > SmallBody && rand.N(3) == 0
		if !early {
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return false
			}
		}
		mu.Lock()
		says := owed[conn]
		delete(owed, conn)
		mu.Unlock()
		way := misbehaviors[rand.N(len(misbehaviors))]
		if way.method != "" && way.method != r.Method || rand.N(2) == 0 {
			answer := answerTo(id)
			if r.Method == http.MethodHead {
				answer = "HTTP/1.1 200 OK\r\nX-Id: " + id + "\r\n\r\n"
			}
			way = misbehavior{now: func(string) string { return answer }, owed: nothing}
		}
		mu.Lock()
		owed[conn] = way.owed(id)
		mu.Unlock()
		_, err := io.WriteString(conn, says+way.now(id))
		return err == nil && !way.closes && !early
	}
}

// Over upstreams that misbehave, no request gets a byte of the response to
// another one, by either way. AUTHGATE_STRESS=N makes N requests.
func TestNoCrossing(t *testing.T) {
	t.Parallel()
	for name, secure := range map[string]bool{"TCP": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u, dial := newListening(t, secure, misbehave())
			f := newDialing(t, time.Minute, dial)
			requests := int64(effort(t, 2000))
			var asked, whole atomic.Int64
			var all sync.WaitGroup
			for range 16 {
				all.Go(func() {
					for n := asked.Add(1); n <= requests; n = asked.Add(1) {
						id := fmt.Sprintf("person-%d-", n) // with an end, because a part of it may come
						way := []http.RoundTripper{f.Client, fastWay{f.Client}}[n%2]
						got, err := askFor(t.Context(), way, u.url(), id)
						for _, each := range strings.SplitAfter(got, "\n") {
							if each = strings.TrimSuffix(each, "\n"); !strings.HasPrefix(id, each) {
								t.Errorf("%s gets %q", id, got)
							}
						}
						if err == nil {
							whole.Add(1)
						}
					}
				})
			}
			all.Wait()
			if n := whole.Load(); n < requests/2 {
				t.Errorf("only %d of %d requests had an answer", n, requests)
			}
			if n := f.dialed.Load(); n >= requests {
				t.Errorf("%d connections for %d requests", n, requests)
			}
		})
	}
}

// askFor sends a request of a random kind. It returns all that comes back, and an
// error if that is not the response to this request.
func askFor(ctx context.Context, way http.RoundTripper, at, id string) (string, error) {
	method := []string{"GET", "HEAD", "POST", "PUT", "OPTIONS"}[rand.N(5)]
	var content io.Reader
	if method == "POST" || method == "PUT" {
		content = strings.NewReader(id)
		switch rand.N(4) {
		case 0:
			content = strings.NewReader(strings.Repeat("x", 3*SmallBody))
		case 1:
			content = io.MultiReader(content) // of unknown length
		}
	}
	r, err := http.NewRequestWithContext(ctx, method, at+"/?"+id, content)
	if err != nil {
		return "", err
	}
	response, err := way.RoundTrip(r)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	got := response.Header.Get("X-Id") + "\n" + string(body)
	if err == nil && response.Header.Get("X-Id") != id {
		err = fmt.Errorf("%s %s: %d with %q", method, id, response.StatusCode, got)
	}
	return got, err
}

// newListening returns a raw upstream over TCP or TLS, and its dialer.
func newListening(t testing.TB, secure bool, answer answerRaw) (*rawUpstream, dialFunc) {
	t.Helper()
	if !secure {
		return newRawUpstream(t, answer), dialTCP
	}
	server, config := newTLS()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", server)
	if err != nil {
		t.Fatal(err)
	}
	return serveRaw(t, listener, answer), secured(config)
}

// secured returns a dialer that does a TLS handshake.
func secured(config *tls.Config) dialFunc {
	return func(ctx context.Context, address string) (net.Conn, error) {
		raw, err := dialTCP(ctx, address)
		if err != nil {
			return nil, err
		}
		conn, err := Handshake(ctx, raw, config)
		if err != nil {
			return nil, err
		}
		return conn, nil
	}
}

// effort returns how many requests a stress test makes: few, or AUTHGATE_STRESS.
func effort(t testing.TB, few int) int {
	t.Helper()
	many := os.Getenv("AUTHGATE_STRESS")
	if many == "" {
		return few
	}
	n, err := strconv.Atoi(many)
	if err != nil || n <= 0 {
		t.Fatalf("AUTHGATE_STRESS=%s: expected a number of requests", many)
	}
	return n
}

// newTLS returns the configurations of a server and of its client.
func newTLS() (server, client *tls.Config) {
	s := httptest.NewTLSServer(nil) // for its certificate
	s.Close()
	client = s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	client.ServerName = "example.com" // which the certificate is for
	return &tls.Config{Certificates: s.TLS.Certificates, SessionTicketsDisabled: true}, client
}

// Check finds unread bytes of a TLS connection, wherever they wait.
func TestCheckTLS(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		says  string
		cut   int // bytes of the records that come at first; 0: all
		reads int
		want  bool
	}{
		"nothing more":                         {"ok", 0, 2, true},
		"more in the record":                   {"okay", 0, 2, false},
		"all of it":                            {"okay", 0, 4, true},
		"another record":                       {"ok|ay", 0, 2, false},
		"the beginning of another":             {"ok|ay", 27, 2, false},
		"the header of another, and its bytes": {"ok|ay", 35, 2, false},
	} {
		var wire bytes.Buffer // what the server writes after the handshake
		server, config := newTLS()
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		raws := make(chan net.Conn, 1)
		go func() {
			raw, err := listener.Accept()
			if err != nil {
				return
			}
			held := &holding{Conn: raw}
			conn := tls.Server(held, server)
			if err := conn.Handshake(); err == nil {
				held.into = &wire
				for part := range strings.SplitSeq(c.says, "|") {
					_, _ = io.WriteString(conn, part) // into a buffer
				}
			}
			raws <- raw
		}()
		raw, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		conn, err := Handshake(t.Context(), raw, config)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Abort()
		there := <-raws
		defer there.Close()
		if !conn.Check() {
			t.Errorf("%s: fails its check before", name)
		}
		if c.cut == 0 {
			c.cut = wire.Len()
		}
		if _, err := there.Write(wire.Bytes()[:c.cut]); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, make([]byte, c.reads)); err != nil {
			t.Fatal(err)
		}
		if got := conn.Check(); got != c.want {
			t.Errorf("%s: passes its check: %t", name, got)
		}
	}
}

// holding is a connection whose writes can be redirected.
type holding struct {
	net.Conn
	into *bytes.Buffer
}

func (h *holding) Write(b []byte) (int, error) {
	if h.into != nil {
		return h.into.Write(b)
	}
	return h.Conn.Write(b)
}

// The boundaries of records are found with reads of any size.
func TestWireBoundaries(t *testing.T) {
	t.Parallel()
	var stream []byte
	ends := map[int]bool{0: true}
	for _, length := range []int{2, 1, 0, 300, 1} {
		stream = append(stream, 23, 3, 3, byte(length>>8), byte(length))
		stream = append(stream, bytes.Repeat([]byte{0xff}, length)...)
		ends[len(stream)] = true
	}
	for size := 1; size <= len(stream); size++ {
		w := &wire{}
		for at := 0; at < len(stream); {
			n := min(size, len(stream)-at)
			w.follow(stream[at : at+n])
			if at += n; w.between() != ends[at] {
				t.Fatalf("reads of %d bytes: between records after %d bytes: %t", size, at, w.between())
			}
		}
	}
}
