package e2e

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// TestAdvisoriesResources: the gateway limits the time and the memory that one
// client can cost.
func TestAdvisoriesResources(t *testing.T) {
	t.Parallel()
	up := record(t)
	g := start(t, people+app(up.url)+"routes: [{match: /, upstream: app, auth: [none]}, {match: /private/, upstream: app, auth: [session]}]\n")
	t.Run("CVE-2023-39326 Go net/http, chunk extensions", func(t *testing.T) {
		const enough = 4 << 20 // of extensions, for 2 KiB of a body
		chunk := "1;" + strings.Repeat("x", 2_000) + "\r\ny\r\n"
		sent := sendWhileTaken(t, g, "POST /x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n", chunk, enough)
		if sent >= enough {
			t.Errorf("the gateway took %d bytes of extensions", sent)
		}
		for _, m := range up.all() {
			t.Errorf("the upstream gets the whole request %q", m.line)
		}
	})
	t.Run("CVE-2023-24534 Go net/http, CVE-2023-29013 Traefik, small headers", func(t *testing.T) {
		const enough = 8 << 20
		for _, line := range []string{"a:\r\n", "A: b\r\n", ":\r\n", "Cookie: a\r\n"} {
			if sent := sendWhileTaken(t, g, "GET /x HTTP/1.1\r\nHost: localhost\r\n", strings.Repeat(line, 100), enough); sent >= enough {
				t.Errorf("the gateway took %d bytes of headers like %q", sent, line)
			}
			up.none(t)
		}
	})
	t.Run("slow", func(t *testing.T) { slow(t, g) })
	if a := g.do(g.stranger(), "GET", "/x", ""); a.status != http.StatusOK {
		t.Errorf("others get %d", a.status)
	}
	up.one(t)
}

// sendWhileTaken sends head, and then parts until the gateway takes no more or has
// taken enough. It returns how many bytes of the parts the gateway took.
func sendWhileTaken(t *testing.T, g *instance, head, part string, enough int) (sent int) {
	t.Helper()
	conn := g.dial(t, "http/1.1")
	defer conn.Close()
	go func() { _, _ = io.Copy(io.Discard, conn) }() // so that a full window does not end the loop
	_, err := io.WriteString(conn, head)
	for err == nil && sent < enough {
		var n int
		n, err = io.WriteString(conn, part)
		sent += n
	}
	return sent
}

// slowAdvisory is an incomplete message.
type slowAdvisory struct {
	name     string
	listener string // tcp: https without TLS; tls: https; plain: http
	bytes    string
	answer   bool // the gateway sends an answer
}

func slowAdvisories() []slowAdvisory {
	return []slowAdvisory{
		{"CVE-2026-22045 Traefik, a handshake that stalls", "tcp", clientHello("acme-tls/1"), false},
		{"CVE-2026-26999 Traefik, a handshake that stalls", "tcp", clientHello("h2"), false},
		{"CVE-2026-26999 Traefik, half a message", "tcp", clientHello("h2")[:40], false},
		{"half a header", "tls", "GET /x HTTP/1.1\r\nHost: loc", false},
		{"CVE-2023-47124 Traefik, slow headers of plain HTTP", "plain", "GET /.well-known/acme-challenge/x HTTP/1.1\r\nHost: loc", false},
		{"CVE-2024-28869 Traefik, a length without a body", "tls", "GET /private/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n", true},
		{"CVE-2024-28869 Traefik, at own endpoints", "tls", "GET /logout HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n", true},
		{"CVE-2024-28869 Traefik, of a bad request", "tls", "GET /a//b HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n", true},
	}
}

// clientHello is the first message of a TLS handshake, with a protocol (ALPN).
func clientHello(protocol string) string {
	said := &saying{}
	_ = tls.Client(said, &tls.Config{ServerName: "localhost", NextProtos: []string{protocol}}).Handshake() // fails without an answer
	return said.String()
}

// saying is a connection that keeps what is written, and has nothing to read.
type saying struct {
	net.Conn
	bytes.Buffer
}

func (s *saying) Write(b []byte) (int, error) { return s.Buffer.Write(b) }
func (s *saying) Read([]byte) (int, error)    { return 0, io.EOF }
func (s *saying) Close() error                { return nil }

// slow opens a connection for each advisory, and then waits until the gateway has
// closed each of them.
func slow(t *testing.T, g *instance) {
	advisories := slowAdvisories()
	conns := make([]net.Conn, len(advisories))
	for i, a := range advisories {
		var err error
		switch a.listener {
		case "tls":
			conns[i] = g.dial(t, "http/1.1")
		case "tcp":
			conns[i], err = net.Dial("tcp", authority(g.base))
		default:
			conns[i], err = net.Dial("tcp", authority(g.http))
		}
		if err == nil {
			defer conns[i].Close()
			limit(t, conns[i])
			_, err = io.WriteString(conns[i], a.bytes)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, a := range advisories {
		t.Run(a.name, func(t *testing.T) {
			got, err := io.ReadAll(conns[i])
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("the gateway does not close the connection: %v", err)
			}
			if a.answer && !strings.HasPrefix(string(got), "HTTP/1.1 ") {
				t.Errorf("the answer is %q", got)
			}
		})
	}
}

// http2Client speaks HTTP/2 frame by frame.
type http2Client struct {
	*http2.Framer
	conn  net.Conn
	ended atomic.Bool // read found that the gateway has closed the connection
	block bytes.Buffer
	next  uint32
}

func (g *instance) http2(t *testing.T) *http2Client {
	t.Helper()
	conn := g.dial(t, "h2")
	c := &http2Client{Framer: http2.NewFramer(conn, conn), conn: conn, next: 1}
	c.AllowIllegalWrites = true
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	if err := c.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return c
}

// read discards what the gateway sends.
func (c *http2Client) read() {
	go func() {
		_, _ = io.Copy(io.Discard, c.conn)
		c.ended.Store(true)
	}()
}

// open begins a stream with a request.
func (c *http2Client) open(end bool, fields ...field) (stream uint32, err error) {
	c.block.Reset()
	encoder := hpack.NewEncoder(&c.block)
	encoder.SetMaxDynamicTableSize(0)
	for _, f := range fields {
		if err := encoder.WriteField(hpack.HeaderField{Name: f.name, Value: f.value}); err != nil {
			return 0, err
		}
	}
	stream = c.next
	c.next += 2
	return stream, c.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: c.block.Bytes(), EndStream: end, EndHeaders: true})
}

