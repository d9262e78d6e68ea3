package documents

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"authgate/e2e/world"

	"github.com/goccy/go-yaml"
)

// checkRatios checks that the numbers of the short table are those of the long one.
func checkRatios(t *testing.T, short, long string) {
	t.Helper()
	columns := []string{"session", "session, access log", "nginx", "HAProxy"}
	row := regexp.MustCompile(`(?m)^\| (.+ HTTP/.+?) ` + strings.Repeat(`\| ([0-9.]*) ?`, len(columns)) + `\|$`)
	rows := row.FindAllStringSubmatch(short, -1)
	if len(rows) < 5 {
		t.Errorf("docs/performance.md has %d rows of ratios", len(rows))
	}
	for _, row := range rows {
		for i, column := range columns {
			measured := regexp.MustCompile(`(?m)^\| ` + row[1] + ` +\| ` + column + ` +\| ([0-9.]+) `).FindStringSubmatch(long)
			if measured == nil && row[2+i] == "" {
				continue
			}
			if measured == nil {
				t.Fatalf("docs/benchmarks.md has no %s of %s", column, row[1])
			}
			ratio := world.Must(strconv.ParseFloat(measured[1], 64))(t)
			if want := strconv.FormatFloat(ratio, 'f', 2, 64); row[2+i] != want {
				t.Errorf("docs/performance.md says that %s of %s is %s, docs/benchmarks.md %s", column, row[1], row[2+i], want)
			}
		}
	}
}

// TestDocsReadme checks that README.md begins with what authgate is, and that each number by
// which it persuades is on the page to which it links.
func TestDocsReadme(t *testing.T) {
	t.Parallel()
	docs := world.Documents(t)
	readme := docs["README.md"]
	const first = "# authgate\n\n" +
		"Sign-in for applications that have none: proxy, passkeys and OpenID provider in one file.\n"
	if !strings.HasPrefix(readme.Text, first) {
		t.Errorf("README.md begins with %q", readme.Text[:len(first)])
	}
	performance := docs["docs/performance.md"].Prose
	checkRatios(t, performance, docs["docs/benchmarks.md"].Prose)
	for version, told := range map[string]string{"HTTP/1.1": "0.75", "HTTP/2": "0.62"} {
		row := regexp.MustCompile(`(?m)^\| GET ` + version + ` \| [0-9.]+ \| ([0-9.]+) \|`).FindStringSubmatch(performance)
		if row == nil || row[1] != told || !strings.Contains(readme.Prose, told) {
			t.Errorf("README.md says %s of the time over %s, docs/performance.md %q", told, version, row)
		}
	}
	advisories, _, _ := strings.Cut(docs["docs/security-advisories.md"].Prose, "## Not replayed")
	for claim, counted := range map[string]int{
		`more than (\d+) programs of others`: strings.Count(docs["docs/interop.md"].Prose, "| passed |"),
		`more than (\d+) \[published faults`: len(advisoryID.FindAllString(advisories, -1)),
	} {
		found := regexp.MustCompile(claim).FindStringSubmatch(strings.ReplaceAll(readme.Prose, "\n", " "))
		if found == nil {
			t.Errorf("README.md does not say %q", claim)
			continue
		}
		if claimed := world.Must(strconv.Atoi(found[1]))(t); counted <= claimed {
			t.Errorf("README.md says %q, and the page has %d", found[0], counted)
		}
	}
}

// picture matches the file that an image shows.
var picture = regexp.MustCompile(` (?:src|srcset)="([^":]+)"`)

// TestDocsPictures checks that the pictures are there that documents show.
func TestDocsPictures(t *testing.T) {
	t.Parallel()
	shown := 0
	for name, doc := range world.Documents(t) {
		for _, found := range picture.FindAllStringSubmatch(doc.Prose, -1) {
			shown++
			if _, err := os.Stat(world.Path(path.Join(path.Dir(name), found[1]))); err != nil {
				t.Errorf("%s shows a picture that is not there: %v", name, err)
			}
		}
	}
	if shown < 40 {
		t.Errorf("the documents show %d pictures", shown)
	}
}

// TestDocsTemplates checks the forms in which people report: each field has an id of its own and
// a label, and the documents that a form names are there.
func TestDocsTemplates(t *testing.T) {
	t.Parallel()
	forms := world.Must(filepath.Glob(world.Path(".github/ISSUE_TEMPLATE/*.yml")))(t)
	if len(forms) < 2 {
		t.Errorf("there are the forms %q", forms)
	}
	for _, file := range append(forms, world.Path(".github/pull_request_template.md")) {
		text := world.ReadFile(t, file)
		for _, named := range regexp.MustCompile(`[\w/-]+\.md`).FindAllString(text, -1) {
			if _, err := os.Stat(world.Path(named)); err != nil {
				t.Errorf("%s names %s: %v", file, named, err)
			}
		}
		if !strings.HasSuffix(file, ".yml") {
			continue
		}
		var form struct {
			Name, Description string
			Body              []struct {
				Type, ID   string
				Attributes struct{ Label, Value string }
			}
		}
		if err := yaml.Unmarshal([]byte(text), &form); err != nil || form.Name == "" || form.Description == "" {
			t.Errorf("%s: %v %+v", file, err, form)
		}
		ids := map[string]bool{}
		for _, field := range form.Body {
			markdown := field.Type == "markdown" && field.Attributes.Value != ""
			if !markdown && (field.ID == "" || ids[field.ID] || field.Attributes.Label == "") {
				t.Errorf("%s: the field %+v", file, field)
			}
			ids[field.ID] = true
		}
	}
}

// TestDocsChangelog checks that the change log says nothing twice, as after a merge that went
// wrong, and that it has sections with a version and a date below Unreleased.
func TestDocsChangelog(t *testing.T) {
	t.Parallel()
	section, said := regexp.MustCompile(`^## \d+\.\d+\.\d+ - \d{4}-\d\d-\d\d$`), map[string]bool{}
	for line := range strings.Lines(world.ReadDocument(t, "CHANGELOG.md").Prose) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "## ") && line != "## Unreleased" && !section.MatchString(line) {
			t.Errorf("CHANGELOG.md: %q is no section with a version and a date", line)
		}
		if len(line) > 20 && said[line] {
			t.Errorf("CHANGELOG.md has twice: %s", line)
		}
		said[line] = true
	}
	if !said["## Unreleased"] {
		t.Error("CHANGELOG.md has no section Unreleased")
	}
}
