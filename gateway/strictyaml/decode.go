package strictyaml

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// decoder puts a syntax tree into Go values by their types and yaml tags. It
// reports each value that does not fit and continues.
type decoder struct {
	*Reader
	*Document
	aliases  map[*ast.AliasNode]ast.Node
	inAlias  int                 // depth of aliases and merges
	expanded int                 // number of values read in them
	unknown  map[position]string // unknown keys, and the known ones that they resemble
	fields   map[reflect.Type]map[string]field
	single   map[string]bool     // paths of lists whose only element has the path of the list
	words    map[string][]string // by the path of a key that takes them only
}

var (
	secretType   = reflect.TypeFor[Secret]()
	durationType = reflect.TypeFor[time.Duration]()
)

// report adds a diagnostic about a place.
func (d *decoder) report(at position, key, format string, args ...any) {
	d.addOnce(d.text, at, key, format, args...)
}

// wrong reports that the value at path cannot be decoded.
func (d *decoder) wrong(n ast.Node, path, format string, args ...any) {
	d.report(start(n), d.shownPath(path), format, args...)
	d.Break(path)
}

// shownPath returns a path as diagnostics show it. The root has a name of its own.
func (d *decoder) shownPath(path string) string {
	if path == "" {
		return documentKey
	}
	return path
}

// value decodes the node n with the path path into v.
func (d *decoder) value(n ast.Node, path string, v reflect.Value) {
	n, aliased, ok := d.resolve(n, path)
	if !ok {
		return
	}
	if aliased {
		d.inAlias++
		defer func() { d.inAlias-- }()
	}
	if !d.countExpanded(n) {
		return
	}
	if tag, ok := n.(*ast.TagNode); ok {
		d.wrong(n, path,
			"the tag %s is not supported; put a string that looks like something else in quotes", tag.Start.Value)
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
	case d.Parse[t] != nil:
		d.parsed(n, path, v, d.Parse[t])
	case d.Either[t] != "":
		d.either(n, path, v)
	case kind == reflect.Slice && d.Either[t.Elem()] != "" && !d.Listed[t.Elem()]:
		d.eitherList(n, path, v)
	case t == secretType:
		d.secret(n, path, v)
	case kind == reflect.String:
		if s, ok := d.scalar(n, path, v.Type()); ok {
			v.SetString(s)
		}
	case kind == reflect.Bool:
		d.boolean(n, path, v)
	case kind == reflect.Int || kind == reflect.Int64:
		d.integer(n, path, v)
	case kind == reflect.Float64:
		d.fraction(n, path, v)
	case kind == reflect.Slice:
		d.list(n, path, v)
	case kind == reflect.Map:
		d.table(n, path, v)
	case kind == reflect.Struct:
		d.section(n, path, v)
	case kind == reflect.Pointer:
		v.Set(d.newElement(t.Elem()).Addr())
		if _, null := n.(*ast.NullNode); null {
			d.wrong(n, path, "expected a mapping of keys to values, found nothing")
			return
		}
		d.content(n, path, v.Elem())
	default:
		panic(fmt.Sprintf("strictyaml: no rule for %s of type %s", path, t))
	}
}

// parsed decodes a string with a function of Options.Parse.
func (d *decoder) parsed(n ast.Node, path string, v reflect.Value, parse func(path, value string) (any, error)) {
	s, ok := d.scalar(n, path, v.Type())
	if !ok {
		return
	}
	value, err := parse(path, s)
	if err != nil && d.stood[path] { // a variable is only a part of the value
		value, err = parse(path, d.standIn("variable", path, v.Type()))
	}
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
				d.wrong(at, path, "the alias *%s has no anchor above it", at.Value)
				return nil, false, false
			}
			n, aliased = target, true
		default:
			return n, aliased, true
		}
	}
}

// countExpanded counts a value that is read through an alias. It returns false when
// there are too many.
func (d *decoder) countExpanded(n ast.Node) bool {
	if d.inAlias == 0 {
		return true
	}
	d.expanded++
	if d.expanded == maxExpanded {
		d.report(start(n), documentKey, "the aliases of this file stand for more than %d values", maxExpanded)
		d.Break(d.root)
	}
	return d.expanded < maxExpanded
}

