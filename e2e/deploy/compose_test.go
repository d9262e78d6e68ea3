package deploy

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/sirupsen/logrus"

	"authgate/e2e/world"
	"authgate/internal/test/must"
)

const composeFolder = "docs/deploy/compose"

// compose returns a copy of the example after the commands of its README, which make
// the files that are not shipped. They run with umask 077, and the shipped files are
// private to their owner too.
func compose(t *testing.T) (folder string) {
	t.Helper()
	copied := t.TempDir()
	folder = filepath.Join(copied, composeFolder)
	must.Do(t, os.CopyFS(folder, os.DirFS(shipped+"/compose")))
	script := regexp.MustCompile("(?s)```sh\n(cd " + composeFolder + "\n.*?)```").
		FindStringSubmatch(read(t, shipped+"/README.md"))
	if script == nil {
		t.Fatal("the README does not say how to make the files")
	}
	sh := exec.CommandContext(t.Context(), "sh", "-eu", "-c",
		"chmod -R go-rwx .\nchmod 755 "+composeFolder+"\numask 077\n"+script[1]) // the README changes 755
	sh.Dir = copied
	if out, err := sh.CombinedOutput(); err != nil {
		t.Fatalf("%s\n%v\n%s", script[1], err, out)
	}
	return folder
}

// TestComposeFiles checks that the users of the containers can read what is mounted,
// and that other users of the machine cannot.
func TestComposeFiles(t *testing.T) {
	folder := compose(t)
	if info := must.Get(os.Stat(folder))(t); info.Mode().Perm() != 0o700 {
		t.Errorf("the folder is open to others: %v", info.Mode())
	}
	mounted := []string{folder + "/secrets"}
	for _, s := range load(t, folder).Services {
		for _, mount := range s.Volumes {
			if mount.Type == types.VolumeTypeBind {
				mounted = append(mounted, mount.Source)
			}
		}
	}
	for _, source := range mounted {
		must.Do(t, filepath.WalkDir(source, func(path string, entry fs.DirEntry, err error) error {
			must.Do(t, err)
			mode := must.Get(entry.Info())(t).Mode()
			if want := map[bool]fs.FileMode{true: 0o055, false: 0o044}[mode.IsDir()]; mode&0o077 != want {
				t.Errorf("%s has the mode %v", path, mode)
			}
			return nil
		}))
	}
}

// TestComposeCommands checks that with the commands of the README gateways restart by
// themselves, and that they stop one at a time.
func TestComposeCommands(t *testing.T) {
	readme := read(t, shipped+"/README.md")
	if regexp.MustCompile(`(?m)^docker.* kill`).MatchString(readme) {
		t.Error("after a signal by hand Docker does not start a container of restart: unless-stopped again (moby#41302)")
	}
	for _, how := range []string{"", "--force-recreate "} {
		a := strings.Index(readme, "docker compose up -d --no-deps "+how+"--wait authgate-a\n")
		b := strings.Index(readme, "docker compose up -d --no-deps "+how+"--wait authgate-b\n")
		if a < 0 || b < a {
			t.Errorf("the README does not start one gateway after the other anew, with %q", how)
		}
	}
}

// load reads the example as `docker compose` does. Its warnings are errors.
func load(t *testing.T, folder string) *types.Project {
	t.Helper()
	var warnings bytes.Buffer
	logrus.SetOutput(&warnings)
	defer logrus.SetOutput(os.Stderr)
	options := must.Get(cli.NewProjectOptions(nil, cli.WithWorkingDirectory(folder),
		cli.WithEnvFiles(), cli.WithDotEnv, cli.WithDefaultConfigPath))(t)
	project := must.Get(options.LoadProject(t.Context()))(t)
	if warnings.Len() > 0 {
		t.Errorf("docker compose warns:\n%s", &warnings)
	}
	return project
}

// service returns a service of the project.
func service(t *testing.T, project *types.Project, name string) types.ServiceConfig {
	t.Helper()
	found, err := project.GetService(name)
	if err != nil {
		t.Fatalf("there is no service %s: %v", name, err)
	}
	return found
}

// inside returns the files that the containers of a service have.
func inside(t *testing.T, project *types.Project, s types.ServiceConfig) *machine {
	t.Helper()
	m := newMachine(t)
	for _, mount := range s.Volumes {
		if mount.Type == types.VolumeTypeBind {
			m.copy(mount.Source, mount.Target)
			if !mount.ReadOnly {
				t.Errorf("%s can write to %s", s.Name, mount.Source)
			}
		} else {
			m.dir(mount.Target)
		}
	}
	for _, mount := range s.Tmpfs {
		path, _, _ := strings.Cut(mount, ":")
		m.dir(path)
	}
	for _, secret := range s.Secrets {
		if secret.Target != "/run/secrets/"+secret.Source {
			t.Errorf("%s finds the secret %s as %s", s.Name, secret.Source, secret.Target)
		}
		m.copy(project.Secrets[secret.Source].File, secret.Target)
	}
	return m
}

