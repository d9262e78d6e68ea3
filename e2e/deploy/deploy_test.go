package deploy

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"authgate/e2e/world"
	"authgate/gateway/config"
	"authgate/internal/test/must"
	"authgate/policy"
)

// shipped are the examples.
const shipped = "../../docs/deploy"

// placeholder is in the examples where a secret must be.
const placeholder = "replace-me"

// hash is a password hash as `authgate hash-password` prints it.
const hash = "$argon2id$v=19$m=19456,t=2,p=1$bm90IGEgcmVhbCBzYWx0$bm90IHRoZSBoYXNoIG9mIGEgcGFzc3dvcmQ"

func TestMain(m *testing.M) { os.Exit(world.Main(m)) }

// machine is the files that an example gives a program, under a folder. Paths in the
// files and in command lines are changed to lead there.
type machine struct {
	t    *testing.T
	root string
	dirs []string // of the example, absolute
	env  []string
}

func newMachine(t *testing.T) *machine { return &machine{t: t, root: t.TempDir()} }

// dir gives the program a folder.
func (m *machine) dir(path string) {
	m.t.Helper()
	must.Do(m.t, os.MkdirAll(m.root+path, 0o700))
	m.dirs = append(m.dirs, path)
}

// file gives the program a file.
func (m *machine) file(path, content string) {
	m.t.Helper()
	m.dir(filepath.Dir(path))
	must.Do(m.t, os.WriteFile(m.root+path, []byte(content), 0o600))
}

// copy gives the program what is at source, a file or a folder of files.
func (m *machine) copy(source, path string) {
	m.t.Helper()
	files, err := os.ReadDir(source)
	if err != nil {
		m.file(path, read(m.t, source))
	}
	for _, f := range files {
		m.file(path+"/"+f.Name(), read(m.t, filepath.Join(source, f.Name())))
	}
}

// giveHash replaces the placeholder in the accounts by a password hash.
func (m *machine) giveHash() {
	m.t.Helper()
	const accounts = "/etc/authgate/accounts.yaml"
	m.file(accounts, strings.ReplaceAll(read(m.t, m.root+accounts), placeholder, hash))
}

// place changes absolute paths in text to lead to the files of the program.
func (m *machine) place(text string) string {
	var paths []string
	for _, dir := range m.dirs {
		paths = append(paths, regexp.QuoteMeta(dir))
	}
	given := regexp.MustCompile(`(^|[\s"'=:])((?:` + strings.Join(paths, "|") + `)\b)`)
	return given.ReplaceAllString(text, "${1}"+m.root+"${2}")
}

// command returns a command line of the example.
func (m *machine) command(program string, args ...string) *exec.Cmd {
	placed := make([]string, len(args))
	for i, arg := range args {
		placed[i] = m.place(arg)
	}
	cmd := exec.CommandContext(m.t.Context(), program, placed...)
	cmd.Dir, cmd.Env = m.root, append([]string{"PATH=" + os.Getenv("PATH")}, m.env...)
	return cmd
}

// validate runs the program on the configuration at path.
func (m *machine) validate(path string, env []string) (output string, err error) {
	m.t.Helper()
	m.file(path, m.place(read(m.t, m.root+path)))
	cmd := m.command(world.Program("authgate"), "validate", "--config", path)
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// configuration returns the configuration at path, which the real program must accept,
// and which must hold no secret.
func (m *machine) configuration(path string, env ...string) *config.Config {
	m.t.Helper()
	if found := secretInside.FindString(read(m.t, m.root+path)); found != "" {
		m.t.Errorf("the configuration holds a secret: %s", found)
	}
	if out, err := m.validate(path, env); err != nil {
		m.t.Fatalf("the configuration is not valid: %v\n%s", err, out)
	}
	for _, set := range env {
		name, value, _ := strings.Cut(set, "=")
		m.t.Setenv(name, value)
	}
	cfg := must.Get(config.Load(m.root + path))(m.t)
	for _, warning := range cfg.Warnings() {
		if strings.HasPrefix(warning.Key, "listen.") { // such as that all addresses are proxies
			m.t.Errorf("the configuration has a warning: %s: %s", warning.Key, warning.Message)
		}
	}
	for _, route := range cfg.Routes {
		if slices.Contains(route.Auth, policy.None) {
			m.t.Errorf("the route %s of an example is public", route.Match)
		}
	}
	return cfg
}

// refuses checks that the program refuses the configuration at path because of key.
func (m *machine) refuses(path, key string, env ...string) {
	m.t.Helper()
	if out, err := m.validate(path, env); status(err) != 2 || !strings.Contains(out, key) {
		m.t.Errorf("the configuration is not refused because of %s: %v\n%s", key, err, out)
	}
}

// same checks that two values are equal.
func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s differs from what is expected (-):\n%s", what, diff)
	}
}

// status returns the exit status of a program.
func status(err error) int {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	if err != nil {
		return -1
	}
	return 0
}

func read(t *testing.T, path string) string {
	t.Helper()
	content := must.Get(os.ReadFile(path))(t)
	return string(content)
}

// secretInside matches a secret in a configuration.
var secretInside = regexp.MustCompile(`(?m)^.*\b(secret|password|encryption_key|password_hash|client_secret):.*$`)

// checkShared checks that instances which come and go share everything that lasts.
func checkShared(t *testing.T, cfg *config.Config) {
	t.Helper()
	for problem, there := range map[string]bool{
		"several gateways cannot share the store":            cfg.Store.Driver != config.StoreRedis,
		"each gateway makes token.secret or the store's key": cfg.Token.Secret == "" || cfg.Store.EncryptionKey == "",
		"the gateways have no user at the store":             cfg.Store.Username == "" || cfg.Store.Password == "",
		"without shutdown_delay a stop cuts clients off":     cfg.ShutdownDelay == 0,
	} {
		if there {
			t.Error(problem)
		}
	}
}

// checkStop checks that a gateway has enough time to stop, given the time before it
// gets the signal.
func checkStop(t *testing.T, given, before time.Duration, cfg *config.Config) {
	t.Helper()
	if needed := before + cfg.ShutdownDelay + cfg.ShutdownTimeout; given <= needed {
		t.Errorf("a gateway is killed after %v, and may take %v to stop", given, needed)
	}
}
