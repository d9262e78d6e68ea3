package config

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"authgate/gateway/config/strictyaml"
	"authgate/policy"
)

var update = flag.Bool("update", false, "write the .want files of testdata, docs/config.schema.json, and types and defaults in docs/configuration.md")

// environment has the variables for the files of testdata.
var environment = map[string]string{
	"HOST":     "gateway.example.org",
	"HOME_DIR": "/srv",
	"SUB":      "state",
	"NUMBER":   "7",
	"DURATION": "90s",
	"TRUE":     "true",
	"HASH":     "$2a$05$Cj2Uz06dB9glrWi2CkzdLOgicT5SRMqoxdycGqW2on5R3QOFP1nBy",
	"SECRET":   "a secret from the environment that is long enough",
	"YAML":     "info, format: text}",
	"BLANK":    "",
	"SPACED":   " not-shown ",
	"BROKEN":   "not-shown\n",
	"MARKED":   "\ufeffnot-shown",
}

func lookup(name string) (string, bool) {
	value, ok := environment[name]
	return value, ok
}

// parseTestdata parses a file of testdata.
func parseTestdata(t *testing.T, path string) (*Config, error) {
	t.Helper()
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return parse(path, source, lookup)
}

// golden compares what f tells about each .yaml file of a folder with its .want
// file.
func golden(t *testing.T, folder string, f func(t *testing.T, cfg *Config, err error) string) {
	t.Helper()
	paths, err := filepath.Glob("testdata/" + folder + "/*.yaml")
	if err != nil || len(paths) < 10 {
		t.Fatalf("found %d files (%v)", len(paths), err)
	}
	for _, path := range paths {
		path = strings.TrimSuffix(path, ".yaml")
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			cfg, err := parseTestdata(t, path+".yaml")
			got := f(t, cfg, err)
			if *update {
				if err := os.WriteFile(path+".want", []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path + ".want")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestBad(t *testing.T) {
	t.Parallel()
	golden(t, "bad", func(t *testing.T, cfg *Config, err error) string {
		diagnostics, ok := errors.AsType[Diagnostics](err)
		if !ok || cfg != nil {
			t.Fatalf("got %v and the error %v; want Diagnostics alone", cfg, err)
		}
		checkNothingSecret(t, diagnostics.Error())
		return diagnostics.Error() + "\n"
	})
}

// TestGood compares what each valid file sets with its .want file.
func TestGood(t *testing.T) {
	t.Parallel()
	defaults := map[string]string{}
	for _, s := range settings("", reflect.ValueOf(*mustParse(t, "{}"))) {
		defaults[s.key] = s.value
	}
	golden(t, "good", func(t *testing.T, cfg *Config, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		return describe(cfg, defaults)
	})
}

// checkNothingSecret finds the secrets of the files of testdata.
func checkNothingSecret(t *testing.T, text string) {
	t.Helper()
	for _, secret := range []string{
		"never be shown", "neverbeshown", "hidden-password", "not-shown", "a secret", "thismust",
		"$2a$0", "$2y$0", "$2y$1", "$2y$3", "$argon2id$v=19$m=1", "$apr1$", "{SHA}", "12345678", "not here",
	} {
		if strings.Contains(text, secret) {
			t.Errorf("the diagnostics show %q:\n%s", secret, text)
		}
	}
}

// describe lists the settings that differ from the defaults, the hosts, the side
// files and the warnings.
func describe(cfg *Config, defaults map[string]string) string {
	var b strings.Builder
	given := map[string]bool{}
	for _, s := range settings("", reflect.ValueOf(*cfg)) {
		given[s.key] = true
		if fallback, ok := defaults[s.key]; !ok || fallback != s.value {
			fmt.Fprintf(&b, "%s: %s\n", s.key, s.value)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(defaults)) {
		if !given[key] {
			fmt.Fprintf(&b, "%s is zero\n", key)
		}
	}
	for _, host := range cfg.Hosts() {
		fmt.Fprintf(&b, "host %s\n", host)
	}
	for _, file := range cfg.SideFiles() {
		fmt.Fprintf(&b, "side file %s\n", file)
	}
	for _, warning := range cfg.Warnings() {
		fmt.Fprintf(&b, "warning %s\n", warning)
	}
	return b.String()
}

type setting struct{ key, value string }

// settings lists all values in v that are not zero, in the order of the types.
func settings(path string, v reflect.Value) []setting {
	switch value := v.Interface().(type) {
	case Secret:
		v = reflect.ValueOf(value.Reveal())
	case *url.URL:
		if value == nil {
			return nil
		}
		v = reflect.ValueOf(value.String())
	case netip.Prefix:
		v = reflect.ValueOf(value.String())
	case policy.Ref:
		v = reflect.ValueOf(value.Spec)
		if value.Name != "" {
			v = reflect.ValueOf("policy " + value.Name)
		}
	}
	var all []setting
	switch {
	case v.IsZero():
	case v.Kind() == reflect.Pointer:
		return settings(path, v.Elem())
	case v.Kind() == reflect.Struct:
		for _, field := range reflect.VisibleFields(v.Type()) {
			if key, _, _ := strings.Cut(field.Tag.Get("yaml"), ","); field.IsExported() && key != "-" {
				all = append(all, settings(strictyaml.Join(path, key), v.FieldByIndex(field.Index))...)
			}
		}
	case v.Kind() == reflect.Map:
		for _, key := range slices.SortedFunc(slices.Values(v.MapKeys()), func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) }) {
			all = append(all, settings(strictyaml.Join(path, key.String()), v.MapIndex(key))...)
		}
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			all = append(all, settings(fmt.Sprintf("%s[%d]", path, i), v.Index(i))...)
		}
	default:
		all = append(all, setting{path, fmt.Sprint(v.Interface())})
	}
	return all
}
