package strictyaml

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// worded is a section with keys that take fixed words only. Words returns them by key,
// for a list those of its elements.
type worded interface{ Words() map[string][]string }

// choice is a value in a document that must be one of some words.
type choice struct {
	path, value string
	words       []string
	listed      bool // an element of a list
}

// choose notes that v, the value at path, or each element of it, must be one of words.
// The default is always valid.
func (d *Document) choose(path string, v reflect.Value, fallback string, words []string) {
	if v.Kind() != reflect.Slice {
		if v.String() != fallback {
			d.choices = append(d.choices, choice{path: path, value: v.String(), words: words})
		}
		return
	}
	for i := range v.Len() {
		at := fmt.Sprintf("%s[%d]", path, i)
		d.choices = append(d.choices, choice{at, v.Index(i).String(), words, true})
	}
}

// CheckWords reports the values that are not one of the words of their key. It comes
// after all other checks, which may know more about an element of a list, such as what
// it proves: what they refuse is not reported again.
func (d *Document) CheckWords() {
	for _, c := range d.choices {
		if !slices.Contains(c.words, c.value) && !(c.listed && d.reader.faultyAt(d.text, d.at(c.path))) {
			d.Fault(c.path, "%q is not a valid value; expected %s", c.value, orList(c.words))
		}
	}
	for _, part := range d.parts {
		part.CheckWords()
	}
}

// orList writes "a, b or c".
func orList(words []string) string {
	last := len(words) - 1
	if last <= 0 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
