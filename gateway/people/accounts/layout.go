package accounts

import (
	"bytes"
	"encoding/json"
	"strings"
)

// A layout is where the accounts of a file and their keys are written. It is found by
// indentation, brackets and quotes alone. So it can be wrong about unusual YAML: who changes
// a file by it must parse the result.
type layout struct {
	source []byte
	kind   layoutKind
	json   bool // JSON lines
	items  []item
	// dash is the column of the dashes of a block list, from 0.
	dash int
	// open and end are where a flow list begins and ends.
	open, end int
}

// layoutKind is how a file writes its list of accounts.
type layoutKind int

const (
	unknownFile layoutKind = iota
	emptyFile              // only comments
	blockList              // - ACCOUNT, in lines of their own
	flowList               // [ACCOUNT, ACCOUNT]
	jsonLines              // {ACCOUNT}
)

// item is where one account is written.
type item struct {
	// start and end are where its lines begin and end, or its braces in a flow list.
	start, end int
	flow       bool // in braces
	opaque     bool // not written as a mapping: an alias, a tag
	column     int  // of the keys in a block, from 0
	entries    []entry
}

// entry is where one key of an account is written.
type entry struct {
	name string
	// start is where the key begins, and value to end is its value. In a block, next is
	// where the line after the value begins.
	start, value, end, next int
}

// find returns the entry of a key.
func (i *item) find(key string) *entry {
	for at := range i.entries {
		if i.entries[at].name == key {
			return &i.entries[at]
		}
	}
	return nil
}

// line is a line of a source, with its line break.
type line struct {
	start, end int
	indent     int
	content    bool // more than space and a comment
}

func linesOf(source []byte) (all []line) {
	for start := 0; start < len(source); {
		end := len(source)
		if i := bytes.IndexByte(source[start:], '\n'); i >= 0 {
			end = start + i + 1
		}
		text := source[start:end]
		trimmed := bytes.TrimLeft(text, " ")
		all = append(all, line{
			start: start, end: end, indent: len(text) - len(trimmed),
			content: len(bytes.TrimSpace(trimmed)) > 0 && trimmed[0] != '#',
		})
		start = end
	}
	return all
}

// layOutLines finds the accounts of a file in JSON lines.
func layOutLines(source []byte) *layout {
	l := &layout{source: source, kind: jsonLines, json: true}
	if len(source) == 0 {
		l.kind = emptyFile
	}
	for _, one := range linesOf(source) {
		if one.content {
			l.items = append(l.items, item{start: one.start, end: one.end, flow: true})
		}
	}
	return l
}

// layOutYAML finds the accounts of a file in YAML.
func layOutYAML(source []byte) *layout {
	l := &layout{source: source}
	all := linesOf(source)
	for i, one := range all {
		at := one.start + one.indent
		if !one.content || source[at] == '%' {
			continue
		}
		if one.indent == 0 && bytes.HasPrefix(source[at:], []byte("---")) {
			at += len("---")
			if at = skipSpace(source, at, one.end); at == one.end {
				continue
			}
		}
		switch {
		case source[at] == '[':
			l.kind, l.open = flowList, at
			l.end = flowEnd(source, at)
			for _, part := range flowParts(source, at, l.end) {
				flow := source[part[0]] == '{'
				l.items = append(l.items, item{start: part[0], end: part[1], flow: flow, opaque: !flow})
			}
		case isDash(source, at):
			l.kind, l.dash = blockList, at-one.start
			l.blockItems(all[i:])
		}
		return l
	}
	l.kind = emptyFile
	return l
}

// isDash reports whether the dash of a list is at a place.
func isDash(source []byte, at int) bool {
	return source[at] == '-' && (at+1 == len(source) || bytes.IndexByte([]byte(" \t\r\n"), source[at+1]) >= 0)
}

// skipSpace returns where the first character that is no space, or a comment, is before end;
// end if there is none.
func skipSpace(source []byte, at, end int) int {
	for at < end && bytes.IndexByte([]byte(" \t\r\n"), source[at]) >= 0 {
		at++
	}
	if at < end && source[at] == '#' {
		return end
	}
	return at
}

// blockItems finds the items of a block list in lines, which begin with its first dash.
func (l *layout) blockItems(all []line) {
	for _, one := range all {
		switch {
		case !one.content:
		case one.indent == l.dash && isDash(l.source, one.start+one.indent):
			l.items = append(l.items, item{start: one.start, end: one.end})
		case one.indent > l.dash:
			l.items[len(l.items)-1].end = one.end
		default:
			return
		}
	}
}

