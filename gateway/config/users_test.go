package config

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
)

// The file of accounts is found in a configuration with other mistakes, and not in one
// that may mean another file.
func TestUsersOf(t *testing.T) {
	t.Parallel()
	dir := folder{t, t.TempDir()}
	path := dir.write("good.yaml", "rutes: []\ndata_dir: d\ntoken: {secret: \"${UNSET_VARIABLE}\"}\n"+
		"accounts: {file: people.yaml, users: [{username: Carl}]}\n")
	dataDir, file, err := UsersOf(path)
	if err != nil || dataDir != filepath.Join(dir.dir, "d") || file.Path != filepath.Join(dir.dir, "people.yaml") ||
		len(file.Main) != 1 || file.Main[0].Username != "Carl" {
		t.Errorf("got %s, %+v, %v", dataDir, file, err)
	}
	for name, content := range map[string]string{
		"syntax": "a: [\n", "file": "accounts: {file: [x]}\n", "section": "accounts: []\n",
		"users":    "accounts: {users: [{username: [x]}]}\n",
		"data_dir": "data_dir: {}\n", "misspelled": "accounts: {fil: x}\n",
	} {
		if _, _, err := UsersOf(dir.write("bad.yaml", content)); !isDiagnostics(err) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, _, err := UsersOf(filepath.Join(dir.dir, "no.yaml")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

func isDiagnostics(err error) bool {
	_, ok := errors.AsType[Diagnostics](err)
	return ok
}
