package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
)

// A Mutant is one small change to one source file.
type Mutant struct {
	File      string // path of the source file
	Line, Col int    // position of the change, from 1
	Kind      string // what changes, for a reader: "== to !=", "remove call"

	start, end int    // the bytes of the file that Text replaces
	text       string // new source text
}

func (m Mutant) String() string {
	return fmt.Sprintf("%s:%d:%d: %s", m.File, m.Line, m.Col, m.Kind)
}

// Apply returns the source of the file with the change made.
func (m Mutant) Apply(source []byte) []byte {
	return slices.Concat(source[:m.start], []byte(m.text), source[m.end:])
}

// operators has the operator that replaces each binary operator.
var operators = map[token.Token]token.Token{
	token.EQL: token.NEQ, token.NEQ: token.EQL,
	token.LSS: token.LEQ, token.LEQ: token.LSS,
	token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.LAND: token.LOR, token.LOR: token.LAND,
	token.ADD: token.SUB, token.SUB: token.ADD,
}

// Mutants returns the mutants of a Go source file in the order of their
// positions. Some of them do not compile, because Mutants knows no types.
func Mutants(name string, source []byte) ([]Mutant, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	w := &walker{set: set, name: name, source: source}
	for _, declaration := range file.Decls {
		if function, ok := declaration.(*ast.FuncDecl); ok && function.Body != nil {
			w.function(function.Type, function.Body)
		}
	}
	slices.SortStableFunc(w.found, func(a, b Mutant) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.end, b.end))
	})
	return w.found, nil
}

// A walker collects the mutants of one file.
type walker struct {
	set    *token.FileSet
	name   string
	source []byte
	found  []Mutant
}

// function collects the mutants of one function. Function literals inside it
// have results of their own, so each starts a walk of its own.
func (w *walker) function(signature *ast.FuncType, body *ast.BlockStmt) {
	ast.Inspect(body, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.FuncLit:
			w.function(n.Type, n.Body)
			return false
		case *ast.BinaryExpr:
			if to, ok := operators[n.Op]; ok {
				end := n.OpPos + token.Pos(len(n.Op.String()))
				w.replace(n.OpPos, end, to.String(), n.Op.String()+" to "+to.String())
			}
		case *ast.UnaryExpr:
			if n.Op == token.NOT {
				w.replace(n.OpPos, n.X.Pos(), "", "remove !")
			}
		case *ast.IfStmt:
			w.condition(n.Cond)
		case *ast.ForStmt:
			w.condition(n.Cond)
		case *ast.BlockStmt:
			w.statements(n.List)
		case *ast.CaseClause:
			w.statements(n.Body)
		case *ast.CommClause:
			w.statements(n.Body)
		case *ast.ReturnStmt:
			w.results(signature, n)
		case *ast.BasicLit:
			w.number(n)
		}
		return true
	})
}

// condition negates a condition, unless another mutant does the same to its
// operator.
func (w *walker) condition(e ast.Expr) {
	switch e := e.(type) {
	case nil:
		return
	case *ast.UnaryExpr:
		return
	case *ast.BinaryExpr:
		if e.Op == token.EQL || e.Op == token.NEQ {
			return
		}
	}
	w.replace(e.Pos(), e.End(), "!("+w.text(e)+")", "negate condition")
}

// statements removes each statement whose only purpose is its effect.
func (w *walker) statements(list []ast.Stmt) {
	for _, statement := range list {
		kind := ""
		switch s := statement.(type) {
		case *ast.ExprStmt:
			kind = "remove call"
		case *ast.DeferStmt:
			kind = "remove defer"
		case *ast.IncDecStmt:
			kind = "remove assignment"
		case *ast.AssignStmt:
			if s.Tok != token.DEFINE {
				kind = "remove assignment"
			}
		}
		if kind != "" {
			w.replace(statement.Pos(), statement.End(), "", kind)
		}
	}
}

// results changes the results of a function: a nil error for an error, and
// the opposite for true and false.
func (w *walker) results(signature *ast.FuncType, s *ast.ReturnStmt) {
	for _, result := range s.Results {
		switch word := w.text(result); word {
		case "true":
			w.replace(result.Pos(), result.End(), "false", "return false")
		case "false":
			w.replace(result.Pos(), result.End(), "true", "return true")
		}
	}
	if len(s.Results) == 0 || len(s.Results) != signature.Results.NumFields() {
		return // a call that has several results cannot be replaced in part
	}
	types := signature.Results.List
	last := s.Results[len(s.Results)-1]
	if w.text(types[len(types)-1].Type) == "error" && w.text(last) != "nil" {
		w.replace(last.Pos(), last.End(), "nil", "return nil error")
	}
}

// number adds one to an integer.
func (w *walker) number(literal *ast.BasicLit) {
	if literal.Kind != token.INT {
		return
	}
	if n, err := strconv.ParseInt(literal.Value, 0, 64); err == nil {
		text := strconv.FormatInt(n+1, 10)
		w.replace(literal.Pos(), literal.End(), text, literal.Value+" to "+text)
	}
}

func (w *walker) replace(from, to token.Pos, text, kind string) {
	position := w.set.Position(from)
	w.found = append(w.found, Mutant{
		File: w.name, Line: position.Line, Col: position.Column, Kind: kind,
		start: position.Offset, end: w.set.Position(to).Offset, text: text,
	})
}

func (w *walker) text(node ast.Node) string {
	return string(w.source[w.set.Position(node.Pos()).Offset:w.set.Position(node.End()).Offset])
}
