package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"authgate/gateway/certs"
	"authgate/gateway/config"
	"authgate/gateway/config/listening"
	"authgate/internal/test/logtest"
	"authgate/internal/test/must"
	"authgate/internal/test/porttest"
)

const anyPort = "127.0.0.1:0"

// listeningAt is a Server with those listeners, for a gateway that tells each
// client its address.
func listeningAt(t *testing.T, source certs.Source, cfg config.Config) (*Server, *logtest.Buffer) {
	t.Helper()
	log := &logtest.Buffer{}
	o := options(&stub{config: cfg, serve: func(w http.ResponseWriter, r *http.Request) {
		_,
			_ = io.WriteString(w, r.RemoteAddr)
	}}, log)
	o.Certificates = source
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s, log
}

// The listeners are those of the configuration, without https if a proxy
// terminates TLS. Over plain HTTP an authority gets the answer to its challenge.
// Other clients are redirected, unless a proxy terminates TLS.
func TestListeners(t *testing.T) {
	t.Parallel()
	all := listening.Listen{HTTPS: anyPort, HTTP: anyPort, Admin: anyPort}
	for _, c := range []struct {
		source            certs.Source
		mode              string
		listen            listening.Listen
		want              []string
		challenged, asked int
	}{
		{certificates{}, listening.TLSFiles, listening.Listen{HTTPS: anyPort}, []string{nameHTTPS}, 0, 0},
		{certificates{}, listening.TLSFiles, all, []string{nameHTTPS, nameHTTP, nameAdmin}, 308, 308},
		{&issued{}, listening.TLSACME, all, []string{nameHTTPS, nameHTTP, nameAdmin}, 200, 308},
		{nil, listening.TLSOff, all, []string{nameHTTP, nameAdmin}, 200, 200},
	} {
		s, _ := listeningAt(t, c.source, config.Config{Listen: c.listen, TLS: listening.TLS{Mode: c.mode}})
		var got []string
		for _, l := range s.serving {
			if got = append(got, l.name); s.Address(l.name) == "" {
				t.Errorf("%s: %s has no address", c.mode, l.name)
			}
			for path, want := range map[string]int{"/challenge": c.challenged, "/": c.asked} {
				w := httptest.NewRecorder()
				if l.server.Handler.ServeHTTP(w, httptest.NewRequest("GET", path, nil)); l.name == nameHTTP &&
					(w.Code != want || w.Body.Len() > 0 != (c.source == nil)) {
					t.Errorf("%s: %s: %d, want %d; the body is %q", c.mode, path, w.Code, want, w.Body)
				}
			}
		}
		if err := s.RefreshCertificates(); !slices.Equal(got, c.want) || s.Address("x") != "" || err != nil {
			t.Errorf("%s: listeners %q, want %q; %v", c.mode, got, c.want, err)
		}
	}
}

// New names a listener that it cannot open, and closes what it opened before.
func TestPortInUse(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", anyPort)
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	first, authority := porttest.Address(t), &issued{}
	o := options(&stub{config: config.Config{Listen: listening.Listen{HTTPS: first, HTTP: anyPort,
		Admin: taken.Addr().String()}}}, &logtest.Buffer{})
	o.Certificates = authority
	if _, err := New(o); err == nil || !strings.Contains(err.Error(), "listen.admin") ||
		!strings.Contains(err.Error(), taken.Addr().String()) {
		t.Errorf("got %v, want it to name listen.admin and %s", err, taken.Addr())
	}
	again, err := net.Listen("tcp", first)
	if err != nil {
		t.Fatalf("the listener before it is left open: %v", err)
	}
	again.Close()
	if authority.closed.Load() != 1 {
		t.Error("the certificates are left open")
	}
}

// A listener that fails stops the others, and is named.
func TestListenerFails(t *testing.T) {
	t.Parallel()
	authority := &issued{}
	s, _ := listeningAt(t, authority, config.Config{
		Listen: listening.Listen{HTTPS: anyPort, HTTP: anyPort, Admin: anyPort},
	})
	s.serving[1].listener.Close()
	if err := s.Serve(t.Context()); err == nil || !strings.Contains(err.Error(), "listen.http") ||
		!errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
	if authority.closed.Load() != 1 {
		t.Error("the certificates are left open")
	}
}

