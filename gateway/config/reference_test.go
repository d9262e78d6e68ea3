package config

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"authgate/gateway/people/accounts"
	"authgate/gateway/strictyaml"
	"authgate/internal/test/must"
	"authgate/policy"
)

// referenceFolder has a page for some sections of the configuration, with an entry for
// each key of them: a line with the key, its type and its default, which come from the
// types of this package, and below it what people write.
const referenceFolder = "../../docs/configuration/"

// entryLine matches the first line of an entry: the key, the type, and the rest.
var entryLine = regexp.MustCompile("^- `([^`]+)` \\(([^;]*)(?:; (.*))?\\)$")

// pageBreak separates the pages of the reference while they are one text.
const pageBreak = "\n\f\n"

// readReference returns the pages as one text, and their files.
func readReference(t *testing.T) (text string, files []string) {
	t.Helper()
	files = must.Get(filepath.Glob(referenceFolder + "*.md"))(t)
	pages := make([]string, len(files))
	for i, file := range files {
		pages[i] = string(must.Get(os.ReadFile(file))(t))
	}
	return strings.Join(pages, pageBreak), files
}

// referenceKey is a key with what the reference says about it without people.
type referenceKey struct {
	key      string // NAME is a name of the user's choice, and [] an element of a list
	kind     string
	fallback string // the default, as one writes it; "" for a section
	zero     bool   // the default is empty or zero, so its meaning may be given in words
	bounds   map[string]string
}

// boundsOf returns what is a mistake by the tags of a field: the bounds after "under" and "over", as the
// reference has them.
func boundsOf(field reflect.StructField) map[string]string {
	low, high, ranged := strings.Cut(field.Tag.Get("range"), "..")
	if !ranged {
		low, high = field.Tag.Get("min"), field.Tag.Get("max")
	}
	bounds := map[string]string{}
	for word, bound := range map[string]string{"under": low, "over": high} {
		switch bound {
		case "", "1ns", "0", "1": // 0 is the mistake, or what is less than it
			continue
		}
		if field.Type == reflect.TypeFor[time.Duration]() {
			bound = "`" + bound + "`"
		}
		bounds[word] = bound
	}
	return bounds
}

// boundText matches a bound in a text about mistakes.
var boundText = regexp.MustCompile("\\b(under|over) (`?[0-9][0-9a-z]*`?)")

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
			only := words[name]
			if tagged, ok := field.Tag.Lookup("words"); ok {
				only = strings.Fields(tagged)
			}
			before := len(r.keys)
			r.value(strictyaml.Join(path, name), v.FieldByIndex(field.Index), only)
			if bounds := boundsOf(field); len(bounds) > 0 {
				r.keys[before].bounds = bounds
			}
		}
	}
}

