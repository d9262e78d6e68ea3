package chaos

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"authgate/internal/test/logtest"
	"authgate/internal/test/must"
	"authgate/internal/test/porttest"
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
	seen map[string][]identity
}

func (a *application) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := identity{
		User: r.Header.Get("X-Auth-User"), Mechanism: r.Header.Get("X-Auth-Mechanism"), Request: r.URL.Query().Get("n"),
	}
	a.mu.Lock()
	a.seen[id.Request] = append(a.seen[id.Request], id)
	a.mu.Unlock()
	_ = json.NewEncoder(w).Encode(id) // the gateway may have ended
}

// complete adds what the application has recorded to events.
func (a *application) complete(events []event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range events {
		if request := events[i].Request; request != "" {
			events[i].Seen = a.seen[request]
		}
	}
}

// trouble is a fault that lasts for a while.
type trouble struct {
	name  string
	at    string // the instance; empty: all
	begin func()
	mend  func()
}

// storeFaults causes one fault after the other at Redis, or in the connections of an
// instance to Redis.
//
// The faults and the times between them are short, or longer than
// store.max_staleness: that an instance has missed the end of a login shows only when
// it accepts the login that much later, and each fault makes it forget the login.
func (c *cell) storeFaults(ctx context.Context, random *rand.Rand) {
	for ctx.Err() == nil {
		f := c.storeFault(random)
		began := c.history.Now()
		f.begin()
		c.troubles.Add(1)
		c.shortOrLong(ctx, random)
		f.mend()
		c.awaitReady()
		c.history.Add(event{Kind: kindOutage, At: f.at, Begin: began, End: c.history.Now(), Note: f.name})
		c.shortOrLong(ctx, random)
	}
}

// long is longer than store.max_staleness.
const long = 2500 * time.Millisecond

func (c *cell) shortOrLong(ctx context.Context, random *rand.Rand) {
	if random.IntN(3) == 0 {
		c.calm(ctx, random, long, 2*long)
	} else {
		c.calm(ctx, random, 0, 600*time.Millisecond)
	}
}

func (c *cell) storeFault(random *rand.Rand) trouble {
	i := random.IntN(len(c.ways))
	way, at := c.ways[i], c.instances[i].name
	var release func()
	all := []trouble{
		{"redis is killed", "", c.redis.Kill, func() { c.redis.Run(c.t) }},
		{"redis is frozen", "",
			func() { c.redis.Signal(c.t, syscall.SIGSTOP) }, func() { c.redis.Signal(c.t, syscall.SIGCONT) }},
		{"connections are cut", at, way.Cut, way.Mend},
		{"connections are silent", at, way.Swallow, way.Mend},
		{"connections are forgotten", at, way.Forget, way.Mend},
		{"answers are lost", at, way.Mute, way.Mend},
		{"connections are slow", at, func() { release = way.Hold() }, func() { release() }},
	}
	return all[random.IntN(len(all))]
}

// gatewayFaults causes one fault after the other at the gateways.
func (c *cell) gatewayFaults(ctx context.Context, random *rand.Rand) {
	for c.calm(ctx, random, 0, 600*time.Millisecond) {
		g := c.instances[random.IntN(len(c.instances))]
		switch n := random.IntN(5); n {
		case 0, 1:
			c.restart(ctx, random, g, []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM}[n])
		case 2:
			began := c.history.Now()
			g.reload(c.t)
			c.history.Add(event{Kind: kindReload, At: g.name, Begin: began, End: c.history.Now()})
		default:
			c.disable(ctx, random, []string{"alice", "bob"}[random.IntN(2)])
		}
	}
}

// restart ends an instance by a signal and starts it again.
func (c *cell) restart(ctx context.Context, random *rand.Rand, g *instance, s syscall.Signal) {
	began := c.history.Now()
	g.stop(s)
	c.calm(ctx, random, 0, 300*time.Millisecond)
	if err := g.run(); err != nil {
		c.t.Errorf("starting %s again: %v", g.name, err)
	}
	await(c.t, g.name+" to be ready after "+s.String(), g.ready)
	c.history.Add(event{Kind: kindDown, At: g.name, Begin: began, End: c.history.Now(), Note: s.String()})
}

// disable disables an account on all instances, which ends its logins, and enables it
// again.
func (c *cell) disable(ctx context.Context, random *rand.Rand, user string) {
	hup := random.IntN(4) > 0 // otherwise the gateways notice that the file has changed
	c.history.Add(c.change(event{Kind: kindDisable, User: user}, hup, http.StatusUnauthorized))
	c.calm(ctx, random, 0, 200*time.Millisecond)
	c.history.Add(c.change(event{Kind: kindEnable, User: user}, hup, http.StatusOK))
}

// change writes the accounts and waits until a login at each instance has a status.
func (c *cell) change(e event, hup bool, status int) event {
	out := func(user string) bool { return e.Kind == kindDisable && e.User == user }
	content := fmt.Sprintf(accounts, out("alice"), out("bob"))
	e.Begin = c.history.Now()
	for _, g := range c.instances {
		g.write(c.t, "accounts.yaml", content)
		if hup {
			g.reload(c.t)
		}
	}
	for _, g := range c.instances {
		await(c.t, fmt.Sprintf("%s to %s %s", g.name, e.Kind, e.User), func() bool { return c.knocks(g, e.User) == status })
	}
	e.End = c.history.Now()
	return e
}

// knocks signs in without an event in the history, and returns the status.
func (c *cell) knocks(g *instance, user string) int {
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	request, _ := http.NewRequestWithContext(ctx, "POST", "https://localhost:"+g.port+"/login?mechanism=session", nil)
	request.SetBasicAuth(user, passwords[user])
	response, err := c.prober.Do(request)
	if err != nil {
		return 0
	}
	response.Body.Close()
	return response.StatusCode
}

// late is the time that the answer to a trivial request takes on a busy machine.
const late = 200 * time.Millisecond

// watch records late answers of a process until ctx ends. A store without processor
// time is unavailable too.
func (c *cell) watch(ctx context.Context, at string, trivial func() error) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		began := c.history.Now()
		_ = trivial() // the clients see failures
		if ended := c.history.Now(); ended-began > late {
			c.history.Add(event{Kind: kindStall, At: at, Begin: began, End: ended})
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// storeAnswers returns what is trivial for the store of the cell: a PING of Redis, or
// for SQLite a small file on the disk.
func (c *cell) storeAnswers(folder string) func() error {
	if c.redis != nil {
		return func() error {
			_, err := c.redis.Try("PING")
			return err
		}
	}
	return func() error {
		file, err := os.Create(filepath.Join(folder, "small"))
		if err != nil {
			return err
		}
		defer file.Close()
		_, err = file.WriteString("x")
		return errors.Join(err, file.Sync())
	}
}

// calm waits for a random time, and reports whether ctx has not ended.
func (c *cell) calm(ctx context.Context, random *rand.Rand, shortest, longest time.Duration) bool {
	timer := time.NewTimer(shortest + time.Duration(random.Int64N(int64(longest-shortest))))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func (c *cell) awaitReady() {
	for _, g := range c.instances {
		await(c.t, g.name+" to be ready", g.ready)
	}
}
