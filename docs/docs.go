// Package docs gives programs the descriptions of the keys of the
// configuration, so that they are written in one place.
package docs

import (
	"embed"
	"fmt"
	"io/fs"
	"regexp"
	"strings"
)

//go:embed configuration/*.md
var pages embed.FS

var (
	// entry matches the description of a key: the key, and the paragraph after the
	// line with its type and its default.
	entry = regexp.MustCompile("(?m)^- `([^`]+)` \\(.*\\)\n\n((?:  .+\n)+)")
	// link matches a link, whose text is kept.
	link = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// Meanings returns the description of each key on the pages about the
// configuration, as plain text. In a key, NAME is a name of the user's choice, and
// [] an element of a list.
func Meanings() map[string]string {
	meanings := map[string]string{}
	names, err := fs.Glob(pages, "configuration/*.md")
	if err != nil {
		panic(err) // the pattern is a constant
	}
	for _, name := range names {
		page, err := pages.ReadFile(name)
		if err != nil {
			panic(fmt.Sprintf("docs: %v", err)) // it is part of the program
		}
		for _, found := range entry.FindAllStringSubmatch(string(page), -1) {
			text := strings.Join(strings.Fields(found[2]), " ")
			meanings[found[1]] = link.ReplaceAllString(text, "$1")
		}
	}
	return meanings
}
