package wire

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"authgate/e2e/world"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// TestAdvisoriesResources: the gateway limits the time and the memory that one
// client can cost.
func TestAdvisoriesResources(t *testing.T) {
	t.Parallel()
	up := world.Record(t)
	g := world.Start(t, world.People+world.App(up.URL)+"routes: [{match: /, upstream: app, auth: [none]}, {match: "+
		"/private/, upstream: app, auth: [session]}]\n")
	const get, post = "GET /x HTTP/1.1\r\nHost: localhost\r\n", "POST /x HTTP/1.1\r\nHost: " +
		"localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
	for _, test := range []struct {
		name, head, part string
		enough           int // bytes of parts
	}{
		{"CVE-2023-39326 Go net/http, chunk extensions", post, "1;" + strings.Repeat("x", 2_000) + "\r\ny\r\n", 4 << 20},
		{"CVE-2023-24534 Go net/http, CVE-2023-29013 Traefik, small headers", get, strings.Repeat("A: b\r\n", 100), 8 << 20},
		{"CVE-2023-24534 Go net/http, headers without a name", get, strings.Repeat(":\r\n", 100), 8 << 20},
		{"CVE-2023-24534 Go net/http, cookies", get, strings.Repeat("Cookie: a\r\n", 100), 8 << 20},
	} {
		t.Run(test.name, func(t *testing.T) {
			if sent := sendWhileTaken(t, g, test.head, test.part, test.enough); sent >= test.enough {
				t.Errorf("the gateway took %d bytes", sent)
			}
			up.None(t)
		})
	}
	t.Run("slow", func(t *testing.T) { slow(t, g) })
	if a := g.Do(g.Stranger(), "GET", "/x", ""); a.Status != http.StatusOK {
		t.Errorf("others get %d", a.Status)
	}
	up.One(t)
}

// sendWhileTaken sends head, and then parts until the gateway takes no more or has
// taken enough. It returns how many bytes of the parts the gateway took.
func sendWhileTaken(t *testing.T, g *world.Instance, head, part string, enough int) (sent int) {
	t.Helper()
	conn := g.Dial(t, "http/1.1")
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

// slow opens a connection for each incomplete message, and then waits until the
// gateway has closed each of them.
func slow(t *testing.T, g *world.Instance) {
	const hello = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" // the begin of a TLS handshake
	const length = " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n"
	tcp := func(address string) func() (net.Conn, error) {
		return func() (net.Conn, error) { return net.Dial("tcp", world.Authority(address)) }
	}
	tls := func() (net.Conn, error) { return g.Dial(t, "http/1.1"), nil }
	var ends []func()
	for _, a := range []struct {
		name   string
		dial   func() (net.Conn, error)
		bytes  string
		answer bool // the gateway sends an answer
	}{
		{"CVE-2026-22045 and CVE-2026-26999 Traefik, a handshake that stalls", tcp(g.Base), hello, false},
		{"half a header", tls, "GET /x HTTP/1.1\r\nHost: loc", false},
		{"CVE-2023-47124 Traefik, slow headers of plain HTTP", tcp(g.HTTP),
			"GET /.well-known/acme-challenge/x HTTP/1.1\r\nHost: loc", false},
		{"CVE-2024-28869 Traefik, a length without a body", tls, "GET /private/x" + length, true},
		{"CVE-2024-28869 Traefik, at own endpoints", tls, "GET /logout" + length, true},
		{"CVE-2024-28869 Traefik, of a bad request", tls, "GET /a//b" + length, true},
	} {
		conn, err := a.dial()
		if err == nil {
			defer conn.Close()
			world.Limit(t, conn)
			_, err = io.WriteString(conn, a.bytes)
		}
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, func() {
			t.Run(a.name, func(t *testing.T) {
				got, err := io.ReadAll(conn)
				if errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("the gateway does not close the connection: %v", err)
				}
				if a.answer && !strings.HasPrefix(string(got), "HTTP/1.1 ") {
					t.Errorf("the answer is %q", got)
				}
			})
		})
	}
	for _, end := range ends {
		end()
	}
}

// http2Client speaks HTTP/2 frame by frame.
type http2Client struct {
	*http2.Framer
	conn  net.Conn
	ended atomic.Bool // read found that the gateway has closed the connection
}

