//go:build interop

package apps

import (
	"archive/zip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"authgate/e2e/world"
)

// pypiPrograms are those of e2e/pypi/requirements.txt.
const pypiPrograms = "e2e/pypi/venv/bin/"

// TestPyPI: devpi's administrator signs in through the gateway and makes an index, twine uploads a
// package with an API token, and pip installs it. Who may only read does not upload.
func TestPyPI(t *testing.T) {
	t.Parallel()
	world.FindProgram(t, world.Path(pypiPrograms+"devpi-server"))
	dir, address := t.TempDir(), world.FreeAddress(t)
	up, g := world.StartTap(t, address), world.Prepare(t)
	py := func(name string, args ...string) *exec.Cmd {
		ca := filepath.Join(g.Dir, g.CA)
		return world.ShellIn(dir, []string{"REQUESTS_CA_BUNDLE=" + ca, "PIP_CERT=" + ca, "PIP_NO_CACHE_DIR=1",
			"PIP_DISABLE_PIP_VERSION_CHECK=1"}, world.Path(pypiPrograms+name), args...)
	}
	server := filepath.Join(dir, "server")
	runs(t, py("devpi-init", "--serverdir", server, "--no-root-pypi"))
	port := address[strings.LastIndexByte(address, ':')+1:]
	world.Launch(t, "http://"+address+"/+api",
		py("devpi-server", "--serverdir", server, "--host", "127.0.0.1",
			"--port", port, "--outside-url", g.Base, "--restrict-modify", "root"))
	g.Configure(world.People + world.AtLocalhost(strings.ReplaceAll(world.DocumentedApp(t, "pypi.md", "devpi", up.URL),
		"roles: [staff, admin]", "roles: [admin]")))
	g.Run()
	wheel := greetingWheel(t, dir)
	token, reads := g.APIToken("alice"), g.APIToken("bob")
	as := func(user, token string) string { return strings.Replace(g.Base, "//", "//"+user+":"+token+"@", 1) }
	for _, args := range [][]string{{"use", as("alice", token)}, {"login", "root", "--password", ""},
		{"index", "-c", "root/local", "bases=", "acl_upload=:ANONYMOUS:"}} {
		cmd := py("devpi", args...)
		cmd.Env = append(cmd.Env, "DEVPI_CLIENTDIR="+filepath.Join(dir, "client"))
		runs(t, cmd)
	}
	upload := func(user, token string) (string, error) {
		out, err := py("twine", "upload", "--non-interactive", "--disable-progress-bar", "--repository-url",
			g.Base+"/root/local/", "--username", user, "--password", token, wheel).CombinedOutput()
		return string(out), err
	}
	if out, err := upload("__token__", reads); err == nil || !strings.Contains(out, "403") || up.Has("POST /root/") {
		t.Errorf("bob may only read, and uploads: %v %s", err, out)
	}
	if out, err := upload("__token__", token); err != nil {
		t.Fatalf("an upload: %v\n%s", err, out)
	}
	index := as("bob", reads) + "/root/local/+simple/"
	runs(t, py("pip", "install", "--quiet", "--no-input", "--target", filepath.Join(dir, "installed"),
		"--index-url", index, "greeting"))
	got := world.ReadFile(t, filepath.Join(dir, "installed", "greeting.py"))
	if got != "text = 'hello from the index'\n" {
		t.Errorf("the installed module is %q", got)
	}
	if up.Has(token) || up.Has(reads) || len(up.Values("Authorization")) > 0 {
		t.Error("devpi got the credential")
	}
}

// greetingWheel writes a package with one module.
func greetingWheel(t *testing.T, dir string) (file string) {
	t.Helper()
	file = filepath.Join(dir, "greeting-1.2.3-py3-none-any.whl")
	out := world.Must(os.Create(file))(t)
	archive := zip.NewWriter(out)
	for _, part := range [][2]string{
		{"greeting.py", "text = 'hello from the index'\n"},
		{"greeting-1.2.3.dist-info/METADATA", "Metadata-Version: 2.1\nName: greeting\nVersion: 1.2.3\n"},
		{"greeting-1.2.3.dist-info/WHEEL",
			"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		{"greeting-1.2.3.dist-info/RECORD", "greeting.py,,\ngreeting-1.2.3.dist-info/METADATA,,\n" +
			"greeting-1.2.3.dist-info/WHEEL,,\ngreeting-1.2.3.dist-info/RECORD,,\n"},
	} {
		entry := world.Must(archive.Create(part[0]))(t)
		world.Must(entry.Write([]byte(part[1])))(t)
	}
	world.NoError(t, archive.Close())
	world.NoError(t, out.Close())
	return file
}
