package config

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"authgate/gateway/config/strictyaml"
	"authgate/gateway/must"
	"authgate/policy"
)

// referenceFile has a table for each section of the configuration. The columns key,
// type and default come from the types of this package; people write the rest.
const referenceFile = "../../docs/configuration.md"

// referenceKey is a key with what the reference says about it without people.
type referenceKey struct {
	key      string // NAME is a name of the user's choice, and [] an element of a list
	kind     string
	fallback string // the default, as one writes it; "" for a section
	zero     bool   // the default is empty or zero, so its meaning may be given in words
}

// reference collects the keys in the order of the types.
type reference struct{ keys []referenceKey }

func referenceKeys() []referenceKey {
	r := &reference{}
	r.section("", reflect.ValueOf(defaults()).Elem())
	return r.keys
}

// section adds the keys of a struct.
func (r *reference) section(path string, v reflect.Value) {
	var words map[string][]string
	if section, ok := v.Interface().(interface{ Words() map[string][]string }); ok {
		words = section.Words()
	}
	for _, field := range reflect.VisibleFields(v.Type()) {
		if name, _, _ := strings.Cut(field.Tag.Get("yaml"), ","); field.IsExported() && name != "-" {
			r.value(strictyaml.Join(path, name), v.FieldByIndex(field.Index), words[name])
		}
	}
}

// value adds a key, or the keys below it.
func (r *reference) value(key string, v reflect.Value, words []string) {
	t := v.Type()
	if kind := kindOf(t, words); kind != "" {
		r.keys = append(r.keys, referenceKey{key, kind, written(v), v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0})
		return
	}
	switch t.Kind() {
	case reflect.Struct:
		r.section(key, v)
	case reflect.Slice:
		r.element(key+"[]", t.Elem())
	case reflect.Map:
		r.element(key+".NAME", t.Elem())
	case reflect.Pointer: // a section with a meaning of its own when it is not given
		r.keys = append(r.keys, referenceKey{key: key, kind: "mapping", zero: true})
		r.section(key, reflect.New(t.Elem()).Elem())
	default:
		panic(fmt.Sprintf("no row for %s of type %s", key, t))
	}
}

// element adds the keys of an element of a list or a map, with its own defaults.
func (r *reference) element(key string, t reflect.Type) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	v := reflect.New(t)
	setDefaults(v.Interface())
	r.section(key, v.Elem())
}

// kindOf says what one writes for a key, or "" if it has keys below it.
func kindOf(t reflect.Type, words []string) string {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return "duration"
	case reflect.TypeFor[Secret]():
		return "secret"
	case reflect.TypeFor[*url.URL]():
		return "URL"
	case reflect.TypeFor[[]*url.URL]():
		return "list of URLs"
	case reflect.TypeFor[[]netip.Prefix]():
		return "list of CIDRs"
	case reflect.TypeFor[[]policy.Ref]():
		return "policy, or list of policies"
	}
	switch kind := t.Kind(); {
	case kind == reflect.String:
		return alternatives(words, "string")
	case kind == reflect.Bool:
		return "boolean"
	case kind == reflect.Int || kind == reflect.Int64:
		return "integer"
	case kind == reflect.Float64:
		return "number"
	case kind == reflect.Slice && t.Elem().Kind() == reflect.String:
		return "list of " + alternatives(words, "strings")
	case kind == reflect.Map && t.Elem().Kind() == reflect.String:
		return "map of strings"
	case kind == reflect.Map && t.Elem().Kind() == reflect.Slice:
		return "map of lists of strings"
	}
	return ""
}

// alternatives lists the only words that a key takes, or returns otherwise.
func alternatives(words []string, otherwise string) string {
	if words == nil {
		return otherwise
	}
	return "`" + strings.Join(words, "`, `") + "`"
}

// written returns a value as one writes it in YAML.
func written(v reflect.Value) string {
	switch value := v.Interface().(type) {
	case time.Duration:
		return shortDuration(value)
	case *url.URL:
		if value == nil {
			return `""`
		}
		return value.String()
	}
	switch v.Kind() {
	case reflect.Slice:
		var all []string
		for i := range v.Len() {
			all = append(all, written(v.Index(i)))
		}
		return "[" + strings.Join(all, ", ") + "]"
	case reflect.Map:
		return "{}" // there is no other default
	case reflect.String:
		if s := v.String(); s == "" || strings.Contains(s, ":") {
			return strconv.Quote(s)
		}
	}
	return fmt.Sprint(v.Interface())
}

