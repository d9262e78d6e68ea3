package config

import (
	"errors"
	"flag"
	"fmt"
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

var update = flag.Bool("update", false,
	"write the .want files of testdata, docs/config.schema.json, and types and defaults in docs/configuration.md")

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
	defaults := mustParse(t, "{}")
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

// describe lists the settings that differ from the defaults of their place, the
// hosts, the side files and the warnings.
func describe(cfg, defaults *Config) string {
	d := &difference{identityHeaders: &cfg.IdentityHeaders}
	d.value("", reflect.ValueOf(*cfg), reflect.ValueOf(*defaults))
	for _, host := range cfg.Hosts() {
		fmt.Fprintf(d, "host %s\n", host)
	}
	for _, file := range cfg.SideFiles() {
		fmt.Fprintf(d, "side file %s\n", file)
	}
	for _, warning := range cfg.Warnings() {
		fmt.Fprintf(d, "warning %s\n", warning)
	}
	return d.String()
}

// difference writes what differs from defaults, in the order of the types. A key that
// is new, and not given, so changes nothing in it.
type difference struct {
	strings.Builder
	identityHeaders *IdentityHeaders // the defaults for those of upstreams
}

// value compares the value v at path with its default.
func (d *difference) value(path string, v, fallback reflect.Value) {
	v, fallback = plain(v), plain(fallback)
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range reflect.VisibleFields(v.Type()) {
			if key, _, _ := strings.Cut(field.Tag.Get("yaml"), ","); field.IsExported() && key != "-" {
				d.value(strictyaml.Join(path, key), v.FieldByIndex(field.Index), fallback.FieldByIndex(field.Index))
			}
		}
	case reflect.Map:
		byName := func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) }
		for _, key := range slices.SortedFunc(slices.Values(v.MapKeys()), byName) {
			d.value(strictyaml.Join(path, key.String()), v.MapIndex(key), d.ofElement(v.Type().Elem()))
		}
	case reflect.Slice:
		for i := range max(v.Len(), fallback.Len()) {
			one, other := d.ofElement(v.Type().Elem()), d.ofElement(v.Type().Elem())
			if i < v.Len() {
				one = v.Index(i)
			}
			if i < fallback.Len() {
				other = fallback.Index(i)
			}
			d.value(fmt.Sprintf("%s[%d]", path, i), one, other)
		}
	default:
		switch is, want := v.Interface(), fallback.Interface(); {
		case is == want:
		case v.IsZero():
			fmt.Fprintf(d, "%s is zero\n", path)
		default:
			fmt.Fprintf(d, "%s: %v\n", path, is)
		}
	}
}

// ofElement returns the default of an element of a list or a map.
func (d *difference) ofElement(t reflect.Type) reflect.Value {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	element := reflect.New(t)
	setDefaults(element.Interface())
	if upstream, ok := element.Interface().(*Upstream); ok {
		upstream.IdentityHeaders = d.identityHeaders
	}
	return element.Elem()
}

// plain returns a value as one writes it: what a pointer leads to, and the text of
// values with types of their own.
func plain(v reflect.Value) reflect.Value {
	switch value := v.Interface().(type) {
	case Secret:
		return reflect.ValueOf(value.Reveal())
	case *url.URL:
		if value == nil {
			return reflect.ValueOf("")
		}
		return reflect.ValueOf(value.String())
	case url.URL: // the default of an element
		return reflect.ValueOf(value.String())
	case netip.Prefix:
		if !value.IsValid() {
			return reflect.ValueOf("")
		}
		return reflect.ValueOf(value.String())
	case policy.Ref:
		if value.Name != "" {
			return reflect.ValueOf("policy " + value.Name)
		}
		return plain(reflect.ValueOf(value.Spec))
	}
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return reflect.Zero(v.Type().Elem())
		}
		return v.Elem()
	}
	return v
}
