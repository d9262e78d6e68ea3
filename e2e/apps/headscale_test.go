//go:build interop

package apps

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"authgate/e2e/world"
)

// TestHeadscale: a program makes a key for machines by Headscale's API, with a token of the gateway
// beside Headscale's key, and no other client reaches the API. A machine joins by that key, another as
// its user signs in here. They switch protocols through the gateway, for Headscale and for its relay.
func TestHeadscale(t *testing.T) {
	t.Parallel()
	h := startHeadscale(t)
	h.strangers(t)
	h.ask(t, "POST", "/api/v1/user", `{"name":"servers"}`)
	var made struct{ PreAuthKey struct{ Key string } }
	world.NoError(t, json.Unmarshal([]byte(h.ask(t, "POST", "/api/v1/preauthkey",
		`{"user":"1","expiration":"2099-01-01T00:00:00Z"}`)), &made))

	server := h.machine(t, "teapot")
	runs(t, server.up("--auth-key", made.PreAuthKey.Key))
	h.wantMachine(t, "teapot", "servers")
	world.Until(t, "the relay", func() bool {
		return h.up.Has("Upgrade: DERP") && strings.Contains(runs(t, server.tailscale("status", "--json", "--self")),
			`"Relay": "headscale"`)
	})
	server.stop()
	h.machine(t, "cup").signIn(t)
	h.wantMachine(t, "cup", "alice")
	if !h.up.Has("POST /ts2021 HTTP/1.1") || !slices.Contains(h.up.Values("Upgrade"), "tailscale-control-protocol") {
		t.Errorf("Headscale was asked for the protocols %q", h.up.Values("Upgrade"))
	}
	h.up.WantUser(t, "alice", h.token, "session_id=")
}

// headscale is Headscale behind a gateway, which also signs its users in.
type headscale struct {
	g          *world.Instance
	up         *world.Tap
	key, token string // of Headscale's API, and of the gateway
}

// headscaleRest is what Headscale's configuration needs beside that of the page. Its relay is the
// only one, and nothing asks the internet.
const headscaleRest = `
metrics_listen_addr: METRICS
grpc_listen_addr: GRPC
unix_socket: headscale.sock
noise: {private_key_path: noise.key}
database: {type: sqlite, sqlite: {path: db.sqlite}}
prefixes: {v4: 100.64.0.0/10}
dns: {magic_dns: false, override_local_dns: false, base_domain: machines.example.org}
disable_check_updates: true
derp:
  urls: []
  server: {enabled: true, region_id: 999, region_code: headscale, region_name: Headscale,
    stun_listen_addr: STUN, private_key_path: derp.key, automatically_add_embedded_derp_region: true}
`

func startHeadscale(t *testing.T) *headscale {
	t.Helper()
	address, dir := world.FreeAddress(t), t.TempDir()
	h := &headscale{g: world.Prepare(t), up: world.StartTap(t, address)}
	secret := "of-headscale-0123456789abcdef"
	h.g.Configure(world.People + policiesOfPages + world.AtLocalhost(world.Substituted(t,
		world.DocumentedApp(t, "headscale.md", "headscale", h.up.URL), "https://headscale.example.org", h.g.Base,
		"$2y$10$…", secret)))
	h.g.Run()
	world.WriteAll(t, dir, map[string]string{"oidc.secret": secret, "config.yaml": world.Substituted(t,
		world.DocumentedFile(t, "docs/applications/headscale.md", "headscale.yaml"), "127.0.0.1:8083", address,
		"https://headscale.example.org", h.g.Base, "https://login.example.org", h.g.Base, "/etc/headscale",
		dir) + world.Substituted(t, headscaleRest, "METRICS", world.FreeAddress(t), "GRPC", world.FreeAddress(t), "STUN",
		"127.0.0.2:"+world.FreePort(t))}) // where no machine asks, as where UDP does not pass
	program, trust := world.FindProgram(t, world.Path("bin/interop/headscale")), h.trust()
	world.Launch(t, "http://"+address+"/health", world.ShellIn(dir, trust, program, "-c", "config.yaml", "serve"))
	h.key = strings.TrimSpace(runs(t, world.ShellIn(dir, trust, program, "-c", "config.yaml", "apikeys", "create")))
	h.token = h.g.APIToken("alice")
	return h
}

// trust is the variable for programs that trust the gateway's authority.
func (h *headscale) trust() []string {
	return []string{"SSL_CERT_FILE=" + filepath.Join(h.g.Dir, h.g.CA)}
}

