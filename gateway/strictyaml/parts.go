package strictyaml

import (
	"bytes"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// adopted is where a value of the main document is written: in a part, at a path of its own.
type adopted struct {
	part *Document
	path string
}

// ReadPart is Read for a part of the main file. A part may be empty, and relative paths of
// secrets start from its own folder.
func (r *Reader) ReadPart(name string, source []byte, limit int, into any) *Document {
	doc := r.document(newText(name, source, r.maskYAML), "")
	doc.folder = filepath.Dir(name)
	if !hasNoContent(source) {
		r.decode(doc, source, limit, into)
	}
	return doc
}

// hasNoContent reports whether a YAML text has neither keys nor values.
func hasNoContent(source []byte) bool {
	for line := range bytes.Lines(source) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return false
		}
	}
	return true
}

// Adopt makes the value at path of the main document the one that a part has at the path own.
// Reports about path, or below it, show the place in part.
func (d *Document) Adopt(path string, part *Document, own string) {
	if d.adopted == nil {
		d.adopted = map[string]adopted{}
	}
	d.adopted[path] = adopted{part, own}
	if !slices.Contains(d.parts, part) {
		d.parts = append(d.parts, part)
	}
	if part.Broken(own) {
		d.breakAround(path)
	}
}

// owner returns the document in which the value at path is written, and its path there.
func (d *Document) owner(path string) (*Document, string) {
	for up, ok := path, len(d.adopted) > 0; ok; up, ok = parent(up) {
		if at, is := d.adopted[up]; is {
			return at.part, at.path + path[len(up):]
		}
	}
	return d, path
}

// element matches an element of a list in a message, or a value in one.
var element = regexp.MustCompile(`[a-z_.]+\[[0-9]+\](?:\.[A-Za-z0-9_-]+|\[[0-9]+\])*`)

// placed adds to each element of a list that a message names the line where it is, and the file if
// that is not the one of the document at.
func (d *Document) placed(message string, at *Document) string {
	if !strings.Contains(message, "[") {
		return message
	}
	return element.ReplaceAllStringFunc(message, func(path string) string {
		switch part, own := d.owner(path); {
		case !d.Given(path):
			return path
		case part == at:
			return fmt.Sprintf("%s in line %d", own, part.at(own).line)
		default:
			return own + " at " + part.Place(own)
		}
	})
}

// Resolve makes a path that is written in the document relative to the folder of the main file,
// or to that of the part.
func (d *Document) Resolve(path string) string { return resolve(d.folder, path) }
