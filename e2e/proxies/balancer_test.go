package proxies

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

	"authgate/e2e/world"

	"github.com/coder/websocket"
)

// haproxy runs HAProxy in front of listen.https and listen.http, and returns the
// addresses where it listens for them. send is its keyword for the PROXY header.
func haproxy(t *testing.T, g *world.Instance, send string) (https, plain string) {
	t.Helper()
	https, plain = world.FreeAddress(t), world.FreeAddress(t)
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	config := "global\n  maxconn 100\ndefaults\n  mode tcp\n  timeout connect 10s\n  timeout client 1m\n  timeout " +
		"server 1m\n"
	for front, back := range map[string]string{https: world.Authority(g.Base), plain: world.Authority(g.HTTP)} {
		config += fmt.Sprintf("listen port%s\n  bind %s\n  server gateway %s %s\n",
			front[strings.LastIndexByte(front, ':')+1:], front, back, send)
	}
	world.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	out := &world.Output{}
	cmd := exec.Command(world.FindProgram(t, "haproxy"), "-db", "-f", file)
	cmd.Stdout, cmd.Stderr = out, out
	world.Spawn(t, cmd)
	world.Eventually(t, world.Patience, "HAProxy", func() error {
		conn, err := net.Dial("tcp", plain)
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return conn.Close()
	})
	return https, plain
}

// through is a client at the address from, whose connections go to a balancer.
func through(g *world.Instance, balancer, from string) *http.Client {
	c := g.Stranger11()
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
			g := world.Prepare(t)
			g.Listen = fmt.Sprintf("listen: {https: %q, http: %q, admin: %q, proxy_protocol: [127.0.0.1]}\n",
				world.Authority(g.Base), world.Authority(g.HTTP), world.Authority(g.Admin))
			g.Configure(world.People + world.App(echoAddress(t)) + `
routes:
  - {match: /public, upstream: app, auth: [none]}
  - {match: /near, upstream: app, auth: [basic], policy: {networks: [127.0.0.2]}}
`)
			g.Run()
			https, plain := haproxy(t, g, send)
			one, two := through(g, https, "127.0.0.2"), through(g, https, "127.0.0.3")
			one.Transport.(*http.Transport).Protocols = nil // HTTP/2
			for address, c := range map[string]*http.Client{"127.0.0.2": one, "127.0.0.3": two} {
				// The balancer does not confirm what a client says of itself.
				a := g.Do(c, "GET", "/public", "", "X-Forwarded-For", "127.0.0.1", "X-Forwarded-Proto", "http")
				if a.Status != http.StatusOK || a.Body != address {
					t.Errorf("%d, X-Forwarded-For is %q, expected %q", a.Status, a.Body, address)
				}
			}
			near := func(c *http.Client, credential string) world.Answer {
				return g.Do(c, "GET", "/near", "", "Authorization", credential)
			}
			world.WantStatus(t, "the network of a policy", near(one, world.BasicService), http.StatusOK)
			world.WantStatus(t, "another address", near(two, world.BasicService), http.StatusForbidden)
			for range 10 {
				world.WantStatus(t, "wrong", near(two, world.BasicOf("service:wrong")), http.StatusUnauthorized)
			}
			world.WantStatus(t, "the client that guessed", near(two, world.BasicService), http.StatusTooManyRequests)
			world.WantStatus(t, "beside a client that is throttled", near(one, world.BasicService), http.StatusOK)
			refusesHeaders(t, g)
			redirect := world.Must(through(g, plain, "127.0.0.4").Get(g.HTTP + "/public"))(t)
			redirect.Body.Close()
			if got := redirect.Header.Get("Location"); redirect.StatusCode != http.StatusPermanentRedirect ||
				got != g.Base+"/public" {
				t.Errorf("listen.http: %d to %q", redirect.StatusCode, got)
			}
			world.Until(t, "the log to name a client of listen.http",
				func() bool { return strings.Contains(g.Log.String(), `"client":"127.0.0.4"`) })
			stopsBehind(t, g, through(g, https, "127.0.0.5"), "127.0.0.5")
		})
	}
}

// echoAddress is an upstream that answers with X-Forwarded-For, over HTTP and
// WebSockets.
func echoAddress(t *testing.T) (url string) {
	t.Helper()
	return world.Serve(t, func(w http.ResponseWriter, r *http.Request) {
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
func refusesHeaders(t *testing.T, g *world.Instance) {
	t.Helper()
	const header = "PROXY TCP4 127.0.0.2 127.0.0.1 4097 443\r\n"
	for _, c := range []struct{ from, header, want string }{
		{"127.0.0.1", "", ""}, {"127.0.0.1", header, "HTTP/1.1 308 "}, {"127.0.0.9", header, "HTTP/1.1 400 "},
	} {
		conn := g.DialPlain(t, c.from)
		world.Limit(t, conn)
		_, _ = io.WriteString(conn, c.header+"GET /public HTTP/1.1\r\nHost: localhost\r\nConnection: "+
			"close\r\n\r\n") // it may be closed already
		got, _ := io.ReadAll(conn) // or be reset
		if !strings.HasPrefix(string(got), c.want) || c.want == "" && len(got) > 0 {
			t.Errorf("%s with the header %q is answered %q", c.from, c.header, got)
		}
	}
	world.Until(t, "the log to say that a balancer sends no header", func() bool {
		log := g.Log.String()
		return strings.Contains(log, "closed a connection from an address in listen.proxy_protocol") &&
			strings.Contains(log, `"balancer":"127.0.0.1:`)
	})
}

// stopsBehind: a WebSocket has the client's address and ends in a stop with
// status 1001.
func stopsBehind(t *testing.T, g *world.Instance, c *http.Client, address string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), world.Patience)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, g.Base+"/public", &websocket.DialOptions{HTTPClient: c})
	world.NoError(t, err)
	defer conn.CloseNow()
	if _, got, err := conn.Read(ctx); string(got) != address || err != nil {
		t.Errorf("X-Forwarded-For of a WebSocket is %q, %v", got, err)
	}
	g.Signal(syscall.SIGTERM)
	if _, _, err := conn.Read(ctx); websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("the WebSocket ends with %v, expected status 1001", err)
	}
}
