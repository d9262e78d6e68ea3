package oauth

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"authgate/e2e/world"
)

// runProgram runs a program to its end. A line "open ADDRESS", or an address of the gateway, is what
// the program asks of its user, who signs in and allows it.
func runProgram(t *testing.T, g *world.Instance, name string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*world.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	authority := filepath.Join(g.Dir, g.CA)
	cmd.Env = append(os.Environ(), "NODE_EXTRA_CA_CERTS="+authority, "SSL_CERT_FILE="+authority,
		"REQUESTS_CA_BUNDLE="+authority)
	said := &world.Output{}
	cmd.Stderr = said
	out := world.Must(cmd.StdoutPipe())(t)
	world.NoError(t, cmd.Start())
	person := user{world.Browse(g)}
	person.T = t
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if address, ok := strings.CutPrefix(lines.Text(), "open "); ok || strings.HasPrefix(address, g.Base+"/") {
			person.allow(address)
		} else {
			t.Log(lines.Text())
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%s: %v\n%s\nthe browser shows %s", filepath.Base(args[0]), err, said, person.Describe())
	}
}

// node runs a program of testdata in Node.js.
func node(t *testing.T, g *world.Instance, program string, args ...string) {
	t.Helper()
	if _, err := os.Stat("node_modules/openid-client"); err != nil {
		t.Fatalf("the libraries are not installed, run make deps: %v", err)
	}
	runProgram(t, g, "node", append([]string{filepath.Join("testdata", program)}, args...)...)
}
