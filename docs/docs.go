// Package docs gives programs what the documents say about keys of the
// configuration, so that it is written in one place.
package docs

import (
	_ "embed"
	"regexp"
)

//go:embed configuration.md
var configuration string

var (
	// row matches a row of a table about keys. A table about policies has three
	// columns: key, type, meaning. The others have five: key, type, default, meaning,
	// mistakes.
	row = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| [^|]* \\| ([^|]*) \\|(?: ([^|]*) \\|[^|]*\\|)?$")
	// link matches a link, whose text is kept.
	link = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// Meanings returns what configuration.md says about each key, as plain text. In a
// key, NAME is a name of the user's choice, and [] an element of a list.
func Meanings() map[string]string {
	meanings := map[string]string{}
	for _, found := range row.FindAllStringSubmatch(configuration, -1) {
		text := found[3]
		if text == "" {
			text = "It holds when " + found[2] + "."
		}
		meanings[found[1]] = link.ReplaceAllString(text, "$1")
	}
	return meanings
}
