package strictyaml

import (
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// declaration has each tag that a field can have.
type declaration struct {
	Text   string        `yaml:"text" default:"a" max:"3" why:" fit" check:"known"`
	Word   string        `yaml:"word" default:"one" words:"one two"`
	List   []string      `yaml:"list" default:"a b" check:"known"`
	Number int           `yaml:"number" default:"7" range:"2..9" zero:"none"`
	Share  float64       `yaml:"share" default:"0.5" range:"0..1" why:": a share"`
	On     bool          `yaml:"on" default:"true"`
	Until  time.Duration `yaml:"until" default:"1d" min:"1s" max:"2d" why:"; that is long"`
	Least  time.Duration `yaml:"least" default:"1s" min:"1s" why:"; or it is short"`
	Off    time.Duration `yaml:"off" min:"1s" zero:"none"`
	Most   time.Duration `yaml:"most" max:"1h"`
	Origin *url.URL      `yaml:"origin" default:"https://a.example"`
	File   string        `yaml:"file" file:"public" bare:"own"`
	Tool   string        `yaml:"tool" file:"program"`
	Inner  struct {
		Number int64 `yaml:"number" default:"1"`
	} `yaml:"inner"`
	Parts []struct {
		Word string `yaml:"word" default:"two" words:"one two"`
	} `yaml:"parts"`
	Kind  string `yaml:"kind" words:"x y"`
	OfX   string `yaml:"of_x" of:"x" need:"what x is for"`
	OfAll string `yaml:"of_all" of:"x y"`
}

// Why has the reason for a bound that is too long for a tag.
func (declaration) Why() map[string]string { return map[string]string{"most": ": a reason apart"} }

// declare reads a text with the defaults.
func declare(t *testing.T, source string) (*declaration, *Reader, *Document) {
	t.Helper()
	r := NewReader(Options{Main: "dir/c.yaml", Checks: map[string]func(d *Document, path, value string){
		"known": func(d *Document, path, value string) {
			if value == "bad" {
				d.Fault(path, "%q is not known", value)
			}
		},
	}})
	into := &declaration{}
	SetDefaults(into)
	return into, r, r.Read("dir/c.yaml", []byte(source), 1<<20, "", into)
}

// A key that is not given has the default in its tag, in sections and in elements of lists too.
func TestDefaults(t *testing.T) {
	t.Parallel()
	got, r, d := declare(t, "parts: [{}]\n")
	d.CheckValues()
	want := declaration{
		Text: "a", Word: "one", List: []string{"a", "b"}, Number: 7, Share: 0.5, On: true, Until: 24 * time.Hour,
		Least: time.Second, Origin: &url.URL{Scheme: "https", Host: "a.example"},
	}
	want.Inner.Number, want.Parts = 1, got.Parts
	if diff := cmp.Diff(want, *got); diff != "" || r.Err() != nil || got.Parts[0].Word != "two" {
		t.Errorf("%v, %q (-want +got):\n%s", r.Err(), got.Parts[0].Word, diff)
	}
}

// A value that is not as its tags say is one mistake, which tells the bound and its reason.
func TestDeclaredValues(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"text: abcd":                 "text: has 4 characters; at most 3 fit",
		"text: äöü":                  "",
		"text: bad":                  `text: "bad" is not known`,
		"list: [a, bad]":             `list[1]: "bad" is not known`,
		"word: three":                `word: "three" is not a valid value; expected one or two`,
		"number: 1":                  "number: 1 is out of range; expected 2 to 9, or 0 for none",
		"number: 10":                 "number: 10 is out of range; expected 2 to 9, or 0 for none",
		"number: 0":                  "",
		"share: 1.5":                 "share: must be from 0 to 1: a share",
		"until: 0s":                  "until: must be longer than 0",
		"until: 1ms":                 "until: must be at least 1s",
		"until: 49h":                 "until: is longer than 2d; that is long",
		"until: 48h":                 "",
		"least: 0s":                  "least: must be longer than 0; or it is short",
		"least: 1ms":                 "least: must be at least 1s; or it is short",
		"off: 0s":                    "",
		"off: 1ms":                   "off: must be at least 1s, or 0s for none",
		"most: 61m":                  "most: must be at most 1h: a reason apart",
		"parts: [{}, {word: three}]": `parts[1].word: "three" is not a valid value; expected one or two`,
	} {
		_, r, d := declare(t, source+"\n")
		d.CheckValues()
		var got string
		if err := r.Err(); err != nil {
			_, got, _ = strings.Cut(err.(Diagnostics)[0].String(), ": ")
		}
		if got != want {
			t.Errorf("%s: %q, want %q", source, got, want)
		}
	}
}

// Paths are relative to the folder of the file, and those of files without secrets are known.
func TestDeclaredPaths(t *testing.T) {
	t.Parallel()
	for source, want := range map[string]string{
		"{file: a, tool: b}":    "dir/a b [dir/a]",
		"{file: /a, tool: ./b}": "/a dir/b [/a]",
		"{file: own}":           "own  []",
		`{file: ""}`:            "  []",
	} {
		got, r, _ := declare(t, source+"\n")
		if text := fmt.Sprint(got.File, " ", got.Tool, " ", r.PublicFiles()); text != want || r.Err() != nil {
			t.Errorf("%s: %q, want %q, %v", source, text, want, r.Err())
		}
	}
}

// A union has the keys of its word, and no others.
func TestCheckUnion(t *testing.T) {
	t.Parallel()
	for source, want := range map[string][]string{
		"{kind: x, of_x: a}":     nil,
		"{kind: y, of_all: a}":   nil,
		"{of_all: a}":            {"kind: is needed: x or y"},
		"{kind: x}":              {"of_x: is needed with the kind x: what x is for"},
		"{kind: y, of_x: a}":     {"of_x: is no option of the kind y, which has of_all; remove this key"},
		"{kind: other, of_x: a}": nil, // CheckValues reports the word
	} {
		got, r, d := declare(t, source+"\n")
		d.CheckUnion("", "kind", *got)
		var messages []string
		if err := r.Err(); err != nil {
			for _, one := range err.(Diagnostics) {
				messages = append(messages, one.Key+": "+one.Message)
			}
		}
		if !slices.Equal(messages, want) {
			t.Errorf("%s: %q, want %q", source, messages, want)
		}
	}
}

// A tag that does not fit its field is a fault of the program's.
func TestWrongTag(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("it is taken")
		}
	}()
	setText(reflect.ValueOf(new(int)).Elem(), "x")
}