// shortDuration is a duration without the smaller units that are zero.
func shortDuration(d time.Duration) string {
	s := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, zero) {
			s = s[:len(s)-2]
		}
	}
	return s
}

// defaultCell returns what belongs into the column of the default. Words about a
// default that is empty or zero stay, and words after any other.
func (k *referenceKey) defaultCell(cell string) string {
	span := "`" + k.fallback + "`"
	if before, words, more := strings.Cut(cell, "`, "); more && strings.HasPrefix(before, "`") {
		return span + ", " + words
	}
	if k.zero && cell != "" && !strings.HasPrefix(cell, "`") || k.fallback == "" {
		return cell
	}
	return span
}

// parent is the section of a key.
func parent(key string) string { return key[:max(0, strings.LastIndexByte(key, '.'))] }

// referencePage is docs/configuration.md while its tables are rewritten.
type referencePage struct {
	lines  []string
	seen   map[string]bool // the keys that have a row
	last   map[string]int  // the last row of a section
	faults []string        // what people have to do
}

// rewriteReference returns the page with the columns of keys, and what people still
// have to do. A key without a row gets one after the rows of its section.
func rewriteReference(page string, keys []referenceKey) (rewritten string, faults []string) {
	p := &referencePage{strings.Split(page, "\n"), map[string]bool{}, map[string]int{}, nil}
	known := map[string]*referenceKey{}
	for i := range keys {
		known[keys[i].key] = &keys[i]
	}
	for i, line := range p.lines {
		if key, rest, ok := strings.Cut(strings.TrimPrefix(line, "| `"), "` | "); ok && strings.HasPrefix(line, "| `") {
			p.correct(i, key, known[key], strings.Split(strings.TrimSuffix(rest, "|"), " | "))
		}
	}
	for i := len(keys) - 1; i >= 0; i-- {
		_, rows := p.last[parent(keys[i].key)]
		if key := keys[i].key; !p.seen[key] && (rows || !p.seen[parent(key)]) {
			p.add(&keys[i])
		}
	}
	return strings.Join(p.lines, "\n"), p.faults
}

// correct writes the type and the default into the row of a key.
func (p *referencePage) correct(i int, key string, k *referenceKey, cells []string) {
	if k == nil || p.seen[key] || len(cells) != 2 && len(cells) != 4 {
		p.faults = append(p.faults, fmt.Sprintf("line %d: the key %s does not exist, is there twice, or its row has not the cells of its table", i+1, key))
		return
	}
	p.seen[key], cells[0] = true, k.kind
	if len(cells) == 4 {
		cells[1] = k.defaultCell(cells[1])
	}
	if strings.TrimSpace(cells[len(cells)/2]) == "" {
		p.faults = append(p.faults, fmt.Sprintf("line %d: write what %s means", i+1, key))
	}
	p.lines[i] = "| `" + key + "` | " + strings.Join(cells, " | ") + "|"
	for section := parent(key); ; section = parent(section) {
		p.last[section] = i
		if section == "" {
			break
		}
	}
}

// add adds a row after those of the nearest section that has rows.
func (p *referencePage) add(k *referenceKey) {
	section := parent(k.key)
	for _, rows := p.last[section]; !rows && section != ""; _, rows = p.last[section] {
		section = parent(section)
	}
	p.faults = append(p.faults, k.key+" has no row; -update adds one, whose meaning you write")
	row := "\n| `" + k.key + "` | " + k.kind + " | " + k.defaultCell("") + " |  |  |"
	if strings.HasPrefix(k.key, "policies.") {
		row = "\n| `" + k.key + "` | " + k.kind + " |  |" // their table has no defaults
	}
	p.lines[p.last[section]] += row
}

