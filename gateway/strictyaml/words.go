package strictyaml

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// worded is a section with keys that take fixed words only, for which a tag has no room. Words returns
// them by key, for a list those of its elements.
type worded interface{ Words() map[string][]string }

// reasoned is a section with keys whose bounds have reasons for which a tag has no room, by key.
type reasoned interface{ Why() map[string]string }

// declared is a value of a document with what the tags of its field declare.
type declared struct {
	path     string
	value    reflect.Value
	fallback string // the default, which is always a valid word
	field    field
}

// CheckValues reports the values that are not as the tags of their fields say. It comes after all other
// checks, which may know more about a word in a list. It reports no word that they have refused.
func (d *Document) CheckValues() {
	for _, one := range d.declared {
		d.checkTags(one.path, one.value, one.field)
		if one.field.words != nil {
			d.checkWords(one)
		}
	}
	for _, part := range d.parts {
		part.CheckValues()
	}
}

// checkWords checks that a value, or each element of it, is one of the words of its key.
func (d *Document) checkWords(one declared) {
	check := func(path, value string, listed bool) {
		if !slices.Contains(one.field.words, value) && !(listed && d.reader.faultyAt(d.text, d.at(path))) {
			d.Fault(path, "%q is not a valid value; expected %s", value, orList(one.field.words))
		}
	}
	if one.value.Kind() != reflect.Slice {
		if value := one.value.String(); value != one.fallback {
			check(one.path, value, false)
		}
		return
	}
	for i := range one.value.Len() {
		check(fmt.Sprintf("%s[%d]", one.path, i), one.value.Index(i).String(), true)
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
