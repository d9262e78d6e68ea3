package e2e

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// backupMachine is where the commands of docs/backup.md run: its folders are below
// one of the test, and its systemctl stops and starts a gateway of the test.
type backupMachine struct {
	*instance
	root   string
	onStop func() // what happens to a gateway that has been stopped
}

// fakeSystemctl hands its first argument over and waits until that is done.
const fakeSystemctl = `#!/bin/sh
set -eu
[ "$2" = authgate ]
echo "$1" > "$CONTROL/request"
read -r done < "$CONTROL/answer"
`

func newBackupMachine(t *testing.T, config string) *backupMachine {
	t.Helper()
	g := prepared(t)
	m := &backupMachine{instance: g, root: g.dir}
	g.dir = filepath.Join(m.root, "etc/authgate")
	for _, folder := range []string{"etc/authgate", "var/lib/authgate", "var/backups", "bin", "control"} {
		if err := os.MkdirAll(filepath.Join(m.root, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(m.root, "bin/systemctl"), []byte(fakeSystemctl), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"request", "answer"} {
		if err := syscall.Mkfifo(m.control(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	g.ca = "../../var/lib/authgate/ca.pem"
	g.configure("data_dir: " + m.data("") + "\n" + config)
	g.run()
	return m
}

func (m *backupMachine) control(name string) string { return filepath.Join(m.root, "control", name) }

func (m *backupMachine) data(name string) string {
	return filepath.Join(m.root, "var/lib/authgate", name)
}

// types runs the commands of a block.
func (m *backupMachine) types(b block) string {
	m.t.Helper()
	script := b.text()
	for _, folder := range []string{"/etc/authgate", "/var/"} {
		script = strings.ReplaceAll(script, folder, m.root+folder)
	}
	const tellEnd = "trap 'echo end > \"$CONTROL/request\"' EXIT\n"
	bash := exec.Command("bash", "-euc", tellEnd+script)
	bash.Env = append(os.Environ(), "CONTROL="+m.control(""), "PATH="+filepath.Join(m.root, "bin")+":"+os.Getenv("PATH"))
	var output lines
	bash.Stdout, bash.Stderr = &output, &output
	if err := bash.Start(); err != nil {
		m.t.Fatal(err)
	}
	m.serve()
	if err := bash.Wait(); err != nil {
		m.t.Fatalf("line %d: %v\n%s", b.line, err, &output)
	}
	return output.String()
}

// serve does what systemctl is asked for, until the commands end.
func (m *backupMachine) serve() {
	m.t.Helper()
	for {
		request, err := os.ReadFile(m.control("request"))
		if err != nil {
			m.t.Fatal(err)
		}
		switch verb := strings.TrimSpace(string(request)); verb {
		case "stop":
			m.signal(syscall.SIGTERM)
			<-m.done
			m.onStop()
		case "start":
			m.run()
		case "end":
			return
		default:
			m.t.Fatalf("systemctl %q", verb)
		}
		if err := os.WriteFile(m.control("answer"), []byte("done\n"), 0); err != nil {
			m.t.Fatal(err)
		}
	}
}

// TestDocsBackup runs the commands of docs/backup.md, and checks what the
// document says that they do.
func TestDocsBackup(t *testing.T) {
	t.Parallel()
	var blocks []block
	for _, b := range documents(t)["docs/backup.md"].blocks {
		if b.info == "sh" {
			blocks = append(blocks, b)
		}
	}
	if len(blocks) != 3 {
		t.Fatalf("docs/backup.md has %d blocks of commands, this test knows 3", len(blocks))
	}
	up := record(t)
	m := newBackupMachine(t, people+"routes: [{match: /secure, upstream: app, auth: [session, bearer]}]\n"+app(up.url))
	before := m.signIn(m.stranger(), "alice")
	bob := m.signIn(m.stranger(), "bob")
	if printed := m.types(blocks[0]); strings.TrimSpace(printed) != "ok" {
		t.Errorf("the backup prints %q", printed)
	}
	m.wantPrivate("var/backups/authgate")
	after := m.signIn(m.stranger(), "alice")
	wantStatus(t, "logout", m.do(m.stranger(), "POST", "/logout", "", "Cookie", before.session), http.StatusOK)
	ca := m.tls()

	m.onStop = func() { m.loseAll() }
	m.types(blocks[1])
	m.wantPrivate("var/lib/authgate")
	if !ca.RootCAs.Equal(m.tls().RootCAs) {
		t.Error("the authority is another one after the restore")
	}
	for _, s := range []signIn{before, bob} { // that of before was ended meanwhile, as the document warns
		for name, credential := range map[string]string{"Cookie": s.session, "Authorization": s.access} {
			if got := m.status(m.stranger(), "GET", "/secure", name, credential); got != http.StatusOK {
				t.Errorf("after the restore, by %s: %d", name, got)
			}
		}
	}
	wantDead(t, m.instance, up, after)

	m.onStop = func() {}
	m.types(blocks[2])
	for _, s := range []signIn{before, bob, after} {
		wantDead(t, m.instance, up, s)
	}
	m.signIn(m.stranger(), "alice")
	up.all()
}

// loseAll empties the folders of the gateway, as a new machine has them, and
// leaves the log of another database there.
func (m *backupMachine) loseAll() {
	m.t.Helper()
	for _, folder := range []string{"etc/authgate", "var/lib/authgate"} {
		path := filepath.Join(m.root, folder)
		if err := os.RemoveAll(path); err != nil {
			m.t.Fatal(err)
		}
		if err := os.Mkdir(path, 0o700); err != nil {
			m.t.Fatal(err)
		}
	}
	if err := os.WriteFile(m.data("authgate.db-wal"), []byte("of another database"), 0o600); err != nil {
		m.t.Fatal(err)
	}
}

// wantPrivate: only the owner may read what is in a folder.
func (m *backupMachine) wantPrivate(folder string) {
	m.t.Helper()
	entries, err := os.ReadDir(filepath.Join(m.root, folder))
	if err != nil || len(entries) == 0 {
		m.t.Fatalf("%s: %d files, %v", folder, len(entries), err)
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			m.t.Fatal(err)
		}
		if strings.HasPrefix(entry.Name(), "ca.pem") {
			continue // which is for everybody
		}
		if info.Mode().Perm()&0o077 != 0 {
			m.t.Errorf("%s/%s has mode %o", folder, entry.Name(), info.Mode().Perm())
		}
	}
}
