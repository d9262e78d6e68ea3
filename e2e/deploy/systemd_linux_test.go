package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"authgate/e2e/world"
	"authgate/internal/test/must"
)

const (
	installed = "/usr/local/bin/authgate"
	etc       = "/etc/authgate"
)

// exposure is the limit for the exposure level of systemd, in tenths. A server that
// opens ports below 1024 cannot have much less.
const exposure = "16"

// TestSystemdUnit checks the unit with systemd-analyze. The program is elsewhere here.
func TestSystemdUnit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "authgate.service")
	unit := strings.ReplaceAll(read(t, shipped+"/systemd/authgate.service"), installed, world.Program("authgate"))
	must.Do(t, os.WriteFile(file, []byte(unit), 0o600))
	if out, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--man=no", file).
		CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	security := exec.CommandContext(t.Context(), "systemd-analyze", "security",
		"--offline=true", "--no-pager", "--threshold="+exposure, file)
	if out, err := security.CombinedOutput(); err != nil {
		t.Errorf("systemd-analyze security: %v\n%s", err, out)
	}
}

// TestSystemdUser checks that systemd-sysusers makes the user of the unit.
func TestSystemdUser(t *testing.T) {
	m := newMachine(t)
	m.copy(shipped+"/systemd/sysusers.conf", "/etc/sysusers.d/authgate.conf")
	if out, err := exec.CommandContext(t.Context(), "systemd-sysusers", "--root="+m.root).CombinedOutput(); err != nil {
		t.Fatalf("systemd-sysusers: %v\n%s", err, out)
	}
	for setting, file := range map[string]string{"User": "/etc/passwd", "Group": "/etc/group"} {
		name := readUnit(t).one(setting)
		if made := "\n" + read(t, m.root+file); name == "" || !strings.Contains(made, "\n"+name+":") {
			t.Errorf("the %s %s is not made:%s", setting, name, made)
		}
	}
}

// TestSystemdConfiguration runs the commands of the unit with its configuration and
// the credentials that systemd gives them.
func TestSystemdConfiguration(t *testing.T) {
	unit := readUnit(t)
	m := newMachine(t)
	m.copy(shipped+"/systemd/config.yaml", etc+"/config.yaml")
	m.copy(shipped+"/systemd/accounts.yaml.example", etc+"/accounts.yaml")
	for _, credential := range unit["LoadCredential"] {
		id, from, _ := strings.Cut(credential, ":")
		if filepath.Base(from) != id {
			t.Errorf("the credential %s has another name in %s", id, from)
		}
		m.file("/run/credentials/authgate.service/"+id, strings.Repeat("k", 64)+"\n")
	}
	credentials := "CREDENTIALS_DIRECTORY=" + m.root + "/run/credentials/authgate.service"
	m.dir("/var/lib/" + unit.one("StateDirectory"))

	m.refuses(etc+"/config.yaml", "password_hash", credentials)
	m.giveHash()
	cfg := m.configuration(etc+"/config.yaml", credentials)

	stop := must.Get(time.ParseDuration(unit.one("TimeoutStopSec")))(t)
	checkStop(t, stop, 0, cfg)
	same(t, "data_dir, the only folder that can be written", cfg.DataDir, m.root+"/var/lib/"+unit.one("StateDirectory"))
	same(t, "the ports", []string{cfg.Listen.HTTPS, cfg.Listen.HTTP}, []string{":443", ":80"})
	for setting, want := range map[string]string{ // it restarts, but not with an invalid configuration, and never gives up
		"Restart": "always", "RestartPreventExitStatus": "2", "StartLimitIntervalSec": "0",
		"Environment": "GOTRACEBACK=crash", // a crash has no status of RestartPreventExitStatus
	} {
		same(t, setting, unit.one(setting), want)
	}

	// Without its credentials, it finds the data_dir, where no gateway runs here.
	reload := m.line(strings.Replace(unit.one("ExecReload"), "$MAINPID", "1", 1))
	if out, err := reload.CombinedOutput(); status(err) != 1 ||
		!strings.Contains(string(out), "no gateway runs with data_dir "+cfg.DataDir) {
		t.Errorf("%s: %v\n%s", unit.one("ExecReload"), err, out)
	}

	check := m.line(unit.one("ExecStartPre"))
	check.Env = append(check.Env, credentials)
	if out, err := check.CombinedOutput(); err != nil || !strings.HasSuffix(string(out), "is valid\n") {
		t.Errorf("%s: %v\n%s", unit.one("ExecStartPre"), err, out)
	}
	// It must not open its ports here. Without its credentials it stops at the
	// configuration.
	if out, err := m.line(unit.one("ExecStart")).CombinedOutput(); status(err) != 2 ||
		!strings.Contains(string(out), "CREDENTIALS_DIRECTORY") {
		t.Errorf("%s: %v\n%s", unit.one("ExecStart"), err, out)
	}
}

// line returns a command line of the unit.
func (m *machine) line(line string) *exec.Cmd {
	m.t.Helper()
	program, args, _ := strings.Cut(line, " ")
	if program != installed {
		m.t.Fatalf("%q does not run the program", line)
	}
	return m.command(world.Program("authgate"), strings.Fields(args)...)
}

// unit is a unit file without its sections.
type unit map[string][]string

func readUnit(t *testing.T) unit {
	t.Helper()
	all := unit{}
	for line := range strings.Lines(read(t, shipped+"/systemd/authgate.service")) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(key, "#") {
			all[key] = append(all[key], value)
		}
	}
	return all
}

// one returns the value of a setting, empty unless there is exactly one.
func (u unit) one(key string) string {
	if len(u[key]) != 1 {
		return ""
	}
	return u[key][0]
}
