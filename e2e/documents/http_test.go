package documents

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"authgate/e2e/world"
)

// statusNamed matches where the source names a status of an error.
var statusNamed = regexp.MustCompile(`\bhttp\.Status([A-Z]\w+)|\banswer\((\d+),`)

// TestDocsStatuses checks that the table of errors in http.md has each status that
// the gateway gives, and no other.
func TestDocsStatuses(t *testing.T) {
	t.Parallel()
	const page = "docs/http.md"
	byName := map[string]string{}
	for status := 400; status < 600; status++ {
		if text := http.StatusText(status); text != "" {
			byName[strings.NewReplacer(" ", "", "-", "", "'", "").Replace(text)] = strconv.Itoa(status)
		}
	}
	given := map[string]bool{"431": true} // by Go's server
	for dir, p := range testPackages(t) {
		if dir != "gateway/proxy/web" && dir != "gateway/proxy/server" && !strings.Contains(p.product,
			`"authgate/gateway/proxy/web"`) {
			continue // it answers nothing
		}
		for _, found := range statusNamed.FindAllStringSubmatch(p.product, -1) {
			if status := byName[found[1]] + found[2]; status != "" {
				given[status] = true
			}
		}
	}
	_, errors, _ := strings.Cut(world.ReadDocument(t, page).Prose, "\n## Errors\n")
	errors, _, _ = strings.Cut(errors, "\n## ")
	listed := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| (\d{3}) \| `).FindAllStringSubmatch(errors, -1) {
		listed[row[1]] = true
		if !given[row[1]] {
			t.Errorf("%s lists the status %s, which the gateway does not give", page, row[1])
		}
	}
	for status := range given {
		if !listed[status] {
			t.Errorf("%s does not say when the status is %s", page, status)
		}
	}
	if len(listed) < 10 {
		t.Errorf("%s lists %d statuses", page, len(listed))
	}
}

// ownPath matches where the source names a path outside of the prefix of the gateway's own
// endpoints: a well-known one, or one of the admin listener.
var ownPath = regexp.MustCompile(`"(/\.well-known/[a-z-]+)"|mux\.\w+\("(GET /[a-z]+)"`)

// TestDocsPaths checks that the pages about HTTP have each path of the gateway outside of its
// prefix. A test of package gateway checks those below it.
func TestDocsPaths(t *testing.T) {
	t.Parallel()
	pages := world.ReadDocument(t, "docs/http.md").Prose + world.ReadDocument(t, "docs/http/oauth.md").Prose
	packages := testPackages(t)
	found := ownPath.FindAllStringSubmatch(packages["gateway/config"].product+packages["gateway/proxy/server"].product, -1)
	for _, one := range found {
		if path := one[1] + one[2]; !strings.Contains(pages, "`"+path) {
			t.Errorf("the pages about HTTP do not name %s", path)
		}
	}
	if len(found) < 7 {
		t.Errorf("the source names %d paths", len(found))
	}
}