// section decodes a mapping whose keys are the fields of a struct. Null is an
// empty section: every line of it may be commented out.
func (d *decoder) section(n ast.Node, path string, v reflect.Value) {
	if _, null := n.(*ast.NullNode); null && path != d.root {
		return
	}
	entries, ok := d.entries(n, path)
	if !ok {
		return
	}
	fields := d.fields[v.Type()]
	if fields == nil {
		fields = fieldsOf(v.Type())
		d.fields[v.Type()] = fields
	}
	for _, e := range entries {
		f, known := fields[e.name]
		switch {
		case !known:
			d.unknownKey(path, e, fields)
		case f.file:
			value := v.Field(f.index)
			d.secretFile(path, e, entries, value)
			d.declare(Join(path, strings.TrimSuffix(e.name, "_file")), value, "", f)
		default:
			at := Join(path, e.name)
			if f.single {
				d.single[at] = true
			}
			value := v.Field(f.index)
			fallback := value.String()
			if f.words != nil {
				d.words[at] = f.words
			}
			d.entryValue(e, at, value)
			if f.path {
				d.resolvePath(value, f.tag)
			}
			d.declare(at, value, fallback, f)
		}
	}
}

// declare keeps the value at path for CheckValues, if the tags of its field declare words or checks.
func (d *decoder) declare(path string, v reflect.Value, fallback string, f field) {
	if f.words != nil || f.checked {
		kept := reflect.New(v.Type()).Elem() // the struct may be moved, and completed
		kept.Set(v)
		d.declared = append(d.declared, declared{path, kept, fallback, f})
	}
}

// entryValue decodes the value of one key.
func (d *decoder) entryValue(e entry, path string, v reflect.Value) {
	if e.merged {
		d.inAlias++
		defer func() { d.inAlias-- }()
	}
	d.places[path] = span{e.at, start(e.value)}
	d.value(e.value, path, v)
}

// field is the field of a struct for the value of a key.
type field struct {
	index int
	file  bool // the key is x_file, and its value is the path of a file with x
	// single lists are lists of an Either type whose only element has the path
	// of the list. Their yaml tag has the option single.
	single  bool
	words   []string // the only values, or those of the elements of a list; nil: any
	secret  bool
	path    bool // the value is the path of a file
	checked bool // tag has bounds, or checks
	why     string
	tag     reflect.StructTag
}

// fieldsOf returns the keys of a struct type by its yaml tags.
func fieldsOf(t reflect.Type) map[string]field {
	fields := make(map[string]field, t.NumField())
	var words map[string][]string
	var why map[string]string
	if section, ok := reflect.Zero(t).Interface().(worded); ok {
		words = section.Words()
	}
	if section, ok := reflect.Zero(t).Interface().(reasoned); ok {
		why = section.Why()
	}
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		name, option, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if name == "-" {
			continue
		}
		one := field{index: i, single: option == "single", words: words[name], secret: f.Type == secretType, tag: f.Tag}
		if tagged, ok := f.Tag.Lookup("words"); ok {
			one.words = strings.Fields(tagged)
		}
		_, one.path = f.Tag.Lookup("file")
		one.why = cmp.Or(why[name], f.Tag.Get("why"))
		one.checked = slices.ContainsFunc([]string{"min", "max", "range", "check"}, func(key string) bool {
			return f.Tag.Get(key) != ""
		})
		if one.checked && f.Type.Kind() != reflect.Slice {
			one.outOfBounds(reflect.Zero(f.Type)) // a tag that does not fit the type panics now
		}
		fields[name] = one
		if one.secret {
			ofFile := one
			ofFile.file, ofFile.secret = true, false
			fields[name+"_file"] = ofFile
		}
	}
	return fields
}

// resolvePath makes a path relative to the folder of the document. In its tag, file has the kinds of files
// apart: "public" is without secrets. A name in the tag bare is no path, and with "program" neither is one
// without a slash.
func (d *decoder) resolvePath(v reflect.Value, tag reflect.StructTag) {
	path, kind := v.String(), tag.Get("file")
	if path == "" || path == tag.Get("bare") || kind == "program" && !strings.ContainsRune(path, filepath.Separator) {
		return
	}
	v.SetString(d.Document.Resolve(path))
	d.named = append(d.named, v.String())
	if kind == "public" {
		d.public = append(d.public, v.String())
	}
}

// unknownKey reports a key that is not a field. If it is a misspelling of one,
// later checks do not report that one as missing.
func (d *decoder) unknownKey(path string, e entry, fields map[string]field) {
	known, again := d.unknown[e.at]
	if !again {
		names := slices.Sorted(maps.Keys(fields))
		known, _ = meant(e.name, names)
		d.unknown[e.at] = known
		if fields[known].secret || hasSecret(fields) && !isTypo(e.name, names) {
			d.redactValue(e.value)
		}
		d.add(d.text, e.at, Join(path, e.name), "unknown key; %s", Hint(e.name, "keys here", names))
	}
	if known != "" {
		d.Break(Join(path, known))
	}
}

