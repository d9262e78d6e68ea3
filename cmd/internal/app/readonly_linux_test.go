package app

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// Modes do not count where nobody can write.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	if readOnly(t.TempDir()) {
		t.Error("a folder for tests is read-only")
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	closed := map[string]bool{}
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line) // device, path, kind, options
		path := fields[1]
		maps.DeleteFunc(closed, func(hidden string, _ bool) bool {
			return strings.HasPrefix(hidden+"/", strings.TrimSuffix(path, "/")+"/")
		})
		if slices.Contains(strings.Split(fields[3], ","), "ro") {
			closed[path] = true
		}
	}
	for path := range closed {
		if _, err := os.Stat(path); err == nil && !readOnly(path) {
			t.Errorf("%s is mounted read-only, and seems writable", path)
		}
	}
}
