package pages

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/text/language"
)

// Each file has the texts of one language, and its name is the tag of the language
// (BCP 47). To add a language, add a file with all texts. To add a text, add it to
// each file, and write {{t "its.name"}} in a template. The files are YAML, so that operators
// can copy lines into theirs, with one text in each line; see readLines.
//
//go:embed texts/*.yaml
var textFiles embed.FS

// fallback is the language of browsers that ask for none that there is. Its file has the names of
// all texts, and their places for values.
const fallback = "en"

// ownName is the text with the name of a language, in that language.
const ownName = "language.name"

// pluralForms are the last parts of the names of texts that count something. A language needs
// those in which it counts.
var pluralForms = []string{"zero", "one", "two", "few", "many", "other"}

// builtIn returns the texts of all languages that the gateway brings along, the fallback first.
// They are read once, and must not be changed.
var builtIn = sync.OnceValues(readTexts)

func readTexts() ([]*texts, error) {
	files, err := textFiles.ReadDir("texts")
	if err != nil {
		return nil, err
	}
	var languages []*texts
	for _, file := range files {
		content, err := textFiles.ReadFile("texts/" + file.Name())
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(file.Name(), path.Ext(file.Name()))
		l := &texts{}
		if l.tag, err = language.Parse(name); err != nil {
			return nil, fmt.Errorf("the name of %s is not a language: %w", file.Name(), err)
		}
		if l.all, err = readLines(string(content)); err != nil {
			return nil, fmt.Errorf("%s: %w", file.Name(), err)
		}
		if name == fallback {
			languages = append([]*texts{l}, languages...)
		} else {
			languages = append(languages, l)
		}
	}
	return languages, nil
}

// readLines returns the texts of a file. It takes a twentieth of the time of a YAML parser, which
// was half of the time of each start.
func readLines(content string) (map[string]string, error) {
	all := map[string]string{}
	for line := range strings.Lines(content) {
		line = strings.TrimRight(line, "\r\n")
		if line == "" || line[0] == '#' {
			continue
		}
		name, text, ok := strings.Cut(line, ": ")
		if unquoted, err := strconv.Unquote(text); err == nil {
			text = unquoted
		}
		if _, twice := all[name]; !ok || twice {
			return nil, fmt.Errorf("%q is no text, or the second one of its name", line)
		}
		all[name] = text
	}
	return all, nil
}

// index returns where a language is among others, or -1.
func index(languages []*texts, tag language.Tag) int {
	return slices.IndexFunc(languages, func(l *texts) bool { return l.tag == tag })
}

// ParseLanguage returns the tag of a language in the form that [Texts] has.
func ParseLanguage(tag string) (string, error) {
	parsed, err := language.Parse(tag)
	if err != nil || parsed.IsRoot() {
		return "", fmt.Errorf("%q is no tag of a language; expected one like sv or pt-BR", tag)
	}
	return parsed.String(), nil
}
