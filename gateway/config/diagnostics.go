package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Diagnostic is one thing wrong with a configuration.
type Diagnostic struct {
	File    string // the configuration file or the side file it is in
	Line    int    // from 1
	Column  int    // from 1, in characters
	Key     string // where, as a dotted path: routes[1].policy; "document" for the file as a whole
	Message string // what is wrong, what was expected and what to do
	Source  string // the source line with secrets masked, empty when it is beyond 16 KiB
}

// String is FILE:LINE:COLUMN: KEY: message, on one line.
func (d Diagnostic) String() string {
	return fmt.Sprintf("%s:%d:%d: %s: %s", d.File, d.Line, d.Column, d.Key, d.Message)
}

// Diagnostics is everything wrong with a configuration: that of the main file
// first, then that of its side files, each in the order of the text. It is the
// error that Parse returns.
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

// excerptWidth is how many characters of a source line are shown.
const excerptWidth = 120

// excerpt is the source line with its number and the caret line under it. Of a
// line that is too long it is the part around the caret.
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

// position is a place in a text, both parts counted from 1.
type position struct{ line, column int }

// problems collects diagnostics.
type problems struct {
	list Diagnostics
	// secrets are the values read so far that no text may show.
	secrets []string
	said    map[said]bool
}

// said is what is wrong at a place, whatever the path that led there.
type said struct {
	file    string
	at      position
	message string
}

// addOnce is add for what is wrong with a value that is written at a place:
// read again through aliases it is wrong in the same way each time.
func (p *problems) addOnce(t *text, at position, key, format string, args ...any) {
	id := said{t.name, at, fmt.Sprintf(format, args...)}
	if p.said[id] {
		return
	}
	if p.said == nil {
		p.said = map[said]bool{}
	}
	p.said[id] = true
	p.add(t, at, key, "%s", id.message)
}

// maxShownLine is the longest line, in bytes, that is shown.
const maxShownLine = 16 << 10

// add records one problem at a place in a text. A place outside of the text,
// as a parser may report the end of it, is moved to the nearest inside.
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

// visible replaces what a terminal would act on instead of showing it.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return utf8.RuneError
	}, s)
}

// result is what was collected, as an error; it is nil when nothing is wrong.
func (p *problems) result(main string) error {
	if len(p.list) == 0 {
		return nil
	}
	return p.ordered(main, p.redacter())
}

// ordered is what was collected: sorted, without repetitions and with what
// redact replaces. redact may be nil.
func (p *problems) ordered(main string, redact *strings.Replacer) Diagnostics {
	// The main file sorts before all others, whatever their names.
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
	return list
}

// redacter replaces every secret read so far; it is nil when there is none. A
// few characters are not replaced: they would be found everywhere, and the
// masking of secret keys has hidden them where they stand.
func (p *problems) redacter() *strings.Replacer {
	var pairs []string
	for _, secret := range p.secrets {
		if utf8.RuneCountInString(secret) >= 6 {
			pairs = append(pairs, secret, masked)
		}
	}
	if pairs == nil {
		return nil
	}
	return strings.NewReplacer(pairs...)
}
