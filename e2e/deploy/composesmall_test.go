package deploy

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/types"

	"authgate/e2e/world"
	"authgate/internal/test/must"
)

// smallCompose are the examples with one gateway, and the service that clients reach.
var smallCompose = map[string]string{"compose-one": "authgate", "compose-caddy": "caddy"}

// TestComposeSmall checks that the small examples need one edit, that what clients reach is
// in front of the gateway and the application, and that the gateway starts with accounts that
// its own command has made.
func TestComposeSmall(t *testing.T) {
	for name, front := range smallCompose {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), name)
			must.Do(t, os.CopyFS(folder, os.DirFS(shipped+"/"+name)))
			edits := regexp.MustCompile(`(?m)^[^#\n].*$`).FindAllString(read(t, folder+"/.env.example"), -1)
			same(t, "the lines to edit", edits, []string{"DOMAIN=app.example.org"})
			must.Do(t, os.WriteFile(folder+"/.env", []byte("DOMAIN=wiki.example.com\n"), 0o600))
			project := load(t, folder)
			for service, s := range project.Services {
				checkSmallService(t, s, service == front)
			}
			gate := service(t, project, "authgate")
			m := inside(t, project, gate)
			env := "DOMAIN=" + *gate.Environment["DOMAIN"]
			m.env = []string{env}
			m.file("/etc/authgate/config.yaml", m.place(read(t, m.root+"/etc/authgate/config.yaml")))
			before := regexp.MustCompile(`(?m)^docker compose run --build --rm authgate (.*)\ndocker compose up -d`)
			first := before.FindStringSubmatch(read(t, shipped+"/README.md"))
			if first == nil {
				t.Fatal("the README adds no account before the start")
			}
			if out, err := m.command(world.Program("authgate"), strings.Fields(first[1])...).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", first[1], err, out)
			}
			cfg := m.configuration("/etc/authgate/config.yaml", env)
			same(t, "public_url", cfg.PublicURL.String(), "https://wiki.example.com")
			same(t, "where logins and keys are", cfg.DataDir, m.root+"/data/authgate")
			same(t, "where accounts are", cfg.Accounts.File, m.root+"/data/accounts.yaml")
			published := map[string]string{}
			for _, port := range gate.Ports {
				published[port.Published] = fmt.Sprintf(":%d", port.Target)
			}
			if front == "authgate" {
				same(t, "the published ports", published, map[string]string{"443": cfg.Listen.HTTPS, "80": cfg.Listen.HTTP})
			} else {
				same(t, "tls.mode", string(cfg.TLS.Mode), "off")
				checkBehindCaddy(t, project, cfg.Listen.HTTP, trusted(cfg.Listen.TrustedProxies))
			}
			checkStop(t, time.Duration(*gate.StopGracePeriod), 0, cfg)
			checkHealth(t, m, gate.HealthCheck)
			upstream, _, _ := strings.Cut(cfg.Upstreams["app"].URLs[0].Host, ":")
			service(t, project, upstream)
		})
	}
}

// trusted writes networks as a configuration does.
func trusted[T interface{ String() string }](networks []T) (all []string) {
	for _, one := range networks {
		all = append(all, one.String())
	}
	return all
}

// checkSmallService checks the rights of a service, and that it cannot be reached unless it
// is in front.
func checkSmallService(t *testing.T, s types.ServiceConfig, front bool) {
	t.Helper()
	if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) ||
		!slices.Equal(s.SecurityOpt, []string{"no-new-privileges:true"}) || s.Privileged || s.User != "" ||
		s.Restart != types.RestartPolicyUnlessStopped {
		t.Errorf("%s is not hardened", s.Name)
	}
	if added := strings.Join(s.CapAdd, ","); added != "" && (s.Name != "caddy" || added != "NET_BIND_SERVICE") {
		t.Errorf("%s has the rights %s", s.Name, added)
	}
	networks := s.NetworksByPriority()
	if front != slices.Contains(networks, "outside") || front != (len(s.Ports) > 0) {
		t.Errorf("%s is in front: %t, and has the networks %q and ports %v", s.Name, front, networks, s.Ports)
	}
	if s.Name == "app" && !slices.Equal(networks, []string{"inside"}) {
		t.Errorf("the application is in %q", networks)
	}
}

// checkBehindCaddy checks that Caddy asks where the gateway listens, and that the gateway
// believes the network that it shares with Caddy alone.
func checkBehindCaddy(t *testing.T, project *types.Project, listen string, believed []string) {
	t.Helper()
	front := project.Networks["front"].Ipam.Config[0].Subnet
	same(t, "the networks that the gateway believes", believed, []string{front})
	for name, s := range project.Services {
		if in := slices.Contains(s.NetworksByPriority(), "front"); in != (name == "caddy" || name == "authgate") {
			t.Errorf("%s is in the network that the gateway believes: %t", name, in)
		}
	}
	file := read(t, shipped+"/compose-caddy/caddy/Caddyfile")
	if !strings.Contains(file, "reverse_proxy authgate"+listen+" {") {
		t.Errorf("Caddy does not lead to authgate%s:\n%s", listen, file)
	}
}

// TestImageUser checks that the image runs as a user without rights, who owns the volume.
func TestImageUser(t *testing.T) {
	file := read(t, "../../Dockerfile")
	for _, line := range []string{"\nUSER 65532:65532\n", "\nVOLUME /data\n",
		"\nCOPY --from=build --chown=65532:65532 /out/data/ /data/\n"} {
		if !strings.Contains(file, line) {
			t.Errorf("the Dockerfile lacks %q", line)
		}
	}
}
