package strictyaml

import (
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	maxChanges     = 100 // that Lines has one by one
	maxChangeValue = 120 // characters of a value that a line shows
)

// Changes lists how two decoded values of one type differ, one line for each key, like
// "routes[2].policy: admin -> staff". It shows no secret. All functions must be set.
type Changes struct {
	// Element returns how an element of a list is told from the others.
	Element func(element any) Element
	// Hidden reports whether a value at a path can contain a secret.
	Hidden func(path string) bool
	// Derived reports whether a field of a struct has no value of its own: its change is
	// one of another key.
	Derived func(field string, old, new any) bool
	// Compare compares two values in another way, and reports whether it did so.
	Compare func(path string, old, new any) bool

	list []string
	more int // that are not in list
}

// Element is how one element of a list is told from the others.
type Element struct {
	Name  string // the same in both lists; empty: the index
	Named bool   // paths have the name in place of the index
}

// Lines returns the changes so far.
func (c *Changes) Lines() []string {
	if c.more == 0 {
		return c.list
	}
	return append(c.list, fmt.Sprintf("and %d more", c.more))
}

// Add adds the change of the key at path.
func (c *Changes) Add(path, format string, args ...any) {
	if len(c.list) == maxChanges {
		c.more++
		return
	}
	c.list = append(c.list, path+": "+fmt.Sprintf(format, args...))
}

// Find adds how two values of one type at path differ.
func (c *Changes) Find(path string, old, new any) {
	c.findIn(path, reflect.ValueOf(old), reflect.ValueOf(new))
}

func (c *Changes) findIn(path string, old, new reflect.Value) {
	if c.Compare(path, old.Interface(), new.Interface()) {
		return
	}
	if shown, ok := scalar(new); ok {
		if was, _ := scalar(old); !same(old, new) {
			c.change(path, old, was, shown)
		}
		return
	}
	switch new.Kind() {
	case reflect.Pointer:
		switch {
		case old.IsNil() && new.IsNil():
		case old.IsNil():
			c.Add(path, "added")
		case new.IsNil():
			c.Add(path, "removed")
		default:
			c.findIn(path, old.Elem(), new.Elem())
		}
	case reflect.Struct:
		c.fields(path, old, new)
	case reflect.Map:
		c.maps(path, old, new)
	case reflect.Slice:
		c.lists(path, old, new)
	}
}

// change adds the change of a scalar.
func (c *Changes) change(path string, old reflect.Value, was, is string) {
	t := old.Type()
	if t == secretType || t == reflect.TypeFor[[]Secret]() || c.Hidden(path) {
		c.Add(path, "changed")
		return
	}
	c.Add(path, "%s -> %s", was, is)
}

func (c *Changes) fields(path string, old, new reflect.Value) {
	for i := range new.NumField() {
		field := new.Type().Field(i)
		key, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		if key == "" || key == "-" || c.Derived(field.Name, old.Interface(), new.Interface()) {
			continue
		}
		c.findIn(Join(path, key), old.Field(i), new.Field(i))
	}
}

func (c *Changes) maps(path string, old, new reflect.Value) {
	keys := map[string]reflect.Value{}
	for _, m := range [2]reflect.Value{old, new} {
		for _, key := range m.MapKeys() {
			keys[key.String()] = key
		}
	}
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		at, was, is := Join(path, name), old.MapIndex(keys[name]), new.MapIndex(keys[name])
		switch {
		case !was.IsValid():
			c.Add(at, "added")
		case !is.IsValid():
			c.Add(at, "removed")
		default:
			c.findIn(at, was, is)
		}
	}
}

// lists compares elements of one name.
func (c *Changes) lists(path string, old, new reflect.Value) {
	were := make(map[string]int, old.Len())
	for i := range old.Len() {
		name, _, _ := c.element(old, i)
		were[name] = i
	}
	for i := range new.Len() {
		name, index, label := c.element(new, i)
		if was, ok := were[name]; ok {
			delete(were, name)
			c.findIn(path+index, old.Index(was), new.Index(i))
			continue
		}
		c.Add(path+index, "added%s", label)
	}
	for i := range old.Len() {
		name, index, label := c.element(old, i)
		if _, gone := were[name]; gone {
			c.Add(path+index, "removed%s", label)
		}
	}
}

// element returns the name of an element of a list, its index in a path, and a label for
// an index that says little.
func (c *Changes) element(list reflect.Value, i int) (name, index, label string) {
	number := strconv.Itoa(i)
	switch e := c.Element(list.Index(i).Interface()); {
	case e.Named:
		return e.Name, "[" + e.Name + "]", ""
	case e.Name != "":
		return e.Name, "[" + number + "]", " (" + e.Name + ")"
	}
	return number, "[" + number + "]", ""
}

// scalar returns a value as a line shows it. ok is false for values that have
// parts with paths of their own.
func scalar(v reflect.Value) (shown string, ok bool) {
	switch value := v.Interface().(type) {
	case Secret:
		return value.String(), true
	case time.Duration:
		return value.String(), true
	case time.Time:
		if value.IsZero() {
			return `""`, true
		}
		return value.Format(time.RFC3339Nano), true
	case netip.Prefix:
		return value.String(), true
	case *url.URL:
		if value == nil {
			return `""`, true
		}
		return printed(value.Redacted()), true
	}
	switch v.Kind() {
	case reflect.String:
		return printed(v.String()), true
	case reflect.Slice:
		parts := make([]string, v.Len())
		for i := range parts {
			if parts[i], ok = scalar(v.Index(i)); !ok {
				return "", false
			}
		}
		if v.Len() == 0 {
			_, ok = scalar(reflect.Zero(v.Type().Elem()))
		}
		return cut("[" + strings.Join(parts, ", ") + "]"), ok
	case reflect.Pointer, reflect.Struct, reflect.Map:
		return "", false
	}
	return fmt.Sprint(v.Interface()), true
}

// same reports whether two scalars are equal, which their shown values do not
// tell: they can be cut off or hidden. An empty list is the same as none.
func same(a, b reflect.Value) bool {
	if a.Kind() == reflect.Slice && a.Len() == 0 && b.Len() == 0 {
		return true
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}

// printed returns a text as it is, or in quotes if it would not be clear.
func printed(text string) string {
	odd := func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"[],`, r) }
	if text == "" || strings.ContainsFunc(text, odd) || strings.Contains(text, "->") {
		text = strconv.Quote(text)
	}
	return cut(text)
}

// cut shortens a text.
func cut(text string) string {
	if utf8.RuneCountInString(text) <= maxChangeValue {
		return text
	}
	return string([]rune(text)[:maxChangeValue]) + "…"
}
