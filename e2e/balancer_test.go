package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// balanced is a gateway that takes the word of balancers on 127.0.0.1 for the
// addresses of clients.
func balanced(t *testing.T, upstream string) *instance {
	t.Helper()
	g := prepared(t)
	g.listen = fmt.Sprintf("listen: {https: %q, http: %q, admin: %q, proxy_protocol: [127.0.0.1]}\n",
		authority(g.base), authority(g.http), authority(g.adm))
	g.configure(people + `
routes:
  - {match: /public, upstream: app, auth: [none]}
  - {match: /basic, upstream: app, auth: [basic]}
  - {match: /secure, upstream: app, auth: [session]}
  - {match: /near, upstream: app, auth: [basic], policy: {networks: [127.0.0.2]}}
` + app(upstream))
	g.run()
	return g
}

// haproxy runs HAProxy in front of listen.https and listen.http, and returns
// where it listens for them. It sends headers by a keyword of its own.
func haproxy(t *testing.T, g *instance, send string) (https, plain string) {
	t.Helper()
	program, err := exec.LookPath("haproxy")
	if err != nil {
		program = "/usr/sbin/haproxy" // which is not in everybody's PATH
	}
	https, plain = "127.0.0.1:"+freePort(t), "127.0.0.1:"+freePort(t)
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	config := "global\n  maxconn 100\ndefaults\n  mode tcp\n  timeout connect 10s\n  timeout client 1m\n  timeout server 1m\n"
	for front, back := range map[string]string{https: authority(g.base), plain: authority(g.http)} {
		config += fmt.Sprintf("listen port%s\n  bind %s\n  server gateway %s %s\n", front[strings.LastIndexByte(front, ':')+1:], front, back, send)
	}
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	out := &lines{}
	cmd := exec.Command(program, "-db", "-f", file)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = cmd.Wait() // it is killed
	}()
	t.Cleanup(func() { stop(cmd, done) })
	until(t, "HAProxy", func() bool {
		select {
		case <-done:
			t.Fatalf("HAProxy has ended: %s", out)
		default:
		}
		conn, err := net.Dial("tcp", plain)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return https, plain
}

// through is a client with an address of its own, whose connections go to
// another one than it means.
func (g *instance) through(balancer, from string) *http.Client {
	c := g.stranger()
	transport := c.Transport.(*http.Transport)
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, network, balancer)
	}
	return c
}

// TestBalancer: behind HAProxy, which passes on bytes, policies, throttling,
// the upstream and the log see each client's own address.
func TestBalancer(t *testing.T) {
	t.Parallel()
	for _, send := range []string{"send-proxy", "send-proxy-v2"} {
		t.Run(send, func(t *testing.T) {
			t.Parallel()
			up := record(t)
			g := balanced(t, up.url)
			https, plain := haproxy(t, g, send)
			one, two := g.through(https, "127.0.0.2"), g.through(https, "127.0.0.3")
			two.Transport.(*http.Transport).Protocols = http1()
			for name, c := range map[string]*http.Client{"127.0.0.2": one, "127.0.0.3": two} {
				// What a client says of itself, the balancer does not vouch for.
				wantStatus(t, name, g.do(c, "GET", "/public?"+name, "", "X-Forwarded-For", "127.0.0.1", "X-Forwarded-Proto", "http"), http.StatusOK)
			}
			seen := up.all()
			if len(seen) != 2 {
				t.Fatalf("%d requests, expected 2", len(seen))
			}
			for _, m := range seen {
				if got, want := strings.Join(m.values("X-Forwarded-For"), "|"), m.target()[len("/public?"):]; got != want {
					t.Errorf("X-Forwarded-For is %q, expected %q", got, want)
				}
			}
			wantStatus(t, "the network of a policy", g.do(one, "GET", "/near", "", "Authorization", basicService), http.StatusOK)
			wantStatus(t, "another address", g.do(two, "GET", "/near", "", "Authorization", basicService), http.StatusForbidden)

			g.base, https = g.http, g.base
			redirect := g.do(g.through(plain, "127.0.0.4"), "GET", "/public", "")
			if redirect.status != http.StatusPermanentRedirect || redirect.header.Get("Location") != https+"/public" {
				t.Errorf("listen.http: %d to %q", redirect.status, redirect.header.Get("Location"))
			}
			until(t, "the log to name a client of listen.http", func() bool { return strings.Contains(g.log.String(), `"client":"127.0.0.4"`) })
		})
	}
}

