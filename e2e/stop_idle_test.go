package e2e

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// idleClients are clients without a request under way, by what they do. Each
// returns when the gateway must take it for idle.
var idleClients = map[string]func(t *testing.T, g *instance){
	"TLS, nothing sent":      func(t *testing.T, g *instance) { g.connect(t, g.base) },
	"after the handshake":    func(t *testing.T, g *instance) { g.dial(t, "http/1.1") },
	"HTTP/2, handshake only": func(t *testing.T, g *instance) { g.dial(t, "h2") },
	"HTTP/2, no request":     func(t *testing.T, g *instance) { g.greet(t) },
	"HTTP/2, after a request": func(t *testing.T, g *instance) {
		if got := g.status(g.stranger(), "GET", "/"); got != http.StatusOK {
			t.Errorf("%d", got)
		}
	},
	"after a request": func(t *testing.T, g *instance) { g.requested(t, g.dial(t, "http/1.1")) },
	"a byte each second": func(t *testing.T, g *instance) {
		drip(t, g.dial(t, "http/1.1"), "GET / HTTP/1.1\r\nHost: localhost\r\nA: ")
	},
	"a byte each second of the handshake": func(t *testing.T, g *instance) {
		drip(t, g.connect(t, g.base), "\x16\x03\x01\x02\x00\x01")
	},
	"a byte each second behind an answer": func(t *testing.T, g *instance) {
		conn := g.dial(t, "http/1.1")
		g.requested(t, conn)
		drip(t, conn, "GET ")
	},
	"plain, nothing sent":       func(t *testing.T, g *instance) { g.connect(t, g.http) },
	"plain, a byte each second": func(t *testing.T, g *instance) { drip(t, g.connect(t, g.http), "GET / HTTP/1.1\r\nA: ") },
	"admin, nothing sent":       func(t *testing.T, g *instance) { g.connect(t, g.adm) },
}

// connect opens a connection and sends nothing.
func (g *instance) connect(t *testing.T, url string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", authority(url))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// requested sends a request and reads the answer.
func (g *instance) requested(t *testing.T, conn net.Conn) {
	t.Helper()
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", answer, err)
	}
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		t.Fatal(err)
	}
}

// greet begins HTTP/2 and reads up to the answer to its settings.
func (g *instance) greet(t *testing.T) {
	t.Helper()
	conn := g.dial(t, "h2")
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	framer := http2.NewFramer(conn, conn)
	if err := framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	for {
		f, err := framer.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := f.(*http2.SettingsFrame); ok && s.IsAck() {
			return
		}
	}
}

// drip sends something, and then a byte each second until that fails.
func drip(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	go func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for err := error(nil); err == nil; _, err = conn.Write([]byte{'a'}) {
			<-tick.C
		}
	}()
}

// TestStopIdle: a stop with nothing under way waits for no client. It takes a
// fraction of a second, but how much of that is the machine's cannot be known
// here: waiting for a client takes five seconds or more.
func TestStopIdle(t *testing.T) {
	t.Parallel()
	url := record(t).url
	for name, open := range idleClients {
		t.Run(name, func(t *testing.T) {
			g := start(t, targets+app(url)+"shutdown_timeout: 60s\n")
			for range 100 {
				open(t, g)
			}
			stopped := time.Now()
			g.signal(syscall.SIGTERM)
			g.ends(5 * time.Second)
			t.Logf("the stop took %v", time.Since(stopped))
			if strings.Contains(g.log.String(), "cut off") || strings.Contains(g.log.String(), "left behind") {
				t.Errorf("the log says that something was cut off:\n%s", g.log)
			}
		})
	}
}
