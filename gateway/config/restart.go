package config

import (
	"reflect"
	"slices"
	"strings"

	"authgate/gateway/strictyaml"
)

// NeedsRestart returns the keys in which another configuration differs, and that only a restart applies:
// those with the tag reload. A reload can replace all others.
func (c *Config) NeedsRestart(other *Config) []string {
	return restarts("", reflect.ValueOf(*c), reflect.ValueOf(*other))
}

// restarts compares two sections at a path. The content of a file counts as the key of the file, which
// its tag names.
func restarts(path string, a, b reflect.Value) (keys []string) {
	for i := range a.NumField() {
		field := a.Type().Field(i)
		key, _, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		tag, tagged := field.Tag.Lookup("reload")
		if tagged && key == "-" {
			key = tag
		}
		switch at := strictyaml.Join(path, key); {
		case tagged && !sameKeys(a.Field(i), b.Field(i)) && !slices.Contains(keys, at):
			keys = append(keys, at)
		case !tagged && key != "" && key != "-" && field.Type.Kind() == reflect.Struct:
			keys = append(keys, restarts(at, a.Field(i), b.Field(i))...)
		}
	}
	return keys
}

// sameKeys reports whether two sections mean the same. An empty list is the same as none, at any depth.
func sameKeys(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.Slice:
		if a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !sameKeys(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Struct:
		fields := reflect.VisibleFields(a.Type())
		if slices.ContainsFunc(fields, func(f reflect.StructField) bool { return !f.IsExported() }) {
			break // it is no section
		}
		return !slices.ContainsFunc(fields, func(f reflect.StructField) bool {
			return !sameKeys(a.FieldByIndex(f.Index), b.FieldByIndex(f.Index))
		})
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}
