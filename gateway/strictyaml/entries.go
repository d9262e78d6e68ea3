package strictyaml

import (
	"slices"

	"github.com/goccy/go-yaml/ast"
)

// entry is one key of a mapping with its value.
type entry struct {
	name   string
	at     position // of the key
	value  ast.Node
	merged bool // whether it comes from a merge key
}

// entries lists the keys of a mapping in the order of the text, those of its
// merge key last. A key of the mapping itself wins over a merged one, and the
// first of several merged ones wins.
func (d *decoder) entries(n ast.Node, path string) ([]entry, bool) {
	mapping, ok := n.(ast.MapNode)
	if !ok {
		found := describe(n)
		if _, null := n.(*ast.NullNode); null {
			found += "; write {} for an empty one"
		}
		d.wrong(n, path, "expected a mapping of keys to values, found %s", found)
		return nil, false
	}
	var list []entry
	var merge ast.Node
	lines := map[string]int{} // of the first
	for pairs := mapping.MapRange(); pairs.Next(); {
		key := pairs.Key()
		e := entry{at: start(key), value: pairs.Value()}
		if key.IsMergeKey() {
			e.name = "<<"
		} else if e.name, ok = d.keyName(key, path); !ok {
			continue
		}
		if first, twice := lines[e.name]; twice {
			d.report(e.at, Join(path, e.name), "duplicate key; it is given in line %d already", first)
			continue
		}
		lines[e.name] = e.at.line
		if key.IsMergeKey() {
			merge = e.value
			continue
		}
		list = append(list, e)
	}
	if merge != nil {
		d.merge(&list, merge, path)
	}
	return list, true
}

// keyName returns the text of a key.
func (d *decoder) keyName(key ast.Node, path string) (string, bool) {
	switch k := key.(type) {
	case *ast.StringNode:
		return k.Value, true
	case *ast.MappingKeyNode:
		return d.keyName(k.Value, path)
	case *ast.AnchorNode:
		return d.keyName(k.Value, path)
	}
	d.report(start(key), d.shownPath(path), "expected a string as the key, found %s; put it in quotes", describe(key))
	return "", false
}

// merge adds the keys of a merge key (<<). Its value is a mapping or a list of
// mappings, usually by alias.
func (d *decoder) merge(list *[]entry, n ast.Node, path string) {
	d.inAlias++
	defer func() { d.inAlias-- }()
	content, _, ok := d.resolve(n, path)
	if !ok || !d.countExpanded(content) {
		return
	}
	switch source := content.(type) {
	case *ast.SequenceNode:
		for _, one := range source.Values {
			if inner, _, ok := d.resolve(one, path); ok {
				if _, nested := inner.(*ast.SequenceNode); nested {
					d.wrong(inner, path, "expected a mapping to merge, found a list")
					return
				}
			}
			d.merge(list, one, path)
		}
	case ast.MapNode:
		merged, _ := d.entries(content, path)
		for _, e := range merged {
			if !d.countExpanded(content) {
				return
			}
			if !slices.ContainsFunc(*list, func(own entry) bool { return own.name == e.name }) {
				e.merged = true
				*list = append(*list, e)
			}
		}
	default:
		d.wrong(content, path, "expected a mapping to merge, found %s", describe(content))
	}
}