// redactValue makes diagnostics mask the value of a key that is perhaps meant for a secret. What is
// shorter than any secret may be a word of a message.
func (d *decoder) redactValue(n ast.Node) {
	if s, ok := n.(*ast.StringNode); ok && len(s.Value) >= 6 {
		d.Reader.Redact(s.Value)
	}
}

func hasSecret(fields map[string]field) bool {
	for _, f := range fields {
		if f.secret {
			return true
		}
	}
	return false
}

// secretFile reads a secret from the file that the key x_file names.
func (d *decoder) secretFile(path string, e entry, entries []entry, v reflect.Value) {
	base := strings.TrimSuffix(e.name, "_file")
	key := Join(path, e.name)
	if slices.ContainsFunc(entries, func(other entry) bool { return other.name == base }) {
		d.report(e.at, key, "%s is given too; keep one of the two", base)
		d.Break(Join(path, base))
		return
	}
	var name string
	d.entryValue(e, key, reflect.ValueOf(&name).Elem())
	d.places[Join(path, base)] = d.places[key]
	if d.broken[key] {
		d.Break(Join(path, base))
		return
	}
	secret, err := d.readSecret(d.Document.Resolve(name))
	if _, unreadable := errors.AsType[*unreadableError](err); unreadable && d.Placeholders {
		d.stood[Join(path, base)], secret, err = true, d.standInSecret(base, Join(path, base)), nil
	}
	if err != nil {
		d.Fault(key, "%v", err)
		d.Break(Join(path, base))
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
		at, begins := path+"["+strconv.Itoa(i)+"]", start(one)
		d.places[at] = span{begins, begins}
		element := d.newElement(v.Type().Elem())
		d.value(one, at, element)
		elements = reflect.Append(elements, element)
	}
	v.Set(elements)
}

// table decodes a mapping with any keys into a map.
func (d *decoder) table(n ast.Node, path string, v reflect.Value) {
	if kind, ok := v.Interface().(described); ok {
		if _, mapping := n.(ast.MapNode); !mapping {
			d.wrong(n, path, "expected %s, found %s", kind.Description(), describe(n))
			return
		}
	}
	entries, ok := d.entries(n, path)
	if !ok {
		return
	}
	m := reflect.MakeMapWithSize(v.Type(), len(entries))
	for _, e := range entries {
		element := d.newElement(v.Type().Elem())
		d.entryValue(e, Join(path, e.name), element)
		m.SetMapIndex(reflect.ValueOf(e.name), element)
	}
	v.Set(m)
}

// described is a type of a mapping that says what it is for, where a value is none.
type described interface{ Description() string }

// newElement returns a new element of a list or a map, or a section that may be absent, with its
// defaults.
func (d *decoder) newElement(t reflect.Type) reflect.Value {
	v := reflect.New(t).Elem()
	setDefaults(v)
	return v
}

// eitherList decodes a list of an Either type, or a single value in its place.
func (d *decoder) eitherList(n ast.Node, path string, v reflect.Value) {
	nodes := []ast.Node{n}
	sequence, isList := n.(*ast.SequenceNode)
	if isList {
		nodes = sequence.Values
	}
	elements := reflect.MakeSlice(v.Type(), len(nodes), len(nodes))
	for i, one := range nodes {
		if d.expanded >= maxExpanded {
			return
		}
		at := fmt.Sprintf("%s[%d]", path, i)
		if len(nodes) == 1 && d.single[path] {
			at = path
		}
		if isList {
			d.places[at] = span{start(one), start(one)}
		}
		d.either(one, at, elements.Index(i))
	}
	v.Set(elements)
}

// either decodes a value of an Either type.
func (d *decoder) either(n ast.Node, path string, v reflect.Value) {
	content, _, ok := d.resolve(n, path)
	if !ok {
		return
	}
	kind := reflect.Pointer
	switch content.(type) {
	case ast.MapNode:
	case *ast.StringNode:
		kind = reflect.String
	default:
		d.wrong(content, path, "expected %s, found %s", d.Either[v.Type()], describe(content))
		return
	}
	for i := range v.NumField() {
		if field := v.Field(i); field.Kind() == kind {
			d.value(n, path, field)
			return
		}
	}
	panic(fmt.Sprintf("strictyaml: %s has no field for a %s", v.Type(), kind))
}
