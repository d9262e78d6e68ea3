package strictyaml

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Diagnostic is one mistake in a configuration.
type Diagnostic struct {
	File    string // the main file or a side file
	Line    int    // from 1
	Column  int    // from 1, in characters
	Key     string // dotted path: routes[1].policy; "document" for the whole file
	Message string // what is wrong, what was expected and what to do
	Source  string // the source line with secrets masked, empty if it is longer than 16 KiB
}

// String returns FILE:LINE:COLUMN: KEY: message, on one line.
func (d Diagnostic) String() string {
	return fmt.Sprintf("%s:%d:%d: %s: %s", d.File, d.Line, d.Column, d.Key, d.Message)
}

// Diagnostics are all mistakes in a configuration: first those of the main
// file, then those of side files, each in the order of the text.
type Diagnostics []Diagnostic

// Error prints each diagnostic, followed by its source line and a caret under
// the column.
func (ds Diagnostics) Error() string {
	var b strings.Builder
	for i, d := range ds {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(d.String())
		if d.Source != "" {
			b.WriteByte('\n')
			b.WriteString(d.excerpt())
		}
	}
	return b.String()
}

// excerptWidth is the number of characters shown of a source line.
const excerptWidth = 120

// excerpt returns the source line with its number and the caret below. It cuts
// a long line to the part around the caret.
func (d Diagnostic) excerpt() string {
	line := []rune(d.Source)
	caret := min(d.Column-1, len(line))
	start := 0
	if len(line) > excerptWidth {
		start = max(0, min(caret-excerptWidth/2, len(line)-excerptWidth))
		line = line[start : start+excerptWidth]
	}
	indent := []rune(strings.Repeat(" ", caret-start))
	for i := range indent {
		if line[i] == '\t' {
			indent[i] = '\t'
		}
	}
	number := strconv.Itoa(d.Line)
	margin := strings.Repeat(" ", len(number))
	return fmt.Sprintf("  %s | %s\n  %s | %s^", number, string(line), margin, string(indent))
}

// position is a place in a text. Both numbers count from 1.
type position struct{ line, column int }

// problems collects diagnostics.
type problems struct {
	list Diagnostics
	// secrets are the values read so far that must not be shown.
	secrets  []string
	reported map[report]bool
}

// report identifies a diagnostic by its place and message, for any path that
// leads to the place.
type report struct {
	file    string
	at      position
	message string
}

// addOnce is add for a value that is written in the text. Aliases can lead to
// the value several times, and it is reported once.
func (p *problems) addOnce(t *text, at position, key, format string, args ...any) {
	id := report{t.name, at, fmt.Sprintf(format, args...)}
	if p.reported[id] {
		return
	}
	if p.reported == nil {
		p.reported = map[report]bool{}
	}
	p.reported[id] = true
	p.add(t, at, key, "%s", id.message)
}

// faultyAt reports whether a diagnostic is about a place.
func (p *problems) faultyAt(t *text, at position) bool {
	return slices.ContainsFunc(p.list, func(d Diagnostic) bool {
		return d.File == t.name && d.Line == at.line && d.Column == at.column
	})
}

// maxShownLine is the length in bytes of the longest line that is shown.
const maxShownLine = 16 << 10

// add records a diagnostic. It moves a place outside of the text, which a parser
// may report for the end of it, to the nearest place inside.
func (p *problems) add(t *text, at position, key, format string, args ...any) {
	at.line = max(1, min(at.line, len(t.lines)))
	line := t.lines[at.line-1]
	at.column = max(1, min(at.column, utf8.RuneCountInString(line)+1))
	var shown string
	if len(line) <= maxShownLine {
		shown = visible(t.shown(at.line - 1))
	}
	p.list = append(p.list, Diagnostic{
		File: t.name, Line: at.line, Column: at.column, Key: visible(key),
		Message: visible(fmt.Sprintf(format, args...)), Source: shown,
	})
}

// visible replaces control characters, which a terminal would act on.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return utf8.RuneError
	}, s)
}

// ordered returns the diagnostics sorted, without repetitions, and after redact,
// which may be nil.
func (p *problems) ordered(main string, redact *strings.Replacer) Diagnostics {
	// The main file comes before all others.
	rank := func(d Diagnostic) int {
		if d.File == main {
			return 0
		}
		return 1
	}
	slices.SortFunc(p.list, func(a, b Diagnostic) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.File, b.File),
			cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Key, b.Key), cmp.Compare(a.Message, b.Message))
	})
	list := slices.Compact(p.list)
	if redact != nil {
		for i := range list {
			list[i].Source = redact.Replace(list[i].Source)
			list[i].Message = redact.Replace(list[i].Message)
		}
	}
	for i := range list {
		list[i].Message = wholeHash.ReplaceAllString(list[i].Message, Masked)
	}
	return list
}

// redacter returns what replaces every secret read so far, or nil. It leaves
// out very short secrets, which would match everywhere. The masks of secret
// keys hide those at their own place.
func (p *problems) redacter() *strings.Replacer {
	var pairs []string
	for _, secret := range p.secrets {
		if utf8.RuneCountInString(secret) >= 6 {
			pairs = append(pairs, secret, Masked)
		}
	}
	if pairs == nil {
		return nil
	}
	return strings.NewReplacer(pairs...)
}
