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
	{"", func(id string) string { return "HTTP/1.1 204 No Content\r\nX-Id: " + id + "\r\n\r\n" + answerTo(id) }, nothing, false},
	{"", headed("304 Not Modified" + withLength), answerTo, false},
	{"", headed("304 Not Modified" + withChunks), answerTo, false},
	{"", func(id string) string { return "HTTP/1.1 304 Not Modified\r\nX-Id: " + id + "\r\n\r\n" + answerTo(id) }, nothing, false},
	{"", twoAnswers, nothing, false},
	{"", func(id string) string { return answerTo(id) + "x" }, nothing, false},
	{"", func(id string) string {
		return "HTTP/1.1 200 OK\r\nContent-Length: 900\r\nX-Id: " + id + "\r\nTransfer-Encoding: chunked\r\n\r\n" + chunkOf(id)
	}, answerTo, false},
	{"", func(id string) string {
		return "HTTP/1.1 103 Early Hints\r\nContent-Length: 900\r\n\r\n" + answerTo(id)
	}, answerTo, false},
	{"", func(id string) string { return strings.Replace(answerTo(id), "1.1", "1.0", 1) }, answerTo, false},
	{"", func(id string) string {
		return strings.Replace(answerTo(id), "\r\n", "\r\nTransfer-Encoding : chunked\r\n", 1)
	}, answerTo, false},
	{"", func(id string) string { return strings.Replace(answerTo(id), "\r\n", "\r\nConnection: close\r\n", 1) }, answerTo, false},
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

// Over upstreams that misbehave, alice never gets a byte of bob's responses, nor bob
// one of hers. AUTHGATE_STRESS=N makes N requests.
func TestNoCrossing(t *testing.T) {
	t.Parallel()
	for name, secure := range map[string]bool{"TCP": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var dialed, whole atomic.Int64
			u, dial := newListening(t, secure, misbehave())
			c := New(Options{
				Dial: func(ctx context.Context, address string) (net.Conn, error) {
					dialed.Add(1)
					return dial(ctx, address)
				},
				Timeout: time.Minute, MaxIdle: idlePerHost,
			})
			defer c.CloseIdleConnections()
			requests := int64(effort(t, 2000))
			var asked atomic.Int64
			var all sync.WaitGroup
			for i := range 16 {
				person := []string{"alice", "bob"}[i%2]
				all.Go(func() {
					for n := asked.Add(1); n <= requests; n = asked.Add(1) {
						got, err := askFor(t.Context(), c, u.url(), fmt.Sprintf("%s-%d", person, n))
						switch other := map[string]string{"alice": "bob", "bob": "alice"}[person]; {
						case strings.Contains(got, other):
							t.Errorf("%s gets %q", person, got)
						case err == nil:
							whole.Add(1)
						}
					}
				})
			}
			all.Wait()
			if n := whole.Load(); n < requests/2 {
				t.Errorf("only %d of %d requests had an answer", n, requests)
			}
			if n := dialed.Load(); n >= requests {
				t.Errorf("%d connections for %d requests", n, requests)
			}
		})
	}
}

// askFor sends a request of a random kind. It returns all that comes back, and an
// error if that is not the response to this request.
func askFor(ctx context.Context, c *Client, at, id string) (string, error) {
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
	response, err := c.RoundTrip(r)
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
func newListening(t testing.TB, secure bool, answer answerRaw) (*rawUpstream, func(ctx context.Context, address string) (net.Conn, error)) {
	t.Helper()
	dialer := &net.Dialer{}
	if !secure {
		return newRawUpstream(t, answer), func(ctx context.Context, address string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", address)
		}
	}
	server := httptest.NewTLSServer(nil) // for its certificate
	server.Close()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: server.TLS.Certificates})
	if err != nil {
		t.Fatal(err)
	}
	config := server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	config.ServerName = "example.com" // which the certificate is for
	return serveRaw(t, listener, answer), func(ctx context.Context, address string) (net.Conn, error) {
		raw, err := dialer.DialContext(ctx, "tcp", address)
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
		server := httptest.NewTLSServer(nil)
		server.Close()
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
			conn := tls.Server(held, &tls.Config{Certificates: server.TLS.Certificates, SessionTicketsDisabled: true})
			if err := conn.Handshake(); err == nil {
				held.into = &wire
				for part := range strings.SplitSeq(c.says, "|") {
					_, _ = io.WriteString(conn, part) // into a buffer
				}
			}
			raws <- raw
		}()
		config := server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
		config.ServerName = "example.com"
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
			t.Errorf("%s: not silent before", name)
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
			t.Errorf("%s: silent: %t", name, got)
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
