package documents

import (
	"fmt"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"authgate/e2e/world"
)

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// linksOf are the targets of the document's links within the repository: a file from
// its top, with slashes, and a heading in it or "".
func linksOf(d *world.Document) (all [][2]string) {
	for _, found := range link.FindAllStringSubmatch(d.Prose, -1) {
		if strings.Contains(found[1], ":") {
			continue // another site
		}
		file, anchor, _ := strings.Cut(found[1], "#")
		target := d.Name
		if file != "" {
			target = path.Join(path.Dir(d.Name), file)
		}
		all = append(all, [2]string{target, anchor})
	}
	return all
}

// TestDocsLinks follows the links within the repository.
func TestDocsLinks(t *testing.T) {
	t.Parallel()
	docs, headings := world.Documents(t), map[string]map[string]bool{}
	for name, doc := range docs {
		headings[name] = anchorsOf(doc)
	}
	for name, doc := range docs {
		for _, to := range linksOf(doc) {
			target, anchor := to[0], to[1]
			if _, err := os.Stat(world.Path(target)); err != nil {
				t.Errorf("%s: the link to %s leads nowhere: %v", name, target, err)
			} else if anchor != "" && !headings[target][anchor] {
				t.Errorf("%s: the link to %s#%s leads to no heading", name, target, anchor)
			}
		}
		outsideCode := regexp.MustCompile("`[^`\n]+`").ReplaceAllString(doc.Prose, "")
		if undefined := regexp.MustCompile(`\]\[|(?m)^\[[^]]+\]: `).FindString(outsideCode); undefined != "" {
			t.Errorf("%s: the link at %q is not of the form [text](target), so nothing checks it", name, undefined)
		}
	}
}

// anchorsOf are the names in links of the headings and of the rows that have an id. The
// second heading of the same name ends in -1, the next in -2.
func anchorsOf(d *world.Document) map[string]bool {
	all, times := map[string]bool{}, map[string]int{}
	for _, found := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(d.Prose, -1) {
		text := regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`).ReplaceAllString(found[1], "$1")
		kept := regexp.MustCompile(`[^\pL\pN _-]`).ReplaceAllString(text, "")
		anchor := strings.ToLower(strings.ReplaceAll(kept, " ", "-"))
		if n := times[anchor]; n > 0 {
			all[fmt.Sprintf("%s-%d", anchor, n)] = true
		}
		times[anchor]++
		all[anchor] = true
	}
	for _, found := range regexp.MustCompile(`<a id="([^"]+)"></a>`).FindAllStringSubmatch(d.Prose, -1) {
		all[found[1]] = true
	}
	return all
}

// TestDocsLength checks that each page can be read in half an hour.
func TestDocsLength(t *testing.T) {
	t.Parallel()
	const most = 6000
	for name, doc := range world.Documents(t) {
		if words := len(strings.Fields(doc.Text)); words > most {
			t.Errorf("%s has %d words, want at most %d", name, words, most)
		}
	}
}

// docsIndex is where readers begin: with their situation, then with the four kinds of
// documents.
const (
	docsIndex       = "docs/README.md"
	fewestEntrances = 7
)

// TestDocsIndex checks that docs/README.md begins with situations, lists each page under
// docs, and tells its use. A listed page may list the pages of its folder: README.md, or NAME.md beside
// the folder NAME.
func TestDocsIndex(t *testing.T) {
	t.Parallel()
	docs := world.Documents(t)
	index := docs[docsIndex]
	if index == nil {
		t.Fatalf("there is no %s", docsIndex)
	}
	var parts []string
	for _, found := range regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(index.Prose, -1) {
		parts = append(parts, found[1])
	}
	if got := strings.Join(parts, ", "); got != "Tutorial, How-to, Reference, Explanation" {
		t.Errorf("%s has the parts %s", docsIndex, got)
	}
	listed := map[string]bool{docsIndex: true}
	for _, to := range linksOf(index) {
		listed[to[0]] = true
		folder := path.Dir(to[0])
		if path.Base(to[0]) != "README.md" {
			folder = strings.TrimSuffix(to[0], ".md")
		}
		if page := docs[to[0]]; page != nil && folder != "." {
			for _, below := range linksOf(page) {
				listed[below[0]] = listed[below[0]] || path.Dir(below[0]) == folder
			}
		}
	}
	for name := range docs {
		if strings.HasPrefix(name, "docs/") && !listed[name] {
			t.Errorf("%s does not list %s", docsIndex, name)
		}
	}
	entrances := 0
	rows := map[string]bool{}
	for line := range strings.Lines(index.Prose) {
		if regexp.MustCompile(`^- \*\*\w.*\]\(`).MatchString(line) {
			entrances++
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| Page ") {
			continue
		}
		if len(cells) != 2 || !link.MatchString(cells[0]) || len(cells[1]) < 20 {
			t.Errorf("%s: the row does not name a page and what the reader gets: %s", docsIndex, line)
		}
		for _, to := range link.FindAllStringSubmatch(cells[0], -1) {
			if rows[to[1]] {
				t.Errorf("%s has two rows for %s", docsIndex, to[1])
			}
			rows[to[1]] = true
		}
	}
	if entrances < fewestEntrances {
		t.Errorf("%s has %d situations that lead to a page, fewer than %d", docsIndex, entrances, fewestEntrances)
	}
}
