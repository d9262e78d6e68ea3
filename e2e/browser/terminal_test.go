package browser

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"authgate/e2e/world"

	"github.com/chromedp/chromedp"
)

// startJupyter starts Jupyter as docs/applications/jupyter.md does, and returns its address and
// its folder.
func startJupyter(t *testing.T) (address, dir string) {
	t.Helper()
	program := world.Path("e2e/jupyter/venv/bin/jupyter-notebook")
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("Jupyter is not installed, run make deps: %v", err)
	}
	dir, address = t.TempDir(), world.FreeAddress(t)
	port := address[strings.LastIndexByte(address, ':')+1:]
	world.Launch(t, "http://"+address+"/jupyter/api", world.ShellIn(dir, []string{"SHELL=/bin/sh"}, program,
		"--no-browser", "--allow-root", "--ip=127.0.0.1", "--port="+port, "--NotebookApp.base_url=/jupyter/",
		"--NotebookApp.token=", "--NotebookApp.password=", "--NotebookApp.allow_remote_access=True"))
	return address, dir
}

// terminalInBrowser: a person types a command into a terminal of Jupyter and sees its
// output. A logout closes the terminal within a second, and what is typed then reaches no
// shell. A busy machine gets more chances for the measurement.
func terminalInBrowser(t *testing.T, c *chromium) {
	address, dir := startJupyter(t)
	up := world.StartTap(t, address)
	g := c.prepared(t)
	g.Configure(world.People + world.AtLocalhost(world.DocumentedApp(t, "jupyter.md", "jupyter", up.URL)))
	g.Run()
	b := c.tab(t)
	b.open(g.Base + "/jupyter/terminals/new")
	b.shows(g.Own("signin"), http.StatusOK, "User name")
	b.signIn("bob")
	if b.status != http.StatusForbidden || up.Has("/jupyter/terminals") {
		t.Errorf("bob, who is no admin, gets %s", b.describe())
	}
	took := time.Hour
	for try := 0; try < 5 && took >= time.Second; try++ {
		b.open(g.Base + g.Own("me"))
		if b.status == http.StatusOK {
			b.click("button")
		}
		took = oneTerminal(t, g, b, dir)
		t.Logf("the terminal closed %v after the logout", took.Round(time.Millisecond))
	}
	if took >= time.Second {
		t.Errorf("the terminal closed %v after the logout", took)
	}
	up.WantUser(t, "alice", "session_id=")
}

// oneTerminal signs alice in, uses a new terminal in a folder, signs her out in another tab, and
// returns how long after that the terminal was closed.
func oneTerminal(t *testing.T, g *world.Instance, b *tab, dir string) time.Duration {
	t.Helper()
	old, _ := b.sockets()
	shows := func(text string) func() bool {
		return func() bool {
			received, _ := b.sockets()
			return strings.Contains(strings.TrimPrefix(received, old), text)
		}
	}
	b.open(g.Base + "/jupyter/terminals/new")
	b.signIn("alice")
	world.Until(t, "the prompt of the shell", shows("stdout"))
	inTab(b, chromedp.Focus(chromedp.CSS(".terminal textarea")))
	inTab(b, chromedp.KeyEvent("echo $((40+2)) made by hand | tee made\r"))
	world.Until(t, "the output of the command", shows("42 made by hand"))
	world.Until(t, "what the command writes",
		func() bool { return world.ReadFile(t, filepath.Join(dir, "made")) == "42 made by hand\n" })
	_, before := b.sockets()
	other := b.another()
	other.open(g.Base + g.Own("me"))
	other.click("button")
	since := time.Now()
	world.Until(t, "the end of the terminal", func() bool { _, closed := b.sockets(); return closed > before })
	took := time.Since(since)
	inTab(b, chromedp.KeyEvent("echo late > late\r"))
	b.open(g.Base + "/jupyter/api")
	b.shows(g.Own("signin"), http.StatusOK, "User name")
	if _, err := os.Stat(filepath.Join(dir, "late")); err == nil {
		t.Error("a command reached the shell after the logout")
	}
	return took
}
