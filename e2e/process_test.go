package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// programs are built once, with the race detector, into one folder.
var programs string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "authgate-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	programs = dir
	build := exec.Command("go", "build", "-race", "-o", dir+string(filepath.Separator),
		"authgate/cmd/authgate", "authgate/cmd/upstream", "authgate/cmd/demo")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "building the programs:", err)
		return 1
	}
	return m.Run()
}

// instance is a running gateway.
type instance struct {
	t    testing.TB
	dir  string // its configuration and data
	base string // https://localhost:PORT
	http string // http://localhost:PORT
	adm  string // http://127.0.0.1:PORT
	log  *lines
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
}

// start runs the gateway on a configuration, to which the addresses are
// added, and waits until it is ready. The process ends with the test.
func start(t testing.TB, config string) *instance {
	t.Helper()
	g := &instance{t: t, dir: t.TempDir(), log: &lines{}}
	https, plain, admin := freePort(t), freePort(t), freePort(t)
	g.base, g.http, g.adm = "https://localhost:"+https, "http://localhost:"+plain, "http://127.0.0.1:"+admin
	g.write("config.yaml", fmt.Sprintf(
		"public_url: %s\nlisten: {https: \"127.0.0.1:%s\", http: \"127.0.0.1:%s\", admin: \"127.0.0.1:%s\"}\n%s",
		g.base, https, plain, admin, config))
	g.run()
	t.Cleanup(g.kill)
	return g
}

// write puts a file beside the configuration.
func (g *instance) write(name, content string) {
	g.t.Helper()
	if err := os.WriteFile(filepath.Join(g.dir, name), []byte(content), 0o600); err != nil {
		g.t.Fatal(err)
	}
}

// run starts the process and waits until it is ready.
func (g *instance) run() {
	g.t.Helper()
	g.cmd = exec.Command(filepath.Join(programs, "authgate"), "serve", "--config", filepath.Join(g.dir, "config.yaml"))
	g.cmd.Stderr = g.log
	if err := g.cmd.Start(); err != nil {
		g.t.Fatal(err)
	}
	cmd, done := g.cmd, make(chan struct{})
	g.done = done
	go func() {
		_ = cmd.Wait() // the status is in cmd.ProcessState
		close(done)
	}()
	if err := await(g.adm+"/readyz", done); err != nil {
		g.t.Fatalf("the gateway does not get ready: %v\n%s", err, g.log)
	}
}

// await asks url until it answers 200 or the process has ended.
func await(url string, ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		response, err := http.Get(url)
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ended:
			return errors.New("the process has ended")
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", url, ctx.Err())
		case <-tick.C:
		}
	}
}

// kill ends the process at once, as a power cut would.
func (g *instance) kill() {
	_ = g.cmd.Process.Kill() // it may have ended before
	<-g.done
}

// signal sends a signal to the process.
func (g *instance) signal(s syscall.Signal) {
	g.t.Helper()
	if err := g.cmd.Process.Signal(s); err != nil {
		g.t.Fatal(err)
	}
}

// client is a browser-like client with cookies of its own: it trusts the
// gateway's CA and follows no redirects.
func (g *instance) client() *http.Client {
	g.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		g.t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: g.tls(), ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 64}
	g.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{
		Transport: transport, Jar: jar, Timeout: 20 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (g *instance) tls() *tls.Config {
	g.t.Helper()
	ca, err := os.ReadFile(filepath.Join(g.dir, "data", "ca.pem"))
	if err != nil {
		g.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		g.t.Fatal("data/ca.pem holds no certificate")
	}
	return &tls.Config{RootCAs: roots, ServerName: "localhost"}
}

// answer is a response that has been read.
type answer struct {
	status int
	header http.Header
	body   string
}

// do sends a request and reads the answer. Headers come as name, value, ...
func (g *instance) do(c *http.Client, method, path, body string, headers ...string) answer {
	g.t.Helper()
	a, err := g.try(c, method, path, body, headers...)
	if err != nil {
		g.t.Fatalf("%s %s: %v\n%s", method, path, err, g.log)
	}
	return a
}

// try is do for requests that may fail, and for other goroutines.
func (g *instance) try(c *http.Client, method, path, body string, headers ...string) (answer, error) {
	request, err := http.NewRequest(method, g.base+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Add(headers[i], headers[i+1])
	}
	response, err := c.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	return answer{status: response.StatusCode, header: response.Header, body: string(content)}, err
}

// freePort finds a port that nobody listens on.
func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// lines collects a log that is written and read at once.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