func dialHTTP2(t *testing.T, g *world.Instance) *http2Client {
	t.Helper()
	conn := g.Dial(t, "h2")
	c := &http2Client{Framer: http2.NewFramer(conn, conn), conn: conn}
	c.AllowIllegalWrites = true
	_, err := io.WriteString(conn, http2.ClientPreface)
	if err = errors.Join(err, c.WriteSettings()); err != nil {
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
	g := world.Start(t, targets+world.App(server.URL))
	for name, attack := range map[string]func(*testing.T, *http2Client){
		"CVE-2023-44487 and CVE-2023-39325 Go net/http, CVE-2021-39204 Pomerium, rapid reset": func(t *testing.T,
			c *http2Client) {
			resets(t, c, func(stream uint32) error { return c.WriteRSTStream(stream, http2.ErrCodeCancel) })
		},
		"CVE-2025-8671 HTTP/2, resets by the server": func(t *testing.T, c *http2Client) {
			resets(t, c, func(stream uint32) error { return c.WriteWindowUpdate(stream, 0) })
		},
		"CVE-2023-45288 Go net/http, CVE-2024-27919 Envoy, CONTINUATION without end": continuations,
		"CVE-2019-9512 Go net/http, pings":                                           unreadPings,
		"CVE-2026-27141 Go x/net, GHSA-4hjq-9h5c-252j Traefik, frames of unknown kinds": func(_ *testing.T, c *http2Client) {
			c.read()
			for kind := http2.FrameType(0x0a); kind <= 0x20; kind++ {
				flood(c, 2, func() error { return c.WriteRawFrame(kind, 0xff, 1, []byte{0, 0, 0, 1, 'u', '=', '1'}) })
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := dialHTTP2(t, g)
			attack(t, c)
			if a := g.Do(g.Stranger(), "GET", "/others", ""); a.Body != "/others" {
				t.Errorf("others get %d %q", a.Status, a.Body)
			}
			c.conn.Close()
			if most := busy.most.Load(); most > 250 {
				t.Errorf("%d concurrent requests reached the upstream", most)
			}
			world.Until(t, "the requests of the attack to end", func() bool { return busy.now.Load() == 0 })
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

// headerBlock is a header block of these fields, which a connection can repeat.
func headerBlock(t *testing.T, fields ...field) []byte {
	t.Helper()
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, f := range fields {
		if err := encoder.WriteField(hpack.HeaderField{Name: f.name, Value: f.value, Sensitive: true}); err != nil {
			t.Fatal(err)
		}
	}
	return block.Bytes()
}

// resets begins slow requests, and resets each at once.
func resets(t *testing.T, c *http2Client, reset func(stream uint32) error) {
	request := http2.HeadersFrameParam{
		StreamID: 1, EndStream: true, EndHeaders: true,
		BlockFragment: headerBlock(t, field{":method", "GET"}, field{":scheme", "https"}, field{":authority", "localhost"},
			field{":path", "/slow"}),
	}
	c.read()
	flood(c, 5_000, func() error {
		err := errors.Join(c.WriteHeaders(request), reset(request.StreamID))
		request.StreamID += 2
		return err
	})
}

// unreadPings sends pings and reads no answer. The gateway must close the
// connection.
func unreadPings(t *testing.T, c *http2Client) {
	const enough, atOnce = 4_000_000, 4_000
	ping := "\x00\x00\x08\x06\x00\x00\x00\x00\x00" + strings.Repeat("\x00", 8)
	pings := strings.Repeat(ping, atOnce)
	for n := 0; n < enough; n += atOnce {
		if _, err := io.WriteString(c.conn, pings); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("the gateway takes no more than %d pings, and does not close the connection", n)
		} else if err != nil {
			return
		}
	}
	t.Errorf("the gateway took %d pings", enough)
}

// continuations sends a header without end.
func continuations(t *testing.T, c *http2Client) {
	const enough = 4_000 // of 16 KB
	fragment := bytes.Repeat(headerBlock(t, field{"x-1", strings.Repeat("x", 10)}), 1_000)
	c.read()
	if err := c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: fragment}); err != nil {
		t.Fatal(err)
	}
	sent := 0
	flood(c, enough, func() error { sent++; return c.WriteContinuation(1, false, fragment) })
	if sent == enough {
		t.Errorf("the gateway took %d frames of one header", sent)
	}
}