// TestBalancerThrottled: a monitoring system goes on beside a client that
// fails behind the same balancer, on the same account.
func TestBalancerThrottled(t *testing.T) {
	t.Parallel()
	g := balanced(t, record(t).url)
	https, _ := haproxy(t, g, "send-proxy-v2")
	good, bad, other := g.through(https, "127.0.0.2"), g.through(https, "127.0.0.3"), g.through(https, "127.0.0.4")
	basic := func(c *http.Client, credential string) answer {
		t.Helper()
		return g.do(c, "GET", "/basic", "", "Authorization", basicOf(credential))
	}
	wantStatus(t, "scrape", basic(good, "service:s3rvice"), http.StatusOK)
	for range 10 {
		wantStatus(t, "wrong", basic(bad, "service:wrong"), http.StatusUnauthorized)
		wantStatus(t, "scrape", basic(good, "service:s3rvice"), http.StatusOK)
	}
	wantThrottled(t, basic(bad, "service:wrong"))
	wantStatus(t, "scrape", basic(good, "service:s3rvice"), http.StatusOK)
	body := `{"username":"alice","password":"wonderland"}`
	wantThrottled(t, g.do(bad, "POST", "/login", body, "Content-Type", typeJSON))
	wantStatus(t, "a login from another address", g.do(other, "POST", "/login", body, "Content-Type", typeJSON), http.StatusOK)
}

// TestBalancerWebSocket: a connection that is upgraded tells the client's
// address too, and ends in a stop as any other.
func TestBalancerWebSocket(t *testing.T) {
	t.Parallel()
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		socket, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer socket.CloseNow()
		_ = socket.Write(r.Context(), websocket.MessageText, []byte(r.Header.Get("X-Forwarded-For"))) // the client tells if it fails
		_, _, _ = socket.Read(r.Context())                                                            // until it is closed
	}))
	t.Cleanup(up.Close)
	g := balanced(t, up.URL)
	https, _ := haproxy(t, g, "send-proxy")
	c := g.through(https, "127.0.0.2")
	c.Transport.(*http.Transport).Protocols = http1()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, g.base+"/public", &websocket.DialOptions{HTTPClient: c})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	if _, got, err := conn.Read(ctx); string(got) != "127.0.0.2" || err != nil {
		t.Errorf("X-Forwarded-For is %q, %v", got, err)
	}
	g.signal(syscall.SIGTERM)
	if _, _, err := conn.Read(ctx); websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("it ends with %v, expected a close frame", err)
	}
}

func http1() *http.Protocols {
	var p http.Protocols
	p.SetHTTP1(true)
	return &p
}

// TestBalancerDirect: the balancer is not served without a header, and other
// clients are not served with one.
func TestBalancerDirect(t *testing.T) {
	t.Parallel()
	up := record(t)
	g := balanced(t, up.url)
	const header = "PROXY TCP4 127.0.0.2 127.0.0.1 4097 443\r\n"
	dial := func(from, url string) net.Conn {
		t.Helper()
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		conn, err := dialer.DialContext(t.Context(), "tcp", authority(url))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		limit(t, conn)
		return conn
	}
	answered := func(conn net.Conn, text string) string {
		t.Helper()
		_, _ = io.WriteString(conn, text) // it may be closed already
		got, _ := io.ReadAll(conn)        // or be reset
		return string(got)
	}
	const get = "GET /public HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
	if got := answered(dial("127.0.0.1", g.http), get); got != "" {
		t.Errorf("without a header the balancer is answered %q", got)
	}
	if conn := tls.Client(dial("127.0.0.1", g.base), g.tls()); conn.HandshakeContext(t.Context()) == nil {
		t.Error("without a header the balancer has a TLS connection")
	}
	if got := answered(dial("127.0.0.1", g.http), header+get); !strings.HasPrefix(got, "HTTP/1.1 308 ") {
		t.Errorf("with a header the balancer is answered %q", got)
	}
	if got := answered(dial("127.0.0.9", g.http), header+get); !strings.HasPrefix(got, "HTTP/1.1 400 ") {
		t.Errorf("somebody else with a header is answered %q", got)
	}
	behind := dial("127.0.0.9", g.base)
	if _, err := io.WriteString(behind, header); err != nil {
		t.Fatal(err)
	}
	if conn := tls.Client(behind, g.tls()); conn.HandshakeContext(t.Context()) == nil {
		t.Error("somebody else with a header has a TLS connection")
	}
	up.none(t)
	wantStatus(t, "somebody else", g.do(g.through(authority(g.base), "127.0.0.9"), "GET", "/public", ""), http.StatusOK)
	if got := up.one(t).value(t, "X-Forwarded-For"); got != "127.0.0.9" {
		t.Errorf("X-Forwarded-For is %q", got)
	}
	if log := g.log.String(); !strings.Contains(log, "listen.proxy_protocol was closed") || !strings.Contains(log, `"balancer":"127.0.0.1:`) {
		t.Errorf("the log does not say that a balancer sends no header:\n%s", log)
	}
}
