package examples

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"authgate/e2e/world"
)

// TestDocsUpgrade runs the commands of docs/upgrade.md. The user stays signed in, and the
// old program comes back.
func TestDocsUpgrade(t *testing.T) {
	t.Parallel()
	blocks, up := shellBlocks(t, "docs/upgrade.md", 2), world.Record(t)
	m := newMachine(t, "usr/local/bin", "root")
	g, installed := m.Instance, filepath.Join(m.root, "usr/local/bin/authgate")
	program := func(version string) string {
		return "#!/bin/sh\n# " + version + "\nexec " + world.Program("authgate") + " \"$@\"\n"
	}
	for file, version := range map[string]string{installed: "old", filepath.Join(m.root, "root/authgate"): "new"} {
		world.NoError(t, os.WriteFile(file, []byte(program(version)), 0o700))
	}
	g.Configure(world.People + "routes: [{match: /secure, upstream: app, auth: [session, bearer]}]\n" + world.App(up.URL))
	g.Run()
	alice := g.SignIn(g.Stranger(), "alice")
	stays := func(installs string) {
		t.Helper()
		if got := world.ReadFile(t, installed); got != program(installs) {
			t.Errorf("installed is\n%swant the %s program", got, installs)
		}
		world.WantStatus(t, "the session", g.Do(g.Stranger(), "GET", "/secure", "", "Cookie", alice.Session), http.StatusOK)
	}

	here := strings.NewReplacer("/root/", m.root+"/root/", "/usr/local/", m.root+"/usr/local/", "/etc/authgate", g.Dir)
	before, after, restarts := strings.Cut(here.Replace(blocks[0].Text()), "systemctl restart authgate\n")
	if !restarts {
		t.Fatal("docs/upgrade.md does not restart the gateway")
	}
	if printed := m.shell(before); !strings.HasSuffix(printed, "is valid") {
		t.Errorf("before the restart the commands print %q", printed)
	}
	g.Signal(syscall.SIGTERM)
	<-g.Done
	g.Run()
	if printed := m.shell(after); printed == "" {
		t.Error("the commands print no version")
	}
	stays("new")
	blocks[1].Lines = strings.Split(here.Replace(blocks[1].Text()), "\n")
	blocks[1].Lines = blocks[1].Lines[:len(blocks[1].Lines)-1]
	m.types(blocks[1], func() {})
	stays("old")
}
