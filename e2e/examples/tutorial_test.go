package examples

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"authgate/e2e/world"
)

// Pages that have no demonstration beside them: they begin with nothing, and start the
// application and the gateway themselves.
const (
	tutorialPage     = "docs/tutorial.md"
	secondFactorPage = "docs/how-to/second-factor.md"
	householdPage    = "docs/how-to/household.md"
)

// TestDocsTutorial does what the tutorial says.
func TestDocsTutorial(t *testing.T) {
	t.Parallel()
	beginWithNothing(t, tutorialPage,
		"hash-password", "serve", "explain", "/login", `\b403\b`, `"denied"`, "/logout")
}

// TestDocsSecondFactor does what the page on second factors says, with Debian's oathtool as
// the app for codes.
func TestDocsSecondFactor(t *testing.T) {
	t.Parallel()
	world.FindProgram(t, "oathtool")
	beginWithNothing(t, secondFactorPage,
		"serve", "factors: 2", "/account/totp/confirm", `"factors":\["totp"\]`, "the secret", "reset-factors")
}

// TestDocsHousehold does what the page with four applications says.
func TestDocsHousehold(t *testing.T) {
	t.Parallel()
	beginWithNothing(t, householdPage, "serve", "account/apps", `forbid \(403\)`, "agt_", "sessions end --user")
}

// beginWithNothing does what a page says, in an empty folder, with its own files and nothing
// else. The page shows the steps.
func beginWithNothing(t *testing.T, page string, steps ...string) {
	t.Helper()
	world.FindProgram(t, "python3")
	doc := world.ReadDocument(t, page)
	s := &docShell{t: t, dir: t.TempDir(), place: placePorts(t, `\b(8443|8080|9090|3000)\b`), after: map[string]string{
		"mkdir":   "", // the reader saves files in the folder that this makes
		"python3": "until curl -s -o /dev/null http://127.0.0.1:3000/ 2>/dev/null; do sleep 0.1; done",
		"sed":     `until grep -q '"msg":"reloaded"' gateway.log; do sleep 0.1; done`,
		"kill":    "wait",
		// The line of the access log comes after what the page looks for.
		"curl -b cookies.txt https://localhost:8443/reports/": `until grep -q '"path":"/reports/"' gateway.log; ` +
			"do sleep 0.1; done",
	}}
	files := map[string]string{".curlrc": "silent\nshow-error\n"} // as at a terminal: no progress meter
	for _, b := range doc.Blocks {
		if name, ok := b.File(); ok {
			files[name] = s.place(b.Text())
			s.after["mkdir"] += fmt.Sprintf("mv ../%s .\n", name)
		}
	}
	files["config.yaml"] += s.place(
		"listen: {https: \":8443\", http: \":8080\", admin: \"127.0.0.1:9090\"}\n") // the defaults
	world.WriteAll(t, s.dir, files)
	s.check(doc, commandsOf(t, doc))
	logs := world.Must(filepath.Glob(filepath.Join(s.dir, "*", "*.log")))(t)
	for _, name := range logs {
		if t.Failed() {
			t.Logf("%s:\n%s", name, world.ReadFile(t, name))
		}
	}
	for _, step := range steps {
		if !regexp.MustCompile(step).MatchString(doc.Text) {
			t.Errorf("%s no longer shows %s", page, step)
		}
	}
}

// placePorts returns what replaces each port that a pattern matches, which is in its
// last group, with a free one, always the same.
func placePorts(t *testing.T, pattern string) func(string) string {
	ports, match := map[string]string{}, regexp.MustCompile(pattern)
	return func(text string) string {
		return match.ReplaceAllStringFunc(text, func(found string) string {
			groups := match.FindStringSubmatch(found)
			shown := groups[len(groups)-1]
			if ports[shown] == "" {
				ports[shown] = world.FreePort(t)
			}
			return strings.TrimSuffix(found, shown) + ports[shown]
		})
	}
}
