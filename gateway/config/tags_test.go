package config

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// tagName matches a tag of a field, which has a name.
var tagName = regexp.MustCompile(`([a-z]+):"[^"]*"`)

// Each tag of a field has a name that is read, and the checks that tags name exist: what is misspelled would be
// no check.
func TestTags(t *testing.T) {
	t.Parallel()
	known, named := checks(), 0
	seen := map[reflect.Type]bool{}
	var visit func(t reflect.Type)
	names := []string{
		"yaml", "json", "default", "words", "min", "max", "range", "zero", "why", "check", "file", "bare", "of", "need",
		"reload",
	}
	visit = func(of reflect.Type) {
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice || of.Kind() == reflect.Map {
			of = of.Elem()
		}
		own := of.PkgPath() == "" || strings.HasPrefix(of.PkgPath(), "authgate/")
		if of.Kind() != reflect.Struct || seen[of] || !own {
			return
		}
		seen[of] = true
		for i := range of.NumField() {
			field := of.Field(i)
			for _, found := range tagName.FindAllStringSubmatch(string(field.Tag), -1) {
				if !slices.Contains(names, found[1]) {
					t.Errorf("%s.%s has the tag %s", of, field.Name, found[1])
				}
			}
			for name := range strings.FieldsSeq(field.Tag.Get("check")) {
				if named++; known[name] == nil {
					t.Errorf("%s.%s names the check %s", of, field.Name, name)
				}
			}
			visit(field.Type)
		}
	}
	visit(reflect.TypeFor[Config]())
	if named < 20 || len(seen) < 20 {
		t.Errorf("%d checks, %d structs", named, len(seen))
	}
}
