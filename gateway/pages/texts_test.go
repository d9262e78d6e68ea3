package pages

import (
	"io"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/text/language"
)

var (
	// inTemplate and inCode match the uses of a text: {{t "key"}}, l.text("key").
	inTemplate = regexp.MustCompile(`\b(t|titled|strong|count) "([^"]+)"`)
	inCode     = regexp.MustCompile(`\.(text|strong|count)\("([^"]+)"`)
	inAll      = regexp.MustCompile(`\.all\["([^"]+)"\]`)
	inParts    = regexp.MustCompile(`return "([a-z]+\.[a-z]+)"`)  // of the titles of the account's parts
	inProblems = regexp.MustCompile(`return "(problem\.[a-z]+)"`) // of the keys .title and .text
)

// usedTexts returns the keys that the templates and the code name.
func usedTexts(t *testing.T) []string {
	t.Helper()
	keys := map[string]bool{}
	add := func(files fs.FS, pattern string, uses *regexp.Regexp, key, function int) {
		names, err := fs.Glob(files, pattern)
		if err != nil || len(names) == 0 {
			t.Fatalf("no files %s: %v", pattern, err)
		}
		for _, name := range names {
			content, err := fs.ReadFile(files, name)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			for _, match := range uses.FindAllStringSubmatch(string(content), -1) {
				if function > 0 && match[function] == "count" {
					keys[match[key]+".other"] = true
				} else {
					keys[match[key]] = true
				}
			}
		}
	}
	add(templates, "templates/*.html", inTemplate, 2, 1)
	add(os.DirFS("."), "*.go", inCode, 2, 1)
	add(os.DirFS("."), "*.go", inAll, 1, 0)
	add(os.DirFS("."), "manage.go", inParts, 1, 0)
	add(os.DirFS("."), "problem.go", inProblems, 1, 0)
	for key := range maps.Clone(keys) {
		if inProblems.MatchString(`return "` + key + `"`) {
			delete(keys, key)
			keys[key+".title"], keys[key+".text"] = true, true
		}
	}
	return slices.Sorted(maps.Keys(keys))
}

// The texts are those that a YAML parser finds in the files, and a line that has none is an error.
func TestTextFilesAreYAML(t *testing.T) {
	t.Parallel()
	languages, err := readTexts()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range languages {
		content, err := textFiles.ReadFile("texts/" + l.tag.String() + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		var want map[string]string
		if err := yaml.UnmarshalWithOptions(content, &want, yaml.Strict()); err != nil {
			t.Errorf("%s: %v", l.tag, err)
		} else if diff := cmp.Diff(want, l.all); diff != "" {
			t.Errorf("%s: a YAML parser (-) and the gateway (+) read different texts:\n%s", l.tag, diff)
		}
	}
	for _, content := range []string{"a: 1\na: 2\n", "a: 1\n  more\n", "a:1\n"} {
		if all, err := readLines(content); err == nil {
			t.Errorf("%q is read as %v", content, all)
		}
	}
}

// formsOf returns the last parts of the names of texts that count something in a language.
func formsOf(tag language.Tag) []string {
	forms := map[string]bool{"other": true}
	for n := range 1000 {
		forms[pluralForm(tag, n)] = true
	}
	return slices.Sorted(maps.Keys(forms))
}

// Each language has the texts that are used, with the same places for values, and
// no others. It has the forms in which it counts.
func TestTexts(t *testing.T) {
	t.Parallel()
	languages, err := readTexts()
	if err != nil {
		t.Fatal(err)
	}
	if len(languages) < 2 || languages[0].tag.String() != fallback {
		t.Fatalf("the languages are %v; expected English first, and German", languages)
	}
	used := usedTexts(t)
	for _, l := range languages {
		var want []string
		for _, name := range used {
			counted, ok := strings.CutSuffix(name, ".other")
			if !ok || strings.HasPrefix(name, "problem.") {
				want = append(want, name)
				continue
			}
			for _, form := range formsOf(l.tag) {
				want = append(want, counted+"."+form)
			}
		}
		slices.Sort(want)
		if diff := cmp.Diff(want, slices.Sorted(maps.Keys(l.all))); diff != "" {
			t.Errorf("%s: texts that are missing (-) and unused (+):\n%s", l.tag, diff)
		}
		for name, text := range l.all {
			if strings.TrimSpace(text) != text {
				t.Errorf("%s: %s is %q", l.tag, name, text)
			}
			if err := CheckText(name, text); err != nil {
				t.Errorf("%s: %s: %q %v", l.tag, name, text, err)
			}
		}
	}
}

func TestLanguage(t *testing.T) {
	t.Parallel()
	set := newSet(t, Options{})
	for _, tt := range []struct {
		accept []string
		want   string
	}{
		{nil, "en"},
		{[]string{""}, "en"},
		{[]string{"*"}, "en"},
		{[]string{"de"}, "de"},
		{[]string{"de-AT,de;q=0.9,en;q=0.8"}, "de"},
		{[]string{"en-GB,en;q=0.9,de;q=0.8"}, "en"},
		{[]string{"en;q=0.3, de;q=0.7"}, "de"},
		{[]string{"de;q=0.3", "en;q=0.7"}, "en"},
		{[]string{"sv-SE, sv;q=0.9, de;q=0.5"}, "de"},
		{[]string{"sv"}, "en"},
		{[]string{"de;q=0, sv"}, "en"},
		{[]string{"fr-CA, fr;q=0.9, en;q=0.5"}, "fr"},
		{[]string{"es-419"}, "es"},
		{[]string{"it-CH"}, "it"},
		{[]string{"nl-BE"}, "nl"},
		{[]string{"pl"}, "pl"},
		{[]string{"pt-BR"}, "pt"},
		{[]string{"pt-PT"}, "pt"},
		{[]string{";;,=,q=1"}, "en"},
		{[]string{strings.Repeat("x-", 5000)}, "en"},
	} {
		p := set.In("", tt.accept)
		page := rendered(t, func(w io.Writer) error { return p.SignIn(w, SignIn{}) })
		if lang := attr(elements(page, "html")[0], "lang"); p.Language() != tt.want || lang != tt.want {
			t.Errorf("%.60q: language %q, lang=%q, want %q", tt.accept, p.Language(), lang, tt.want)
		}
	}
}

// Values are put in the places of a text, as they are. What looks like a place in a
// value is none.
func TestText(t *testing.T) {
	t.Parallel()
	languages, err := readTexts()
	if err != nil {
		t.Fatal(err)
	}
	en, de := languages[0], languages[slices.IndexFunc(languages, func(l *texts) bool { return l.tag.String() == "de" })]
	at := time.Date(2030, 3, 2, 23, 4, 5, 0, time.FixedZone("", -3600))
	check := func(want string) func(string, error) {
		return func(got string, err error) {
			t.Helper()
			if err != nil || got != want {
				t.Errorf("%q (%v), want %q", got, err, want)
			}
		}
	}
	check("Sign in to a.example")(en.text("signin.heading", "host", "a.example"))
	check("Sign in to {host}{x}")(en.text("signin.heading", "host", "{host}{x}"))
	check("3 March 2030, 00:04 UTC")(en.date(at))
	check("3. März 2030, 00:04 Uhr (UTC)")(de.date(at))
	html, err := en.strong("signin.heading", "host", "<b>&")
	check("Sign in to <strong>&lt;b&gt;&amp;</strong>")(string(html), err)
	if got, err := en.text("no such text"); err == nil {
		t.Errorf("a text that is missing is %q", got)
	}
}