// entriesOf finds the entries of an item.
func (l *layout) entriesOf(i *item) {
	switch {
	case i.opaque:
	case i.flow:
		at := i.start + bytes.IndexByte(l.source[i.start:i.end], '{')
		i.flowEntries(l.source, at)
	default:
		i.read(l.source, l.dash)
	}
}

// read finds the entries of an item of a block list.
func (i *item) read(source []byte, dash int) {
	all := linesOf(source[:i.end])
	for len(all) > 0 && all[0].start < i.start {
		all = all[1:]
	}
	for n, one := range all {
		from := one.start
		if n == 0 {
			from += dash + 1
		}
		at := skipSpace(source, from, one.end)
		at = afterAnchor(source, at, one.end)
		if at == one.end {
			continue
		}
		switch source[at] {
		case '{':
			i.flow = true
			i.flowEntries(source, at)
		case '*', '!', '[', '?':
			i.opaque = true
		default:
			i.column = at - one.start
			i.blockEntries(source, at, all[n:])
		}
		return
	}
	i.opaque = true
}

// blockEntries finds the entries of a block mapping, which begins at first, in its lines.
func (i *item) blockEntries(source []byte, first int, all []line) {
	for n, one := range all {
		at := one.start + one.indent
		if n == 0 {
			at = first
		}
		if !one.content {
			continue
		}
		if n == 0 || one.indent == i.column && !isDash(source, at) {
			i.entries = append(i.entries, entry{start: at})
		}
		last := &i.entries[len(i.entries)-1]
		last.next = one.end
	}
	for n := range i.entries {
		i.entries[n].readBlock(source)
	}
}

// readBlock finds the name and the value of an entry in a block.
func (e *entry) readBlock(source []byte) {
	colon := colonAfter(source, e.start, e.next)
	if colon < 0 {
		return
	}
	e.name = plainName(source[e.start:colon])
	e.value = skipComments(source, colon+1, e.next)
	e.value = afterAnchor(source, e.value, e.next)
	e.end = valueEnd(source, e.value, e.next)
}

// afterAnchor returns where the value begins whose anchor may be at a place.
func afterAnchor(source []byte, at, end int) int {
	if at == end || source[at] != '&' {
		return at
	}
	for at < end && bytes.IndexByte([]byte(" \t\r\n"), source[at]) < 0 {
		at++
	}
	return skipComments(source, at, end)
}

// skipComments is skipSpace that continues after comments.
func skipComments(source []byte, at, end int) int {
	for at < end {
		next := skipSpace(source, at, end)
		if next < end {
			return next
		}
		comment := bytes.IndexByte(source[at:end], '#')
		if comment < 0 {
			return end
		}
		newline := bytes.IndexByte(source[at+comment:end], '\n')
		if newline < 0 {
			return end
		}
		at += comment + newline + 1
	}
	return end
}

// colonAfter returns where the colon after a key is, or -1.
func colonAfter(source []byte, at, end int) int {
	if at = afterQuotes(source, at, end); at < 0 {
		return -1
	}
	for ; at < end; at++ {
		switch {
		case source[at] == '\n':
			return -1
		case source[at] == ':' && (at+1 == end || bytes.IndexByte([]byte(" \t\r\n"), source[at+1]) >= 0):
			return at
		}
	}
	return -1
}

// afterQuotes returns where a quoted text at a place has ended: the place itself if there is
// none, -1 if it does not end.
func afterQuotes(source []byte, at, end int) int {
	quote := source[at]
	if quote != '"' && quote != '\'' {
		return at
	}
	for at++; at < end; at++ {
		switch {
		case quote == '"' && source[at] == '\\':
			at++
		case source[at] != quote:
		case quote == '\'' && at+1 < end && source[at+1] == quote:
			at++
		default:
			return at + 1
		}
	}
	return -1
}

// plainName returns the name of a key.
func plainName(written []byte) string {
	text := strings.TrimSpace(string(written))
	switch {
	case strings.HasPrefix(text, `"`):
		var name string
		if err := json.Unmarshal([]byte(text), &name); err == nil {
			return name
		}
	case strings.HasPrefix(text, "'"):
		return strings.Trim(text, "'")
	}
	return text
}

