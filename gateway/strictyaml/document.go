package strictyaml

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// Document is a file as read: its text and the place of each value. Paths are
// dotted and begin at the root: routes[1].policy.
type Document struct {
	*text
	reader       *Reader
	root         string                                        // the path of the top level, empty in the main file
	folder       string                                        // where relative paths start
	places       map[string]span                               // of all keys and values in the file
	locate       func(path string) (line, column int, ok bool) // of what is not in places; nil: nothing
	broken       map[string]bool                               // paths of values that could not be read
	brokenInside map[string]bool                               // paths of values that contain those
	blank        map[string]string                             // paths of values with a blank variable, and its name
	declared     []declared                                    // for CheckValues
	stood        map[string]bool                               // paths of values with a stand-in
	adopted      map[string]adopted                            // what is written in parts, by its path here
	parts        []*Document
	secret       bool // see HasSecrets
}

// span is where a key and its value begin.
type span struct{ key, value position }

func (r *Reader) document(t *text, root string) *Document {
	return &Document{
		text: t, reader: r, root: root, folder: filepath.Dir(r.Main),
		places: map[string]span{}, broken: map[string]bool{}, brokenInside: map[string]bool{},
		blank: map[string]string{}, stood: map[string]bool{},
	}
}

// Root returns the path of the top level.
func (d *Document) Root() string { return d.root }

// Lines returns the lines of the file.
func (d *Document) Lines() []string { return d.lines }

// HasSecrets reports whether the text itself has a secret, and does not only name the variable
// or the file that has it.
func (d *Document) HasSecrets() bool { return d.secret }

// Given reports whether a key is written in the document.
func (d *Document) Given(path string) bool {
	d, path = d.owner(path)
	_, ok := d.place(path)
	return ok
}

// place returns the place of a value that is written in the document, which must own it.
func (d *Document) place(path string) (span, bool) {
	if known, ok := d.places[path]; ok {
		return known, true
	}
	if d.locate != nil {
		if line, column, ok := d.locate(path); ok {
			at := position{line, column}
			return span{at, at}, true
		}
	}
	return span{}, false
}

// Break marks the value at path as wrong, so that later checks do not report
// what follows from that.
func (d *Document) Break(path string) {
	if part, own := d.owner(path); part != d {
		part.Break(own)
	} else {
		d.broken[path] = true
	}
	d.breakAround(path)
}

// breakAround marks the values around the one at path as those that contain a wrong one.
func (d *Document) breakAround(path string) {
	for up, ok := parent(path); ok; up, ok = parent(up) {
		d.brokenInside[up] = true
	}
}

// Broken reports whether the value at path, a value in it or one around it is
// wrong.
func (d *Document) Broken(path string) bool {
	d, path = d.owner(path)
	if d.brokenInside[path] || d.Unreadable(path) {
		return true
	}
	for up, ok := parent(path); ok; up, ok = parent(up) {
		if d.broken[up] {
			return true
		}
	}
	return false
}

// Unreadable reports whether the value at path as a whole is wrong.
func (d *Document) Unreadable(path string) bool {
	d, path = d.owner(path)
	return d.broken[path]
}

// BlankVariable returns the name of an environment variable in the value at path that
// is set, but has no text.
func (d *Document) BlankVariable(path string) (name string, ok bool) {
	d, path = d.owner(path)
	name, ok = d.blank[path]
	return name, ok
}

// LocateWith sets the function that finds the place of a value in a file of plain
// lines. Line and column count from 1.
func (d *Document) LocateWith(locate func(path string) (line, column int, ok bool)) {
	d.locate = locate
}

// Redact makes diagnostics mask a secret wherever it appears.
func (d *Document) Redact(secret string) { d.reader.Redact(secret) }

// Place returns the place of the value at path as FILE:LINE.
func (d *Document) Place(path string) string {
	d, path = d.owner(path)
	return fmt.Sprintf("%s:%d", d.name, d.at(path).line)
}

// Position returns where the value at path begins. Line and column count from 1. It
// returns false if the value is not written in the document.
func (d *Document) Position(path string) (line, column int, ok bool) {
	d, path = d.owner(path)
	place, ok := d.place(path)
	return place.value.line, place.value.column, ok
}

// Fault reports that the value at path is wrong, unless that follows from what
// has been reported.
func (d *Document) Fault(path, format string, args ...any) {
	at, own := d.owner(path)
	message := d.placed(fmt.Sprintf(format, args...), at)
	d, path = at, own
	if d.stood[path] {
		message += "; here a stand-in has the place of a variable that is not set, or of a file"
	}
	switch {
	case d.Broken(path):
	case d.Given(path):
		d.reader.addOnce(d.text, d.at(path), path, "%s", message)
	default: // several keys may be missing at one place
		d.reader.add(d.text, d.at(path), path, "%s", message)
	}
}

// Missing is Fault and Break: later checks of the value have no meaning.
func (d *Document) Missing(path, format string, args ...any) {
	d.Fault(path, format, args...)
	d.Break(path)
}

// Warn reports that the value at path is probably a mistake.
func (d *Document) Warn(path, format string, args ...any) {
	at, own := d.owner(path)
	message := d.placed(fmt.Sprintf(format, args...), at)
	d, path = at, own
	d.reader.warnings.addOnce(d.text, d.at(path), path, "%s", message)
}

// at returns the place to show for path: that of its value, or of the nearest
// key around it that is written.
func (d *Document) at(path string) position {
	if place, ok := d.place(path); ok {
		return place.value
	}
	for up, ok := parent(path); ok; up, ok = parent(up) {
		if place, ok := d.place(up); ok {
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

// Join returns the path of a key under path. The empty key is quoted, so that
// its path differs from path.
func Join(path, key string) string {
	if key == "" {
		key = `""`
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// start returns where a node begins.
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
