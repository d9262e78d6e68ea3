package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/coder/websocket"
)

// haproxy runs HAProxy in front of listen.https and listen.http, and returns the
// addresses where it listens for them. send is its keyword for the PROXY header.
func haproxy(t *testing.T, g *instance, send string) (https, plain string) {
	t.Helper()
	https, plain = freeAddress(t), freeAddress(t)
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	config := "global\n  maxconn 100\ndefaults\n  mode tcp\n  timeout connect 10s\n  timeout client 1m\n  timeout server 1m\n"
	for front, back := range map[string]string{https: authority(g.base), plain: authority(g.http)} {
		config += fmt.Sprintf("listen port%s\n  bind %s\n  server gateway %s %s\n", front[strings.LastIndexByte(front, ':')+1:], front, back, send)
	}
	noError(t, os.WriteFile(file, []byte(config), 0o600))
	out := &lines{}
	cmd := exec.Command(program(t, "haproxy"), "-db", "-f", file)
	cmd.Stdout, cmd.Stderr = out, out
	spawn(t, cmd)
	eventually(t, patience, "HAProxy", func() error {
		conn, err := net.Dial("tcp", plain)
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return conn.Close()
	})
	return https, plain
}

// through is a client at the address from, whose connections go to a balancer.
func (g *instance) through(balancer, from string) *http.Client {
	c := g.stranger11()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, network, balancer)
	}
	return c
}

// TestBalancer: behind HAProxy, which forwards bytes, policies, throttling, the
// upstream and the log see each client's own address, in requests and in
// WebSockets. A connection of the balancer without a header is not served, nor
// is one of another client with a header.
func TestBalancer(t *testing.T) {
	t.Parallel()
	for _, send := range []string{"send-proxy", "send-proxy-v2"} {
		t.Run(send, func(t *testing.T) {
			t.Parallel()
			g := prepared(t)
			g.listen = fmt.Sprintf("listen: {https: %q, http: %q, admin: %q, proxy_protocol: [127.0.0.1]}\n", authority(g.base), authority(g.http), authority(g.adm))
			g.configure(people + app(echoAddress(t)) + `
routes:
  - {match: /public, upstream: app, auth: [none]}
  - {match: /near, upstream: app, auth: [basic], policy: {networks: [127.0.0.2]}}
`)
			g.run()
			https, plain := haproxy(t, g, send)
			one, two := g.through(https, "127.0.0.2"), g.through(https, "127.0.0.3")
			one.Transport.(*http.Transport).Protocols = nil // HTTP/2
			for address, c := range map[string]*http.Client{"127.0.0.2": one, "127.0.0.3": two} {
				// The balancer does not confirm what a client says of itself.
				a := g.do(c, "GET", "/public", "", "X-Forwarded-For", "127.0.0.1", "X-Forwarded-Proto", "http")
				if a.status != http.StatusOK || a.body != address {
					t.Errorf("%d, X-Forwarded-For is %q, expected %q", a.status, a.body, address)
				}
			}
			near := func(c *http.Client, credential string) answer {
				return g.do(c, "GET", "/near", "", "Authorization", credential)
			}
			wantStatus(t, "the network of a policy", near(one, basicService), http.StatusOK)
			wantStatus(t, "another address", near(two, basicService), http.StatusForbidden)
			for range 10 {
				wantStatus(t, "wrong", near(two, basicOf("service:wrong")), http.StatusUnauthorized)
			}
			wantThrottled(t, near(two, basicService))
			wantStatus(t, "beside a client that is throttled", near(one, basicService), http.StatusOK)
			g.refusesHeaders(t)
			redirect := must(g.through(plain, "127.0.0.4").Get(g.http + "/public"))(t)
			redirect.Body.Close()
			if got := redirect.Header.Get("Location"); redirect.StatusCode != http.StatusPermanentRedirect || got != g.base+"/public" {
				t.Errorf("listen.http: %d to %q", redirect.StatusCode, got)
			}
			until(t, "the log to name a client of listen.http", func() bool { return strings.Contains(g.log.String(), `"client":"127.0.0.4"`) })
			g.stopsBehind(t, g.through(https, "127.0.0.5"), "127.0.0.5")
		})
	}
}

// echoAddress is an upstream that answers with X-Forwarded-For, over HTTP and
// WebSockets.
func echoAddress(t *testing.T) (url string) {
	t.Helper()
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		address := r.Header.Get("X-Forwarded-For")
		if r.Header.Get("Upgrade") == "" {
			_, _ = io.WriteString(w, address) // an error shows at the client
			return
		}
		socket, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer socket.CloseNow()
		_ = socket.Write(r.Context(), websocket.MessageText, []byte(address)) // an error shows at the client
		_, _, _ = socket.Read(r.Context())                                    // until it is closed
	})
}

// refusesHeaders: the balancer must send a header, and others must not.
func (g *instance) refusesHeaders(t *testing.T) {
	t.Helper()
	const header = "PROXY TCP4 127.0.0.2 127.0.0.1 4097 443\r\n"
	for _, c := range []struct{ from, header, want string }{
		{"127.0.0.1", "", ""}, {"127.0.0.1", header, "HTTP/1.1 308 "}, {"127.0.0.9", header, "HTTP/1.1 400 "},
	} {
		conn := g.dialPlain(t, c.from)
		limit(t, conn)
		_, _ = io.WriteString(conn, c.header+"GET /public HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n") // it may be closed already
		got, _ := io.ReadAll(conn)                                                                                   // or be reset
		if !strings.HasPrefix(string(got), c.want) || c.want == "" && len(got) > 0 {
			t.Errorf("%s with the header %q is answered %q", c.from, c.header, got)
		}
	}
	until(t, "the log to say that a balancer sends no header", func() bool {
		log := g.log.String()
		return strings.Contains(log, "closed a connection from an address in listen.proxy_protocol") && strings.Contains(log, `"balancer":"127.0.0.1:`)
	})
}

// stopsBehind: a WebSocket has the client's address and ends in a stop with
// status 1001.
func (g *instance) stopsBehind(t *testing.T, c *http.Client, address string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, g.base+"/public", &websocket.DialOptions{HTTPClient: c})
	noError(t, err)
	defer conn.CloseNow()
	if _, got, err := conn.Read(ctx); string(got) != address || err != nil {
		t.Errorf("X-Forwarded-For of a WebSocket is %q, %v", got, err)
	}
	g.signal(syscall.SIGTERM)
	if _, _, err := conn.Read(ctx); websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("the WebSocket ends with %v, expected status 1001", err)
	}
}
