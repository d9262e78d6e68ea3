package examples

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

	"authgate/e2e/world"
)

// backupMachine is where the commands of docs/backup.md run: its folders are below
// one of the test.
type backupMachine struct {
	*world.Instance
	root string
}

// newMachine returns a machine with the folders, and with /etc/authgate, where its gateway
// starts.
func newMachine(t *testing.T, folders ...string) *backupMachine {
	t.Helper()
	m := &backupMachine{Instance: world.Prepare(t)}
	m.root = m.Dir
	m.Dir = filepath.Join(m.root, "etc/authgate")
	for _, folder := range append(folders, "etc/authgate") {
		world.NoError(t, os.MkdirAll(filepath.Join(m.root, folder), 0o700))
	}
	return m
}

// shellBlocks returns the blocks of commands of a document, which must be n.
func shellBlocks(t *testing.T, document string, n int) []world.Block {
	t.Helper()
	blocks := slices.DeleteFunc(world.ReadDocument(t, document).Blocks,
		func(b world.Block) bool { return b.Info != "sh" })
	if len(blocks) != n {
		t.Fatalf("%s has %d blocks of commands, this test knows %d", document, len(blocks), n)
	}
	return blocks
}

// types runs the commands of a block and returns what they print. The test does what
// systemctl is asked for, and calls stopped when it has stopped the gateway.
func (m *backupMachine) types(b world.Block, stopped func()) string {
	m.T.Helper()
	script := strings.NewReplacer("/etc/authgate", m.root+"/etc/authgate", "/var/", m.root+"/var/").Replace(b.Text())
	before, after, stops := strings.Cut(script, "systemctl stop authgate\n")
	if !stops {
		return m.shell(script)
	}
	between, starts := strings.CutSuffix(after, "systemctl start authgate\n")
	if !starts {
		m.T.Fatalf("line %d: the gateway is not started", b.Line)
	}
	m.shell(before)
	m.Signal(syscall.SIGTERM)
	<-m.Done
	stopped()
	printed := m.shell(before + between) // before sets variables
	m.Run()
	return printed
}

func (m *backupMachine) shell(script string) string {
	m.T.Helper()
	output, err := exec.Command("bash", "-euc", script).CombinedOutput()
	if err != nil {
		m.T.Fatalf("%s\n%v\n%s", script, err, output)
	}
	return strings.TrimSpace(string(output))
}

// TestDocsBackup runs the commands of docs/backup.md, and checks what the
// document says that they do.
func TestDocsBackup(t *testing.T) {
	t.Parallel()
	blocks, up := shellBlocks(t, "docs/backup.md", 3), world.Record(t)
	m := newMachine(t, "var/lib/authgate", "var/backups")
	g, data := m.Instance, filepath.Join(m.root, "var/lib/authgate")
	g.CA = "../../var/lib/authgate/ca.pem"
	g.Configure("data_dir: " + data + "\n" + world.People + "routes: [{match: /secure, upstream: app, auth: " +
		"[session, bearer]}]\n" + world.App(up.URL))
	g.Run()

	before, bob := g.SignIn(g.Stranger(), "alice"), g.SignIn(g.Stranger(), "bob")
	if printed := m.types(blocks[0], nil); printed != "ok" {
		t.Errorf("the backup prints %q", printed)
	}
	wantPrivate(t, filepath.Join(m.root, "var/backups/authgate"))
	after := g.SignIn(g.Stranger(), "alice")
	world.WantStatus(t, "logout", g.Do(g.Stranger(), "POST", "/logout", "", "Cookie", before.Session), http.StatusOK)
	ca := g.TLS()

	m.types(blocks[1], func() { // a new machine, with the log of another database
		world.NoError(t, errors.Join(os.RemoveAll(g.Dir), os.RemoveAll(data), os.Mkdir(g.Dir, 0o700), os.Mkdir(data, 0o700),
			os.WriteFile(filepath.Join(data, "authgate.db-wal"), []byte("of another database"), 0o600)))
	})
	wantPrivate(t, data)
	if !ca.RootCAs.Equal(g.TLS().RootCAs) {
		t.Error("the authority is another one after the restore")
	}
	for _, s := range []world.Login{before, bob} { // that of before was ended meanwhile, as the document warns
		world.WantStatus(t, "the session after the restore", g.Do(g.Stranger(), "GET", "/secure", "", "Cookie", s.Session),
			http.StatusOK)
		world.WantStatus(t, "the token after the restore",
			g.Do(g.Stranger(), "GET", "/secure", "", "Authorization", s.Access), http.StatusOK)
	}
	world.WantDead(t, g, up, after)

	m.types(blocks[2], func() {})
	for _, s := range []world.Login{before, bob, after} {
		world.WantDead(t, g, up, s)
	}
	g.SignIn(g.Stranger(), "alice")
}

// wantPrivate: only the owner may read what is in a folder, except for the authority.
func wantPrivate(t *testing.T, folder string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) == 0 {
		t.Fatalf("%s: %d files, %v", folder, len(entries), err)
	}
	for _, entry := range entries {
		info := world.Must(entry.Info())(t)
		if info.Mode().Perm()&0o077 != 0 && !strings.HasPrefix(entry.Name(), "ca.pem") {
			t.Errorf("%s/%s has mode %o", folder, entry.Name(), info.Mode().Perm())
		}
	}
}
