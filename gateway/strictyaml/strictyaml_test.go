package strictyaml

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// settings is a type with every kind of value.
type settings struct {
	Name    string              `yaml:"name"`
	Timeout time.Duration       `yaml:"timeout"`
	Size    int                 `yaml:"size"`
	On      bool                `yaml:"on"`
	List    []string            `yaml:"list"`
	Labels  map[string]string   `yaml:"labels"`
	Parts   []part              `yaml:"parts"`
	Named   map[string]settings `yaml:"named"`
	Inner   *part               `yaml:"inner"`
	Secret  Secret              `yaml:"secret"`
	Origin  origin              `yaml:"origin"`
	Rules   []rule              `yaml:"rules"`
	Only    []rule              `yaml:"only,single"`
}

type (
	part struct {
		Name string `yaml:"name"`
		Size int64  `yaml:"size" default:"1"`
	}
	origin struct{ host string } // written as one string
	rule   struct {              // written as a name or as a part
		Name string
		Part *part
	}
)

func options(main string) Options {
	return Options{
		Main: main, SecretKeys: []string{"secret"},
		Lookup: func(name string) (string, bool) {
			value, ok := map[string]string{
				"SIZE": "7", "ON": "true", "TIMEOUT": "90s", "TEXT": "a: {b: c}",
				"A": "a", "_b2": "${A}", "EMPTY": "", "DOLLAR": "$$",
			}[name]
			return value, ok
		},
		Parse: map[reflect.Type]func(path, value string) (any, error){
			reflect.TypeFor[origin](): func(path, value string) (any, error) {
				if value == "" {
					return nil, errors.New("no host in " + path)
				}
				return origin{value}, nil
			},
		},
		Either: map[reflect.Type]string{reflect.TypeFor[rule](): "a name or a part"},
	}
}

// read reads a text as the main file.
func read(tb testing.TB, source string) (*settings, *Reader, *Document) {
	tb.Helper()
	r := NewReader(options("c.yaml"))
	into := &settings{}
	return into, r, r.Read("c.yaml", []byte(source), 1<<20, "", into)
}

func TestRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "secret.txt"), []byte("of a file\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const source = `timeout: 1m30s
on: "${ON}"
list: [a, "${TEXT}"]
labels: {"b c": d}
parts: [{name: one}, &p {name: two, size: 2}]
named:
  inner: {size: "${SIZE}", timeout: "${TIMEOUT}"}
inner:
  <<: *p
  name: three
secret_file: secret.txt
origin: example.org
rules: [first, {name: second}]
only: {name: third}
`
	want := &settings{
		Name: "default", Size: 3, Timeout: 90 * time.Second, On: true, List: []string{"a", "a: {b: c}"},
		Labels: map[string]string{"b c": "d"}, Parts: []part{{"one", 1}, {"two", 2}},
		Named: map[string]settings{"inner": {Size: 7, Timeout: 90 * time.Second}},
		Inner: &part{"three", 2}, Secret: "of a file", Origin: origin{"example.org"},
		Rules: []rule{{Name: "first"}, {Part: &part{Name: "second", Size: 1}}},
		Only:  []rule{{Part: &part{Name: "third", Size: 1}}},
	}
	for _, text := range []string{source, strings.ReplaceAll(source, "\n", "\r\n")} {
		r := NewReader(options(filepath.Join(dir, "c.yaml")))
		got := &settings{Name: "default", Size: 3}
		doc := r.Read(r.Main, []byte(text), 1<<20, "", got)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(origin{})); diff != "" || r.Err() != nil {
			t.Errorf("%v (-want +got):\n%s", r.Err(), diff)
		}
		if files := r.Files(); len(files) != 1 || !files[0].Same(statFile(filepath.Join(dir, "secret.txt"))) {
			t.Errorf("side files %v", files)
		}
		// The paths of values that are not written as the types are nested.
		for path, given := range map[string]bool{
			"secret": true, "secret_file": true, "rules[1].name": true, "only.name": true,
			"only[0].name": false, "inner.size": true, "parts[0].size": false,
		} {
			if doc.Given(path) != given {
				t.Errorf("%s is given: %v", path, !given)
			}
		}
	}
}

// The place of each value is that of its key in the text, also behind what spans
// several lines or bytes.
func TestPlaces(t *testing.T) {
	t.Parallel()
	const source = `%YAML 1.2
---
# comment
name: &n plain text

"timeout": 1s
'list': [ *n ,
  "b",
  # c
  c]
labels: {one: "dé😀ta", "two" : 2x,
  three: *n}
parts:
- name: é  # wide
  size: 1
-   {size: 2, name: "x"}
- name: >-
    folded
    text
  size: 3
- name: plain
    over lines
  size: 4
- name: 'single
    quotes'
  size: 5
named:
    deep:
        deeper_is_not_a_key_but: 1
    other: {named: {inner: {size: 3}}}
inner: &i
  name: |-
    several

    lines

secret: "in quotes

  over lines"
` + "rules:\r\n  - {name: a}\r\n  -\r\n    size: 1\r\n"
	_, r, doc := read(t, source)
	if err := r.Err(); err == nil || strings.Count(err.Error(), "unknown key") != 1 {
		t.Fatalf("got %v, want one unknown key", err)
	}
	checked := 0
	for path, place := range doc.places {
		key := path[strings.LastIndexByte(path, '.')+1:]
		if key == "" || strings.HasSuffix(key, "]") {
			continue
		}
		rest := strings.TrimLeft(string([]rune(doc.lines[place.key.line-1])[place.key.column-1:]), `"'`)
		if !strings.HasPrefix(rest, key) {
			t.Errorf("the place of %s is %v, where the text is %q", path, place.key, rest)
		}
		checked++
	}
	if checked < 26 {
		t.Errorf("only %d places were checked", checked)
	}
}

