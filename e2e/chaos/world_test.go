package chaos

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"authgate/gateway/logtest"
	"authgate/gateway/must"
	"authgate/gateway/porttest"
)

// hang bounds what never takes long. A test that exceeds it has found a hang.
const hang = 2 * time.Minute

// accounts are those of the clients, with cheap hashes.
const accounts = `
  - {username: alice, roles: [user], disabled: %t, password_hash: "$2a$04$5Wz59EKxlb/jl//qPb/42udIqT6GIoGQ0zoeS4IglK1P8q6BUmwnW"}
  - {username: bob, roles: [user], disabled: %t, password_hash: "$2a$04$pDRg7Ut1thqXWEVTWL/eyuwZ638YFSULB3vj1z8XhSUxXDFgBi4EC"}
`

var passwords = map[string]string{"alice": "wonderland", "bob": "builder"}

// configuration has no limit that a client reaches, and no reuse of a refresh token
// counts as theft.
const configuration = `
public_url: https://localhost:%s
listen: {https: %q, http: "", admin: %q}
accounts: {file: accounts.yaml}
session: {lifetime: 12h}
token: {secret: "01234567890123456789012345678901", access_lifetime: 12h, reuse_leeway: 1h}
limits: {login_failures: 1000000}
upstreams: {app: {url: %q, timeout: 5m}}
routes:
  - {match: /, upstream: app, auth: [session, bearer]}
shutdown_timeout: 5s
`

// instance is a gateway that runs or not.
type instance struct {
	name   string
	dir    string
	port   string
	admin  string // http://127.0.0.1:PORT
	binary string
	log    logtest.Buffer
	cmd    *exec.Cmd // nil before the first start
}

// newInstance prepares a gateway with a public URL of the port public, or its own port
// if that is empty. store is the part of the configuration on the store.
func newInstance(t *testing.T, name, binary, public, upstream, store string) *instance {
	t.Helper()
	port, admin := porttest.Port(t), porttest.Address(t)
	if public == "" {
		public = port
	}
	g := &instance{name: name, dir: t.TempDir(), port: port, admin: "http://" + admin, binary: binary}
	g.write(t, "config.yaml", fmt.Sprintf(configuration, public, "127.0.0.1:"+port, admin, upstream)+store)
	g.write(t, "accounts.yaml", fmt.Sprintf(accounts, false, false))
	t.Cleanup(func() {
		g.stop(syscall.SIGKILL)
		all := g.log.String()
		for _, mishap := range []string{"WARNING: DATA RACE", `"msg":"panic"`, "fatal error:"} {
			if strings.Contains(all, mishap) {
				t.Errorf("the log of %s has %q:\n%s", name, mishap, all)
			}
		}
		if t.Failed() {
			t.Logf("the end of the log of %s:\n%s", name, all[max(0, len(all)-4000):])
		}
	})
	return g
}

// write replaces a file beside the configuration at once.
func (g *instance) write(t testing.TB, name, content string) {
	t.Helper()
	path := filepath.Join(g.dir, name)
	must.Do(t, errors.Join(os.WriteFile(path+".new", []byte(content), 0o600), os.Rename(path+".new", path)))
}

// run starts the process. It does not wait until the gateway is ready.
func (g *instance) run() error {
	g.cmd = exec.Command(g.binary, "serve", "--config", filepath.Join(g.dir, "config.yaml"))
	g.cmd.Stderr = &g.log
	return g.cmd.Start()
}

// stop sends a signal and waits for the process to end. It may have ended before.
func (g *instance) stop(s syscall.Signal) {
	if g.cmd != nil && g.cmd.Process != nil {
		_ = g.cmd.Process.Signal(s)
		_ = g.cmd.Wait()
	}
}

// reload sends SIGHUP.
func (g *instance) reload(t *testing.T) {
	if err := g.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Errorf("reload: %v", err)
	}
}

// ready reports whether /readyz is 200.
func (g *instance) ready() bool { return g.probe("/readyz") == nil }

// probe asks the admin listener, whose answers have a bound of 2 seconds.
func (g *instance) probe(path string) error {
	response, err := (&http.Client{Timeout: hang}).Get(g.admin + path)
	if err != nil {
		return err
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", response.StatusCode)
	}
	return nil
}

// await calls come until it returns true, or fails the test after hang.
func await(t *testing.T, what string, come func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); !come(); <-tick.C {
		if time.Since(began) > hang {
			t.Errorf("timed out after %v waiting for %s", hang, what)
			return
		}
	}
}

// trust returns a TLS configuration for clients of the instances.
func trust(t *testing.T, instances []*instance) *tls.Config {
	t.Helper()
	roots := x509.NewCertPool()
	for _, g := range instances {
		pem := must.Get(os.ReadFile(filepath.Join(g.dir, "data", "ca.pem")))(t)
		roots.AppendCertsFromPEM(pem)
	}
	return &tls.Config{RootCAs: roots}
}

// application is the upstream: it answers with the identity that it gets, and records
// it by the number of the request.
type application struct {
	mu   sync.Mutex
	seen map[string][]Identity
}

func (a *application) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := Identity{
		User: r.Header.Get("X-Auth-User"), Mechanism: r.Header.Get("X-Auth-Mechanism"), Request: r.URL.Query().Get("n"),
	}
	a.mu.Lock()
	a.seen[id.Request] = append(a.seen[id.Request], id)
	a.mu.Unlock()
	_ = json.NewEncoder(w).Encode(id) // the gateway may have ended
}

// complete adds what the application has recorded to events.
func (a *application) complete(events []Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range events {
		if request := events[i].Request; request != "" {
			events[i].Seen = a.seen[request]
		}
	}
}
