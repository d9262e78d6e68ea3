package deploy

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"authgate/e2e/redistest"
	"authgate/gateway/store"
	"authgate/gateway/store/redisstore"
	"authgate/internal/test/logtest"
	"authgate/internal/test/must"
	"authgate/internal/test/porttest"
)

// valkey is the Valkey of the example; here it is Debian's Redis 7 under that name.
type valkey struct {
	m       *machine
	address string
	bin     string // the folder of the programs
	script  string
	cmd     *exec.Cmd
	log     logtest.Buffer
}

// newValkey returns a server that script starts on m. The test uses a user that the
// example does not have.
func newValkey(m *machine, script string) *valkey {
	m.t.Helper()
	v := &valkey{m: m, address: porttest.Address(m.t), bin: m.t.TempDir(), script: script}
	_, port, _ := net.SplitHostPort(v.address)
	for name, line := range map[string]string{
		"valkey-server": `exec redis-server --bind 127.0.0.1 --port ` + port + ` --user inspector on nopass "~*" +@all "$@"`,
		"valkey-cli":    `exec redis-cli -p ` + port + ` "$@"`,
	} {
		must.Do(m.t, os.WriteFile(filepath.Join(v.bin, name), []byte("#!/bin/sh\n"+line+"\n"), 0o700))
	}
	return v
}

// command returns a command on the machine with the programs of Valkey.
func (v *valkey) command(program string, args ...string) *exec.Cmd {
	cmd := v.m.command(program, args...)
	cmd.Env = []string{"PATH=" + v.bin + string(os.PathListSeparator) + os.Getenv("PATH")}
	return cmd
}

// start runs the script until the server answers.
func (v *valkey) start() {
	v.m.t.Helper()
	v.m.file(v.script, v.m.place(read(v.m.t, v.m.root+v.script)))
	v.cmd = v.command("sh", v.script)
	v.cmd.Stdout, v.cmd.Stderr = &v.log, &v.log
	v.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must.Do(v.m.t, v.cmd.Start())
	redistest.Eventually(v.m.t, redistest.Patience, "an answer of the server", func() error {
		if got := v.ask("PING"); got != "PONG" {
			return fmt.Errorf("%q; its log:\n%s", got, &v.log)
		}
		return nil
	})
}

// kill ends the server, and the shell if it is still there, as a power cut would.
func (v *valkey) kill() {
	if v.cmd == nil || v.cmd.Process == nil {
		return
	}
	_ = syscall.Kill(-v.cmd.Process.Pid, syscall.SIGKILL) // it may have ended before
	_ = v.cmd.Wait()
}

// ask returns the answer to a command of the inspector in one line.
func (v *valkey) ask(words ...string) string {
	out, _ := v.command(filepath.Join(v.bin, "valkey-cli"),
		append([]string{"--user", "inspector", "--pass", "any", "--no-auth-warning"}, words...)...).Output()
	return strings.Join(strings.Fields(string(out)), " ")
}

// TestValkey starts the Valkey of the compose example and uses it as gateways do. The
// Kubernetes example has the same, see TestKubernetesValkey.
func TestValkey(t *testing.T) {
	folder := compose(t)
	project := load(t, folder)
	s := service(t, project, "valkey")
	if len(s.Command) != 2 || s.Command[0] != "sh" {
		t.Fatalf("the command is %v", s.Command)
	}
	v := newValkey(inside(t, project, s), s.Command[1])
	defer func() { v.kill() }()
	v.start()

	for name, want := range map[string]string{
		"maxmemory": fmt.Sprint(maxmemory), "maxmemory-policy": "noeviction", "appendonly": "yes", "dir": v.m.root + "/data",
	} {
		same(t, "a setting", v.ask("CONFIG", "GET", name), name+" "+want)
	}
	if got := v.ask("ACL", "LIST"); !strings.Contains(got, "user default off ") ||
		strings.Contains(got, "user default off nopass") {
		t.Errorf("the server accepts clients without a password: %s", got)
	}
	pid := v.cmd.Process.Pid
	if got := v.ask("INFO", "server"); !strings.Contains(got, fmt.Sprintf(" process_id:%d ", pid)) {
		t.Errorf("the server is not the process %d, which gets the signals: %s", pid, got)
	}
	password := strings.TrimSpace(read(t, v.m.root+"/run/secrets/valkey_password"))
	if line := read(t, fmt.Sprintf("/proc/%d/cmdline", pid)); strings.Contains(line, password) {
		t.Errorf("a list of processes shows the password: %s", line)
	}
	v.checkHealth(s.HealthCheck.Test)
	v.checkStore(inside(t, project, service(t, project, "authgate-a")))
}

