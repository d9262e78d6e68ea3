package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// documentKey is the key of a diagnostic about a whole file.
const documentKey = "document"

// text is the content of a file, for diagnostics that point into it.
type text struct {
	name  string
	lines []string
	shown func(i int) string // line i from 0, with secrets masked
}

// newText splits a source into lines. mask returns the function that shows one.
func newText(name string, source []byte, mask func([]string) func(int) string) *text {
	lines := strings.Split(strings.ReplaceAll(string(source), "\r\n", "\n"), "\n")
	return &text{name: name, lines: lines, shown: mask(lines)}
}

// ReadFile reads a file of at most limit bytes. The error names the file but
// not the system call. The File is returned with an error too.
func ReadFile(path string, limit int) ([]byte, File, error) {
	file := File{Path: path}
	f, err := os.Open(path)
	if err != nil {
		if info, err := os.Stat(path); err == nil {
			file.info = info // it exists, and cannot be opened
		}
		return nil, file, fileError(path, err)
	}
	defer f.Close()
	var buffer bytes.Buffer
	if info, err := f.Stat(); err == nil {
		file.info = info
		buffer.Grow(int(min(info.Size(), int64(limit))) + bytes.MinRead)
	}
	if _, err := buffer.ReadFrom(io.LimitReader(f, int64(limit)+1)); err != nil {
		return nil, file, fileError(path, err)
	}
	content := buffer.Bytes()
	if len(content) > limit {
		return nil, file, &SizeError{path, limit}
	}
	return content, file, nil
}

// SizeError reports that a file is larger than Limit bytes.
type SizeError struct {
	Path  string
	Limit int
}

func (e *SizeError) Error() string { return fmt.Sprintf("%s is larger than %s", e.Path, size(e.Limit)) }

// unreadableError reports that a file cannot be opened or read, and wraps the reason.
type unreadableError struct {
	Path string
	err  error
}

func (e *unreadableError) Error() string { return fmt.Sprintf("cannot read %s: %v", e.Path, e.err) }

func (e *unreadableError) Unwrap() error { return e.err }

func fileError(path string, err error) error {
	if cause, ok := errors.AsType[*fs.PathError](err); ok {
		err = cause.Err
	}
	return &unreadableError{path, err}
}

// size formats a number of bytes.
func size(n int) string {
	if n >= 1<<20 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", n>>10)
}

// wellFormed checks what the YAML parser does not check or reports unclearly:
// encoding, control characters, size, and the line break at the end. A file
// without that line break may have been cut off, and the rest can still be
// valid: a route without its policy lets in every user.
func (p *problems) wellFormed(t *text, source []byte, limit int) bool {
	start := position{1, 1}
	if len(source) > limit {
		p.add(t, start, documentKey, "the file is larger than %s", size(limit))
		return false
	}
	for _, mark := range []struct{ bytes, name string }{
		{"\xef\xbb\xbf", "UTF-8"}, {"\xff\xfe", "UTF-16"}, {"\xfe\xff", "UTF-16"},
	} {
		if bytes.HasPrefix(source, []byte(mark.bytes)) {
			p.add(t, start, documentKey, "the file begins with a byte order mark of %s; save it as UTF-8 without one",
				mark.name)
			return false
		}
	}
	for i, line := range t.lines {
		column := 0
		for j, r := range line {
			column++
			at := position{i + 1, column}
			if r == utf8.RuneError {
				if _, width := utf8.DecodeRuneInString(line[j:]); width == 1 {
					p.add(t, at, documentKey, "byte %#02x is not valid UTF-8; save the file as UTF-8", line[j])
					return false
				}
			}
			if r < ' ' && r != '\t' || r >= 0x7f && r < 0xa0 || r == '\ufeff' {
				p.add(t, at, documentKey,
					"the control character %U is not allowed; in double quotes it can be written as an escape", r)
				return false
			}
		}
	}
	if last := len(t.lines) - 1; t.lines[last] != "" {
		end := position{last + 1, utf8.RuneCountInString(t.lines[last]) + 1}
		p.add(t, end, documentKey,
			"the file does not end with a line break, so it may be cut off; write the whole file, "+
				"with a line break at its end")
		return false
	}
	return true
}

// Limits of nesting. The parser recurses, so a line with a million open
// brackets would overflow its stack. A block is as deep as its indentation.
const (
	maxFlowDepth   = 100
	maxIndentation = 1000
)