func getFields(target string) []field {
	return []field{{":method", "GET"}, {":scheme", "https"}, {":authority", "localhost"}, {":path", target}}
}

// busyUpstream answers no request for /slow, and counts those requests.
type busyUpstream struct{ now, most atomic.Int64 }

func (b *busyUpstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/slow" {
		_, _ = io.WriteString(w, r.URL.Path)
		return
	}
	now := b.now.Add(1)
	defer b.now.Add(-1)
	for most := b.most.Load(); now > most && !b.most.CompareAndSwap(most, now); most = b.most.Load() {
	}
	<-r.Context().Done()
}

// TestAdvisoriesHTTP2: malicious frames harm only their sender.
func TestAdvisoriesHTTP2(t *testing.T) {
	t.Parallel()
	busy := &busyUpstream{}
	server := httptest.NewServer(busy)
	t.Cleanup(server.Close)
	g := start(t, targets+app(server.URL))
	for _, test := range []struct {
		name   string
		attack func(*testing.T, *http2Client)
	}{
		{"CVE-2023-44487 and CVE-2023-39325 Go net/http, CVE-2021-39204 Pomerium, rapid reset", func(t *testing.T, c *http2Client) {
			resets(c, func(stream uint32) error { return c.WriteRSTStream(stream, http2.ErrCodeCancel) })
		}},
		{"CVE-2025-8671 HTTP/2, resets by the server", func(t *testing.T, c *http2Client) {
			resets(c, func(stream uint32) error { return c.WriteWindowUpdate(stream, 0) })
		}},
		{"CVE-2023-45288 Go net/http, CVE-2024-27919 Envoy, CONTINUATION without end", continuations},
		{"CVE-2019-9512 Go net/http, pings", unreadPings},
		{"CVE-2026-27141 Go x/net, GHSA-4hjq-9h5c-252j Traefik, frames of unknown kinds", func(t *testing.T, c *http2Client) {
			c.read()
			for kind := http2.FrameType(0x0a); kind <= 0x20; kind++ {
				flood(c, 2, func() error { return c.WriteRawFrame(kind, 0xff, c.next%3, []byte{0, 0, 0, 1, 'u', '=', '1'}) })
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := g.http2(t)
			test.attack(t, c)
			others := g.stranger()
			for i := range 3 {
				path := fmt.Sprintf("/others/%d", i)
				if a := g.do(others, "GET", path, ""); a.body != path {
					t.Errorf("others get %d %q", a.status, a.body)
				}
			}
			c.conn.Close()
			if most := busy.most.Load(); most > 250 {
				t.Errorf("%d concurrent requests reached the upstream", most)
			}
			until(t, "the requests of the attack to end", func() bool { return busy.now.Load() == 0 })
		})
	}
}

// flood writes n times, or until the gateway closes the connection.
func flood(c *http2Client, n int, write func() error) {
	for range n {
		if c.ended.Load() || write() != nil {
			return
		}
	}
}

// unreadPings sends pings and reads no answer. The gateway must close the
// connection.
func unreadPings(t *testing.T, c *http2Client) {
	const enough, atOnce = 4_000_000, 4_000
	var pings bytes.Buffer
	framer := http2.NewFramer(&pings, nil)
	for range atOnce {
		if err := framer.WritePing(false, [8]byte{}); err != nil {
			t.Fatal(err)
		}
	}
	for n := 0; n < enough; n += atOnce {
		if _, err := c.conn.Write(pings.Bytes()); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("the gateway takes no more than %d pings, and does not close the connection", n)
		} else if err != nil {
			return
		}
	}
	t.Errorf("the gateway took %d pings", enough)
}

// resets begins slow requests, and resets each at once.
func resets(c *http2Client, reset func(stream uint32) error) {
	c.read()
	flood(c, 5_000, func() error {
		stream, err := c.open(true, getFields("/slow")...)
		if err == nil {
			err = reset(stream)
		}
		return err
	})
}

func continuations(t *testing.T, c *http2Client) {
	const enough = 64 << 20
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for i := 0; block.Len() < 16_000; i++ {
		if err := encoder.WriteField(hpack.HeaderField{Name: fmt.Sprintf("x-%d", i), Value: "x", Sensitive: true}); err != nil {
			t.Fatal(err)
		}
	}
	fragment := block.Bytes()
	sent := 0
	c.read()
	err := c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: fragment})
	for err == nil && sent < enough && !c.ended.Load() {
		err = c.WriteContinuation(1, false, fragment)
		sent += len(fragment)
	}
	if sent >= enough {
		t.Errorf("the gateway took %d bytes of one header", sent)
	}
}