// An idle connection is closed after listen.idle_timeout, on each listener.
func TestIdleTimeout(t *testing.T) {
	t.Parallel()
	s, _ := listeningAt(t, nil, config.Config{TLS: listening.TLS{Mode: listening.TLSOff},
		Listen: listening.Listen{HTTP: anyPort, Admin: anyPort, IdleTimeout: 10 * time.Millisecond}})
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error)
	go func() { served <- s.Serve(ctx) }()
	for _, name := range []string{nameHTTP, nameAdmin} {
		client, err := net.Dial("tcp", s.Address(name))
		if err != nil {
			t.Fatal(err)
		}
		must.Do(t, client.SetDeadline(time.Now().Add(time.Minute))) // without the key, it waits for 2 minutes
		_, _ = io.WriteString(client, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if answer, err := io.ReadAll(client); err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200 ") {
			t.Errorf("%s: %s, %v", name, answer, err)
		}
		client.Close()
	}
	stop()
	must.Do(t, <-served)
}

// On a loopback address, the admin listener answers for the names of this machine alone: any
// other may be that of a site in a browser here. Elsewhere it answers for all.
func TestAdminHost(t *testing.T) {
	t.Parallel()
	handler := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	for _, c := range []struct {
		address string // configured
		opened  string
		host    string
		want    int
	}{
		{"127.0.0.1:9090", "127.0.0.1:9090", "127.0.0.1:9090", 200},
		{"127.0.0.1:9090", "127.0.0.1:9090", "localhost", 200},
		{"127.0.0.1:9090", "127.0.0.1:9090", "LocalHost.:8080", 200}, // forwarded by SSH
		{"127.0.0.1:9090", "127.0.0.1:9090", "[::1]:9090", 200},
		{"[::1]:9090", "[::1]:9090", "127.0.0.2", 200},
		{"gate.internal:9090", "127.0.1.1:9090", "Gate.internal:9090", 200},
		{"127.0.0.1:9090", "127.0.0.1:9090", "", 200}, // HTTP/1.0; no browser sends it
		{"127.0.0.1:9090", "127.0.0.1:9090", "evil.example", 421},
		{"127.0.0.1:9090", "127.0.0.1:9090", "evil.example:9090", 421},
		{"127.0.0.1:9090", "127.0.0.1:9090", "localhost.evil.example", 421},
		{"127.0.0.1:9090", "127.0.0.1:9090", "127.0.0.1.evil.example", 421},
		{"127.0.0.1:9090", "127.0.0.1:9090", "192.0.2.1", 421},
		{"127.0.0.1:9090", "127.0.0.1:9090", "a@localhost", 421},
		{"[::1]:9090", "[::1]:9090", "gate.internal", 421},
		{":9090", "0.0.0.0:9090", "gate.internal", 200},
		{"192.0.2.1:9090", "192.0.2.1:9090", "gate.internal", 200},
	} {
		r := httptest.NewRequest("GET", "/metrics", nil)
		r.Host = c.host
		w := httptest.NewRecorder()
		opened := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.opened))
		loopbackNames(handler, opened, c.address).ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("at %s, for %q: %d, expected %d", c.address, c.host, w.Code, c.want)
		}
	}
	s, _ := listeningAt(t, nil, config.Config{Listen: listening.Listen{Admin: anyPort}})
	r := httptest.NewRequest("GET", "/metrics", nil)
	r.Host = "evil.example"
	w := httptest.NewRecorder()
	if s.serving[0].server.Handler.ServeHTTP(w, r); w.Code != http.StatusMisdirectedRequest {
		t.Errorf("the server's own handler: %d %s", w.Code, w.Body)
	}
}

