package apps

import (
	"os/exec"
	"strings"
	"testing"
)

// runs runs a command that must succeed, and returns what it prints.
func runs(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return string(out)
}