// A check does not report what follows from an earlier mistake.
func TestFault(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, source, path, want string }{
		{"a good value", "inner: {name: a}\n", "inner.name", "1:15: inner.name: bad"},
		{"a missing value", "inner: {size: 1}\n", "inner.name", "1:1: inner.name: bad"},
		{"the value itself", "inner: {size: x}\n", "inner.size", ""},
		{"a value in it", "inner: {size: x}\n", "inner", ""},
		{"a value around it", "inner: []\n", "inner.size", ""},
		{"its misspelling", "inner: {siez: 1}\n", "inner.size", ""},
		{"a value beside it", "inner: {size: x, name: a}\n", "inner.name", "1:24: inner.name: bad"},
	} {
		_, r, doc := read(t, c.source)
		doc.Fault(c.path, "bad")
		var added []string
		if all, ok := errors.AsType[Diagnostics](r.Err()); ok {
			for _, d := range all {
				if d.Message == "bad" {
					added = append(added, strings.TrimPrefix(d.String(), "c.yaml:"))
				}
			}
		}
		if strings.Join(added, "\n") != c.want {
			t.Errorf("%s: got %q, want %q", c.name, added, c.want)
		}
	}
}

// What a scalar is read as. The YAML parser drops a tab inside a string without
// quotes.
func TestScalars(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a~": "a~", "a\u00a0b": "a\u00a0b", "\ufffd": "\ufffd",
		"\"a\tb\"": "a\tb", "'a\tb'": "a\tb", "|-\n  a\tb": "a\tb", ">-\n  a\tb": "a\tb",
		"a\t# c\td": "a", "a b\t": "a b", "\ta": "a", "a\n  \tb": "a b",
		"plain": "plain", "${A}": "a", "x${A}y${A}z": "xayaz", "x${EMPTY}": "x", "$A": "$A", "$": "$", "a$": "a$", "$$": "$$",
		"$${A}": "${A}", "$$${A}": "$${A}", "'$${'": "${", "${_b2}": "${A}", "${DOLLAR}{A}": "$${A}",
		"${A:-b}": "a", "${NONE:-b}": "b", "${NONE:-}": "", "x${NONE:-b c}y${A}": "xb cya", "${EMPTY:-b}": "",
		"${NONE:-:-$A}": ":-$A", "$${A:-b}": "${A:-b}",
		"$2y$10$abc": "$2y$10$abc", "$argon2id$v=19$m=1": "$argon2id$v=19$m=1",
	} {
		if got, r, _ := read(t, "name: "+text+"\n"); r.Err() != nil || got.Name != want {
			t.Errorf("%q is read as %q, %v; want %q", text, got.Name, r.Err(), want)
		}
	}
	for _, source := range []string{
		"name: a\x00", "name: a\x1b", "name: a\x1f", "name: a\x7f", "name: a\u0080", "name: a\u009f", "name: a\ufeff",
		"name: GET\t/a", "name: a b\tc", "name: a\tb\n  c", "name: a\n  b\tc", "list: [a\tb]",
		"list:\n- a\tb", "labels: {x\ty: z}", "labels:\n  x\ty: z",
		"name: '${'", "name: '${}'", "name: '${A'", "name: '${NONE}'", "name: '${1A}'", "name: '${A B}'", "name: '${ A }'",
		"name: '${A}${'", "name: '${A-b}'", "name: '${A:b}'", "name: '${:-b}'", "name: '${NONE:-b'",
		"name: '${NONE:-${A}}'", "name: '${A:-${B}}'", "name: '${NONE:-$${A}}'",
	} {
		if got, r, _ := read(t, source+"\n"); r.Err() == nil {
			t.Errorf("%q is read as %+v", source, got)
		}
	}
	if got, r, _ := read(t, "list:\n-\ta\nlabels:\n  k:\tv\n"); r.Err() != nil ||
		got.List[0] != "a" || got.Labels["k"] != "v" {
		t.Errorf("tabs between tokens: %q %q %v", got.List, got.Labels, r.Err())
	}
}

