package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// programs is the folder of the programs, built once with the race detector.
var programs string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "authgate-e2e-")
	defer os.RemoveAll(dir)
	programs = dir
	// Otherwise each program sleeps for a second when it ends.
	err = errors.Join(err, os.Setenv("GORACE", strings.TrimSpace(os.Getenv("GORACE")+" atexit_sleep_ms=0")))
	build := exec.Command("go", "build", "-C", "..", "-race", "-o", dir+string(filepath.Separator),
		"authgate/cmd/authgate", "authgate/cmd/upstream", "authgate/cmd/demo")
	build.Stderr = os.Stderr
	if err == nil {
		err = build.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "building the programs:", err)
		return 1
	}
	return m.Run()
}

// instance is a running gateway.
type instance struct {
	t      testing.TB
	dir    string   // its configuration and data
	base   string   // https://localhost:PORT; that of http where tls.mode is off
	http   string   // http://localhost:PORT
	adm    string   // http://127.0.0.1:PORT
	public string   // public_url
	ca     string   // the file in dir that clients trust
	listen string   // the configuration's part on addresses
	within []string // a command line that the gateway's is appended to, and that becomes the gateway by exec
	log    *lines
	cmd    *exec.Cmd
	done   <-chan struct{} // closed when the process has ended
}

// start runs the gateway with a configuration, to which it adds the addresses,
// and waits until the gateway is ready. The process ends with the test.
func start(t testing.TB, config string) *instance {
	t.Helper()
	g := prepared(t)
	g.configure(config)
	g.run()
	return g
}

// startBehindProxy is start with tls.mode off: the gateway has listen.http only,
// and proxies, a list in YAML, speak https with the clients.
func startBehindProxy(t testing.TB, proxies, config string) *instance {
	t.Helper()
	g := prepared(t)
	g.listen = fmt.Sprintf("tls: {mode: \"off\"}\nlisten: {http: %q, admin: %q, trusted_proxies: %s}\n",
		authority(g.http), authority(g.adm), proxies)
	g.configure(config)
	g.base = g.http
	g.run()
	return g
}

// prepared returns an instance that has its addresses and does not run yet.
func prepared(t testing.TB) *instance {
	t.Helper()
	g := &instance{
		t: t, dir: t.TempDir(), log: &lines{}, ca: "data/ca.pem",
		base: "https://localhost:" + freePort(t), http: "http://localhost:" + freePort(t), adm: "http://127.0.0.1:" + freePort(t),
	}
	g.listen = fmt.Sprintf("listen: {https: %q, http: %q, admin: %q}\n", authority(g.base), authority(g.http), authority(g.adm))
	return g
}

// authority returns the address to listen at for requests to url.
func authority(url string) string {
	return "127.0.0.1:" + url[strings.LastIndexByte(url, ':')+1:]
}

// configure writes the configuration; SIGHUP or the next start applies it.
func (g *instance) configure(config string) {
	g.t.Helper()
	if g.public == "" {
		g.public = g.base
	}
	g.write("config.yaml", "public_url: "+g.public+"\n"+g.listen+config)
}

// write replaces a file beside the configuration atomically.
func (g *instance) write(name, content string) {
	g.t.Helper()
	path := filepath.Join(g.dir, name)
	noError(g.t, errors.Join(os.WriteFile(path+".new", []byte(content), 0o600), os.Rename(path+".new", path)))
}

// person is a line of an accounts file.
func person(name, hash, more string) string {
	return fmt.Sprintf("- {username: %s, password_hash: %q%s}\n", name, hash, more)
}

// applies writes a file and waits until shows reports the change.
func (g *instance) applies(name, content string, shows func() bool) {
	g.t.Helper()
	g.write(name, content)
	until(g.t, "the change of "+name, shows)
}

// run starts the process and waits until it is ready.
func (g *instance) run() {
	g.t.Helper()
	g.launch("/readyz")
}

// launch starts the process and waits until a path of the admin listener
// answers 200.
func (g *instance) launch(path string) {
	g.t.Helper()
	args := append(slices.Clone(g.within), filepath.Join(programs, "authgate"), "serve", "--config", filepath.Join(g.dir, "config.yaml"))
	g.cmd = exec.Command(args[0], args[1:]...)
	g.cmd.Stderr = g.log
	g.t.Cleanup(g.checkLog)
	g.done = spawn(g.t, g.cmd)
	if err := await(g.adm+path, g.done); err != nil {
		g.t.Fatalf("the gateway does not become ready: %v\n%s", err, g.log)
	}
}

// begin starts a process. The channel is closed when it has ended.
func begin(cmd *exec.Cmd) (<-chan struct{}, error) {
	done := make(chan struct{})
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = cmd.Wait() // cmd.ProcessState has the status
		close(done)
	}()
	return done, nil
}

// spawn is begin for a process that ends with the test.
func spawn(t testing.TB, cmd *exec.Cmd) (ended <-chan struct{}) {
	t.Helper()
	ended = must(begin(cmd))(t)
	t.Cleanup(func() { stop(cmd, ended) })
	return ended
}

// checkLog fails the test if the log has what no test allows.
func (g *instance) checkLog() {
	for _, mishap := range []string{"WARNING: DATA RACE", `"msg":"panic"`} {
		if log := g.log.String(); strings.Contains(log, mishap) {
			g.t.Errorf("the log of the gateway has %q:\n%s", mishap, log)
		}
	}
}

// await requests url until the answer is 200 or the process has ended.
func await(url string, ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
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
func (g *instance) kill() { stop(g.cmd, g.done) }

func stop(cmd *exec.Cmd, done <-chan struct{}) {
	_ = cmd.Process.Kill() // it may have ended before
	<-done
}

// until calls come until it returns true.
func until(t testing.TB, what string, come func() bool) {
	t.Helper()
	eventually(t, patience, what, func() error {
		if !come() {
			return errors.New("it does not come")
		}
		return nil
	})
}

// signal sends a signal to the process.
func (g *instance) signal(s syscall.Signal) {
	g.t.Helper()
	noError(g.t, g.cmd.Process.Signal(s))
}

// client returns a client with a cookie jar that trusts the gateway's CA and
// follows no redirects.
func (g *instance) client() *http.Client {
	g.t.Helper()
	jar := must(cookiejar.New(nil))(g.t)
	transport := &http.Transport{ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 64, DisableCompression: true}
	if strings.HasPrefix(g.base, "https:") {
		transport.TLSClientConfig = g.tls()
	}
	g.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{
		Transport: transport, Jar: jar, Timeout: patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (g *instance) tls() *tls.Config {
	g.t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(must(os.ReadFile(filepath.Join(g.dir, g.ca)))(g.t)) {
		g.t.Fatalf("%s holds no certificate", g.ca)
	}
	return &tls.Config{RootCAs: roots, ServerName: "localhost"}
}

// answer is a response that has been read.
type answer struct {
	status int
	header http.Header
	body   string
}

// do sends a request and reads the answer. Headers are name, value, ...
func (g *instance) do(c *http.Client, method, path, body string, headers ...string) answer {
	g.t.Helper()
	a, err := g.try(c, method, path, body, headers...)
	if err != nil {
		g.t.Fatalf("%s %s: %v\n%s", method, path, err, g.log)
	}
	return a
}

// try is do for requests that may fail and for other goroutines.
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

// must returns the value of a call, or fails the test: must(f())(t).
func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		noError(t, err)
		return value
	}
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
