package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"authgate/policy"
)

// decoder puts a syntax tree into Go values by their types and yaml tags. It
// reports whatever does not fit and goes on.
type decoder struct {
	*loader
	*document
	aliases  map[*ast.AliasNode]ast.Node
	inAlias  int                 // how many aliases and merges deep
	expanded int                 // values read in them
	unknown  map[position]string // keys, and the ones that were meant
}

var (
	secretType   = reflect.TypeFor[Secret]()
	durationType = reflect.TypeFor[time.Duration]()
	refsType     = reflect.TypeFor[[]policy.Ref]()
)

// decode reads a YAML file into the value that into points to. root is the
// path of the whole document.
func (l *loader) decode(t *text, source []byte, limit int, root string, into any) *document {
	doc := newDocument(t, root)
	body := l.parse(t, source, limit)
	if body == nil {
		doc.breaks(root)
		return doc
	}
	d := &decoder{
		loader: l, document: doc, aliases: resolveAliases(body), unknown: map[position]string{},
	}
	doc.places[root] = span{start(body), start(body)}
	d.value(body, root, reflect.ValueOf(into).Elem())
	return doc
}

// report adds a problem with what stands at a place.
func (d *decoder) report(at position, key, format string, args ...any) {
	d.addOnce(d.text, at, key, format, args...)
}

// wrong reports that the value at path cannot be read.
func (d *decoder) wrong(n ast.Node, path, format string, args ...any) {
	d.report(start(n), d.name(path), format, args...)
	d.breaks(path)
}

// name is a path as shown; the root has none of its own.
func (d *decoder) name(path string) string {
	if path == "" {
		return documentKey
	}
	return path
}

// value decodes n, which stands at path, into v.
func (d *decoder) value(n ast.Node, path string, v reflect.Value) {
	n, aliased, ok := d.resolve(n, path)
	if !ok {
		return
	}
	if aliased {
		d.inAlias++
		defer func() { d.inAlias-- }()
	}
	if !d.spend(n) {
		return
	}
	if tag, ok := n.(*ast.TagNode); ok {
		d.wrong(n, path, "the tag %s is not supported; put a string that looks like something else in quotes", tag.Start.Value)
		return
	}
	d.content(n, path, v)
}

// content decodes a node that is neither an alias nor a tag.
func (d *decoder) content(n ast.Node, path string, v reflect.Value) {
	t, kind := v.Type(), v.Kind()
	switch {
	case t == durationType:
		d.duration(n, path, v)
	case t == refsType:
		d.refs(n, path, v)
	case d.parsers[t] != nil:
		d.parsed(n, path, v, d.parsers[t])
	case kind == reflect.String:
		s, ok := d.scalar(n, path)
		if ok {
			v.SetString(s)
		}
		if ok && t == secretType {
			d.secrets = append(d.secrets, s)
		}
	case kind == reflect.Bool:
		d.boolean(n, path, v)
	case kind == reflect.Int || kind == reflect.Int64:
		d.integer(n, path, v)
	case kind == reflect.Slice:
		d.list(n, path, v)
	case kind == reflect.Map:
		d.table(n, path, v)
	case kind == reflect.Struct:
		d.section(n, path, v)
	case kind == reflect.Pointer:
		v.Set(reflect.New(t.Elem()))
		if _, null := n.(*ast.NullNode); null {
			d.wrong(n, path, "expected a mapping of keys to values, found nothing")
			return
		}
		d.content(n, path, v.Elem())
	default:
		panic(fmt.Sprintf("config: no rule for %s of type %s", path, t))
	}
}

// parsed decodes a string whose meaning parse finds.
func (d *decoder) parsed(n ast.Node, path string, v reflect.Value, parse func(path, value string) (any, error)) {
	s, ok := d.scalar(n, path)
	if !ok {
		return
	}
	value, err := parse(path, s)
	if err != nil {
		d.wrong(n, path, "%v", err)
		return
	}
	v.Set(reflect.ValueOf(value))
}

// resolve follows anchors and aliases to the node with the content.
func (d *decoder) resolve(n ast.Node, path string) (_ ast.Node, aliased, ok bool) {
	for {
		switch at := n.(type) {
		case *ast.AnchorNode:
			n = at.Value
		case *ast.AliasNode:
			target, known := d.aliases[at]
			if !known {
				d.wrong(at, path, "the alias *%s stands for an anchor that is not above it", at.Value)
				return nil, false, false
			}
			n, aliased = target, true
		default:
			return n, aliased, true
		}
	}
}

// spend counts a value that is read through an alias. When there are too many
// the document is given up.
func (d *decoder) spend(n ast.Node) bool {
	if d.inAlias == 0 {
		return true
	}
	d.expanded++
	if d.expanded == maxExpanded {
		d.report(start(n), documentKey, "the aliases of this file stand for more than %d values", maxExpanded)
		d.breaks(d.root)
	}
	return d.expanded < maxExpanded
}

// section decodes a mapping whose keys are the fields of a struct. Nothing at
// all stands for a section in which every line is commented out.
func (d *decoder) section(n ast.Node, path string, v reflect.Value) {
	if _, null := n.(*ast.NullNode); null && path != d.root {
		return
	}
	entries, ok := d.entries(n, path)
	if !ok {
		return
	}
	fields := fieldsOf(v.Type())
	for _, e := range entries {
		f, known := fields[e.name]
		switch {
		case !known:
			d.unknownKey(path, e, fields)
		case f.file:
			d.secretFile(path, e, entries, v.Field(f.index))
		default:
			d.entry(e, join(path, e.name), v.Field(f.index))
		}
	}
}

