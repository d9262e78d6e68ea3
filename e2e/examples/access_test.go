package examples

import (
	"testing"

	"authgate/e2e/world"
)

// The recipe for CI passes while a change closes, and fails where one opens a route to a user.
func TestDocsAccessGate(t *testing.T) {
	t.Parallel()
	const page = "docs/how-to/access.md"
	world.FindProgram(t, "git")
	dir := t.TempDir()
	world.WriteAll(t, dir, map[string]string{
		"config.yaml": complete(world.DocumentedFile(t, page, "home.yaml")),
		"gate.sh":     world.DocumentedFile(t, page, "gate.sh"),
	})
	shell := &docShell{t: t, dir: dir, place: func(text string) string { return text }}
	const commit = "git -c user.name=x -c user.email=x@example.org commit --quiet --all --message x"
	shell.check(&world.Document{Name: page}, []command{
		{text: "git init --quiet && git add config.yaml && " + commit},
		{text: "git update-ref refs/remotes/origin/main HEAD"},
		{text: "sed -i 's/policy: family}/policy: admins}/' config.yaml"},
		{text: "sh gate.sh 2>warnings; echo $?", expected: "config.yaml is valid\n" +
			"closes  tom  photos  allow -> forbid\n0\n"},
		{text: "sed -i 's/admins: {roles: .admin.}/admins: {roles: [admin, family]}/' config.yaml"},
		{text: "sh gate.sh 2>warnings; echo $?", expected: "config.yaml is valid\n" +
			"opens  tom  router  forbid -> allow\n" +
			"opens  tom  router  forbid -> allow\n1\n"},
	})
}