// TestReference checks that docs/configuration.md has a row with the type and the
// default of each key, and no other. With -update it writes them.
func TestReference(t *testing.T) {
	t.Parallel()
	page := string(must.Get(os.ReadFile(referenceFile))(t))
	rewritten, faults := rewriteReference(page, referenceKeys())
	if *update {
		must.Do(t, os.WriteFile(referenceFile, []byte(rewritten), 0o644))
		page = rewritten
	}
	for _, fault := range faults {
		t.Errorf("docs/configuration.md: %s", fault)
	}
	is := strings.Split(rewritten, "\n")
	for i, line := range strings.Split(page, "\n") {
		if page != rewritten && line != is[i] {
			t.Fatalf("docs/configuration.md is not what the types say; run this test with -update. Line %d is\n%s\nand must be\n%s", i+1, line, is[i])
		}
	}
}

// TestReferenceUpdate checks that -update corrects types and defaults, keeps words,
// and adds rows for new keys, of which it says that their meaning is missing.
func TestReferenceUpdate(t *testing.T) {
	t.Parallel()
	page := string(must.Get(os.ReadFile(referenceFile))(t))
	for _, c := range []struct{ name, old, new, fault string }{
		{"another type", "| `session.lifetime` | duration | `1h` |", "| `session.lifetime` | string | `1h` |", ""},
		{"another default", "| `session.lifetime` | duration | `1h` |", "| `session.lifetime` | duration | `2h` |", ""},
		{"words for a default", "| `session.lifetime` | duration | `1h` |", "| `session.lifetime` | duration | one hour |", ""},
		{"another default before words", "| duration | `10s`, with a path |", "| duration | `11s`, with a path |", ""},
		{"another word", "`lax`, `strict`, `none`", "`lax`, `strict`", ""},
	} {
		if strings.Count(page, c.old) != 1 {
			t.Fatalf("%s: the page does not have %s once", c.name, c.old)
		}
		if again, faults := rewriteReference(strings.Replace(page, c.old, c.new, 1), referenceKeys()); again != page || len(faults) > 0 {
			t.Errorf("%s: is not corrected, or is a fault: %v", c.name, faults)
		}
	}
	for key, row := range map[string]string{
		"session.lifetime":   "| `session.lifetime` | duration | `1h` |  |  |",
		"routes[].rate.by":   "| `routes[].rate.by` | `client`, `user` | `client` |  |  |",
		"policies.NAME.none": "| `policies.NAME.none` | policy, or list of policies |  |",
		"shutdown_timeout":   "| `shutdown_timeout` | duration | `30s` |  |  |",
	} {
		i := strings.Index(page, "| `"+key+"`")
		_, after, _ := strings.Cut(page[i:], "\n")
		again, faults := rewriteReference(page[:i]+after, referenceKeys())
		if strings.Count(again, "\n"+row+"\n") != 1 || len(faults) != 1 || !strings.HasPrefix(faults[0], key+" has no row;") {
			t.Errorf("%s: the row is not added, or the faults are %v", key, faults)
		}
	}
	for _, row := range []string{"| `session.unknown` | string | `\"\"` | What. | |", "| `log.level` | string | `info` | Again. | |", "| `token.issuer` | string |"} {
		if _, faults := rewriteReference(page+row+"\n", referenceKeys()); len(faults) != 1 {
			t.Errorf("%s: the faults are %v", row, faults)
		}
	}
}

// TestReferenceRequired checks that what the reference calls required is missed.
func TestReferenceRequired(t *testing.T) {
	t.Parallel()
	required := 0
	for line := range strings.Lines(string(must.Get(os.ReadFile(referenceFile))(t))) {
		key, rest, _ := strings.Cut(strings.TrimPrefix(line, "| `"), "` | ")
		cells := strings.Split(rest, " | ")
		if !strings.HasPrefix(line, "| `") || len(cells) != 4 || !strings.HasPrefix(cells[1], "required") {
			continue
		}
		required++
		text := nested(parent(key), "{}")
		_, err := Parse("config.yaml", []byte(text+"\n"))
		diagnostics, _ := errors.AsType[Diagnostics](err)
		at := strings.ReplaceAll(key, "[]", "[0]")
		if !slices.ContainsFunc(diagnostics, func(d Diagnostic) bool { return d.Key == at || d.Key == parent(at) }) {
			t.Errorf("%s is not required: %s gives %v", key, text, err)
		}
	}
	if required < 10 {
		t.Errorf("the reference calls %d keys required", required)
	}
}
