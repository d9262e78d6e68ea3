//go:build unix

package app

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

const exposureMessage = "other users of this machine can read or change secrets"

// TestExposedSecrets: for each path that others can read or change the log has
// one warning, whose command mends it.
func TestExposedSecrets(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		modes map[string]fs.FileMode
		want  map[string]string
	}{
		"closed":                {map[string]fs.FileMode{"data": 0o700, "accounts.yaml": 0o600}, nil},
		"the group may read":    {map[string]fs.FileMode{"data": 0o750, "accounts.yaml": 0o640}, nil},
		"data_dir 0777":         {map[string]fs.FileMode{"data": 0o777}, map[string]string{"data": "0777"}},
		"data_dir 0755":         {map[string]fs.FileMode{"data": 0o755}, map[string]string{"data": "0755"}},
		"data_dir 0770":         {map[string]fs.FileMode{"data": 0o770}, map[string]string{"data": "0770"}},
		"accounts":              {map[string]fs.FileMode{"accounts.yaml": 0o644}, map[string]string{"accounts.yaml": "0644"}},
		"a secret, by a group":  {map[string]fs.FileMode{"token.secret": 0o660}, map[string]string{"token.secret": "0660"}},
		"a generated key":       {map[string]fs.FileMode{"data": 0o711, "data/store.key": 0o604}, map[string]string{"data": "0711", "data/store.key": "0604"}},
		"open in a closed room": {map[string]fs.FileMode{"data": 0o700, "data/store.key": 0o644}, nil},
		"behind a closed door":  {map[string]fs.FileMode{".": 0o700, "data": 0o777, "accounts.yaml": 0o644}, map[string]string{"data": "0777"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(openRoom(t), "it's here")
			config := listenAnywhere + memoryStore + routes + "token: {secret_file: token.secret}\ndata_dir: data\n"
			for path, content := range map[string]string{
				"config.yaml": config, "accounts.yaml": alice, "token.secret": "01234567890123456789012345678901", "data/store.key": "01234567890123456789012345678901",
			} {
				if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, path), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Chmod(filepath.Join(dir, "data"), 0o700); err != nil {
				t.Fatal(err)
			}
			for path, mode := range test.modes {
				if err := os.Chmod(filepath.Join(dir, path), mode); err != nil {
					t.Fatal(err)
				}
			}
			var stderr output
			a := open(t, filepath.Join(dir, "config.yaml"), &stderr)
			defer shut(t, a)
			got := stderr.logged(t, exposureMessage)
			if len(got) != len(test.want) {
				t.Errorf("%d warnings, want %d\n%s", len(got), len(test.want), stderr.String())
			}
			for _, record := range got {
				path, _ := record["path"].(string)
				place, err := filepath.Rel(dir, path)
				if err != nil || record["mode"] != test.want[place] || record["level"] != "WARN" {
					t.Errorf("%v, %v", record, err)
				}
				command, _ := record["command"].(string)
				if out, err := exec.Command("sh", "-c", command).CombinedOutput(); err != nil {
					t.Errorf("%s: %v %s", command, err, out)
				}
			}
			if left := exposed(a.Config()); len(left) > 0 {
				t.Errorf("after the commands: %v", left)
			}
		})
	}
}

// openRoom returns a folder that others can enter.
func openRoom(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for at := dir; at != filepath.Clean(os.TempDir()); at = filepath.Dir(at) {
		if err := os.Chmod(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
