package world

import (
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
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Instance is a running gateway.
type Instance struct {
	T      testing.TB // the test that the process ends with
	Dir    string     // its configuration and data
	Base   string     // https://localhost:PORT; that of http where tls.mode is off
	HTTP   string     // http://localhost:PORT
	Admin  string     // http://127.0.0.1:PORT
	Public string     // public_url
	CA     string     // the file in Dir that clients trust
	Listen string     // the configuration's part on addresses
	Within []string   // a command line that the gateway's is appended to, and that becomes the gateway by exec
	Files  []*os.File // that it gets open, from descriptor 3 on
	Log    *Output    // its records: "request" in the access log, "audit" in the audit log
	Stderr *os.File   // gets the log instead of Log, unless it is nil
	Cmd    *exec.Cmd
	Done   <-chan struct{} // closed when the process has ended
}

// Start runs the gateway with a configuration, to which it adds the addresses,
// and waits until the gateway is ready. The process ends with the test.
func Start(t testing.TB, config string) *Instance {
	t.Helper()
	g := Prepare(t)
	g.Configure(config)
	g.Run()
	return g
}

// StartBehindProxy is Start with tls.mode off: the gateway has listen.http only,
// and proxies, a list in YAML, speak https with the clients.
func StartBehindProxy(t testing.TB, proxies, config string) *Instance {
	t.Helper()
	g := Prepare(t)
	g.Listen = fmt.Sprintf("tls: {mode: \"off\"}\nlisten: {http: %q, admin: %q, trusted_proxies: %s}\n",
		Authority(g.HTTP), Authority(g.Admin), proxies)
	g.Configure(config)
	g.Base = g.HTTP
	g.Run()
	return g
}

// Prepare returns an instance that has its addresses and does not run yet.
func Prepare(t testing.TB) *Instance {
	t.Helper()
	g := &Instance{
		T: t, Dir: t.TempDir(), Log: &Output{}, CA: "data/ca.pem",
		Base: "https://localhost:" + FreePort(t), HTTP: "http://localhost:" + FreePort(t),
		Admin: "http://127.0.0.1:" + FreePort(t),
	}
	g.Listen = fmt.Sprintf("listen: {https: %q, http: %q, admin: %q}\n",
		Authority(g.Base), Authority(g.HTTP), Authority(g.Admin))
	return g
}

// Authority returns the address to listen at for requests to url.
func Authority(url string) string {
	return "127.0.0.1:" + url[strings.LastIndexByte(url, ':')+1:]
}

// Configure writes the configuration; SIGHUP or the next start applies it.
func (g *Instance) Configure(config string) {
	g.T.Helper()
	if g.Public == "" {
		g.Public = g.Base
	}
	g.Write("config.yaml", "public_url: "+g.Public+"\n"+g.Listen+config)
}

// ownPrefix is endpoints.prefix in a configuration.
var ownPrefix = regexp.MustCompile(`(?m)^endpoints: \{prefix: ([^ }]+)`)

// Own returns the path of an endpoint of the gateway, below the configured prefix.
func (g *Instance) Own(endpoint string) string {
	g.T.Helper()
	if found := ownPrefix.FindStringSubmatch(ReadFile(g.T, filepath.Join(g.Dir, "config.yaml"))); found != nil {
		return found[1] + endpoint
	}
	return "/" + endpoint
}

// Write replaces a file beside the configuration atomically. With AUTHGATE_FAST_PATH=false
// in the environment, the upstreams of a configuration have fast_path: false.
func (g *Instance) Write(name, content string) {
	g.T.Helper()
	if name == "config.yaml" && os.Getenv("AUTHGATE_FAST_PATH") == "false" {
		content = withoutFastPath(content)
	}
	path := filepath.Join(g.Dir, name)
	NoError(g.T, errors.Join(os.WriteFile(path+".new", []byte(content), 0o600), os.Rename(path+".new", path)))
}

// Person is a line of an accounts file.
func Person(name, hash, more string) string {
	return fmt.Sprintf("- {username: %s, password_hash: %q%s}\n", name, hash, more)
}

// Run starts the process and waits until it is ready.
func (g *Instance) Run() {
	g.T.Helper()
	g.Launch("/readyz")
}

// Launch starts the process and waits until a path of the admin listener
// answers 200.
func (g *Instance) Launch(path string) {
	g.T.Helper()
	config := filepath.Join(g.Dir, "config.yaml")
	args := append(slices.Clone(g.Within), Program("authgate"), "serve", "--config", config)
	g.Cmd = exec.Command(args[0], args[1:]...)
	g.Cmd.ExtraFiles, g.Cmd.Stderr = g.Files, g.Log
	if g.Stderr != nil {
		g.Cmd.Stderr = g.Stderr
	}
	g.T.Cleanup(func() { checkLog(g.T, g.Log) })
	g.Done = Spawn(g.T, g.Cmd)
	if err := Await(g.Admin+path, g.Done); err != nil {
		g.T.Fatalf("the gateway does not become ready: %v\n%s", err, g.Log)
	}
}

// Kill ends the process at once, as a power cut would.
func (g *Instance) Kill() { Stop(g.Cmd, g.Done) }

// Ends fails the test unless the process ends by itself within a time, with
// status 0.
func (g *Instance) Ends(within time.Duration) {
	g.T.Helper()
	select {
	case <-g.Done:
	case <-time.After(within):
		g.T.Fatalf("the process still runs after %v\n%s", within, g.Log)
	}
	if code := g.Cmd.ProcessState.ExitCode(); code != 0 {
		g.T.Errorf("exit status %d\n%s", code, g.Log)
	}
}

// Signal sends a signal to the process.
func (g *Instance) Signal(s syscall.Signal) {
	g.T.Helper()
	NoError(g.T, g.Cmd.Process.Signal(s))
}

// Client returns a client with a cookie jar that trusts the gateway's CA and
// follows no redirects.
func (g *Instance) Client() *http.Client {
	g.T.Helper()
	jar := Must(cookiejar.New(nil))(g.T)
	transport := &http.Transport{ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 64, DisableCompression: true}
	if strings.HasPrefix(g.Base, "https:") {
		transport.TLSClientConfig = g.TLS()
	}
	g.T.Cleanup(transport.CloseIdleConnections)
	return &http.Client{
		Transport: transport, Jar: jar, Timeout: Patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// TLS is the configuration of a client that trusts the gateway's CA.
func (g *Instance) TLS() *tls.Config {
	g.T.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(Must(os.ReadFile(filepath.Join(g.Dir, g.CA)))(g.T)) {
		g.T.Fatalf("%s holds no certificate", g.CA)
	}
	return &tls.Config{RootCAs: roots, ServerName: "localhost"}
}

// Answer is a response that has been read.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Do sends a request and reads the answer. Headers are name, value, ...
func (g *Instance) Do(c *http.Client, method, path, body string, headers ...string) Answer {
	g.T.Helper()
	a, err := g.Try(c, method, path, body, headers...)
	if err != nil {
		g.T.Fatalf("%s %s: %v\n%s", method, path, err, g.Log)
	}
	return a
}

// Try is Do for requests that may fail and for other goroutines.
func (g *Instance) Try(c *http.Client, method, path, body string, headers ...string) (Answer, error) {
	request, err := http.NewRequest(method, g.Base+path, strings.NewReader(body))
	if err != nil {
		return Answer{}, err
	}
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Add(headers[i], headers[i+1])
	}
	response, err := c.Do(request)
	if err != nil {
		return Answer{}, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	return Answer{Status: response.StatusCode, Header: response.Header, Body: string(content)}, err
}
