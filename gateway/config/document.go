package config

import (
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// document is a YAML file as read: its text, and where each value stands.
// Paths are dotted and begin at the root: routes[1].policy.
type document struct {
	*text
	root   string          // the path of the whole document, empty in the main file
	places map[string]span // of everything that is written
	broken map[string]bool // paths about which enough has been said
	shaky  map[string]bool // paths with something broken in them
}

// span is where a key and its value begin.
type span struct{ key, value position }

func newDocument(t *text, root string) *document {
	return &document{
		text: t, root: root,
		places: map[string]span{}, broken: map[string]bool{}, shaky: map[string]bool{},
	}
}

// given reports whether a key is written in the document.
func (d *document) given(path string) bool {
	_, ok := d.places[path]
	return ok
}

// breaks notes that the value at path could not be read, so that no check
// complains again of what follows from that.
func (d *document) breaks(path string) {
	d.broken[path] = true
	for up, ok := parent(path); ok; up, ok = parent(up) {
		d.shaky[up] = true
	}
}

// isBroken reports whether the value at path, one in it or one around it could
// not be read.
func (d *document) isBroken(path string) bool {
	if d.shaky[path] || d.broken[path] {
		return true
	}
	for up, ok := parent(path); ok; up, ok = parent(up) {
		if d.broken[up] {
			return true
		}
	}
	return false
}

// at is where to point for path: its value, or the nearest key around it that
// is written.
func (d *document) at(path string) position {
	if place, ok := d.places[path]; ok {
		return place.value
	}
	for up, ok := parent(path); ok; up, ok = parent(up) {
		if place, ok := d.places[up]; ok {
			return place.key
		}
	}
	return position{1, 1}
}

// parent cuts the last key or index off a path.
func parent(path string) (string, bool) {
	i := strings.LastIndexAny(path, ".[")
	if i < 0 {
		return "", false
	}
	return path[:i], true
}

// join is the path of a key under path. The empty key is quoted, so as not to
// look like the path of what it is in.
func join(path, key string) string {
	if key == "" {
		key = `""`
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// fault reports something wrong with the value at path, unless it follows from
// what has been reported.
func (l *loader) fault(d *document, path, format string, args ...any) {
	switch {
	case d.isBroken(path):
	case d.given(path):
		l.addOnce(d.text, d.at(path), path, format, args...)
	default: // several keys may be missing at one place
		l.add(d.text, d.at(path), path, format, args...)
	}
}

// missing reports that a key must be given.
func (l *loader) missing(d *document, path, format string, args ...any) {
	l.fault(d, path, format, args...)
	d.breaks(path)
}

// start is where a node begins.
func start(n ast.Node) position {
	switch n := n.(type) {
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return start(n.Values[0].Key)
		}
	case *ast.MappingValueNode:
		return start(n.Key)
	}
	return place(n.GetToken())
}