// The clients of a balancer are those in PROXY protocol headers; the admin
// listener takes no such header.
func TestProxyProtocol(t *testing.T) {
	t.Parallel()
	balancers := []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	s, _ := listeningAt(t, nil, config.Config{TLS: listening.TLS{Mode: listening.TLSOff},
		Listen: listening.Listen{HTTP: anyPort, Admin: anyPort, ProxyProtocol: balancers}})
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error)
	go func() { served <- s.Serve(ctx) }()
	for name, c := range map[string]struct{ header, want string }{
		nameHTTP:  {"PROXY TCP4 203.0.113.9 192.0.2.1 4097 443\r\n", "203.0.113.9:4097"},
		nameAdmin: {"", "alive"},
	} {
		client, err := net.Dial("tcp", s.Address(name))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(client, c.header+"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: "+
			"close\r\n\r\n") // the answer tells
		if answer, err := io.ReadAll(client); err != nil || !strings.Contains(string(answer), c.want) {
			t.Errorf("%s: %s, %v", name, answer, err)
		}
		client.Close()
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// Where a proxy terminates TLS, it may speak HTTP/2 from the first byte on, behind a PROXY
// protocol header too, and HTTP/1.1 as before. Plain HTTP beside TLS is HTTP/1.1 alone.
func TestHTTP2WithoutTLS(t *testing.T) {
	t.Parallel()
	balanced := listening.Listen{
		HTTP: anyPort, ProxyProtocol: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
	}
	const header = "PROXY TCP4 203.0.113.9 192.0.2.1 4097 443\r\n"
	for name, c := range map[string]struct {
		source certs.Source
		mode   string
		listen listening.Listen
		header string
		http2  bool
		want   string
	}{
		"HTTP/2":   {nil, listening.TLSOff, listening.Listen{HTTP: anyPort}, "", true, "HTTP/2.0 from 127.0.0.1"},
		"HTTP/1.1": {nil, listening.TLSOff, listening.Listen{HTTP: anyPort}, "", false, "HTTP/1.1 from 127.0.0.1"},
		"HTTP/2 of a balancer": {nil, listening.TLSOff, balanced, header, true,
			"HTTP/2.0 from 203.0.113.9"},
		"HTTP/1.1 of a balancer": {nil, listening.TLSOff, balanced, header, false,
			"HTTP/1.1 from 203.0.113.9"},
		"HTTP/2 beside TLS": {certificates{}, listening.TLSFiles, listening.Listen{HTTP: anyPort}, "", true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := listeningAt(t, c.source, config.Config{TLS: listening.TLS{Mode: c.mode}, Listen: c.listen})
			ctx, stop := context.WithCancel(t.Context())
			served := make(chan error)
			go func() { served <- s.Serve(ctx) }()
			client := &http.Client{Timeout: patience, Transport: &http.Transport{Protocols: protocols(c.http2),
				DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
					conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.Address(nameHTTP))
					if err == nil {
						_, err = io.WriteString(conn, c.header)
					}
					return conn, err
				}}}
			var got string
			if answer, err := client.Get("http://gw.example/"); err == nil {
				address, _ := io.ReadAll(answer.Body)
				host, _, _ := net.SplitHostPort(string(address))
				got = answer.Proto + " from " + host
				answer.Body.Close()
			}
			if got != c.want {
				t.Errorf("answered %q, want %q", got, c.want)
			}
			stop()
			if err := <-served; err != nil {
				t.Error(err)
			}
		})
	}
}

// protocols are HTTP/2 alone or HTTP/1.1 alone, without TLS.
func protocols(http2 bool) *http.Protocols {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(http2)
	p.SetHTTP1(!http2)
	return p
}

// Failed handshakes are logged at level debug.
func TestErrorLog(t *testing.T) {
	t.Parallel()
	s, log := listeningAt(t, certificates{}, config.Config{Listen: listening.Listen{HTTPS: anyPort}})
	const message = "http: TLS handshake error"
	s.serving[0].server.ErrorLog.Print(message)
	if line := log.Last(t, message); line["level"] != slog.LevelDebug.String() {
		t.Errorf("logged %v", line)
	}
}