// valueEnd returns where the value at a place of a block ends, without the comment after it.
func valueEnd(source []byte, at, end int) int {
	if at == end {
		return end
	}
	switch source[at] {
	case '"', '\'':
		if after := afterQuotes(source, at, end); after > 0 {
			return after
		}
	case '[', '{':
		return flowEnd(source, at)
	}
	// The last line, without its comment.
	last := at
	if newline := bytes.LastIndexByte(bytes.TrimRight(source[at:end], " \t\r\n"), '\n'); newline >= 0 {
		last += newline + 1
	}
	text := source[last:end]
	for i := 1; i < len(text); i++ {
		if text[i] == '#' && (text[i-1] == ' ' || text[i-1] == '\t') {
			text = text[:i]
		}
	}
	return last + len(bytes.TrimRight(text, " \t\r\n"))
}

// flowEnd returns where the flow collection that begins at a place ends, the end of the
// source if it does not.
func flowEnd(source []byte, at int) int {
	end := at
	walkFlow(source, at, func(at, depth int) bool {
		end = at + 1
		return depth > 0
	})
	return end
}

// walkFlow calls f for each character of a flow collection that has a meaning for it, with
// the depth after the character, until f returns false or the source ends. Texts in quotes and
// comments have none.
func walkFlow(source []byte, at int, f func(at, depth int) bool) {
	depth, begins := 0, true // whether a value may begin here
	for at < len(source) {
		c := source[at]
		switch {
		case begins && (c == '"' || c == '\''):
			after := afterQuotes(source, at, len(source))
			if after < 0 {
				return
			}
			at, begins = after, false
			continue
		case c == '#' && at > 0 && bytes.IndexByte([]byte(" \t\n"), source[at-1]) >= 0:
			newline := bytes.IndexByte(source[at:], '\n')
			if newline < 0 {
				return
			}
			at += newline
			continue
		case c == '[' || c == '{':
			depth++
		case c == ']' || c == '}':
			depth--
		case c == ',' || c == ':':
		default:
			begins = begins && bytes.IndexByte([]byte(" \t\r\n"), c) >= 0
			at++
			continue
		}
		if !f(at, depth) {
			return
		}
		begins = c != ']' && c != '}'
		at++
	}
}

// flowParts returns where the elements of a flow collection from open to end begin and end.
func flowParts(source []byte, open, end int) (parts [][2]int) {
	from := open + 1
	add := func(to int) {
		start := skipComments(source, from, to)
		if start < to {
			parts = append(parts, [2]int{start, partEnd(source, start, to)})
		}
		from = to + 1
	}
	walkFlow(source[:end], open, func(at, depth int) bool {
		if depth == 1 && source[at] == ',' || depth == 0 {
			add(at)
		}
		return depth > 0
	})
	return parts
}

// partEnd returns where an element ends, without the space and comments after it.
func partEnd(source []byte, start, to int) int {
	end := start
	for at := start; at < to; {
		next := at
		switch c := source[at]; {
		case c == '"' || c == '\'':
			if next = afterQuotes(source, at, to); next < 0 || at > start && isWord(source[at-1]) {
				next = at + 1
			}
		case c == '[' || c == '{':
			next = min(flowEnd(source, at), to)
		case c == '#' && at > start && bytes.IndexByte([]byte(" \t\n"), source[at-1]) >= 0:
			newline := bytes.IndexByte(source[at:to], '\n')
			if newline < 0 {
				return end
			}
			at += newline
			continue
		case bytes.IndexByte([]byte(" \t\r\n"), c) >= 0:
			at++
			continue
		default:
			next = at + 1
		}
		at, end = next, next
	}
	return end
}

// isWord reports whether a quote after c belongs to a text without quotes.
func isWord(c byte) bool { return bytes.IndexByte([]byte(" \t\r\n:,[{"), c) < 0 }

// flowEntries finds the entries of a flow mapping that begins at a place.
func (i *item) flowEntries(source []byte, open int) {
	for _, part := range flowParts(source, open, flowEnd(source, open)) {
		e := entry{start: part[0], end: part[1], value: part[1]}
		at := afterQuotes(source, e.start, e.end)
		quoted := at > e.start
		for ; at >= 0 && at < e.end; at++ {
			if source[at] == ':' && (quoted || at+1 == e.end || bytes.IndexByte([]byte(" \t\r\n"), source[at+1]) >= 0) {
				e.name = plainName(source[e.start:at])
				e.value = afterAnchor(source, skipComments(source, at+1, e.end), e.end)
				break
			}
		}
		i.entries = append(i.entries, e)
	}
}
