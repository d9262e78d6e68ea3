package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestMutants(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		body string   // of func f(a, b int, ok bool) (int, error)
		want []string // body with each change made
	}{
		"operators": {"x := a == b && a < b; _ = x", []string{
			"x := a == b && a <= b; _ = x", "x := a == b || a < b; _ = x",
			"x := a != b && a < b; _ = x", "x := a == b && a < b; ",
		}},
		"a condition":                           {"if ok { return }", []string{"if !(ok) { return }"}},
		"a condition that its operator negates": {"if a == b { return }", []string{"if a != b { return }"}},
		"a negated condition":                   {"for !ok { return }", []string{"for ok { return }"}},
		"statements": {"a = b; g(); defer g(); a++; c := a; _ = c", []string{
			"; g(); defer g(); a++; c := a; _ = c", "a = b; ; defer g(); a++; c := a; _ = c", "a = b; g(); ; a++; c := a; _ = c",
			"a = b; g(); defer g(); ; c := a; _ = c", "a = b; g(); defer g(); a++; c := a; ",
		}},
		"statements in cases":  {"switch { case ok: g() }", []string{"switch { case ok:  }"}},
		"an error":             {"return a, err", []string{"return a, nil"}},
		"no error":             {"return a, nil", nil},
		"both from a call":     {"return g()", nil},
		"a literal of its own": {"h := func() bool { return true }", []string{"h := func() bool { return false }"}},
		"constants": {`x := 10; y := "10"; z := 0x0f`, []string{
			`x := 11; y := "10"; z := 0x0f`, `x := 10; y := "10"; z := 16`,
		}},
		"nothing to be changed": {"x := g(a, b)", nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			const before, after = "package p\n\nfunc f(a, b int, ok bool) (int, error) {", "}\n"
			source := []byte(before + test.body + after)
			mutants, err := Mutants("p.go", source)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, m := range mutants {
				body := strings.TrimSuffix(strings.TrimPrefix(string(m.Apply(source)), before), after)
				got = append(got, body)
				if m.Line != 3 || m.Kind == "" {
					t.Errorf("%q is called %q", body, m)
				}
			}
			slices.Sort(got)
			slices.Sort(test.want)
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestRun changes a module with one function that its test proves, one that a
// test runs and does not check, and one that no test runs.
func TestRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"go.mod": "module example\n\ngo 1.26\n",
		"p.go": `package p

func Proved(n int) bool  { return n < 2 }
func Unproved(n int) int { return n + 2 }
func Unused(n int) int   { return n - 2 }
func Looped(n int)       { for n > 0 { n-- } }
`,
		"p_test.go": `package p

import "testing"

func Test(t *testing.T) {
	Unproved(1)
	Looped(1)
	if !Proved(1) || Proved(2) || Proved(3) { t.Error("not proved") }
}
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o, err := parseOptions([]string{"-dir", dir, "-package", ".", "-mutants", "0", "-timeout", "10s"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := run(t.Context(), o, &out); err != nil {
		t.Fatal(err)
	}
	got := strings.ReplaceAll(out.String(), dir+string(filepath.Separator), "")
	for _, want := range []string{
		"p.go:4:37: + to -: survived\n", "p.go:4:39: 2 to 3: survived\n",
		"score 38 %: of 8 mutants tests found 3 (1 by timeout), 5 survived;",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in:\n%s", want, got)
		}
	}
}