// In lists inside of braces, a ":" that no space follows belongs to the text, as everywhere else.
func TestColonsInLists(t *testing.T) {
	t.Parallel()
	for list, want := range map[string][]string{
		"[http://10.0.0.1:3000, https://b:2/x?y=1:2 ]":  {"http://10.0.0.1:3000", "https://b:2/x?y=1:2"},
		"[okta:alice, client:agent, localhost:80, é:1]": {"okta:alice", "client:agent", "localhost:80", "é:1"},
		"[::1/128, 2001:db8::/32, \n 10:20, \"a\"]":     {"::1/128", "2001:db8::/32", "10:20", "a"},
	} {
		for _, source := range []string{"list: " + list, "named: {a: {list: " + list + ", size: 1}}"} {
			got, r, _ := read(t, source+"\n")
			if inner, ok := got.Named["a"]; ok {
				got = &inner
			}
			if r.Err() != nil || !slices.Equal(got.List, want) {
				t.Errorf("%s is read as %q, %v", source, got.List, r.Err())
			}
		}
	}
	for _, list := range []string{"[a: b]", "[\"a\":b]", "[a:b: c]", "[a:b c: d]", "[:a: b]"} {
		source := "named: {a: {list: " + list + "}}\n"
		if _, r, _ := read(t, source); r.Err() == nil {
			t.Errorf("%s is accepted", source)
		}
	}
	if got, r, _ := read(t, "inner: {name:a, size:2}\n"); r.Err() != nil || got.Inner == nil || got.Inner.Size != 2 {
		t.Errorf("keys without a space: %+v, %v", got.Inner, r.Err())
	}
}

// A text that is written is read as the same text, and no variable in it is replaced.
func TestTextsAreReadAsWritten(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"plain", "no", "null", "~", "1", "a: b", "a #b", "- a", `a"b\`, "&a", "*a", "<<", "é", "{a: b}",
		"${A}", "$${A}", "$$${A}", "${", "$${", "a}${A}", "${${A}", "${A${A}}", "${A}${A", "${${", "$${${${A}$",
	} {
		for name, write := range map[string]func(string) string{"Text": Text, "Quoted": Quoted} {
			if got, r, _ := read(t, "name: "+write(text)+"\n"); r.Err() != nil || got.Name != text {
				t.Errorf("%s(%q) is %s, which is read as %q, %v", name, text, write(text), got.Name, r.Err())
			}
		}
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	known := []string{
		"match", "name", "upstream", "auth", "policy", "timeout", "password_hash", "client_id", "ip", "introspection",
	}
	for word, want := range map[string]string{
		"macth": "match", "Upstream": "upstream", "upstreams": "upstream", "uptream": "upstream",
		"policies": "policy", "polycies": "", "password-hash": "password_hash",
		"passwordhash": "password_hash", "password": "password_hash", "client": "client_id", "x": "",
		"ip": "ip", "at": "", "ap": "", "": "", "nitrospetcino": "introspection", "tïmëöut": "timeout",
	} {
		if got, ok := Nearest(word, known); got != want || ok != (want != "") {
			t.Errorf("Nearest(%q) = %q, %v; want %q", word, got, ok, want)
		}
	}
}
