package accounts

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"sort"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"authgate/gateway/strictyaml"
)

// A layout is where the accounts of a file and their keys are written. Its places are those that the
// parser gives. Who changes a file by it must parse the result all the same: an anchor can make one place
// belong to several accounts.
type layout struct {
	source []byte
	kind   layoutKind
	json   bool // JSON lines
	items  []item
	// dash is the column of the dashes of a block list, from 0.
	dash int
	// open and end are where a flow list begins and ends.
	open, end int

	lines  []int    // where lines begin
	tokens []placed // of YAML, in order, with comments
}

// placed is a token with its place in the source.
type placed struct {
	start int
	kind  token.Type
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
	flow       bool    // in braces
	column     int     // of the keys in a block, from 0
	entries    []entry // none if it is not written as a mapping in YAML
}

// entry is where one key of an account is written.
type entry struct {
	name string
	// start is where the key begins, colon where the text after its colon does, and value to end is its
	// value, without its anchor. In a block, next is where the line after the value begins.
	start, colon, value, end, next int
	elements                       []element // of a list with a line, or several, for each
}

// element is where an element of a list in lines is written: its lines to content, and
// comments to end.
type element struct{ start, content, end int }

// entryOf returns the entry of a key.
func (i *item) entryOf(key string) *entry {
	at := slices.IndexFunc(i.entries, func(e entry) bool { return e.name == key })
	if at < 0 {
		return nil
	}
	return &i.entries[at]
}

// newLayout returns a layout without accounts.
func newLayout(source []byte) *layout {
	l := &layout{source: source, lines: []int{0}}
	for at, c := range source {
		if c == '\n' {
			l.lines = append(l.lines, at+1)
		}
	}
	return l
}

// layOutLines finds the accounts of a file in JSON lines.
func layOutLines(source []byte) *layout {
	l := newLayout(source)
	l.kind, l.json = jsonLines, true
	if len(source) == 0 {
		l.kind = emptyFile
	}
	for _, start := range l.lines {
		end := l.lineEnd(start)
		if text := bytes.TrimSpace(source[start:end]); len(text) > 0 && source[start] != '#' {
			l.items = append(l.items, item{start: start, end: end, flow: true})
		}
	}
	return l
}

// layOutYAML finds the accounts of a file in YAML. Like the parser, it recovers from panics, which odd
// input can cause.
func layOutYAML(source []byte) (l *layout) {
	l = newLayout(source)
	defer func() {
		if recover() != nil {
			l = newLayout(source)
		}
	}()
	file, tokens, err := strictyaml.Parse(string(source))
	if err != nil {
		return l
	}
	for _, one := range tokens {
		l.tokens = append(l.tokens, placed{l.place(one), one.Type})
	}
	l.kind = emptyFile
	for _, doc := range file.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.DirectiveType {
			continue
		}
		l.kind = unknownFile
		if list, ok := doc.Body.(*ast.SequenceNode); ok {
			l.list(list)
		}
	}
	return l
}

// list finds the items of a list.
func (l *layout) list(list *ast.SequenceNode) {
	l.kind, l.open = blockList, l.place(list.Start)
	l.dash = l.open - l.lineStart(l.open)
	if list.IsFlowStyle {
		l.kind, l.end = flowList, l.place(list.End)+1
	}
	for n, node := range list.Values {
		i := item{}
		i.start, i.end = l.extent(node)
		if l.kind == blockList {
			i.start, i.end = l.lineStart(l.place(list.Entries[n].Start)), l.lineEnd(i.end)
		}
		if anchor, ok := node.(*ast.AnchorNode); ok {
			node = anchor.Value
		}
		mapping, ok := node.(*ast.MappingNode)
		if ok && mapping.IsFlowStyle {
			i.flow = true
		} else if ok {
			first, _ := l.extent(mapping)
			i.column = first - l.lineStart(first)
		}
		if ok {
			for _, pair := range mapping.Values {
				i.entries = append(i.entries, l.entry(pair))
			}
		}
		l.items = append(l.items, i)
	}
}

// place returns where a token begins.
func (l *layout) place(one *token.Token) int {
	at := l.lines[min(one.Position.Line, len(l.lines))-1]
	for n := 1; n < one.Position.Column && at < len(l.source); n++ {
		for at++; at < len(l.source) && l.source[at]&0xc0 == 0x80; at++ { // a character of several bytes
		}
	}
	return at
}