// value adds a key, or the keys below it.
func (r *reference) value(key string, v reflect.Value, words []string) {
	t := v.Type()
	if kind := kindOf(t, words); kind != "" {
		zero := v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0
		r.keys = append(r.keys, referenceKey{key, kind, written(v), zero, nil})
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
		section := reflect.New(t.Elem())
		strictyaml.SetDefaults(section.Interface())
		r.section(key, section.Elem())
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
	strictyaml.SetDefaults(v.Interface())
	r.section(key, v.Elem())
}

// kindOf says what one writes for a key, or "" if it has keys below it.
func kindOf(t reflect.Type, words []string) string {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return "duration"
	case reflect.TypeFor[Secret]():
		return "secret"
	case reflect.TypeFor[time.Time]():
		return "time"
	case reflect.TypeFor[[]accounts.WrittenRole]():
		return "list of roles"
	case reflect.TypeFor[[]Secret]():
		return "list of secrets"
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
	case t == reflect.TypeFor[[]map[string]string]():
		return "list of maps of strings"
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
	case time.Time:
		return `""`
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

// line returns the first line of the entry. rest is what it says after the type so far.
// Words about a default that is empty or zero stay, and words after any other.
func (k *referenceKey) line(rest string) string {
	if said, given := strings.CutPrefix(rest, "default: "); given || rest == "" {
		rest = "default: " + k.defaultText(said)
	}
	if k.fallback == "" && rest == "default: " || strings.HasPrefix(k.key, "policies.") {
		return fmt.Sprintf("- `%s` (%s)", k.key, k.kind)
	}
	return fmt.Sprintf("- `%s` (%s; %s)", k.key, k.kind, rest)
}

func (k *referenceKey) defaultText(said string) string {
	span := "`" + k.fallback + "`"
	if _, words, more := strings.Cut(said, "`, "); more && strings.HasPrefix(said, "`") {
		return span + ", " + words
	}
	if k.zero && said != "" && !strings.HasPrefix(said, "`") || k.fallback == "" {
		return said
	}
	return span
}

// parent is the section of a key.
func parent(key string) string { return key[:max(0, strings.LastIndexByte(key, '.'))] }

// referenceText is the reference while its entries are rewritten.
type referenceText struct {
	lines  []string
	seen   map[string]bool // the keys that have an entry
	last   map[string]int  // the last line of the last entry of a section
	faults []string        // what people have to do
}

// rewriteReference returns the text with the types and defaults of keys, and what people
// still have to do. A key without an entry gets one after the entries of its section.
func rewriteReference(text string, keys []referenceKey) (rewritten string, faults []string) {
	p := &referenceText{strings.Split(text, "\n"), map[string]bool{}, map[string]int{}, nil}
	known := map[string]*referenceKey{}
	for i := range keys {
		known[keys[i].key] = &keys[i]
	}
	for i, line := range p.lines {
		if entry := entryLine.FindStringSubmatch(line); entry != nil {
			p.correct(i, entry[1], known[entry[1]], entry[3])
		}
	}
	for i := len(keys) - 1; i >= 0; i-- {
		_, entries := p.last[parent(keys[i].key)]
		if key := keys[i].key; !p.seen[key] && (entries || !p.seen[parent(key)]) {
			p.add(&keys[i])
		}
	}
	return strings.Join(p.lines, "\n"), p.faults
}

// correct writes the type and the default into the entry of a key.
func (p *referenceText) correct(i int, key string, k *referenceKey, rest string) {
	if k == nil || p.seen[key] {
		p.faults = append(p.faults, fmt.Sprintf("the key %s does not exist, or is there twice", key))
		return
	}
	p.seen[key], p.lines[i] = true, k.line(rest)
	end := i
	for j := i + 1; j < len(p.lines) && (p.lines[j] == "" || strings.HasPrefix(p.lines[j], "  ")); j++ {
		if p.lines[j] != "" {
			end = j
		}
	}
	if end == i {
		p.faults = append(p.faults, fmt.Sprintf("write what %s means, in lines that begin with two spaces", key))
	} else {
		p.correctBounds(i+1, end, k)
	}
	for section := parent(key); ; section = parent(section) {
		p.last[section] = end
		if section == "" {
			break
		}
	}
}

// correctBounds writes the bounds of a key into what its entry, in lines from start to end, says about
// mistakes.
func (p *referenceText) correctBounds(start, end int, k *referenceKey) {
	found := map[string]bool{}
	mistakes := false
	for i := start; i <= end && k.bounds != nil; i++ {
		if mistakes = mistakes || strings.HasPrefix(p.lines[i], "  Mistakes:"); !mistakes {
			continue
		}
		p.lines[i] = boundText.ReplaceAllStringFunc(p.lines[i], func(text string) string {
			word, _, _ := strings.Cut(text, " ")
			if found[word] || k.bounds[word] == "" {
				return text
			}
			found[word] = true
			return word + " " + k.bounds[word]
		})
	}
	for word, bound := range k.bounds {
		if !found[word] {
			p.faults = append(p.faults, fmt.Sprintf("write that %s %s is a mistake of %s", word, bound, k.key))
		}
	}
}

// add adds an entry after those of the nearest section that has some.
func (p *referenceText) add(k *referenceKey) {
	section := parent(k.key)
	for _, entries := p.last[section]; !entries && section != ""; _, entries = p.last[section] {
		section = parent(section)
	}
	p.faults = append(p.faults, k.key+" has no entry; -update adds one, whose meaning you write")
	p.lines[p.last[section]] += "\n\n" + k.line("")
}

// TestReference checks that the reference has an entry with the type and the default of
// each key, and no other. With -update it writes them.
func TestReference(t *testing.T) {
	t.Parallel()
	text, files := readReference(t)
	rewritten, faults := rewriteReference(text, referenceKeys())
	if *update {
		for i, page := range strings.Split(rewritten, pageBreak) {
			must.Do(t, os.WriteFile(files[i], []byte(page), 0o644))
		}
		text = rewritten
	}
	for _, fault := range faults {
		t.Errorf("docs/configuration: %s", fault)
	}
	is := strings.Split(rewritten, "\n")
	for i, line := range strings.Split(text, "\n") {
		if text != rewritten && line != is[i] {
			t.Fatalf("docs/configuration is not what the types say; run this test with -update. "+
				"The line\n%s\nmust be\n%s", line, is[i])
		}
	}
}

// TestReferenceUpdate checks that -update corrects types and defaults, keeps words,
// and adds entries for new keys, of which it says that their meaning is missing.
func TestReferenceUpdate(t *testing.T) {
	t.Parallel()
	text, _ := readReference(t)
	if is, faults := rewriteReference(text, referenceKeys()); is != text || len(faults) > 0 {
		t.Fatal("TestReference says what is wrong")
	}
	const lifetime = "- `session.lifetime` (duration; default: `1h`)"
	for _, c := range []struct{ name, old, new string }{
		{"another type", lifetime, strings.Replace(lifetime, "duration", "string", 1)},
		{"another default", lifetime, strings.Replace(lifetime, "1h", "2h", 1)},
		{"words for a default", lifetime, strings.Replace(lifetime, "`1h`", "one hour", 1)},
		{"another default before words", "; default: `10s`, with a path)", "; default: `11s`, with a path)"},
		{"another word", "(`lax`, `strict`, `none`;", "(`lax`, `strict`;"},
		{"another bound", "over `10m` (RFC 6749, section 4.1.2)", "over `5m` (RFC 6749, section 4.1.2)"},
	} {
		if strings.Count(text, c.old) != 1 {
			t.Fatalf("%s: the reference does not have %s once", c.name, c.old)
		}
		again, faults := rewriteReference(strings.Replace(text, c.old, c.new, 1), referenceKeys())
		if again != text || len(faults) > 0 {
			t.Errorf("%s: is not corrected, or is a fault: %v", c.name, faults)
		}
	}
	for key, line := range map[string]string{
		"session.lifetime":   lifetime,
		"routes[].rate.by":   "- `routes[].rate.by` (`client`, `user`; default: `client`)",
		"policies.NAME.none": "- `policies.NAME.none` (policy, or list of policies)",
		"shutdown_timeout":   "- `shutdown_timeout` (duration; default: `30s`)",
	} {
		before, after, _ := strings.Cut(text, line+"\n")
		after = regexp.MustCompile("^(\n  .*)+\n").ReplaceAllString(after, "")
		again, faults := rewriteReference(before+after, referenceKeys())
		if strings.Count(again, "\n"+line+"\n") != 1 {
			t.Errorf("%s: the entry is not added", key)
		}
		if len(faults) != 1 || !strings.HasPrefix(faults[0], key+" has no entry;") {
			t.Errorf("%s: the faults are %v", key, faults)
		}
	}
	for _, entry := range []string{
		"- `session.unknown` (string; default: `\"\"`)\n\n  What.\n", "- `log.level` (string; default: `info`)\n\n  Again.\n",
	} {
		if _, faults := rewriteReference(text+entry, referenceKeys()); len(faults) != 1 {
			t.Errorf("%s: the faults are %v", entry, faults)
		}
	}
	const silent = "\n\n  How long a session lives from the login on, used or not.\n\n  Mistakes: under `1s`."
	if strings.Count(text, silent) != 1 {
		t.Fatalf("the reference does not have %q once", silent)
	}
	if _, faults := rewriteReference(strings.Replace(text, silent, "", 1), referenceKeys()); len(faults) != 1 {
		t.Errorf("without a meaning, the faults are %v", faults)
	}
}

// TestReferenceRequired checks that what the reference calls required is missed.
func TestReferenceRequired(t *testing.T) {
	t.Parallel()
	required := 0
	text, _ := readReference(t)
	for _, line := range strings.Split(text, "\n") {
		entry := entryLine.FindStringSubmatch(line)
		if entry == nil || !strings.HasPrefix(entry[3], "required") {
			continue
		}
		required++
		key, given := entry[1], nested(parent(entry[1]), "{}")
		_, err := Parse("config.yaml", []byte(given+"\n"))
		diagnostics, _ := errors.AsType[Diagnostics](err)
		at := strings.ReplaceAll(key, "[]", "[0]")
		if !slices.ContainsFunc(diagnostics, func(d Diagnostic) bool { return d.Key == at || d.Key == parent(at) }) {
			t.Errorf("%s is not required: %s gives %v", key, given, err)
		}
	}
	if required < 10 {
		t.Errorf("the reference calls %d keys required", required)
	}
}
