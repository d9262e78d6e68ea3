package apps

import (
	"bytes"
	"crypto/rand"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"authgate/e2e/world"
)

// largeFile is the length of the file that git pushes and clones: many times what the gateway
// and its connections can hold.
const largeFile = 50 << 20

// startGit serves repositories over HTTP with the files of docs/applications/git.md, and
// returns the address and the folder of the repositories.
func startGit(t *testing.T) (address, repositories string) {
	t.Helper()
	dir, address := t.TempDir(), world.FreeAddress(t)
	repositories = filepath.Join(dir, "repositories")
	script := filepath.Join(dir, "git.cgi")
	world.WriteAll(t, dir, map[string]string{
		"git.cgi": world.Substituted(t, world.DocumentedFile(t, "docs/applications/git.md", "git.cgi"), "/srv/git",
			repositories),
		"lighttpd.conf": world.Substituted(t, world.DocumentedFile(t, "docs/applications/git.md", "lighttpd.conf"),
			"8081", address[strings.LastIndexByte(address, ':')+1:], "/usr/local/lib/git.cgi", script, "/srv/git", dir) +
			"server.upload-dirs = (\"" + dir + "\")\n",
	})
	world.WriteAll(t, dir, map[string]string{"ready": "yes\n"})
	world.NoError(t, os.Chmod(script, 0o700))
	runs(t, exec.Command(world.FindProgram(t, "git"), "init", "--quiet", "--bare",
		filepath.Join(repositories, "project.git")))
	runs(t, exec.Command("git", "-C", filepath.Join(repositories, "project.git"), "config", "core.logAllRefUpdates",
		"true"))
	world.Launch(t, "http://"+address+"/ready",
		exec.Command(world.FindProgram(t, "lighttpd"), "-D", "-f", filepath.Join(dir, "lighttpd.conf")))
	return address, repositories
}

// TestGit: git pushes and clones a file of 50 MiB, with an API token that it sends when the
// gateway asks for a password. The repository notes who pushed.
func TestGit(t *testing.T) {
	t.Parallel()
	address, repositories := startGit(t)
	up := world.StartTap(t, address)
	g := world.Start(t, world.People+world.AtLocalhost(world.DocumentedApp(t, "git.md", "git", up.URL)))
	token, dir := g.APIToken("alice"), t.TempDir()
	remote := g.Base + "/git/project.git"
	git := func(args ...string) *exec.Cmd {
		return world.ShellIn(dir, []string{
			"GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "GIT_SSL_CAINFO=" + filepath.Join(g.Dir, g.CA),
			"GIT_AUTHOR_NAME=Author", "GIT_AUTHOR_EMAIL=author@example.org", "GIT_COMMITTER_NAME=Author",
			"GIT_COMMITTER_EMAIL=author@example.org",
		}, "git", append([]string{"-c", "core.compression=0"}, args...)...)
	}
	if out, err := git("ls-remote", remote).CombinedOutput(); err == nil ||
		!bytes.Contains(out, []byte("could not read Username")) {
		t.Errorf("without a token: %v\n%s", err, out)
	}
	if up.Has("project.git") {
		t.Error("a request without a token reached the repository")
	}
	world.NoError(t, os.WriteFile(filepath.Join(dir, ".git-credentials"),
		[]byte(strings.Replace(g.Base, "https://", "https://alice:"+token+"@", 1)+"\n"), 0o600))
	runs(t, git("config", "--global", "credential.helper", "store"))
	work, content := filepath.Join(dir, "work"), make([]byte, largeFile)
	world.Must(io.ReadFull(rand.Reader, content))(t)
	runs(t, git("init", "--quiet", "--initial-branch=main", work))
	world.NoError(t, os.WriteFile(filepath.Join(work, "large"), content, 0o600))
	runs(t, git("-C", work, "add", "large"))
	runs(t, git("-C", work, "commit", "--quiet", "-m", "large"))
	runs(t, git("-C", work, "push", "--quiet", remote, "main"))
	moved := world.ReadFile(t, filepath.Join(repositories, "project.git", "logs", "refs", "heads", "main"))
	if !strings.Contains(moved, " alice <alice@") {
		t.Errorf("the repository does not note that alice pushed: %s", moved)
	}
	runs(t, git("clone", "--quiet", "--branch", "main", remote, filepath.Join(dir, "clone")))
	if cloned := world.Must(os.ReadFile(filepath.Join(dir, "clone", "large")))(t); !bytes.Equal(cloned, content) {
		t.Errorf("the clone has %d other bytes", len(cloned))
	}
	up.WantUser(t, "alice", token)
	if got := up.Values("Authorization"); len(got) > 0 {
		t.Errorf("the repository got the credentials %q", got)
	}
}
