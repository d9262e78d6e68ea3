package e2e

import (
	"fmt"
	"regexp"
	"testing"
)

var directDependency = regexp.MustCompile(`(?m)^\t(\S+) v\S+$`)

// TestDocsDependencies checks that dependencies.md names each direct dependency
// of the product, and how many there are.
func TestDocsDependencies(t *testing.T) {
	t.Parallel()
	text := readFile(t, "../docs/dependencies.md")
	required := directDependency.FindAllStringSubmatch(readFile(t, "../go.mod"), -1)
	if count := fmt.Sprintf("%d direct dependencies", len(required)); !regexp.MustCompile(count).MatchString(text) {
		t.Errorf("docs/dependencies.md does not say that there are %s", count)
	}
	for _, found := range required {
		if !regexp.MustCompile("(?m)^\\| `" + regexp.QuoteMeta(found[1]) + "` \\| \\S").MatchString(text) {
			t.Errorf("docs/dependencies.md does not say what %s is for", found[1])
		}
	}
}
