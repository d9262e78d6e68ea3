package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestDocsUpgrade runs the commands of docs/upgrade.md. The user stays signed in, and the
// old program comes back.
func TestDocsUpgrade(t *testing.T) {
	t.Parallel()
	blocks := slices.DeleteFunc(documents(t)["docs/upgrade.md"].blocks, func(b block) bool { return b.info != "sh" })
	if len(blocks) != 2 {
		t.Fatalf("docs/upgrade.md has %d blocks of commands, this test knows 2", len(blocks))
	}
	up := record(t)
	g := prepared(t)
	m := &backupMachine{g, g.dir}
	g.dir = filepath.Join(m.root, "etc/authgate")
	installed := filepath.Join(m.root, "usr/local/bin/authgate")
	for _, folder := range []string{g.dir, filepath.Dir(installed), filepath.Join(m.root, "root")} {
		noError(t, os.MkdirAll(folder, 0o700))
	}
	program := func(version string) string {
		return "#!/bin/sh\n# " + version + "\nexec " + filepath.Join(programs, "authgate") + " \"$@\"\n"
	}
	for file, version := range map[string]string{installed: "old", filepath.Join(m.root, "root/authgate"): "new"} {
		noError(t, os.WriteFile(file, []byte(program(version)), 0o700))
	}
	g.configure(people + "routes: [{match: /secure, upstream: app, auth: [session, bearer]}]\n" + app(up.url))
	g.run()
	alice := g.signIn(g.stranger(), "alice")
	stays := func(installs string) {
		t.Helper()
		if got := readFile(t, installed); got != program(installs) {
			t.Errorf("installed is\n%swant the %s program", got, installs)
		}
		wantStatus(t, "the session", g.do(g.stranger(), "GET", "/secure", "", "Cookie", alice.session), http.StatusOK)
	}

	here := strings.NewReplacer("/root/", m.root+"/root/", "/usr/local/", m.root+"/usr/local/", "/etc/authgate", g.dir)
	before, after, restarts := strings.Cut(here.Replace(blocks[0].text()), "systemctl restart authgate\n")
	if !restarts {
		t.Fatal("docs/upgrade.md does not restart the gateway")
	}
	if printed := m.shell(before); !strings.HasSuffix(printed, "is valid") {
		t.Errorf("before the restart the commands print %q", printed)
	}
	g.signal(syscall.SIGTERM)
	<-g.done
	g.run()
	if printed := m.shell(after); printed == "" {
		t.Error("the commands print no version")
	}
	stays("new")
	blocks[1].lines = strings.Split(here.Replace(blocks[1].text()), "\n")
	blocks[1].lines = blocks[1].lines[:len(blocks[1].lines)-1]
	m.types(blocks[1], func() {})
	stays("old")
}
