package wire

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"authgate/e2e/world"
)

// supervisor holds the sockets of a gateway, like systemd: it starts the gateway with them, hears
// its notices, and restarts it.
type supervisor struct {
	*world.Instance
	notices *net.UnixConn
	udp     string // the address of HTTP/3
}

// supervise returns a supervisor whose gateway does not run yet. The configured addresses are none
// of this machine, but for that of admin.
func supervise(t *testing.T, config string) *supervisor {
	t.Helper()
	s := &supervisor{Instance: world.Prepare(t)}
	const elsewhere = "192.0.2.1:443"
	s.Listen = fmt.Sprintf("listen: {https: %q, http3: %q, http: %q, admin: %q}\n", elsewhere, elsewhere, elsewhere,
		world.Authority(s.Admin))
	s.Configure(config)
	hold := func(socket interface {
		File() (*os.File, error)
		Close() error
	}) {
		s.Files = append(s.Files, world.Must(socket.File())(t))
		world.NoError(t, socket.Close())
	}
	for _, url := range []string{s.Base, s.HTTP} {
		hold(world.Must(net.Listen("tcp", world.Authority(url)))(t).(*net.TCPListener))
	}
	udp := world.Must(net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}))(t)
	s.udp = udp.LocalAddr().String()
	hold(udp)
	notices := filepath.Join(s.Dir, "notices")
	s.notices = world.Must(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: notices, Net: "unixgram"}))(t)
	t.Cleanup(func() {
		s.notices.Close()
		for _, file := range s.Files {
			file.Close()
		}
	})
	s.Within = []string{"/bin/sh", "-c", "LISTEN_PID=$$ LISTEN_FDS=3 LISTEN_FDNAMES=https:http:https " +
		"WATCHDOG_USEC=1000000 NOTIFY_SOCKET=" + notices + ` exec "$@"`, "sh"}
	return s
}

// hears waits for a notice, and returns it.
func (s *supervisor) hears(notice string) string {
	s.T.Helper()
	world.NoError(s.T, s.notices.SetReadDeadline(time.Now().Add(world.Patience)))
	for b := make([]byte, 1000); ; {
		n, err := s.notices.Read(b)
		if err != nil {
			s.T.Fatalf("%s does not come: %v\n%s", notice, err, s.Log)
		}
		if got := string(b[:n]); strings.HasPrefix(got, notice) {
			return got
		}
	}
}

// restart ends the gateway and starts it again, as `systemctl restart` does.
func (s *supervisor) restart() {
	s.T.Helper()
	s.Signal(syscall.SIGTERM)
	s.hears("STOPPING=1")
	s.Ends(30 * time.Second)
	s.Run()
	s.hears("READY=1")
}

// load has the requests of clients, and their outcome.
type load struct {
	requests, connections, moved atomic.Int64
	mu                           sync.Mutex
	lost                         []string
	reached                      map[string]int // requests, at the application
}

func (l *load) fault(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = append(l.lost, fmt.Sprintf(format, args...))
}

// serve is the application. A request says how long it takes.
func (l *load) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	n := r.URL.Query().Get("n")
	l.mu.Lock()
	l.reached[n]++
	l.mu.Unlock()
	if pause, err := time.ParseDuration(r.URL.Query().Get("pause")); err == nil {
		time.Sleep(pause)
	}
	fmt.Fprint(w, n, " ", len(body))
}

// client sends requests until over.
type client struct {
	http.RoundTripper
	name, method string
	size         int // of the bodies
	pause        time.Duration
}

