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
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"authgate/gateway/config/forwarding"
	"authgate/gateway/people/accounts"
	"authgate/gateway/strictyaml"
	"authgate/internal/test/must"
	"authgate/policy"
)

var update = flag.Bool("update", false,
	"write the results in testdata, and types and defaults in docs/configuration")

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

// A goldenCase is a configuration in an archive of testdata, and the result that it has.
type goldenCase struct {
	path string // messages name it, and relative paths start from its folder
	name string // of the file in the archive: NAME.yaml, or NAME.quoted for a Go string
	file []byte // as the archive has it
	want []byte
}

// source returns the content of the configuration.
func (c *goldenCase) source(t testing.TB) []byte {
	t.Helper()
	if !strings.HasSuffix(c.name, ".quoted") {
		return c.file
	}
	return []byte(must.Get(strconv.Unquote(strings.TrimSpace(string(c.file))))(t))
}

// archives returns the paths of the archives in a folder of testdata, one for each
// section of the configuration.
func archives(t testing.TB, folder string) []string {
	t.Helper()
	paths := must.Get(filepath.Glob("testdata/" + folder + "/*.txtar"))(t)
	if len(paths) < 10 {
		t.Fatalf("found %d archives", len(paths))
	}
	return paths
}

// goldenCases returns the comment and the cases of an archive: in turn a
// configuration and NAME.want, its result. A new case has no result until -update.
func goldenCases(t testing.TB, path string) (comment []byte, cases []goldenCase) {
	t.Helper()
	archive := must.Get(txtar.ParseFile(path))(t)
	for _, file := range archive.Files {
		name, kind, _ := strings.Cut(file.Name, ".")
		last := len(cases) - 1
		switch {
		case kind == "yaml" || kind == "quoted":
			cases = append(cases, goldenCase{filepath.Join(filepath.Dir(path), name+".yaml"), file.Name, file.Data, nil})
		case kind == "want" && last >= 0 && cases[last].want == nil && strings.HasPrefix(cases[last].name, name+"."):
			cases[last].want = file.Data
		default:
			t.Fatalf("%s: %s is no configuration, and no result of the one before it", path, file.Name)
		}
	}
	return archive.Comment, cases
}

// golden compares what f tells about each configuration in a folder with its result.
func golden(t *testing.T, folder string, f func(t *testing.T, cfg *Config, err error) string) {
	t.Helper()
	for _, path := range archives(t, folder) {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			t.Parallel()
			comment, cases := goldenCases(t, path)
			updated := &txtar.Archive{Comment: comment}
			for _, c := range cases {
				name, _, _ := strings.Cut(c.name, ".")
				t.Run(name, func(t *testing.T) {
					cfg, err := parse(c.path, c.source(t), lookup)
					got := f(t, cfg, err)
					if *update {
						c.want = []byte(got)
					}
					if diff := cmp.Diff(string(c.want), got); diff != "" {
						t.Errorf("(-want +got):\n%s", diff)
					}
				})
				updated.Files = append(updated.Files, txtar.File{Name: c.name, Data: c.file},
					txtar.File{Name: name + ".want", Data: c.want})
			}
			if *update && !t.Failed() {
				must.Do(t, os.WriteFile(path, txtar.Format(updated), 0o644))
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
	identityHeaders *forwarding.IdentityHeaders // the defaults for those of upstreams
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
	strictyaml.SetDefaults(element.Interface())
	if upstream, ok := element.Interface().(*forwarding.Upstream); ok {
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
	case time.Time:
		if value.IsZero() {
			return reflect.ValueOf("")
		}
		return reflect.ValueOf(value.Format(time.RFC3339Nano))
	case accounts.Account:
		for _, role := range value.Roles {
			written := accounts.WrittenRole{Name: role}
			if end, ok := value.RoleEnds[role]; ok {
				written.Ending = &accounts.Role{Name: role, Until: end}
			}
			value.WrittenRoles = append(value.WrittenRoles, written)
		}
		return reflect.ValueOf(value)
	case accounts.WrittenRole:
		if value.Ending == nil {
			return reflect.ValueOf(value.Name)
		}
		return reflect.ValueOf(value.Name + " until " + value.Ending.Until.Format(time.RFC3339Nano))
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
