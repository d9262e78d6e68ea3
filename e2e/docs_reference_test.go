package e2e

import (
	"net/netip"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"authgate/gateway/config"
	"authgate/gateway/password"
	"authgate/policy"
)

// These tests compare what the documents name with what there is: keys and
// their defaults, metrics with their labels, files, targets of the Makefile.

// tableRow matches a row of a table about keys: the key and its default.
var tableRow = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (.*?) \\|")

// TestDocsKeys checks that configuration.md has every key and no other.
func TestDocsKeys(t *testing.T) {
	t.Parallel()
	keys := keysOf("", reflect.TypeFor[config.Config]())
	named := map[string]bool{}
	for _, row := range tableRow.FindAllStringSubmatch(documents(t)["docs/configuration.md"].prose, -1) {
		named[row[1]] = true
		if !slices.ContainsFunc(keys, func(key string) bool { return key == row[1] || strings.HasPrefix(key, row[1]+".") }) {
			t.Errorf("docs/configuration.md has the key %s, which does not exist", row[1])
		}
	}
	for _, key := range keys {
		section := key[:max(0, strings.LastIndexByte(key, '.'))]
		if !named[key] && !named[section] {
			t.Errorf("docs/configuration.md does not have the key %s", key)
		}
	}
}

// keysOf returns the keys of a type of package config that hold a value. NAME
// is a key of the user's choice, [] an element.
func keysOf(path string, t reflect.Type) []string {
	switch {
	case t == reflect.TypeFor[[]policy.Ref](), t == reflect.TypeFor[*url.URL](), t == reflect.TypeFor[[]netip.Prefix]():
		return []string{path}
	case t.Kind() == reflect.Pointer:
		return keysOf(path, t.Elem())
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct:
		return keysOf(path+"[]", t.Elem())
	case t.Kind() == reflect.Map && (t.Elem().Kind() == reflect.Struct || t.Elem().Kind() == reflect.Pointer):
		return keysOf(path+".NAME", t.Elem())
	case t.Kind() != reflect.Struct:
		return []string{path}
	}
	var keys []string
	for _, field := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(field.Tag.Get("yaml"), ","); field.IsExported() && name != "-" {
			keys = append(keys, keysOf(strings.TrimPrefix(path+"."+name, "."), field.Type)...)
		}
	}
	return keys
}

// TestDocsDefaults writes every default that configuration.md gives into a
// configuration, which must not change what it means.
func TestDocsDefaults(t *testing.T) {
	t.Parallel()
	short, long := decodeYAML(t, complete(fragmentBase)), decodeYAML(t, complete(fragmentBase))
	for _, row := range tableRow.FindAllStringSubmatch(documents(t)["docs/configuration.md"].prose, -1) {
		if span := codeSpan.FindStringSubmatch(row[2]); span != nil && span[0] == row[2] {
			var value any
			if err := yaml.Unmarshal([]byte(span[1]), &value); err != nil {
				t.Errorf("the default of %s: %v", row[1], err)
			}
			set(long, row[1], value)
		}
	}
	if len(long) == len(short) {
		t.Fatal("docs/configuration.md gives no defaults")
	}
	ignored := cmp.Options{cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(config.Config{}), cmpopts.EquateComparable(netip.Prefix{}), cmpopts.IgnoreTypes(password.Hash{})}
	if diff := cmp.Diff(parseConfig(t, short), parseConfig(t, long), ignored); diff != "" {
		t.Errorf("docs/configuration.md gives other defaults (+) than there are (-):\n%s", diff)
	}
}

func parseConfig(t *testing.T, m map[string]any) *config.Config {
	t.Helper()
	text := encodeYAML(t, m)
	cfg, err := config.Parse("config.yaml", []byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return cfg
}

// set puts a value at a path: NAME is the upstream of fragmentBase, [] the
// first element.
func set(m map[string]any, path string, value any) {
	for {
		key, rest, more := strings.Cut(strings.ReplaceAll(path, ".NAME.", ".app."), ".")
		if !more {
			m[key] = value
			return
		}
		if list, ok := strings.CutSuffix(key, "[]"); ok {
			m = m[list].([]any)[0].(map[string]any)
		} else {
			if m[key] == nil {
				m[key] = map[string]any{}
			}
			m = m[key].(map[string]any)
		}
		path = rest
	}
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// TestDocsLinks follows the links within the repository.
func TestDocsLinks(t *testing.T) {
	t.Parallel()
	docs := documents(t)
	for name, doc := range docs {
		for _, found := range link.FindAllStringSubmatch(doc.prose, -1) {
			if strings.Contains(found[1], ":") {
				continue // another site
			}
			file, anchor, anchored := strings.Cut(found[1], "#")
			target := name
			if file != "" {
				target = path.Join(path.Dir(name), file)
			}
			if _, err := os.Stat(filepath.Join("..", filepath.FromSlash(target))); err != nil {
				t.Errorf("%s: the link %s leads nowhere: %v", name, found[1], err)
			} else if anchored && (docs[target] == nil || !docs[target].anchors()[anchor]) {
				t.Errorf("%s: the link %s leads to no heading", name, found[1])
			}
		}
	}
}

// anchors are the names of the headings in links.
func (d *document) anchors() map[string]bool {
	all := map[string]bool{}
	for _, found := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(d.prose, -1) {
		kept := regexp.MustCompile(`[^\pL\pN _-]`).ReplaceAllString(found[1], "")
		all[strings.ToLower(strings.ReplaceAll(kept, " ", "-"))] = true
	}
	return all
}
