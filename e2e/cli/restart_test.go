package cli

import (
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"authgate/e2e/world"
)

// TestRestart: keys and logins outlive a restart, and only the owner can read
// files with secrets.
func TestRestart(t *testing.T) {
	t.Parallel()
	g := world.Start(t, world.People+world.App(world.Record(t).URL)+"token: {algorithm: RS256}\n"+
		"routes: [{match: /secure-resource, upstream: app, auth: [session, bearer]}]\n")
	c := g.Stranger()
	s := g.SignIn(c, "alice")
	before := dataFiles(t, g)
	keys := g.Do(c, "GET", "/.well-known/jwks.json", "").Body
	g.Signal(syscall.SIGTERM)
	<-g.Done
	if code := g.Cmd.ProcessState.ExitCode(); code != 0 {
		t.Fatalf("exit status %d\n%s", code, g.Log)
	}
	g.Run()
	c = g.Stranger()
	for header, credential := range map[string]string{"Cookie": s.Session, "Authorization": s.Access} {
		if got := g.Status(c, "GET", "/secure-resource", header, credential); got != http.StatusOK {
			t.Errorf("%s from before: %d", header, got)
		}
	}
	if _, got, err := g.TryRefresh(c, s.Refresh); err != nil || got != http.StatusOK {
		t.Errorf("refresh token from before: %d, %v", got, err)
	}
	if got := g.Do(c, "GET", "/.well-known/jwks.json", "").Body; got != keys {
		t.Errorf("the public keys are %s, and were %s", got, keys)
	}
	after := dataFiles(t, g)
	for name, content := range before {
		if strings.HasSuffix(name, ".pem") && after[name] != content {
			t.Errorf("%s has changed", name)
		}
	}
}

// dataFiles reads data_dir and checks the modes of everything in it.
func dataFiles(t *testing.T, g *world.Instance) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(filepath.Join(g.Dir, "data"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		want, ok := map[string]fs.FileMode{"data": fs.ModeDir | 0o700, "control": fs.ModeDir | 0o700,
			"ca.pem": 0o644}[entry.Name()]
		if !ok {
			want = entry.Type()&fs.ModeSocket | 0o600
		}
		if info.Mode() != want {
			t.Errorf("%s has mode %v, expected %v", path, info.Mode(), want)
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		content, err := os.ReadFile(path)
		all[entry.Name()] = string(content)
		return err
	})
	if err != nil || all["ca.pem"] == "" || all["authgate.db"] == "" {
		t.Fatalf("ca.pem or authgate.db is missing or empty: %v", err)
	}
	return all
}
