package proxies

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"authgate/e2e/world"
)

// TestComposeBehindCaddy runs docs/deploy/compose-caddy without Docker: Caddy and the gateway
// with its files, at other addresses.
func TestComposeBehindCaddy(t *testing.T) {
	t.Parallel()
	const folder, site = "docs/deploy/compose-caddy/", "https://app.example.org"
	app, g := world.Record(t), world.Prepare(t)
	g.Public = site
	g.Write("accounts.yaml", world.Person("alice", world.WonderlandHash, ""))
	g.Write("config.yaml", world.Substituted(t, world.ReadFile(t, world.Path(folder+"authgate/config.yaml")),
		"${DOMAIN}", "app.example.org", "172.31.251.0/29", "127.0.0.1", "http://app:3000", app.URL,
		"/data/authgate", "data", "/data/accounts.yaml", "accounts.yaml",
		`http: ":8080"`, fmt.Sprintf("http: %q\n  admin: %q", world.Authority(g.HTTP), world.Authority(g.Admin))))
	g.Run()
	caddy := forwardProxy{document: "README.md", command: func(
		t *testing.T, files map[string]string, dir, address string,
	) *exec.Cmd {
		t.Helper()
		_, port, err := net.SplitHostPort(address)
		world.NoError(t, err)
		certificate := filepath.Join(dir, "site.pem")
		world.WriteAll(t, dir, map[string]string{"Caddyfile": fmt.Sprintf(
			"{\n\tadmin off\n\tservers {\n\t\tprotocols h1 h2\n\t}\n\tauto_https disable_redirects\n"+
				"\tdefault_bind 127.0.0.1\n\thttp_port %s\n\thttps_port %s\n}\n", world.FreePort(t), port) +
			world.Substituted(t, world.ReadFile(t, world.Path(folder+"caddy/Caddyfile")),
				"{$DOMAIN} {", "{$DOMAIN} {\n\ttls "+certificate+" "+certificate, "authgate:8080", files["GATE"])})
		cmd := exec.Command(world.FindProgram(t, "caddy"), "run", "--config", filepath.Join(dir, "Caddyfile"),
			"--adapter", "caddyfile")
		cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir, "DOMAIN=app.example.org")
		return cmd
	}}
	wantOwnForwarded(t, caddy)
	address, roots := caddy.start(t, g, app.URL)
	v := world.Surf(t, "127.0.0.2", address, roots)
	if a, at := v.SignIn(site+"/page", "alice"); a.Status != http.StatusOK || at.String() != site+"/page" {
		t.Fatalf("after the sign-in: %d at %s\n%s", a.Status, at, a.Body)
	}
	if user := app.One(t).Value(t, "X-Auth-User"); user != "alice" {
		t.Errorf("the application gets the user %q", user)
	}
	a, _ := v.Visit("GET", site+"/page", "", "X-Auth-User", "root")
	world.WantStatus(t, "with a user that a client wrote", a, http.StatusOK)
	m := app.One(t)
	from, user := m.Value(t, "X-Forwarded-For"), m.Value(t, "X-Auth-User")
	if !strings.HasPrefix(from, "127.0.0.2") || user != "alice" {
		t.Errorf("the application gets the address %q and the user %q", from, user)
	}
	a, _ = world.Surf(t, "127.0.0.1", address, roots).Visit("GET", site+"/page", "", "Accept", world.TypeJSON)
	world.WantStatus(t, "a stranger", a, http.StatusUnauthorized)
	app.None(t)
}
