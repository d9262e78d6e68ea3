package e2e

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// backupMachine is where the commands of docs/backup.md run: its folders are below
// one of the test.
type backupMachine struct {
	*instance
	root string
}

// types runs the commands of a block and returns what they print. The test does what
// systemctl is asked for, and calls stopped when it has stopped the gateway.
func (m *backupMachine) types(b block, stopped func()) string {
	m.t.Helper()
	script := strings.NewReplacer("/etc/authgate", m.root+"/etc/authgate", "/var/", m.root+"/var/").Replace(b.text())
	before, after, stops := strings.Cut(script, "systemctl stop authgate\n")
	if !stops {
		return m.shell(script)
	}
	between, starts := strings.CutSuffix(after, "systemctl start authgate\n")
	if !starts {
		m.t.Fatalf("line %d: the gateway is not started", b.line)
	}
	m.shell(before)
	m.signal(syscall.SIGTERM)
	<-m.done
	stopped()
	printed := m.shell(before + between) // before sets variables
	m.run()
	return printed
}

func (m *backupMachine) shell(script string) string {
	m.t.Helper()
	output, err := exec.Command("bash", "-euc", script).CombinedOutput()
	if err != nil {
		m.t.Fatalf("%s\n%v\n%s", script, err, output)
	}
	return strings.TrimSpace(string(output))
}

// TestDocsBackup runs the commands of docs/backup.md, and checks what the
// document says that they do.
func TestDocsBackup(t *testing.T) {
	t.Parallel()
	blocks := slices.DeleteFunc(documents(t)["docs/backup.md"].blocks, func(b block) bool { return b.info != "sh" })
	if len(blocks) != 3 {
		t.Fatalf("docs/backup.md has %d blocks of commands, this test knows 3", len(blocks))
	}
	up := record(t)
	g := prepared(t)
	m := &backupMachine{g, g.dir}
	g.dir = filepath.Join(m.root, "etc/authgate")
	data := filepath.Join(m.root, "var/lib/authgate")
	for _, folder := range []string{g.dir, data, filepath.Join(m.root, "var/backups")} {
		noError(t, os.MkdirAll(folder, 0o700))
	}
	g.ca = "../../var/lib/authgate/ca.pem"
	g.configure("data_dir: " + data + "\n" + people + "routes: [{match: /secure, upstream: app, auth: [session, bearer]}]\n" + app(up.url))
	g.run()

	before, bob := g.signIn(g.stranger(), "alice"), g.signIn(g.stranger(), "bob")
	if printed := m.types(blocks[0], nil); printed != "ok" {
		t.Errorf("the backup prints %q", printed)
	}
	wantPrivate(t, filepath.Join(m.root, "var/backups/authgate"))
	after := g.signIn(g.stranger(), "alice")
	wantStatus(t, "logout", g.do(g.stranger(), "POST", "/logout", "", "Cookie", before.session), http.StatusOK)
	ca := g.tls()

	m.types(blocks[1], func() { // a new machine, with the log of another database
		noError(t, errors.Join(os.RemoveAll(g.dir), os.RemoveAll(data), os.Mkdir(g.dir, 0o700), os.Mkdir(data, 0o700),
			os.WriteFile(filepath.Join(data, "authgate.db-wal"), []byte("of another database"), 0o600)))
	})
	wantPrivate(t, data)
	if !ca.RootCAs.Equal(g.tls().RootCAs) {
		t.Error("the authority is another one after the restore")
	}
	for _, s := range []signIn{before, bob} { // that of before was ended meanwhile, as the document warns
		wantStatus(t, "the session after the restore", g.do(g.stranger(), "GET", "/secure", "", "Cookie", s.session), http.StatusOK)
		wantStatus(t, "the token after the restore", g.do(g.stranger(), "GET", "/secure", "", "Authorization", s.access), http.StatusOK)
	}
	wantDead(t, g, up, after)

	m.types(blocks[2], func() {})
	for _, s := range []signIn{before, bob, after} {
		wantDead(t, g, up, s)
	}
	g.signIn(g.stranger(), "alice")
}

// wantPrivate: only the owner may read what is in a folder, except for the authority.
func wantPrivate(t *testing.T, folder string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) == 0 {
		t.Fatalf("%s: %d files, %v", folder, len(entries), err)
	}
	for _, entry := range entries {
		info := must(entry.Info())(t)
		if info.Mode().Perm()&0o077 != 0 && !strings.HasPrefix(entry.Name(), "ca.pem") {
			t.Errorf("%s/%s has mode %o", folder, entry.Name(), info.Mode().Perm())
		}
	}
}