// checkHealth checks that the health check fails when the server refuses gateways.
func (v *valkey) checkHealth(test []string) {
	v.m.t.Helper()
	if len(test) != 2 || test[0] != "CMD-SHELL" {
		v.m.t.Fatalf("the health check is %v", test)
	}
	line := strings.ReplaceAll(test[1], "$$", "$") // as docker compose does
	if out, err := v.command("sh", "-c", line).CombinedOutput(); err != nil || string(out) != "PONG\n" {
		v.m.t.Errorf("the health check fails: %v\n%s", err, out)
	}
	v.ask("ACL", "SETUSER", "authgate", "off")
	if out, err := v.command("sh", "-c", line).CombinedOutput(); err == nil {
		v.m.t.Errorf("the health check does not see that gateways are refused:\n%s", out)
	}
	v.ask("ACL", "SETUSER", "authgate", "on")
}

// checkStore checks that the user of the gateways can do what gateways do and nothing
// else, and that what it writes survives a crash.
func (v *valkey) checkStore(gateway *machine) {
	t := v.m.t
	t.Helper()
	const path = "/etc/authgate/config.yaml"
	gateway.giveHash()
	cfg := gateway.configuration(path)
	options := redisstore.Options{
		Addresses: []string{v.address}, Username: cfg.Store.Username,
		Password: cfg.Store.Password.Reveal(), KeyPrefix: cfg.Store.KeyPrefix,
	}
	mine := v.open(options)
	ctx, later := t.Context(), time.Now().Add(time.Hour)
	if err := errors.Join(
		mine.Ping(ctx),
		mine.Put(ctx, "kept", []byte("1"), later),
		mine.Swap(ctx, "kept", []byte("1"), []byte("2"), later),
		mine.Put(ctx, "taken", []byte("3"), later),
		mine.Delete(ctx, "absent"),
	); err != nil {
		t.Errorf("a gateway cannot use the store: %v\n%s", err, &v.log)
	}
	if value, err := mine.Take(ctx, "taken"); err != nil || string(value) != "3" {
		t.Errorf("a gateway takes %q, %v", value, err)
	}

	other, stranger, guesser := options, options, options
	other.KeyPrefix, stranger.Username, stranger.Password, guesser.Password = "other:", "", "", "guess"
	if err := v.open(other).Put(ctx, "key", []byte("4"), later); err == nil || !strings.Contains(err.Error(), "NOPERM") {
		t.Errorf("a gateway may write keys that are not its own: %v", err)
	}
	for _, wrong := range []redisstore.Options{stranger, guesser} {
		if _, err := v.open(wrong).Get(ctx, "kept"); err == nil || errors.Is(err, store.ErrNotFound) {
			t.Errorf("a client without the password may read: %v", err)
		}
	}

	redistest.Eventually(t, redistest.Patience, "the file of the server", func() error { // which waits for a busy disk
		if got := v.ask("INFO", "persistence"); !strings.Contains(got, " aof_buffer_length:0 ") {
			return errors.New(got)
		}
		return nil
	})
	v.kill()
	v.start()
	if value, err := v.open(options).Get(ctx, "kept"); err != nil || string(value) != "2" {
		t.Errorf("after a crash there is %q, %v", value, err)
	}
}

func (v *valkey) open(options redisstore.Options) *redisstore.Store {
	v.m.t.Helper()
	s := must.Get(redisstore.Open(v.m.t.Context(), options))(v.m.t)
	v.m.t.Cleanup(func() { _ = s.Close() })
	return s
}

// TestValkeyRights checks that the documents give gateways the same rights as the
// example. TestLeastPrivilege of the store uses them.
func TestValkeyRights(t *testing.T) {
	_, rights, found := strings.Cut(read(t, shipped+"/compose/valkey/start.sh"), "~authgate:* ")
	rights, _, _ = strings.Cut(rights, "\n")
	if !found || rights == "" {
		t.Fatal("the user of the gateways has no rights")
	}
	for _, file := range []string{"docs/configuration/store.md", "gateway/store/redisstore/redisstore.go"} {
		text := strings.Join(strings.Fields(strings.ReplaceAll(read(t, "../../"+file), "\n//", " ")), " ")
		if !strings.Contains(text, "* "+rights) {
			t.Errorf("%s does not give the rights %s", file, rights)
		}
	}
}

// TestValkeyPassword checks that Valkey does not start without a password.
func TestValkeyPassword(t *testing.T) {
	for name, content := range map[string]string{"missing": "", "empty": "\n"} {
		m := newMachine(t)
		m.copy(shipped+"/compose/valkey/start.sh", "/etc/valkey/start.sh")
		m.dir("/run/secrets")
		if content != "" {
			m.file("/run/secrets/valkey_password", content)
		}
		v := newValkey(m, "/etc/valkey/start.sh")
		started := filepath.Join(v.bin, "started")
		must.Do(t, os.WriteFile(filepath.Join(v.bin, "valkey-server"), []byte("#!/bin/sh\ntouch "+started+"\n"), 0o700))
		m.file(v.script, m.place(read(t, m.root+v.script)))
		out, err := v.command("sh", v.script).CombinedOutput()
		if _, found := os.Stat(started); err == nil || found == nil {
			t.Errorf("%s: it starts: %v\n%s", name, err, out)
		}
	}
}
