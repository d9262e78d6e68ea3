package config

import "github.com/goccy/go-yaml/ast"

// maxExpanded is how many values may be read through aliases and merge keys,
// so that a small file cannot stand for a huge one.
const maxExpanded = 100_000

// anchors resolves the aliases of a document in the order of its text. An
// anchor is known only after its value, so an alias cannot be in what it
// stands for.
type anchors struct {
	named   map[string]ast.Node
	aliases map[*ast.AliasNode]ast.Node
	unknown []*ast.AliasNode
}

func resolveAnchors(root ast.Node) *anchors {
	a := &anchors{named: map[string]ast.Node{}, aliases: map[*ast.AliasNode]ast.Node{}}
	a.walk(root)
	return a
}

func (a *anchors) walk(n ast.Node) {
	switch n := n.(type) {
	case *ast.AnchorNode:
		a.walk(n.Value)
		a.named[n.Name.String()] = n.Value
	case *ast.AliasNode:
		target, ok := a.named[n.Value.String()]
		if !ok {
			a.unknown = append(a.unknown, n)
			return
		}
		a.aliases[n] = target
	case *ast.TagNode:
		a.walk(n.Value)
	case *ast.MappingKeyNode:
		a.walk(n.Value)
	case *ast.SequenceNode:
		for _, value := range n.Values {
			a.walk(value)
		}
	case ast.MapNode:
		for entries := n.MapRange(); entries.Next(); {
			a.walk(entries.Key())
			a.walk(entries.Value())
		}
	}
}
