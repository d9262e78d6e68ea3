//go:build unix

package app

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"authgate/gateway/logtest"
)

// For each path that others can read or change the log has one warning, whose
// command mends it.
func TestExposedSecrets(t *testing.T) {
	t.Parallel()
	const secret = "01234567890123456789012345678901"
	type modes map[string]fs.FileMode
	for name, c := range map[string]struct {
		modes modes
		want  string // the paths with a warning
	}{
		"closed":                {modes{}, ""},
		"the group may read":    {modes{"data": 0o750, "accounts.yaml": 0o640}, ""},
		"data_dir 0755":         {modes{"data": 0o755}, "data 0755"},
		"data_dir 0770":         {modes{"data": 0o770}, "data 0770"},
		"accounts":              {modes{"accounts.yaml": 0o644}, "accounts.yaml 0644"},
		"a secret, by a group":  {modes{"token.secret": 0o660}, "token.secret 0660"},
		"a generated key":       {modes{"data": 0o711, "data/store.key": 0o604}, "data 0711, data/store.key 0604"},
		"open in a closed room": {modes{"data/store.key": 0o644}, ""},
		"behind a closed door":  {modes{".": 0o700, "data": 0o777, "accounts.yaml": 0o644}, "data 0777"},
	} {
		dir := filepath.Join(openRoom(t), "it's here")
		path := folder(t, dir, map[string]string{
			"config.yaml":   listenAnywhere + memoryStore + routes + "token: {secret_file: token.secret}\ndata_dir: data\n",
			"accounts.yaml": alice, "token.secret": secret, "data/store.key": secret,
		})
		chmod(t, dir, 0o755)
		for place, mode := range c.modes {
			chmod(t, filepath.Join(dir, place), mode)
		}
		log := &logtest.Buffer{}
		a := open(t, path, log)
		defer shut(t, a)
		var got []string
		for _, record := range log.Records(t, "other users of this machine can read or change secrets") {
			place, err := filepath.Rel(dir, record["path"].(string))
			if err != nil || record["level"] != "WARN" {
				t.Errorf("%s: %v, %v", name, record, err)
			}
			got = append(got, place+" "+record["mode"].(string))
			if out, err := exec.Command("sh", "-c", record["command"].(string)).CombinedOutput(); err != nil {
				t.Errorf("%s: %s: %v %s", name, record["command"], err, out)
			}
		}
		if left := exposed(a.Config()); strings.Join(got, ", ") != c.want || len(left) > 0 {
			t.Errorf("%s: warnings about %q, want %s; after the commands %v", name, got, c.want, left)
		}
	}
}

// openRoom returns a folder that others can enter.
func openRoom(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for at := dir; at != filepath.Clean(os.TempDir()); at = filepath.Dir(at) {
		chmod(t, at, 0o755)
	}
	return dir
}

func chmod(t *testing.T, path string, mode fs.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}