// The registry has the connections of each listener and the expiry of each
// certificate. New fails if it cannot register them.
func TestServerMetrics(t *testing.T) {
	t.Parallel()
	registry, authority := prometheus.NewRegistry(), &issued{certificates: certificates{{Domain: "gw.example"}}}
	o := options(&stub{config: config.Config{Listen: listening.Listen{HTTPS: anyPort, Admin: anyPort}}}, &logtest.Buffer{})
	o.Certificates, o.Registry = authority, registry
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	w := httptest.NewRecorder()
	s.serving[1].server.Handler.ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/metrics", nil))
	for _, want := range []string{
		`authgate_connections{listener="https"} 0`, `authgate_connections_displaced_total{listener="admin"} 0`,
		`authgate_certificate_expiry_seconds{domain="gw.example"} 0`,
	} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("/metrics lacks %s:\n%s", want, w.Body)
		}
	}
	if _, err := New(o); err == nil || !strings.Contains(err.Error(), "registering metrics") ||
		authority.closed.Load() != 1 {
		t.Errorf("with the same registry: %v, closed %d times", err, authority.closed.Load())
	}
}

// ask sends a request to the admin listener of a server.
func ask(s *Server, method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.admin(prometheus.NewRegistry()).ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}

func TestHealth(t *testing.T) {
	t.Parallel()
	own := certificates{
		{Domain: "good.example", Expires: time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)},
		{Domain: "none.example", Problem: "no such host"},
	}
	const reported = `,"certificates":[{"domain":"good.example","expires":"2026-03-01T12:00:00Z"},` +
		`{"domain":"none.example","problem":"no such host"}]}`
	away := errors.New("the store is away")
	for name, c := range map[string]struct {
		ready    error
		draining bool
		certs    certs.Source
		status   int
		want     string
	}{
		"ready":                        {nil, false, nil, 200, `{"status":"ready"}`},
		"not ready":                    {away, false, nil, 503, `{"status":"unready","reason":"the store is away"}`},
		"draining":                     {away, true, nil, 503, `{"status":"unready","reason":"stopping"}`},
		"with certificates from files": {nil, false, own, 200, `{"status":"ready"}`},
		"with issued certificates":     {nil, false, &issued{certificates: own}, 200, `{"status":"ready"` + reported},
		"with issued ones, and not ready": {away, false, &issued{certificates: own}, 503,
			`{"status":"unready","reason":"the store is away"` + reported},
	} {
		o := options(&stub{ready: func(context.Context) error { return c.ready }}, &logtest.Buffer{})
		o.Certificates = c.certs
		s := newServer(o)
		s.draining.Store(c.draining)
		if w := ask(s, "GET", "/readyz"); w.Code != c.status || strings.TrimSpace(w.Body.String()) != c.want ||
			w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s: readyz %d %s, want %d %s", name, w.Code, w.Body, c.status, c.want)
		}
		if w := ask(s, "GET", "/healthz"); w.Code != 200 || strings.TrimSpace(w.Body.String()) != `{"status":"alive"}` {
			t.Errorf("%s: healthz %d %s", name, w.Code, w.Body)
		}
		for method, path := range map[string]string{"POST": "/metrics", "GET": "/", "PUT": "/readyz", "DELETE": "/login"} {
			if w := ask(s, method, path); w.Code != 404 && w.Code != 405 {
				t.Errorf("%s %s: %d", method, path, w.Code)
			}
		}
	}
}

// /readyz shows a log that nothing reads, and an audit file that cannot be written. It stays 200:
// another instance would serve the request no better. A metric has the number of the lost lines.
func TestLogProblem(t *testing.T) {
	t.Parallel()
	o := options(&stub{}, &logtest.Buffer{})
	o.Log, o.Events = stubLog{"nothing reads the log"}, stubLog{"the disk is full"}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	w, want := ask(s, "GET", "/readyz"), `{"status":"ready","log":"nothing reads the log","audit":"the disk is full"}`
	if got := strings.TrimSpace(w.Body.String()); w.Code != 200 || got != want {
		t.Errorf("%d %s", w.Code, got)
	}
	w = httptest.NewRecorder()
	s.admin(o.Registry).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if !strings.Contains(w.Body.String(), "\nauthgate_log_lines_dropped_total 3\n") {
		t.Errorf("the metrics are %s", w.Body)
	}
}

// A readiness check takes readyTime at most.
func TestReadyIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer(options(&stub{ready: func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}}, &logtest.Buffer{}))
		start := time.Now()
		if reason := s.unready(t.Context()); reason == "" || time.Since(start) != readyTime {
			t.Errorf("%q after %v", reason, time.Since(start))
		}
	})
}
