package redis

import (
	"os/exec"
	"strings"
	"testing"

	"authgate/e2e/world"
)

// TestRedisSessions: with Redis, the commands at one instance list the logins of all,
// and end one everywhere.
func TestRedisSessions(t *testing.T) {
	t.Parallel()
	p := startPair(t, world.StartRedis(t), "")
	alice, bob := p.signIn("alice"), p.signIn("bob")
	command := func(g *world.Instance, args ...string) string {
		t.Helper()
		cmd := exec.Command(world.Program("authgate"), args...)
		cmd.Dir = g.Dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	var ids []string
	for name, g := range p.both() {
		list := command(g, "sessions", "list")
		if strings.Count(list, "\n") != 2 {
			t.Errorf("%s lists\n%s", name, list)
		}
		for line := range strings.Lines(list) {
			if fields := strings.Fields(line); fields[1] == "alice" {
				ids = append(ids, fields[0])
			}
		}
	}
	if len(ids) != 2 || ids[0] != ids[1] {
		t.Fatalf("the login of alice is %q", ids)
	}
	command(p.b, "sessions", "end", ids[0])
	p.wantEnded(t, alice)
	p.wantAlive(t, bob)
}
