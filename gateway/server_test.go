package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"authgate/gateway/porttest"
	"authgate/gateway/store"
	"authgate/gateway/store/guard"
)

// lostStore is a store that can lose contact.
type lostStore struct {
	store.Store
	ping func(context.Context) error
}

func (s *lostStore) Ping(ctx context.Context) error { return s.ping(ctx) }

// admin asks the admin listener's handler of a server over a store.
func askAdmin(t *testing.T, s *Server, method, path string) (int, map[string]string) {
	t.Helper()
	w := httptest.NewRecorder()
	s.admin(prometheus.NewRegistry()).ServeHTTP(w, httptest.NewRequest(method, path, nil))
	var body map[string]string
	if strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") {
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
			t.Errorf("%s: %v: %s", path, err, w.Body)
		}
	}
	return w.Code, body
}

func TestAdminHealth(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name           string
		store          store.Store
		draining       bool
		settled        bool
		ready          int
		status, reason string
	}{
		{"a store that cannot lose contact", &brittleStore{}, false, true, 200, "ready", ""},
		{"contact", &lostStore{ping: func(context.Context) error { return nil }}, false, true, 200, "ready", ""},
		{"not settled", &lostStore{ping: func(context.Context) error { return nil }}, false, false, 503, "unready", guard.NewGate(nil).Check("settle").Error()},
		{"no contact", &lostStore{ping: func(context.Context) error { return errBroken }}, false, false, 503, "unready", errBroken.Error()},
		{"stopping", &lostStore{ping: func(context.Context) error { return nil }}, true, true, 503, "unready", "stopping"},
	} {
		s := &Server{gateway: &Gateway{rawStore: c.store}}
		s.gateway.draining.Store(c.draining)
		gate := guard.NewGate(nil)
		if c.settled {
			gate.Open()
		}
		s.gateway.state.Store(&state{store: gate})
		status, body := askAdmin(t, s, "GET", "/readyz")
		if status != c.ready || body["status"] != c.status || body["reason"] != c.reason {
			t.Errorf("%s: readyz %d %v, want %d %s %q", c.name, status, body, c.ready, c.status, c.reason)
		}
		if status, body := askAdmin(t, s, "GET", "/healthz"); status != 200 || body["status"] != "alive" {
			t.Errorf("%s: healthz %d %v", c.name, status, body)
		}
	}
}

// A store that does not answer is not waited for longer than readyTime.
func TestReadyIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &Server{gateway: &Gateway{rawStore: &lostStore{ping: func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}}}}
		start := time.Now()
		if reason := s.unready(t.Context()); reason == "" || time.Since(start) != readyTime {
			t.Errorf("%q after %v", reason, time.Since(start))
		}
	})
}

func TestAdminMetrics(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig)
	s := &Server{gateway: r.Gateway}
	r.login(aliceIn)
	r.do("GET", "/nowhere/"+strings.Repeat("x", 100), "")
	for method, path := range map[string]string{"POST": "/metrics", "GET": "/", "PUT": "/readyz", "DELETE": "/login"} {
		if status, _ := askAdmin(t, s, method, path); status != 404 && status != 405 {
			t.Errorf("%s %s: %d", method, path, status)
		}
	}
	w := httptest.NewRecorder()
	s.admin(r.registry).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	text := w.Body.String()
	for _, want := range []string{
		`authgate_requests_total{code="200",decision="allow",mechanism="session",route="authgate/login"} 1`,
		`authgate_requests_total{code="404",decision="error",mechanism="none",route="none"} 1`,
		`authgate_request_duration_seconds_count{route="none"} 1`,
		`authgate_logins_total{mechanism="session",result="success"} 1`,
		`authgate_tokens_total{event="issued"} 1`,
		`authgate_sessions_active 1`,
		`authgate_store_duration_seconds_count{operation="put"} 3`,
		`authgate_build_info{goversion="go`,
		`version="test"} 1`,
		"go_goroutines ", "process_",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	if strings.Contains(text, "xxx") {
		t.Error("/metrics holds what a client chose")
	}
}