func TestComposeProject(t *testing.T) {
	folder := compose(t)
	project := load(t, folder)
	for name, s := range project.Services {
		if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) ||
			!slices.Equal(s.SecurityOpt, []string{"no-new-privileges:true"}) || s.Privileged || len(s.CapAdd) > 0 {
			t.Errorf("%s is not hardened", name)
		}
		if len(s.Environment) > 0 {
			t.Errorf("%s has an environment, which `docker inspect` shows: %v", name, s.Environment)
		}
		if !strings.HasPrefix(name, "authgate-") &&
			(len(s.Ports) > 0 || !slices.Equal(s.NetworksByPriority(), []string{"inside"})) {
			t.Errorf("%s can be reached without a gateway", name)
		}
	}
	if !project.Networks["inside"].Internal {
		t.Error("the network of the store and the application is not internal")
	}
	checkInstances(t, project)
	checkGateway(t, project, service(t, project, "authgate-a"), folder)
}

// checkInstances checks that the two gateways differ only in their addresses.
func checkInstances(t *testing.T, project *types.Project) {
	t.Helper()
	a, b := service(t, project, "authgate-a"), service(t, project, "authgate-b")
	for s, address := range map[*types.ServiceConfig]string{
		&a: project.Environment["ADDRESS_A"], &b: project.Environment["ADDRESS_B"],
	} {
		for j := range s.Ports {
			same(t, "the address of "+s.Name, s.Ports[j].HostIP, address)
			s.Ports[j].HostIP = ""
		}
		s.Name = ""
	}
	if project.Environment["ADDRESS_A"] == project.Environment["ADDRESS_B"] {
		t.Error("the gateways have one address")
	}
	same(t, "the second gateway", b, a)
}

// checkGateway checks a gateway against its configuration.
func checkGateway(t *testing.T, project *types.Project, s types.ServiceConfig, folder string) {
	t.Helper()
	m := inside(t, project, s)
	const path = "/etc/authgate/config.yaml" // the default of the image
	m.refuses(path, "password_hash")
	m.giveHash()
	cfg := m.configuration(path)
	checkShared(t, cfg)

	published := map[string]string{}
	for _, port := range s.Ports {
		published[port.Published] = fmt.Sprintf(":%d", port.Target)
	}
	same(t, "the published ports", published, map[string]string{"443": cfg.Listen.HTTPS, "80": cfg.Listen.HTTP})
	if cfg.DataDir != m.root+"/data" || len(s.Tmpfs) != 1 {
		t.Errorf("data_dir %s cannot be written: %v", cfg.DataDir, s.Tmpfs)
	}
	if s.StopGracePeriod == nil {
		t.Fatal("there is no stop_grace_period")
	}
	checkStop(t, time.Duration(*s.StopGracePeriod), 0, cfg)
	checkHealth(t, m, s.HealthCheck)
	for _, address := range append(slices.Clone(cfg.Store.Addresses), cfg.Upstreams["app"].URLs[0].Host) {
		name, _, _ := strings.Cut(address, ":")
		service(t, project, name)
	}
	if s.DependsOn["valkey"].Condition != types.ServiceConditionHealthy || s.Restart != types.RestartPolicyUnlessStopped {
		t.Error("a gateway does not wait for its store, or does not come back")
	}
	if top := filepath.Clean(filepath.Join(folder, "../../..")); s.Build == nil ||
		s.Build.Context != top || s.Image == "" {
		t.Errorf("the image is not built where the Dockerfile is: %+v", s.Build)
	}
}

// checkHealth runs the health check. No gateway answers here, but the check must send
// a request.
func checkHealth(t *testing.T, m *machine, check *types.HealthCheckConfig) {
	t.Helper()
	if check == nil || len(check.Test) < 2 || check.Test[0] != "CMD" || check.Test[1] != "/authgate" {
		t.Fatalf("the health check is not by the program in the image: %+v", check)
	}
	out, err := m.command(world.Program("authgate"), check.Test[2:]...).CombinedOutput()
	if !(err == nil && string(out) == "ready\n") && !strings.Contains(string(out), "/readyz") {
		t.Errorf("the health check sends no request: %v\n%s", err, out)
	}
}
