package install

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const (
	unitFile = "/usr/lib/systemd/system/authgate.service"
	config   = "/etc/authgate/config.yaml"
	accounts = "/etc/authgate/accounts.yaml"
	data     = "/var/lib/authgate"
	patience = time.Minute // bounds what never takes long
)

// gate is the installed gateway, in front of an application.
type gate struct {
	*debian
	url     string
	reached atomic.Int64 // requests that the application got
	user    atomic.Value // X-Auth-User of the last one
	client  *http.Client
}

// setting returns what the installed unit says for a key.
func (d *debian) setting(key string) string {
	d.t.Helper()
	for line := range strings.Lines(d.read(unitFile)) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), "="); name == key {
			return value
		}
	}
	d.t.Fatalf("the unit has no %s:\n%s", key, d.read(unitFile))
	return ""
}

// service returns a command line of the unit, run by its user.
func (d *debian) service(key string) *exec.Cmd {
	d.t.Helper()
	args := append([]string{"--userspec=" + d.setting("User") + ":" + d.setting("Group"), d.root},
		strings.Fields(d.setting(key))...)
	cmd := exec.Command("chroot", args...)
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	return cmd
}

// start does what systemd does to start the unit. Ports and the application are
// others, because this machine can use those of the packaged configuration.
func start(d *debian) *gate {
	d.t.Helper()
	g := &gate{debian: d}
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.reached.Add(1)
		g.user.Store(r.Header.Get("X-Auth-User"))
		fmt.Fprintln(w, "the application")
	}))
	d.t.Cleanup(app.Close)
	https, admin := freePort(d.t), freePort(d.t)
	d.change(config, "localhost:8443", "localhost:"+https, "127.0.0.1:8443", "127.0.0.1:"+https,
		"127.0.0.1:9090", "127.0.0.1:"+admin, "http://127.0.0.1:3000", app.URL)
	g.url = "https://localhost:" + https

	d.run("install", "-d", "-m", d.setting("StateDirectoryMode"), "-o", d.setting("User"),
		"-g", d.setting("Group"), "/var/lib/"+d.setting("StateDirectory"))
	if out := run(d.t, d.service("ExecStartPre")); !strings.Contains(out, "is valid") {
		d.t.Errorf("ExecStartPre prints %s", out)
	}
	g.serve()
	g.await("http://127.0.0.1:" + admin + "/readyz")
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(d.read(data + "/ca.pem"))) {
		d.t.Fatal("the local authority has no certificate")
	}
	g.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}, Timeout: patience}
	return g
}

// serve runs ExecStart until the test ends.
func (g *gate) serve() {
	g.t.Helper()
	cmd, log := g.service("ExecStart"), &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil || g.t.Failed() {
			g.t.Errorf("the gateway stopped with %v\n%s", err, log)
		}
	})
}

func (g *gate) await(url string) {
	g.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if response, err := http.Get(url); err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return
			}
		}
	}
	g.t.Fatal("the gateway does not get ready")
}

// request sends a request and returns the status and the body. edit can be nil.
func (g *gate) request(method, path string, edit func(*http.Request)) (*http.Response, string) {
	g.t.Helper()
	r, err := http.NewRequestWithContext(g.t.Context(), method, g.url+path, nil)
	if err != nil {
		g.t.Fatal(err)
	}
	if edit != nil {
		edit(r)
	}
	response, err := g.client.Do(r)
	if err != nil {
		g.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	return response, string(body)
}

// signIn returns the answer to alice's user name and a password.
func (g *gate) signIn(password string) *http.Response {
	g.t.Helper()
	response, _ := g.request(http.MethodPost, "/.authgate/login",
		func(r *http.Request) { r.SetBasicAuth("alice", password) })
	return response
}

// protects checks that no request gets through at first, adds a user as accounts.yaml
// explains, and gets through as this user.
func (g *gate) protects() {
	g.t.Helper()
	for what, answer := range map[string]*http.Response{
		"without a sign-in": first(g.request(http.MethodGet, "/", nil)), "without accounts": g.signIn("wonderland"),
	} {
		if answer.StatusCode != http.StatusUnauthorized || g.reached.Load() != 0 {
			g.t.Errorf("%s: %s, and the application got %d requests", what, answer.Status, g.reached.Load())
		}
	}
	hash := g.command(nil, "authgate", "hash-password")
	hash.Stdin = strings.NewReader("wonderland\n")
	g.change(accounts, "\n[]\n",
		fmt.Sprintf("\n- username: alice\n  password_hash: %q\n  roles: [staff]\n", strings.TrimSpace(run(g.t, hash))))
	var cookies []*http.Cookie
	// until the change applies
	for deadline := time.Now().Add(patience); cookies == nil && time.Now().Before(deadline); time.Sleep(time.Second) {
		if answer := g.signIn("wonderland"); answer.StatusCode == http.StatusOK {
			cookies = answer.Cookies()
		}
	}
	answer, body := g.request(http.MethodGet, "/", func(r *http.Request) {
		for _, cookie := range cookies {
			r.AddCookie(cookie)
		}
	})
	if answer.StatusCode != http.StatusOK || body != "the application\n" || g.user.Load() != "alice" {
		g.t.Errorf("signed in: %s %q, and the application saw %v", answer.Status, body, g.user.Load())
	}
	if wrong := g.signIn("alice"); wrong.StatusCode != http.StatusUnauthorized {
		g.t.Errorf("a wrong password: %s", wrong.Status)
	}
}

func first[A, B any](a A, _ B) A { return a }

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// checkUnit checks the installed unit with systemd-analyze of this machine.
func (d *debian) checkUnit() {
	d.t.Helper()
	if out := run(d.t, exec.Command("systemd-analyze", "verify", "--man=no", "--recursive-errors=no",
		"--root="+d.root, unitFile)); out != "" {
		d.t.Errorf("systemd-analyze verify: %s", out)
	}
	fmt.Fprint(os.Stderr, lastLine(run(d.t, exec.Command("systemd-analyze", "security", "--offline=true", "--no-pager",
		"--threshold=16", "--root="+d.root, unitFile))))
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1] + "\n"
}
