package config

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

	"authgate/gateway/accounts"
	"authgate/gateway/config/strictyaml"
	"authgate/policy"
)

const (
	maxChanges     = 100 // that Changes lists one by one
	maxChangeValue = 120 // characters of a value that Changes shows
)

// Changes returns how c differs from old, one line for each key, like
// "routes[2].policy: admin -> staff". It shows no secret, and no value that can
// contain one.
func (c *Config) Changes(old *Config) []string {
	d := &differ{old: old, new: c}
	d.compare("", reflect.ValueOf(*old), reflect.ValueOf(*c))
	d.files()
	if d.more > 0 {
		d.list = append(d.list, fmt.Sprintf("and %d more", d.more))
	}
	return d.list
}

// RestartKeys returns the keys in which t and other differ and that only a restart
// applies. A reload can replace the names, the files of tls.mode files, and the header.
func (t TLS) RestartKeys(other TLS) (keys []string) {
	old, new := reflect.ValueOf(t), reflect.ValueOf(other)
	for i := range old.NumField() {
		field := old.Type().Field(i)
		if of, ok := old.Type().FieldByName(strings.TrimSuffix(field.Name, "Content")); ok {
			field = of // the content of a file counts as its key
		}
		key, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		switch key {
		case "domains", "certificate", "key", "hsts":
			continue
		}
		same := reflect.DeepEqual(old.Field(i).Interface(), new.Field(i).Interface())
		if key = "tls." + key; !same && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// differ collects how two configurations differ.
type differ struct {
	old, new *Config
	list     []string
	more     int // that are not in list
}

func (d *differ) add(path, format string, args ...any) {
	if len(d.list) == maxChanges {
		d.more++
		return
	}
	d.list = append(d.list, path+": "+fmt.Sprintf(format, args...))
}

// files adds the changes of contents that are no values of keys.
func (d *differ) files() {
	for _, file := range d.new.sideFiles {
		was := slices.IndexFunc(d.old.sideFiles, func(f File) bool { return f.Key == file.Key && f.Path == file.Path })
		isList := file.Key == accounts.FileKey || file.Key == accounts.HtpasswdKey
		if file.Key != "" && !isList && was >= 0 && !d.old.sideFiles[was].SameContent(file) {
			d.add(file.Key, "the content of the file changed")
		}
	}
}

// headersSet is in the paths of headers for upstreams. Their values can be
// credentials.
const headersSet = ".headers.set."

// compare adds how two values of one type differ.
func (d *differ) compare(path string, old, new reflect.Value) {
	if shown, ok := scalar(new); ok {
		if was, _ := scalar(old); !same(old, new) {
			d.change(path, old, was, shown)
		}
		return
	}
	switch new.Kind() {
	case reflect.Pointer:
		switch {
		case old.IsNil() && new.IsNil():
		case old.IsNil():
			d.add(path, "added")
		case new.IsNil():
			d.add(path, "removed")
		default:
			d.compare(path, old.Elem(), new.Elem())
		}
	case reflect.Struct:
		d.compareFields(path, old, new)
	case reflect.Map:
		d.compareMaps(path, old, new)
	case reflect.Slice:
		d.compareLists(path, old, new)
	}
}

// change adds the change of a scalar.
func (d *differ) change(path string, old reflect.Value, was, is string) {
	if _, secret := old.Interface().(Secret); secret || strings.Contains(path, headersSet) {
		d.add(path, "changed")
		return
	}
	d.add(path, "%s -> %s", was, is)
}

func (d *differ) compareFields(path string, old, new reflect.Value) {
	for i := range new.NumField() {
		field := new.Type().Field(i)
		key, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		if key == "" || key == "-" || d.derived(field.Name, old, new) {
			continue
		}
		d.compare(strictyaml.Join(path, key), old.Field(i), new.Field(i))
	}
}

// derived reports whether a field has no value of its own: the change is one of
// another key.
func (d *differ) derived(field string, old, new reflect.Value) bool {
	if was, ok := old.Interface().(TLS); ok {
		return field == "Domains" && sameDomains(was.Domains, new.Interface().(TLS).Domains)
	}
	was, ok := old.Interface().(Upstream)
	if !ok {
		return false
	}
	is := new.Interface().(Upstream)
	switch field {
	case "URLs":
		return was.URL != nil && is.URL != nil
	case "IdentityHeaders":
		return *was.IdentityHeaders == d.old.IdentityHeaders && *is.IdentityHeaders == d.new.IdentityHeaders
	}
	return false
}

// sameDomains reports whether two lists differ at most in their order, which routes give
// the default of tls.domains. Only the first has a meaning of its own.
func sameDomains(a, b []string) bool {
	sorted := func(list []string) []string { return slices.Sorted(slices.Values(list)) }
	return len(a) > 0 && len(b) > 0 && a[0] == b[0] && slices.Equal(sorted(a), sorted(b))
}

func (d *differ) compareMaps(path string, old, new reflect.Value) {
	keys := map[string]reflect.Value{}
	for _, m := range [2]reflect.Value{old, new} {
		for _, key := range m.MapKeys() {
			keys[key.String()] = key
		}
	}
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		at, was, is := strictyaml.Join(path, name), old.MapIndex(keys[name]), new.MapIndex(keys[name])
		switch {
		case !was.IsValid():
			d.add(at, "added")
		case !is.IsValid():
			d.add(at, "removed")
		default:
			d.compare(at, was, is)
		}
	}
}

// compareLists compares elements with a name by their names, and others by their
// places.
func (d *differ) compareLists(path string, old, new reflect.Value) {
	if new.Type().Elem() == reflect.TypeFor[policy.Ref]() {
		d.compareRefs(path, old.Interface().([]policy.Ref), new.Interface().([]policy.Ref))
		return
	}
	were := make(map[string]int, old.Len())
	for i := range old.Len() {
		were[elementOf(old, i).name] = i
	}
	for i := range new.Len() {
		is := elementOf(new, i)
		if was, ok := were[is.name]; ok {
			delete(were, is.name)
			d.compare(path+is.index, old.Index(was), new.Index(i))
			continue
		}
		d.add(path+is.index, "added%s", is.label)
	}
	for i := range old.Len() {
		was := elementOf(old, i)
		if _, gone := were[was.name]; gone {
			d.add(path+was.index, "removed%s", was.label)
		}
	}
}

// element is how Changes tells one element of a list from the others.
type element struct {
	name  string // the same in both lists
	index string // in a path
	label string // for an index that says little
}

func elementOf(list reflect.Value, i int) element {
	named := func(name string) element { return element{name: name, index: "[" + name + "]"} }
	number := "[" + strconv.Itoa(i) + "]"
	switch e := list.Index(i).Interface().(type) {
	case accounts.Account:
		return named(e.Username)
	case accounts.BasicUser:
		return named(e.Username)
	case Provider:
		return named(e.Name)
	case TrustedIssuer:
		return named(e.Name)
	case Route:
		return element{name: e.Match, index: number, label: " (" + e.Match + ")"}
	}
	return element{name: number, index: number}
}

// compareRefs compares lists of policies.
func (d *differ) compareRefs(path string, old, new []policy.Ref) {
	if was, is := showRefs(old), showRefs(new); was != is {
		d.add(path, "%s -> %s", was, is)
		return
	}
	for i := range new {
		if old[i].Spec == nil {
			continue
		}
		at := path
		if len(new) > 1 {
			at += "[" + strconv.Itoa(i) + "]"
		}
		d.compare(at, reflect.ValueOf(*old[i].Spec), reflect.ValueOf(*new[i].Spec))
	}
}

// PolicyText returns the policies of a route as people read them: a name, or several
// in brackets.
func (r *Route) PolicyText() string { return showRefs(r.Policy) }

func showRefs(refs []policy.Ref) string {
	names := make([]string, len(refs))
	for i, ref := range refs {
		if names[i] = ref.Name; ref.Spec != nil {
			names[i] = "a policy in place"
		}
	}
	switch len(names) {
	case 0:
		return "none"
	case 1:
		return names[0]
	}
	return "[" + strings.Join(names, ", ") + "]"
}

// scalar returns a value as Changes shows it. ok is false for values that have
// parts with paths of their own.
func scalar(v reflect.Value) (shown string, ok bool) {
	switch value := v.Interface().(type) {
	case Secret:
		return value.String(), true
	case time.Duration:
		return value.String(), true
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
