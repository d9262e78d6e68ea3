package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// kind is one way to be hard to read.
type kind int

const (
	what kind = iota
	long
	wide
	bare
	kinds
)

func (k kind) String() string {
	return [...]string{`sentences with "what"`, "sentences above 30 words", "lines above 120 columns",
		"functions named by a verb alone"}[k]
}

// place is where the product has something of a kind.
type place struct {
	kind kind
	file string // relative to the repository, with slashes
	line int
	text string
}

func (p place) pkg() string    { return path.Dir(p.file) }
func (p place) String() string { return fmt.Sprintf("%s:%d: %s: %s", p.file, p.line, p.kind, p.text) }

// verbs are names that need an object: checkPassword instead of check.
var verbs = []string{"check", "begin", "end", "read", "serve", "find", "told", "shown", "asked"}

// readTree returns the places in the Go files of the product, in the order of their files.
func readTree(dir string) ([]place, error) {
	var places []place
	err := filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if entry.IsDir() {
			if slices.Contains([]string{"e2e", "packaging", "internal/test", "bin", "dist", ".git"}, name) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		source, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		found, err := readFile(name, source)
		places = append(places, found...)
		return err
	})
	return places, err
}

func readFile(name string, source []byte) ([]place, error) {
	files := token.NewFileSet()
	tree, err := parser.ParseFile(files, name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var places []place
	add := func(k kind, line int, text string) {
		places = append(places, place{k, name, line, text})
	}
	line := 0
	for text := range strings.Lines(string(source)) {
		line++
		text = strings.TrimRight(text, "\r\n")
		if utf8.RuneCountInString(strings.ReplaceAll(text, "\t", "    ")) > 120 {
			add(wide, line, strings.TrimSpace(text))
		}
	}
	for _, d := range tree.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && slices.Contains(verbs, f.Name.Name) {
			add(bare, files.Position(f.Pos()).Line, f.Name.Name)
		}
	}
	for _, group := range tree.Comments {
		for _, s := range readSentences(files, group) {
			if slices.ContainsFunc(s.words, isWhat) {
				add(what, s.line, strings.Join(s.words, " "))
			}
			if len(s.words) > 30 {
				add(long, s.line, strings.Join(s.words, " "))
			}
		}
	}
	return places, nil
}

type sentence struct {
	line  int // of its first word
	words []string
}

// readSentences parts a comment at the words that end in a full stop, a colon or a semicolon, at items of
// lists, and at empty and indented lines.
func readSentences(files *token.FileSet, group *ast.CommentGroup) []sentence {
	var all []sentence
	var s sentence
	finish := func() {
		if len(s.words) > 3 {
			all = append(all, s)
		}
		s = sentence{}
	}
	for _, c := range group.List {
		first := files.Position(c.Pos()).Line
		for i, text := range strings.Split(strings.TrimSuffix(c.Text, "*/"), "\n") {
			if i == 0 {
				text = text[len("//"):]
			}
			if strings.HasPrefix(text, "   - ") {
				finish()
			}
			if strings.TrimSpace(text) == "" || strings.HasPrefix(text, "\t") {
				finish()
				continue
			}
			for _, word := range strings.Fields(text) {
				if s.words == nil {
					s.line = first + i
				}
				s.words = append(s.words, word)
				if strings.ContainsAny(word[len(word)-1:], ".:;") {
					finish()
				}
			}
		}
	}
	finish()
	return all
}

func isWhat(word string) bool {
	return strings.EqualFold(strings.Trim(word, `"'“”().,:;?`), "what")
}
