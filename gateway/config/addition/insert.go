package addition

import (
	"cmp"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// item is an element to add: of a list, or, with a name, of a mapping.
type item struct {
	name   string
	fields []field
}

// field is a key with its value, as they are written.
type field struct{ key, value string }

// flow returns the item in braces.
func (i item) flow() string {
	pairs := make([]string, len(i.fields))
	for n, one := range i.fields {
		pairs[n] = one.key + ": " + one.value
	}
	text := "{" + strings.Join(pairs, ", ") + "}"
	if i.name != "" {
		text = i.name + ": " + text
	}
	return text
}

// line returns the item in a line of its own, within a block.
func (i item) line(indent string) string {
	if i.name == "" {
		indent += "- "
	}
	return indent + i.flow() + "\n"
}

// block returns the item with a line for each field. step is how much more they are indented.
func (i item) block(indent, step string) string {
	var b strings.Builder
	first, next := indent+"- ", indent+"  "
	if i.name != "" {
		b.WriteString(indent + i.name + ":\n")
		first, next = indent+step, indent+step
	}
	for n, one := range i.fields {
		if n == 0 {
			b.WriteString(first)
		} else {
			b.WriteString(next)
		}
		b.WriteString(one.key + ": " + one.value + "\n")
	}
	return b.String()
}

// insertion is an addition to a text, behind so many of its bytes.
type insertion struct {
	at   int
	text string
}

// into returns a text with the insertion.
func (n insertion) into(text string) string { return text[:n.at] + n.text + text[n.at:] }

// change describes the insertion, which is in a text.
func (n insertion) change(section, text string) Change {
	added := strings.TrimLeft(n.text, "\r\n")
	at := n.at + len(n.text) - len(added)
	return Change{section, 1 + strings.Count(text[:at], "\n"), added}
}

// insert returns how to add one more item to a section of a text, which it makes if there is none.
func insert(text, section string, i item) (insertion, error) {
	// Without the line breaks of Windows, each element has the same line and column.
	file, err := parser.ParseBytes([]byte(strings.ReplaceAll(text, "\r\n", "\n")), 0)
	if err != nil {
		return insertion{}, ErrNoPlace // the caller has read it, as another reader does
	}
	root, ok := rootOf(file)
	if !ok {
		return insertion{}, ErrNoPlace
	}
	for _, pair := range root {
		if key, ok := pair.Key.(*ast.StringNode); ok && key.Value == section {
			return insertInto(text, pair, i)
		}
	}
	gap := ""
	if strings.TrimSpace(text) != "" {
		gap = "\n"
	}
	return insertion{len(text), brokenAs(text, gap+section+":\n"+i.block("  ", "  "))}, nil
}

// brokenAs returns an addition with the line breaks that the text before it ends with.
func brokenAs(before, addition string) string {
	if strings.HasSuffix(before, "\r\n") {
		return strings.ReplaceAll(addition, "\n", "\r\n")
	}
	return addition
}

// rootOf returns the pairs of the one mapping of a file, none if it has only comments.
func rootOf(file *ast.File) (pairs []*ast.MappingValueNode, ok bool) {
	for _, doc := range file.Docs {
		switch body := doc.Body.(type) {
		case nil, *ast.CommentGroupNode, *ast.DirectiveNode:
		case *ast.MappingNode:
			if pairs != nil || body.IsFlowStyle {
				return nil, false
			}
			pairs = body.Values
		case *ast.MappingValueNode:
			if pairs != nil {
				return nil, false
			}
			pairs = []*ast.MappingValueNode{body}
		default:
			return nil, false
		}
	}
	return pairs, true
}

// insertInto returns how to add one more item to the value of a pair.
func insertInto(text string, pair *ast.MappingValueNode, i item) (insertion, error) {
	var last ast.Node
	switch value := pair.Value.(type) {
	case *ast.MappingNode:
		if value.IsFlowStyle {
			return insertFlow(text, value.Start.Position, len(value.Values) == 0, i)
		}
		last = value.Values[len(value.Values)-1].Value
	case *ast.MappingValueNode:
		last = value.Value
	case *ast.SequenceNode:
		if value.IsFlowStyle {
			return insertFlow(text, value.Start.Position, len(value.Values) == 0, i)
		}
		last = value.Values[len(value.Values)-1]
	default:
		return insertion{}, ErrNoPlace
	}
	return insertBlock(text, pair.Key.GetToken().Position.Line, inOneLine(last), i)
}

// inOneLine reports whether an element is written in braces, in one line.
func inOneLine(n ast.Node) bool {
	mapping, ok := n.(*ast.MappingNode)
	return ok && mapping.IsFlowStyle && mapping.End != nil && mapping.Start.Position.Line == mapping.End.Position.Line
}

// insertBlock adds an item at the end of a block, whose key is in a line that counts from 1. A
// comment that is indented belongs to the block.
func insertBlock(text string, key int, inOneLine bool, i item) (insertion, error) {
	lines := strings.SplitAfter(text, "\n")
	end, indent, step := key, -1, 0
	var starts []int // of the elements
	for n := key; n < len(lines); n++ {
		trimmed := strings.TrimLeft(lines[n], " ")
		width := len(lines[n]) - len(trimmed)
		comment := strings.HasPrefix(trimmed, "#")
		dash := i.name == "" && (strings.HasPrefix(trimmed, "- ") || strings.TrimSpace(trimmed) == "-")
		switch {
		case strings.TrimSpace(trimmed) == "" || comment && width == 0:
			continue
		case width == 0 && !dash:
			n = len(lines)
			continue
		}
		end = n + 1
		switch {
		case comment:
		case indent < 0 || width == indent:
			indent, starts, step = width, append(starts, n), 0
		case step == 0:
			step = width - indent
		}
	}
	if indent < 0 {
		return insertion{}, ErrNoPlace
	}
	added, space := "", strings.Repeat(" ", indent)
	if apart(lines, starts) {
		added = "\n"
	}
	if inOneLine {
		added += i.line(space)
	} else {
		added += i.block(space, strings.Repeat(" ", cmp.Or(step, 2)))
	}
	before := strings.Join(lines[:end], "")
	return insertion{len(before), brokenAs(before, added)}, nil
}

// apart reports whether an empty line is between the last elements of a block, which begin
// in these lines.
func apart(lines []string, starts []int) bool {
	if len(starts) < 2 {
		return false
	}
	before := starts[len(starts)-1] - 1
	for before > starts[len(starts)-2] && strings.HasPrefix(strings.TrimSpace(lines[before]), "#") {
		before--
	}
	return strings.TrimSpace(lines[before]) == ""
}

// insertFlow adds an item at the beginning of a list or a mapping in brackets, which are at a
// place: no bracket needs to be found then.
func insertFlow(text string, at *token.Position, empty bool, i item) (insertion, error) {
	lines := strings.SplitAfter(text, "\n")
	runes := []rune(lines[at.Line-1])
	if at.Column > len(runes) || !strings.ContainsRune("[{", runes[at.Column-1]) {
		return insertion{}, ErrNoPlace
	}
	before := len(strings.Join(lines[:at.Line-1], "")) + len(string(runes[:at.Column]))
	rest := string(runes[at.Column:])
	inner := strings.TrimLeft(rest, " ")
	switch {
	case empty:
		return insertion{before, i.flow()}, nil
	case strings.TrimSpace(inner) == "" || inner[0] == '#':
		next := lines[at.Line]
		indent := next[:len(next)-len(strings.TrimLeft(next, " "))]
		return insertion{before + len(rest), brokenAs(rest, indent+i.flow()+",\n")}, nil
	}
	return insertion{before + len(rest) - len(inner), i.flow() + ", "}, nil
}