// entry decodes the value of one key.
func (d *decoder) entry(e entry, path string, v reflect.Value) {
	if e.merged {
		d.inAlias++
		defer func() { d.inAlias-- }()
	}
	d.places[path] = span{e.at, start(e.value)}
	d.value(e.value, path, v)
}

// field says where in a struct the value of a key goes.
type field struct {
	index int
	file  bool // the key is x_file, its value the path of a file with x
}

// fieldsOf are the keys of a struct type by its yaml tags.
func fieldsOf(t reflect.Type) map[string]field {
	fields := make(map[string]field, t.NumField())
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		name := f.Tag.Get("yaml")
		fields[name] = field{index: i}
		if f.Type == secretType {
			fields[name+"_file"] = field{index: i, file: true}
		}
	}
	return fields
}

// unknownKey reports a key that is no field. When it is a misspelling of one,
// that one counts as given.
func (d *decoder) unknownKey(path string, e entry, fields map[string]field) {
	meant, again := d.unknown[e.at]
	if !again {
		known := slices.Sorted(maps.Keys(fields))
		meant, _ = nearest(e.name, known)
		d.unknown[e.at] = meant
		d.add(d.text, e.at, join(path, e.name), "unknown key; %s", hint(e.name, "keys here", known))
	}
	if meant != "" {
		d.breaks(join(path, meant))
	}
}

// secretFile reads a secret from the file that the key x_file names.
func (d *decoder) secretFile(path string, e entry, entries []entry, v reflect.Value) {
	base := strings.TrimSuffix(e.name, "_file")
	key := join(path, e.name)
	if slices.ContainsFunc(entries, func(other entry) bool { return other.name == base }) {
		d.report(e.at, key, "%s is given as well; keep one of the two", base)
		d.breaks(join(path, base))
		return
	}
	var name string
	d.entry(e, key, reflect.ValueOf(&name).Elem())
	d.places[join(path, base)] = d.places[key]
	if d.broken[key] {
		d.breaks(join(path, base))
		return
	}
	secret, err := d.readSecret(name)
	if err != nil {
		d.fault(d.document, key, "%v", err)
		d.breaks(join(path, base))
		return
	}
	v.SetString(secret)
}

// list decodes a sequence.
func (d *decoder) list(n ast.Node, path string, v reflect.Value) {
	sequence, ok := n.(*ast.SequenceNode)
	if !ok {
		found := describe(n)
		switch n.(type) {
		case *ast.NullNode:
			found += "; write [] for an empty one"
		case *ast.StringNode, *ast.IntegerNode, *ast.BoolNode, *ast.FloatNode:
			found += "; put it in brackets"
		}
		d.wrong(n, path, "expected a list, found %s", found)
		return
	}
	elements := reflect.MakeSlice(v.Type(), 0, len(sequence.Values))
	for i, one := range sequence.Values {
		if d.expanded >= maxExpanded {
			return
		}
		at := fmt.Sprintf("%s[%d]", path, i)
		d.places[at] = span{start(one), start(one)}
		element := prototype(v.Type().Elem())
		d.value(one, at, element)
		elements = reflect.Append(elements, element)
	}
	v.Set(elements)
}

// table decodes a mapping whose keys are free.
func (d *decoder) table(n ast.Node, path string, v reflect.Value) {
	entries, ok := d.entries(n, path)
	if !ok {
		return
	}
	m := reflect.MakeMapWithSize(v.Type(), len(entries))
	for _, e := range entries {
		element := prototype(v.Type().Elem())
		d.entry(e, join(path, e.name), element)
		m.SetMapIndex(reflect.ValueOf(e.name), element)
	}
	v.Set(m)
}

// refs decodes policies: a name, a policy written in place, or a list of
// these.
func (d *decoder) refs(n ast.Node, path string, v reflect.Value) {
	nodes := []ast.Node{n}
	sequence, isList := n.(*ast.SequenceNode)
	if isList {
		nodes = sequence.Values
	}
	refs := make([]policy.Ref, len(nodes))
	for i, one := range nodes {
		if d.expanded >= maxExpanded {
			return
		}
		at := fmt.Sprintf("%s[%d]", path, i)
		// Package policy calls the one policy of a route by the path of its list.
		if len(nodes) == 1 && strings.HasSuffix(path, ".policy") {
			at = path
		}
		if isList {
			d.places[at] = span{start(one), start(one)}
		}
		d.ref(one, at, &refs[i])
	}
	v.Set(reflect.ValueOf(refs))
}

func (d *decoder) ref(n ast.Node, path string, ref *policy.Ref) {
	content, _, ok := d.resolve(n, path)
	if !ok {
		return
	}
	switch content.(type) {
	case ast.MapNode:
		d.value(n, path, reflect.ValueOf(&ref.Spec).Elem())
	case *ast.StringNode:
		d.value(n, path, reflect.ValueOf(&ref.Name).Elem())
	default:
		d.wrong(content, path, "expected the name of a policy, or a policy written in place, found %s", describe(content))
	}
}