// tooDeep returns the first token beyond the allowed nesting.
func tooDeep(tokens token.Tokens) *token.Token {
	depth := 0
	for _, tk := range tokens {
		switch tk.Type {
		case token.MappingStartType, token.SequenceStartType:
			if depth++; depth > maxFlowDepth {
				return tk
			}
		case token.MappingEndType, token.SequenceEndType:
			depth = max(0, depth-1)
		case token.SequenceEntryType, token.MappingKeyType, token.MappingValueType, token.TagType, token.AnchorType:
			if depth == 0 && tk.Position.Column > maxIndentation {
				return tk
			}
		}
	}
	return nil
}

// tabInside returns the first string without quotes that contains a tab. The
// parser would drop the tab: "GET<tab>/a" would become "GET/a".
func tabInside(tokens token.Tokens) *token.Token {
	for i, tk := range tokens {
		block := i > 0 && (tokens[i-1].Type == token.LiteralType || tokens[i-1].Type == token.FoldedType)
		if tk.Type != token.StringType || block {
			continue
		}
		for line := range strings.Lines(tk.Origin) {
			if strings.Contains(strings.TrimSpace(line), "\t") {
				return tk
			}
		}
	}
	return nil
}

// parse returns the value of a YAML text, or nil after an error.
func (r *Reader) parse(t *text, source []byte, limit int) ast.Node {
	if !r.wellFormed(t, source, limit) {
		return nil
	}
	file, _, err := Parse(strings.Join(t.lines, "\n"))
	if err != nil {
		r.addSyntax(t, err)
		return nil
	}
	var body ast.Node
	documents := 0
	for _, doc := range file.Docs {
		if doc.Body != nil && doc.Body.Type() == ast.DirectiveType {
			continue
		}
		if documents++; documents > 1 {
			at := position{len(t.lines), 1}
			if doc.Start != nil {
				at = place(doc.Start)
			}
			r.add(t, at, documentKey, "a second YAML document begins here; the file must hold one")
			return nil
		}
		body = doc.Body
	}
	if body == nil {
		r.add(t, position{1, 1}, documentKey, "the file is empty")
	}
	return body
}

// syntaxError is an error that this package finds before the YAML parser.
type syntaxError struct {
	message string
	at      position
}

func (e *syntaxError) Error() string { return e.message }

// Parse runs the YAML parser. It returns the tokens too, comments among them. It recovers from panics,
// which odd input can cause: a reload must not end the process.
func Parse(source string) (file *ast.File, tokens token.Tokens, err error) {
	defer func() {
		if recover() != nil {
			file, err = nil, &syntaxError{message: "the YAML parser failed on this file", at: position{1, 1}}
		}
	}()
	tokens = joinColons(lexer.Tokenize(source))
	if tk := tooDeep(tokens); tk != nil {
		return nil, nil, &syntaxError{message: "nested too deeply", at: place(tk)}
	}
	if tk := tabInside(tokens); tk != nil {
		const message = "a tab inside a string without quotes; use a space, or put the string in quotes"
		return nil, nil, &syntaxError{message: message, at: place(tk)}
	}
	file, err = parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	return file, tokens, err
}

// place returns where a token begins.
func place(tk *token.Token) position {
	if tk == nil || tk.Position == nil {
		return position{1, 1}
	}
	return position{tk.Position.Line, tk.Position.Column}
}

var tabIndent = regexp.MustCompile(`^ *\t`)

// addSyntax reports an error of the parser, with a hint if the cause is a
// common one.
func (p *problems) addSyntax(t *text, err error) {
	message, at := err.Error(), position{1, 1}
	if own, ok := errors.AsType[*syntaxError](err); ok {
		at = own.at
	} else if parsed, ok := errors.AsType[yaml.Error](err); ok {
		message, at = parsed.GetMessage(), place(parsed.GetToken())
	}
	line := t.lines[max(1, min(at.line, len(t.lines)))-1]
	switch {
	case tabIndent.MatchString(line):
		message = "a tab in the indentation; YAML is indented with spaces"
	case strings.Contains(message, "not allowed in this context"):
		message += "; check the indentation and the colons here and above"
	case strings.Contains(line, "${"):
		message += `; inside of { } and [ ] a variable must be in quotes: "${NAME}"`
	}
	p.add(t, at, documentKey, "not valid YAML: %s", message)
}
