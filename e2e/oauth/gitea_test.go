//go:build interop

package oauth

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"authgate/e2e/world"
)

// giteaSettings is the app.ini of a Gitea that makes an account for each user who signs in.
const giteaSettings = `
RUN_MODE = prod
I_AM_BEING_UNSAFE_RUNNING_AS_ROOT = true
[server]
HTTP_ADDR = 127.0.0.1
HTTP_PORT = %[1]s
ROOT_URL = http://127.0.0.1:%[1]s/
STATIC_ROOT_PATH = %[2]s
DISABLE_SSH = true
OFFLINE_MODE = true
[database]
DB_TYPE = sqlite3
[security]
INSTALL_LOCK = true
SECRET_KEY = of-the-tests
[oauth2_client]
ENABLE_AUTO_REGISTRATION = true
USERNAME = preferred_username
`

// TestGitea: Gitea signs a user in, and gives them the account of that name. It sends no PKCE,
// so the operator has excused it.
func TestGitea(t *testing.T) {
	t.Parallel()
	program, err := filepath.Abs(world.Path("bin/interop/gitea"))
	world.NoError(t, err)
	module, err := exec.Command("go", "list", "-C", world.Path("e2e/interop/gitea"), "-m", "-f", "{{.Dir}}",
		"code.gitea.io/gitea").Output() // its pages are files of the module
	world.NoError(t, err)
	const secret = "of-gitea-0123456789abcdef"
	port, dir := world.FreePort(t), t.TempDir()
	home := "http://127.0.0.1:" + port
	s := prepare(t, "    - {id: gitea, secret: "+secret+", pkce: optional, consent: skip, "+
		"redirect_uris: ['"+home+"/user/oauth2/authgate/callback']}\n")
	s.Run()
	settings := filepath.Join(dir, "app.ini")
	content := fmt.Appendf(nil, giteaSettings, port, strings.TrimSpace(string(module)))
	world.NoError(t, os.WriteFile(settings, content, 0o600))
	environment := []string{"SSL_CERT_FILE=" + filepath.Join(s.Dir, s.CA), "GITEA_WORK_DIR=" + dir, "USER=git"}
	command := func(args ...string) *exec.Cmd {
		return world.ShellIn(dir, environment, program, append([]string{"--config", settings}, args...)...)
	}
	for _, args := range [][]string{
		{"migrate"},
		{"admin", "auth", "add-oauth", "--name", "authgate", "--provider", "openidConnect",
			"--key", "gitea", "--secret", secret, "--auto-discover-url", s.Base + "/.well-known/openid-configuration",
			"--scopes", "profile", "--scopes", "email"},
	} {
		if out, err := command(args...).CombinedOutput(); err != nil {
			t.Fatalf("gitea %s: %v\n%s", args[0], err, out)
		}
	}
	world.Launch(t, home+"/", command("web"))

	alice := user{world.Browse(s.Instance)}
	alice.T = t
	alice.allow(home + "/user/oauth2/authgate")
	alice.Open(home + "/user/settings")
	for _, text := range []string{`value="alice"`, `value="Alice Example"`} {
		if !strings.Contains(alice.Page.Body, text) {
			t.Errorf("Gitea's settings have no %s: %s", text, alice.Describe())
		}
	}
}
