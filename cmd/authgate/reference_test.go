package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var update = flag.Bool("update", false, "write docs/command-line.md")

// referencePath is the document that TestReference compares with the commands.
const referencePath = "../../docs/command-line.md"

const referenceHead = `# Command line

Every command of ` + "`authgate`" + `, as its ` + "`--help`" + ` describes it. ` +
	"`authgate COMMAND --help`" + ` prints the same.
[file.md](configuration/file.md) shows what ` + "`validate`" + ` finds, and ` +
	`[policies.md](configuration/policies.md#explain-a-decision) what
` + "`explain`" + ` and ` + "`test`" + ` print.

The exit status is 0 for success, 1 for a failure, and 2 for wrong usage or a configuration that has mistakes ` +
	`or cannot be read. A value in brackets after a flag is its default.
` + "`authgate completion SHELL`" + ` prints completions for bash, zsh, fish and PowerShell. ` +
	"`authgate --version`" + ` prints the version.

Commands that need a running gateway (` + "`reload`, `sessions`, `users invite`" + `) find it by the ` +
	"`data_dir`" + ` of its configuration.
Run them as the user of the gateway. In a container, run them inside it.
`

// documented returns the commands that users call, in the order of their names.
func documented(cmd *cobra.Command) (all []*cobra.Command) {
	for _, sub := range cmd.Commands() {
		if sub.Hidden || sub.Name() == "help" || sub.Name() == "completion" {
			continue
		}
		all = append(append(all, sub), documented(sub)...)
	}
	return all
}

// reference returns the document.
func reference() string {
	b := &strings.Builder{}
	b.WriteString(referenceHead)
	for _, cmd := range documented(root()) {
		fmt.Fprintf(b, "\n## %s\n\n%s.\n\n    %s\n", cmd.CommandPath(), cmd.Short, cmd.UseLine())
		if cmd.Long != "" {
			fmt.Fprintf(b, "\n%s\n", cmd.Long)
		}
		var flags []string
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) { flags = append(flags, describeFlag(f)) })
		if len(flags) > 0 {
			fmt.Fprintf(b, "\n%s\n", strings.Join(flags, "\n"))
		}
		fmt.Fprintf(b, "\nExamples:\n\n")
		for line := range strings.Lines(cmd.Example) {
			fmt.Fprintf(b, "    %s\n", strings.TrimSpace(line))
		}
	}
	return b.String()
}

// describeFlag returns the flag as an item of a list: its names, its default and its meaning.
func describeFlag(f *pflag.Flag) string {
	name, fallback := "`--"+f.Name+"`", ""
	if f.Shorthand != "" {
		name = "`-" + f.Shorthand + "`, " + name
	}
	if f.DefValue != "" && f.DefValue != "[]" && f.DefValue != "false" && f.DefValue != "0" {
		fallback = " (`" + f.DefValue + "`)"
	}
	return "- " + name + fallback + ": " + f.Usage
}

// docs/command-line.md says what the commands say.
func TestReference(t *testing.T) {
	t.Parallel()
	want := reference()
	if *update {
		if err := os.WriteFile(referencePath, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(referencePath)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/command-line.md differs from the commands; run go test ./cmd/authgate -run TestReference -update")
	}
}

// Each command has an example, which names the command and only flags that exist.
func TestExamples(t *testing.T) {
	t.Parallel()
	for _, cmd := range append(documented(root()), manCommandOf(root())) {
		if cmd.Example == "" {
			t.Errorf("%s has no example", cmd.CommandPath())
		}
		for line := range strings.Lines(cmd.Example) {
			line = strings.TrimSpace(line)
			if !strings.HasPrefix(line, "authgate "+strings.TrimPrefix(cmd.CommandPath(), "authgate ")) {
				t.Errorf("%s: the example %q is of another command", cmd.CommandPath(), line)
			}
			for _, word := range strings.Fields(line) {
				name, isFlag := strings.CutPrefix(word, "--")
				if isFlag && cmd.Flags().Lookup(name) == nil {
					t.Errorf("%s: the example %q has the flag %s, which does not exist", cmd.CommandPath(), line, word)
				}
			}
		}
	}
}

func manCommandOf(root *cobra.Command) *cobra.Command {
	found, _, err := root.Find([]string{"man"})
	if err != nil {
		panic(err)
	}
	return found
}

// Each command has a man page, and two runs write the same.
func TestMan(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	first, second := t.TempDir(), t.TempDir()
	for _, dir := range []string{first, second} {
		cmd := root()
		cmd.SetArgs([]string{"man", dir})
		cmd.SetOut(t.Output())
		if err := cmd.Execute(); err != nil {
			t.Fatal(err)
		}
	}
	for _, cmd := range documented(root()) {
		name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
		page, err := os.ReadFile(filepath.Join(first, name))
		if err != nil || !strings.Contains(string(page), ".SH EXAMPLE") || !strings.Contains(string(page), "Nov 2023") {
			t.Errorf("%s: %v\n%s", name, err, page)
		}
		if again, err := os.ReadFile(filepath.Join(second, name)); err != nil || string(again) != string(page) {
			t.Errorf("%s differs in a second run: %v", name, err)
		}
	}
	if _, err := os.Stat(filepath.Join(first, "authgate-man.1")); err == nil {
		t.Error("a hidden command has a man page")
	}
}
