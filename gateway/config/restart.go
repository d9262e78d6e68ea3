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
	c := strictyaml.Changes{
		Element: func(any) strictyaml.Element { return strictyaml.Element{} },
		Hidden:  func(string) bool { return true }, Derived: func(string, any, any) bool { return false },
		Compare: func(string, any, any) bool { return false },
	}
	c.Find("", a.Interface(), b.Interface())
	return len(c.Lines()) == 0
}