// strangers ask the API without a token of the gateway, and with that of a user who is no
// administrator.
func (h *headscale) strangers(t *testing.T) {
	t.Helper()
	c, bob := h.g.Stranger(), "Bearer "+h.g.APIToken("bob")
	for _, path := range []string{"/api/v1/node", "/api/v1/", "//api/v1/node", "/api/./v1/node", "/api/v1%2Fnode"} {
		status := h.g.Status(c, "GET", path, "Authorization", "Bearer "+h.key)
		if status != http.StatusUnauthorized && status != http.StatusBadRequest {
			t.Errorf("%s, with Headscale's key alone: %d", path, status)
		}
		status = h.g.Status(c, "GET", path, "Authorization", "Bearer "+h.key, "Proxy-Authorization", bob)
		if status != http.StatusForbidden && status != http.StatusBadRequest {
			t.Errorf("%s, for bob: %d", path, status)
		}
	}
	if got := h.g.Status(c, "GET", "/api/v1/node"); got != http.StatusUnauthorized {
		t.Errorf("the API, for a stranger: %d", got)
	}
	if h.up.Has("v1") {
		t.Error("a request that is refused reached Headscale's API")
	}
}

// ask sends a request to Headscale's API.
func (h *headscale) ask(t *testing.T, method, path, body string) string {
	t.Helper()
	a := h.g.Do(h.g.Stranger(), method, path, body, "Content-Type", world.TypeJSON, "Authorization", "Bearer "+h.key,
		"Proxy-Authorization", "Bearer "+h.token)
	world.WantStatus(t, method+" "+path, a, http.StatusOK)
	return a.Body
}

// wantMachine fails the test unless Headscale has a machine of a user.
func (h *headscale) wantMachine(t *testing.T, name, user string) {
	t.Helper()
	var answer struct {
		Nodes []struct {
			Name string
			User struct{ Name string }
		}
	}
	body := h.ask(t, "GET", "/api/v1/node", "")
	world.NoError(t, json.Unmarshal([]byte(body), &answer))
	for _, node := range answer.Nodes {
		if node.Name == name && node.User.Name == user {
			return
		}
	}
	t.Errorf("Headscale has no machine %s of %s: %s", name, user, body)
}

// machine is a machine with Tailscale's client, which has no network device.
type machine struct {
	h         *headscale
	name, dir string
	stop      func()
}

func (h *headscale) machine(t *testing.T, name string) *machine {
	t.Helper()
	m := &machine{h: h, name: name, dir: t.TempDir()}
	out := &world.Output{}
	cmd := world.ShellIn(m.dir, append(h.trust(), "TS_DISABLE_PORTMAPPER=1", "TS_LOGS_DIR="+m.dir),
		world.FindProgram(t, world.Path("bin/interop/tailscaled")), "--tun=userspace-networking", "--statedir="+m.dir,
		"--socket="+m.socket(), "--port=0", "--no-logs-no-support")
	cmd.Stdout, cmd.Stderr = out, out
	ended := world.Spawn(t, cmd)
	m.stop = func() { world.Stop(cmd, ended) }
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s wrote\n%s", name, out)
		}
	})
	world.Until(t, "the socket of "+name, func() bool { _, err := os.Stat(m.socket()); return err == nil })
	return m
}

func (m *machine) socket() string { return filepath.Join(m.dir, "d.sock") }

// tailscale is a command of the machine's user.
func (m *machine) tailscale(args ...string) *exec.Cmd {
	return world.ShellIn(m.dir, append(m.h.trust(), "TS_BE_CLI=1"), world.Path("bin/interop/tailscaled"),
		append([]string{"--socket=" + m.socket()}, args...)...)
}

// up is the command that ends when the machine has joined.
func (m *machine) up(args ...string) *exec.Cmd {
	return m.tailscale(append([]string{"up", "--timeout=2m", "--login-server=" + m.h.g.Base, "--hostname=" + m.name,
		"--accept-dns=false"}, args...)...)
}

// joinsAt is where a machine sends its user.
var joinsAt = regexp.MustCompile(`https://\S+/register/\S+`)

// signIn lets a machine join by its user: alice signs in at the gateway.
func (m *machine) signIn(t *testing.T) {
	t.Helper()
	out, cmd := &world.Output{}, m.up()
	cmd.Stdout, cmd.Stderr = out, out
	ended := world.Spawn(t, cmd)
	world.Until(t, "the address to sign in at", func() bool { return joinsAt.MatchString(out.String()) })
	alice := world.Surf(t, "127.0.0.1", world.Authority(m.h.g.Base), m.h.g.TLS().RootCAs)
	a, at := alice.SignIn(joinsAt.FindString(out.String()), "alice")
	if a.Status != http.StatusOK || at.Path != "/oidc/callback" {
		t.Fatalf("alice signs in for a machine: %d at %s %.500s", a.Status, at, a.Body)
	}
	<-ended
	if !cmd.ProcessState.Success() {
		t.Errorf("the machine does not join: %s", out)
	}
}
