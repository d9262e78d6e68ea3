package strictyaml

import "github.com/goccy/go-yaml/ast"

// maxExpanded is the number of values that may be read through aliases and merge
// keys, so that a small file cannot represent a huge one.
const maxExpanded = 50_000

// resolveAliases finds the value of each alias: the nearest anchor above it with
// its name. An anchor is known only after its value, so a value cannot contain
// an alias of itself. The result leaves out such an alias and one without an
// anchor.
func resolveAliases(root ast.Node) map[*ast.AliasNode]ast.Node {
	aliases := map[*ast.AliasNode]ast.Node{}
	anchors := map[string]ast.Node{}
	var walk func(ast.Node)
	walk = func(n ast.Node) {
		switch n := n.(type) {
		case *ast.AnchorNode:
			walk(n.Value)
			anchors[n.Name.String()] = n.Value
		case *ast.AliasNode:
			if value, ok := anchors[n.Value.String()]; ok {
				aliases[n] = value
			}
		case *ast.TagNode:
			walk(n.Value)
		case *ast.MappingKeyNode:
			walk(n.Value)
		case *ast.SequenceNode:
			for _, value := range n.Values {
				walk(value)
			}
		case ast.MapNode:
			for entries := n.MapRange(); entries.Next(); {
				walk(entries.Key())
				walk(entries.Value())
			}
		}
	}
	walk(root)
	return aliases
}