func (l *layout) lineStart(at int) int { return bytes.LastIndexByte(l.source[:at], '\n') + 1 }

// lineEnd returns where the line after that of a place begins.
func (l *layout) lineEnd(at int) int {
	if i := bytes.IndexByte(l.source[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(l.source)
}

// next returns the first token after a place that is not one of some kinds.
func (l *layout) next(at int, not ...token.Type) placed {
	i := sort.Search(len(l.tokens), func(i int) bool { return l.tokens[i].start > at })
	for i < len(l.tokens) && slices.Contains(not, l.tokens[i].kind) {
		i++
	}
	if i == len(l.tokens) {
		return placed{start: len(l.source)}
	}
	return l.tokens[i]
}

// extent returns where a value begins and ends, without the space and comments around it.
func (l *layout) extent(node ast.Node) (start, end int) {
	switch n := node.(type) {
	case *ast.AnchorNode:
		_, end = l.extent(n.Value)
		return l.place(n.Start), end
	case *ast.LiteralNode:
		start = l.place(n.Start)
		after := l.next(start, token.CommentType)
		if n.Value.Value != "" { // it is the text
			after = l.next(after.start)
		}
		return start, l.trimmed(after.start)
	case *ast.AliasNode:
		start = l.place(n.Start)
		_, end = l.extent(n.Value)
		return start, end
	case *ast.MappingNode:
		if n.IsFlowStyle {
			return l.place(n.Start), l.place(n.End) + 1
		}
		start, _ = l.extent(n.Values[0].Key)
		_, end = l.extent(n.Values[len(n.Values)-1].Value)
		return start, end
	case *ast.MappingKeyNode:
		return l.place(n.Start), l.place(n.Start) + 1
	case *ast.SequenceNode:
		if n.IsFlowStyle {
			return l.place(n.Start), l.place(n.End) + 1
		}
		_, end = l.extent(n.Values[len(n.Values)-1])
		return l.place(n.Start), end
	case *ast.NullNode:
		start = l.place(n.GetToken())
		if start == len(l.source) || bytes.IndexByte([]byte("nN~"), l.source[start]) < 0 {
			return start, start // nothing is written
		}
	}
	start = l.place(node.GetToken())
	return start, l.trimmed(l.next(start).start)
}

// trimmed returns where the text before a place ends.
func (l *layout) trimmed(at int) int { return len(bytes.TrimRight(l.source[:at], " \t\r\n")) }

// entry finds a key and its value.
func (l *layout) entry(pair *ast.MappingValueNode) entry {
	e := entry{name: pair.Key.GetToken().Value}
	e.start, e.colon = l.extent(pair.Key)
	if after := l.next(e.start); after.kind == token.MappingValueType {
		e.colon = after.start + 1
	}
	value := pair.Value
	if anchor, ok := value.(*ast.AnchorNode); ok {
		value = anchor.Value
	}
	e.value, e.end = l.extent(value)
	if e.value == e.end {
		e.value, e.end = e.colon, e.colon
	}
	e.next = l.lineEnd(e.end)
	if list, ok := value.(*ast.SequenceNode); ok && !list.IsFlowStyle {
		for n, one := range list.Values {
			_, end := l.extent(one)
			start := l.lineStart(l.place(list.Entries[n].Start))
			if n > 0 {
				e.elements[n-1].end = start
			}
			e.elements = append(e.elements, element{start, l.lineEnd(end), e.next})
		}
	}
	return e
}

// jsonEntries finds the keys of a JSON object, which begins at a place of the source; none if it is not valid.
func jsonEntries(object []byte, at int) (entries []entry) {
	d := json.NewDecoder(bytes.NewReader(object))
	_, err := d.Token() // the brace
	for err == nil && d.More() {
		after := int(d.InputOffset())
		var key json.Token
		var value json.RawMessage
		key, err = d.Token()
		err = errors.Join(err, d.Decode(&value))
		name, _ := key.(string)
		end := at + int(d.InputOffset())
		start := at + after + bytes.IndexByte(object[after:], '"')
		entries = append(entries, entry{name: name, start: start, value: end - len(value), end: end})
	}
	if err != nil {
		return nil
	}
	return entries
}
