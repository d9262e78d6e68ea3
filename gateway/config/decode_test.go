package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Where each key and value of the good files stands, as the decoder has noted
// it: the text there is the key.
func TestPlaces(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/good/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, path := range append(paths, "testdata/design/whole.yaml", "../../config.yaml") {
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		l := newLoader(path, lookup)
		doc := l.decode(newText(path, source, maskYAML), source, maxConfigSize, "", l.cfg)
		for at, place := range doc.places {
			key := at[strings.LastIndexByte(at, '.')+1:]
			if key == "" || strings.HasSuffix(key, "]") {
				continue
			}
			// The place of a secret in a file is that of its x_file key.
			rest := doc.lines[place.key.line-1][place.key.column-1:]
			if strings.HasPrefix(rest, "&") { // the key of an anchored mapping
				continue
			}
			if rest = strings.TrimLeft(rest, `"'`); !strings.HasPrefix(rest, key) {
				t.Errorf("%s: %s is said to be at %v, where there is %q", path, at, place.key, rest)
			}
			checked++
		}
	}
	if checked < 300 {
		t.Errorf("only %d places were checked", checked)
	}
}

// Positions stay right behind what spans several lines or bytes.
func TestPositions(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]string{
		"comments":             "# one\n\n# two\n",
		"literal":              "data_dir: |-\n  data\n\n\ntls:\n",
		"folded":               "data_dir: >-\n  data\n  dir\n",
		"plain over lines":     "data_dir: data\n  dir\n",
		"quoted over lines":    "data_dir: \"data\n\n  dir\"\n",
		"single quotes":        "data_dir: 'data\n  dir'\n",
		"flow over lines":      "token: {audience: [a,\n  b,\n  # c\n  d]}\n",
		"wide characters":      "data_dir: \"dé😀ta\" # ü\n",
		"Windows line endings": "data_dir: data\r\n# comment\r\n",
		"document marker":      "---\ndata_dir: data\n",
		"directive":            "%YAML 1.2\n---\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parse("c.yaml", []byte(before+"log: {level: info, format: xml}\n"), lookup)
			diagnostics, ok := errors.AsType[Diagnostics](err)
			if !ok || len(diagnostics) != 1 {
				t.Fatalf("got %v", err)
			}
			d := diagnostics[0]
			if want := strings.Count(before, "\n") + 1; d.Line != want || d.Column != 28 || d.Key != "log.format" {
				t.Errorf("got %s, want line %d, column 28", d, want)
			}
		})
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	known := []string{"match", "name", "upstream", "auth", "policy", "timeout", "password_hash", "client_id", "ip"}
	for word, want := range map[string]string{
		"macth": "match", "Upstream": "upstream", "upstreams": "upstream", "uptream": "upstream",
		"policies": "policy", "polycies": "", "password-hash": "password_hash", "passwordhash": "password_hash", "password": "password_hash",
		"client": "client_id", "x": "", "ip": "ip", "at": "", "": "",
	} {
		if got, ok := nearest(word, known); got != want || ok != (want != "") {
			t.Errorf("nearest(%q) = %q, %v; want %q", word, got, ok, want)
		}
	}
}

func TestDistance(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0}, {"abc", "acb", 1},
		{"abc", "abd", 1}, {"abc", "xabc", 1}, {"abcdef", "badcfe", 3}, {"é", "e", 1},
	} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("distance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestExpand(t *testing.T) {
	t.Parallel()
	env := func(name string) (string, bool) {
		value, ok := map[string]string{"A": "a", "_b2": "${A}", "EMPTY": "", "DOLLAR": "$$"}[name]
		return value, ok
	}
	for source, want := range map[string]string{
		"": "", "plain": "plain", "${A}": "a", "x${A}y${A}z": "xayaz", "${EMPTY}": "",
		"$A": "$A", "$": "$", "a$": "a$", "$$": "$$", "$${A}": "${A}", "$$${A}": "$${A}", "$${": "${",
		"${_b2}": "${A}", "${DOLLAR}{A}": "$${A}",
		"$2y$10$abc": "$2y$10$abc", "$argon2id$v=19$m=1": "$argon2id$v=19$m=1",
	} {
		got, err := expand(source, env)
		if err != nil || got != want {
			t.Errorf("expand(%q) = %q, %v; want %q", source, got, err, want)
		}
	}
	for _, source := range []string{"${", "${}", "${A", "${NONE}", "${A:-b}", "${1A}", "${A B}", "${ A }", "${A}${"} {
		if got, err := expand(source, env); err == nil {
			t.Errorf("expand(%q) = %q, want an error", source, got)
		}
	}
}

func TestPasswordHash(t *testing.T) {
	t.Parallel()
	bcrypt := func(kind string, cost int) string {
		return fmt.Sprintf("$2%s$%02d$%s", kind, cost, strings.Repeat("a", 53))
	}
	argon := func(parameters string) string {
		return "$argon2id$v=19$" + parameters + "$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaA"
	}
	for _, good := range []string{
		bcrypt("a", 4), bcrypt("b", 10), bcrypt("y", 20), argon("m=8,t=1,p=1"), argon("m=1048576,t=64,p=64"),
	} {
		if err := checkPasswordHash(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{
		"", "password", "$2y$", bcrypt("y", 3), bcrypt("y", 21), bcrypt("x", 10), bcrypt("y", 10) + "a", bcrypt("y", 10)[:59],
		argon("m=7,t=1,p=1"), argon("m=1048577,t=1,p=1"), argon("m=8,t=65,p=1"), argon("m=8,t=0,p=1"), argon("m=8,t=1,p=65"),
		argon("m=08,t=1,p=1"), argon("m=8,t=1"), argon("m=99999999999999999999,t=1,p=1"),
		argon("m=8,t=1,p=1") + "$", "$argon2id$m=8,t=1,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaA",
		"$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaB", // bits left over
	} {
		err := checkPasswordHash(bad)
		if err == nil {
			t.Errorf("%q is accepted", bad)
		} else if len(bad) > 8 && strings.Contains(err.Error(), bad) {
			t.Errorf("the error repeats the hash: %v", err)
		}
	}
}