// serverOn is a server of the rig's gateway on addresses of its own choice.
func serverOn(t *testing.T, r *rig) *Server {
	t.Helper()
	s, err := NewServer(r.Gateway, r.registry)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const anyPort = `listen: {https: "127.0.0.1:0", http: "127.0.0.1:0", admin: "127.0.0.1:0"}` + "\n"

func TestServerAddresses(t *testing.T) {
	t.Parallel()
	for yaml, want := range map[string][]string{
		anyPort: {"https", "http", "admin"},
		`listen: {https: "127.0.0.1:0", http: "", admin: ""}` + "\n":                                            {"https"},
		`listen: {http: "127.0.0.1:0", admin: "", trusted_proxies: [10.0.0.0/8]}` + "\n" + "tls: {mode: off}\n": {"http"},
	} {
		s := serverOn(t, newRig(t, baseConfig+yaml))
		for _, name := range []string{"https", "http", "admin", "x"} {
			address := s.Address(name)
			if there := slices.Contains(want, name); there != (address != "") {
				t.Errorf("%s: %s is at %q", yaml, name, address)
			}
		}
		if err := s.RefreshCertificates(); err != nil {
			t.Error(err)
		}
		s.close()
	}
}

// A listener that cannot be opened is named, and those before it are closed.
func TestServerPortInUse(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	first := porttest.Address(t)
	r := newRig(t, baseConfig+fmt.Sprintf("listen: {https: %q, http: %q, admin: %q}\n", first, "127.0.0.1:0", taken.Addr()))
	_, err = NewServer(r.Gateway, r.registry)
	if err == nil || !strings.Contains(err.Error(), "listen.admin") || !strings.Contains(err.Error(), taken.Addr().String()) {
		t.Errorf("got %v, want it to name listen.admin and %s", err, taken.Addr())
	}
	again, err := net.Listen("tcp", first)
	if err != nil {
		t.Fatalf("the listener before it is left open: %v", err)
	}
	again.Close()
}

// A stop lets the request under way finish, answers readiness with 503
// meanwhile, and takes no new requests.
func TestServerDrains(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig+anyPort)
	s := serverOn(t, r)
	arrived, goOn := make(chan struct{}), make(chan struct{})
	r.upstream.answering(func(q *http.Request) (*http.Response, error) {
		close(arrived)
		<-goOn
		return response(q, 200, http.Header{}, "late"), nil
	})
	// To the public handler without TLS; which one it is makes no difference to the drain.
	s.serving[0].listener.Close()
	var err error
	if s.serving[0].listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	public, admin := s.Address("https"), s.Address("admin")
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()

	answered := make(chan string, 1)
	go func() {
		answer, err := http.Get("http://" + public + "/public/")
		if err != nil {
			answered <- err.Error()
			return
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		answered <- fmt.Sprint(answer.StatusCode, string(body), err)
	}()
	<-arrived
	stop()
	for !s.gateway.draining.Load() { // until the stop is noticed
		if answer, err := http.Get("http://" + admin + "/healthz"); err == nil {
			answer.Body.Close()
		}
	}
	answer, err := http.Get("http://" + admin + "/readyz")
	if err != nil {
		t.Fatalf("readiness cannot be asked for: %v", err)
	}
	answer.Body.Close()
	if answer.StatusCode != 503 {
		t.Errorf("readyz: %d", answer.StatusCode)
	}
	select {
	case err := <-served:
		t.Fatalf("Serve returns %v before the request is done", err)
	default:
	}
	close(goOn)
	if got := <-answered; got != "200late<nil>" {
		t.Errorf("the request under way: %s", got)
	}
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if conn, err := net.Dial("tcp", public); err == nil {
		conn.Close()
		t.Error("the listener is still open")
	}
}

// A listener that fails stops the others, and is named.
func TestServerFails(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig+anyPort)
	s := serverOn(t, r)
	s.serving[1].listener.Close()
	err := s.Serve(t.Context())
	if err == nil || !strings.Contains(err.Error(), "listen.http") || !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

// Failed handshakes are no news unless somebody asks for them.
func TestServerLog(t *testing.T) {
	t.Parallel()
	r := newRig(t, baseConfig+anyPort)
	s := serverOn(t, r)
	defer s.close()
	s.serving[0].server.ErrorLog.Print("http: TLS handshake error")
	if line := r.log.last(t, "http: TLS handshake error"); line["level"] != slog.LevelDebug.String() {
		t.Errorf("logged %v", line)
	}
}