// request sends a request once, and checks its answer.
func (l *load) request(c client, base string) {
	l.requests.Add(1)
	n := world.NewRequestID()
	written := 0
	trace := &httptrace.ClientTrace{WroteHeaders: func() { written++ }}
	ctx, cancel := context.WithTimeout(httptrace.WithClientTrace(context.Background(), trace), world.Patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, c.method, base+"/?n="+n+"&pause="+c.pause.String(),
		io.LimitReader(zeros{}, int64(c.size))) // a body that cannot be sent again
	if err != nil {
		l.fault("%v", err)
		return
	}
	answer, err := c.RoundTrip(r)
	if err != nil {
		l.fault("%s: %v", c.name, err)
		return
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if want := fmt.Sprint(n, " ", c.size); err != nil || string(body) != want {
		l.fault("%s: %d %.100q, want %q; %v", c.name, answer.StatusCode, body, want, err)
	}
	if answer.Close {
		l.moved.Add(1)
	}
	if written > 1 && answer.ProtoMajor == 1 {
		l.fault("%s: sent %d times", c.name, written)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

// clients are those of each protocol: with short requests, with large ones, with slow ones, and with a
// connection for each request.
func (l *load) clients(s *supervisor) (all []client) {
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		l.connections.Add(1)
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			l.fault("a connection: %v", err)
		}
		return c, err
	}
	for _, name := range []string{"HTTP/1.1", "HTTP/2", "HTTP/1.1 once"} {
		transport := func() *http.Transport {
			t := &http.Transport{DialContext: dial, TLSClientConfig: s.TLS(), Protocols: new(http.Protocols),
				DisableKeepAlives: strings.HasSuffix(name, "once")}
			t.Protocols.SetHTTP1(name != "HTTP/2")
			t.Protocols.SetHTTP2(name == "HTTP/2")
			s.T.Cleanup(t.CloseIdleConnections)
			return t
		}
		all = append(all, client{transport(), name, "GET", 0, 0}, client{transport(), name, "POST", 50_000, 0},
			client{transport(), name, "POST", 10, 1500 * time.Millisecond})
	}
	return all
}

// TestRestartLosesNothing: a supervisor with the sockets of a gateway restarts it three times under
// load. Each request over HTTP/1.1 and HTTP/2 gets its answer and reaches the application once, and each
// connection is accepted.
func TestRestartLosesNothing(t *testing.T) {
	l := &load{reached: map[string]int{}}
	up := world.Serve(t, l.serve)
	s := supervise(t, "routes: [{match: /, upstream: app, auth: [none]}]\n"+world.App(up))
	s.Run()
	s.hears("READY=1")
	var sending sync.WaitGroup
	var over atomic.Bool
	for _, c := range l.clients(s) {
		sending.Go(func() {
			for !over.Load() {
				l.request(c, s.Base)
			}
		})
	}
	served := func() {
		before := l.requests.Load()
		world.Until(t, "requests", func() bool { return l.requests.Load() > before+200 })
	}
	for range 3 {
		served()
		s.restart()
	}
	served()
	over.Store(true)
	sending.Wait()
	if len(l.lost) > 0 {
		t.Errorf("%d lost, among them:\n%s", len(l.lost), strings.Join(l.lost[:min(len(l.lost), 20)], "\n"))
	}
	for n, times := range l.reached {
		if times != 1 {
			t.Errorf("request %s reached the application %d times", n, times)
		}
	}
	if sent := l.requests.Load(); int64(len(l.reached)) != sent || l.moved.Load() == 0 {
		t.Errorf("%d requests were sent, %d reached the application, %d answers asked for another connection", sent,
			len(l.reached), l.moved.Load())
	}
	if log := s.Log.String(); strings.Contains(log, "cut off") || strings.Count(log, `"msg":"stopping"`) != 3 {
		t.Error("the gateway did not stop three times, or something was cut off")
	}
	t.Logf("%d requests, %d connections, %d lost", l.requests.Load(), l.connections.Load(), len(l.lost))
}

// TestRestartHTTP3: over HTTP/3 a request in flight gets its answer in a restart, and a client that comes
// while no gateway runs gets one from the next: its first packets wait.
func TestRestartHTTP3(t *testing.T) {
	l := &load{reached: map[string]int{}}
	up := world.Serve(t, l.serve)
	s := supervise(t, "routes: [{match: /, upstream: app, auth: [none]}]\n"+world.App(up))
	s.Run()
	visit := func(name string, pause time.Duration) {
		transport := &http3.Transport{TLSClientConfig: s.TLS(),
			Dial: func(ctx context.Context, _ string, t *tls.Config, c *quic.Config) (*quic.Conn, error) {
				l.connections.Add(1)
				return quic.DialAddr(ctx, s.udp, t, c)
			}}
		defer transport.Close()
		l.request(client{transport, name, "POST", 10, pause}, s.Base)
	}
	var sending sync.WaitGroup
	sending.Go(func() { visit("in flight", 2*time.Second) })
	world.Until(t, "the request", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.reached) == 1
	})
	s.Signal(syscall.SIGTERM)
	s.Ends(30 * time.Second)
	sending.Go(func() { visit("without a gateway", 0) })
	world.Until(t, "the client", func() bool { return l.connections.Load() == 2 })
	s.Run()
	sending.Wait()
	if len(l.lost) > 0 || len(l.reached) != 2 {
		t.Errorf("%d requests reached the application; lost: %q", len(l.reached), l.lost)
	}
}

// TestServiceNotices: the supervisor hears of the start, of a reload with its time, of life while the
// gateway runs, and of its end. A change of an address whose socket the gateway got needs no restart.
func TestServiceNotices(t *testing.T) {
	t.Parallel()
	s := supervise(t, targets+world.App(world.Record(t).URL))
	s.Run()
	s.hears("READY=1")
	s.hears("WATCHDOG=1")
	text := world.ReadFile(t, filepath.Join(s.Dir, "config.yaml"))
	s.Write("config.yaml", strings.Replace(text, "192.0.2.1:443", ":1", 1)+"shutdown_timeout: 7s\n")
	s.Signal(syscall.SIGHUP)
	if got := s.hears("RELOADING=1"); !strings.Contains(got, "\nMONOTONIC_USEC=") {
		t.Errorf("a reload: %q", got)
	}
	s.hears("READY=1")
	world.Until(t, "the log", func() bool { return len(s.Log.Records(t, "reloaded")) > 0 })
	if _, err := s.Try(s.Stranger(), "GET", "/", ""); err != nil {
		t.Error(err)
	}
	s.Signal(syscall.SIGTERM)
	s.hears("STOPPING=1")
	s.Ends(30 * time.Second)
}

// TestSocketWithoutNeed: a socket that no listener has is an error that names it.
func TestSocketWithoutNeed(t *testing.T) {
	t.Parallel()
	s := supervise(t, targets+world.App(world.Record(t).URL))
	s.Within[2] = strings.Replace(s.Within[2], "https:http:https", "https:http:metrics", 1)
	cmd := exec.CommandContext(t.Context(), s.Within[0], append(s.Within[1:], world.Program("authgate"), "serve",
		"--config", filepath.Join(s.Dir, "config.yaml"))...)
	cmd.ExtraFiles = s.Files
	if out, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 1 ||
		!strings.Contains(string(out), `the socket "metrics"`) {
		t.Errorf("%v: %s", err, out)
	}
}
