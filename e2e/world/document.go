package world

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// Document is one Markdown file.
type Document struct {
	Name   string // from the top of the repository, with slashes
	Text   string
	Prose  string // the text without blocks
	Blocks []Block
}

// Block is a fenced code block.
type Block struct {
	Line  int // of its opening, from 1
	Info  string
	Lines []string
}

// Text is the lines of the block.
func (b *Block) Text() string { return strings.Join(b.Lines, "\n") + "\n" }

// File is the name of the file that the block shows, if it shows one.
func (b *Block) File() (name string, ok bool) {
	_, name, _ = strings.Cut(b.Info, " ")
	return name, strings.Contains(name, ".")
}

// ReadDocument reads a Markdown file of the repository, such as docs/http.md.
func ReadDocument(t testing.TB, name string) *Document {
	t.Helper()
	return ParseDocument(t, name, ReadFile(t, Path(name)))
}

// Documents reads all Markdown files that are shown to people, by their names.
func Documents(t testing.TB) map[string]*Document {
	t.Helper()
	docs := map[string]*Document{}
	read := func(file string) {
		name := filepath.ToSlash(Must(filepath.Rel(Path(""), file))(t))
		docs[name] = ReadDocument(t, name)
	}
	for _, file := range Must(filepath.Glob(Path("*.md")))(t) {
		read(file)
	}
	NoError(t, filepath.WalkDir(Path("docs"), func(file string, _ os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(file, ".md") {
			read(file)
		}
		return err
	}))
	for _, name := range []string{"README.md", "docs/README.md"} {
		if docs[name] == nil {
			t.Fatalf("%s is missing", name)
		}
	}
	return docs
}

// ParseDocument divides the text of a document into prose and blocks.
func ParseDocument(t testing.TB, name, text string) *Document {
	t.Helper()
	doc := &Document{Name: name, Text: text}
	var open *Block
	for i, line := range strings.Split(text, "\n") {
		info, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && open == nil:
			open = &Block{Line: i + 1, Info: strings.TrimSpace(info)}
		case fence:
			doc.Blocks, open = append(doc.Blocks, *open), nil
		case open != nil:
			open.Lines = append(open.Lines, line)
		default:
			doc.Prose += line + "\n"
		}
	}
	if open != nil {
		t.Fatalf("%s:%d: the block is not closed", name, open.Line)
	}
	return doc
}

// DocumentedApp returns the configuration for an upstream as a page of docs/applications
// shows it, with the address where the application is in the test.
func DocumentedApp(t testing.TB, page, upstream, address string) string {
	t.Helper()
	name := "docs/applications/" + page
	for _, b := range ReadDocument(t, name).Blocks {
		if b.Info != "yaml fragment" {
			continue
		}
		upstreams, _ := DecodeYAML(t, b.Text())["upstreams"].(map[string]any)
		shown, _ := upstreams[upstream].(map[string]any)
		if url, _ := shown["url"].(string); url != "" {
			return Substituted(t, b.Text(), url, address)
		}
	}
	t.Fatalf("%s has no configuration with the upstream %s", name, upstream)
	return ""
}

// exampleHost is a host in a document.
var exampleHost = regexp.MustCompile(`[a-z]+\.example\.org/`)

// AtLocalhost returns a configuration whose routes are at localhost instead of the hosts of
// a document, for programs that know no other name of this machine.
func AtLocalhost(config string) string { return exampleHost.ReplaceAllString(config, "localhost/") }

// DocumentedFile returns a file that a document shows. Its accounts have the password
// wonderland.
func DocumentedFile(t testing.TB, document, file string) string {
	t.Helper()
	for _, b := range ReadDocument(t, document).Blocks {
		if shown, ok := b.File(); ok && shown == file {
			return strings.ReplaceAll(b.Text(), "$2y$10$…", WonderlandHash)
		}
	}
	t.Fatalf("%s does not show %s", document, file)
	return ""
}

// addressLines are the lines of a configuration that an Instance writes itself.
var addressLines = regexp.MustCompile(`(?m)^(public_url|listen|tls|shutdown_delay):.*\n`)

// WithoutAddresses removes the lines of a configuration that an Instance writes itself.
func WithoutAddresses(config string) string { return addressLines.ReplaceAllString(config, "") }

// ReadFile reads a file.
func ReadFile(t testing.TB, name string) string {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// WriteAll writes files, by their names in a folder.
func WriteAll(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
}

// DecodeYAML decodes a mapping.
func DecodeYAML(t testing.TB, text string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := yaml.Unmarshal([]byte(text), &m); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return m
}

// upstreamsSection is a section of a configuration: its key, and lines that do not begin
// another one.
var upstreamsSection = regexp.MustCompile(`(?m)^upstreams:.*\n([ #].*\n|\n)*`)

// withoutFastPath returns a configuration whose upstreams have fast_path: false unless they
// say otherwise. One that is no YAML stays as it is, and so do other sections: tests look for
// their text.
func withoutFastPath(config string) string {
	var m map[string]any
	if yaml.Unmarshal([]byte(config), &m) != nil {
		return config
	}
	upstreams, _ := m["upstreams"].(map[string]any)
	for _, upstream := range upstreams {
		if keys, ok := upstream.(map[string]any); ok && keys["fast_path"] == nil {
			keys["fast_path"] = false
		}
	}
	section, err := yaml.Marshal(map[string]any{"upstreams": upstreams})
	if err != nil || upstreams == nil {
		return config
	}
	return upstreamsSection.ReplaceAllLiteralString(config+"\n", string(section))
}

// Substituted replaces parts of a text, all of which must be there.
func Substituted(t testing.TB, text string, pairs ...string) string {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			t.Fatalf("the text does not have %q:\n%s", pairs[i], text)
		}
	}
	return strings.NewReplacer(pairs...).Replace(text)
}
