package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// outcomes has the outcome of each test: pass, fail or skip, by its full name.
type outcomes map[string]string

// event is a line that go test -json prints.
type event struct{ Action, Test, Output string }

// test runs the tests of rows, with a folder first in PATH unless it is empty.
func test(rows []row, path string) outcomes {
	var names []string
	for _, r := range rows {
		for _, t := range r.tries {
			name, _, _ := strings.Cut(t.test, "/")
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	args := []string{"test", "-json", "-tags", tag, "-count=1", "-p", "1", "-timeout", "60m", "-run",
		"^(" + strings.Join(slices.Compact(names), "|") + ")$"}
	cmd := exec.Command("go", append(args, packages()...)...)
	cmd.Env = os.Environ()
	cmd.Stderr = os.Stderr
	folder, err := filepath.Abs(path)
	if path != "" {
		cmd.Env = append(cmd.Env, "PATH="+folder+string(os.PathListSeparator)+os.Getenv("PATH"))
	}
	var out io.Reader
	if err == nil {
		out, err = cmd.StdoutPipe()
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "interop: go test:", err)
		return nil
	}
	all := readOutcomes(out)
	_ = cmd.Wait() // the tests that failed are in all
	return all
}

// readOutcomes reads the output of go test -json. It shows the output of tests that fail.
func readOutcomes(from io.Reader) outcomes {
	all, said := outcomes{}, map[string]string{}
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadBytes('\n')
		var e event
		if json.Unmarshal(line, &e) == nil {
			switch e.Action {
			case "build-output":
				fmt.Fprint(os.Stderr, e.Output)
			case "output":
				said[e.Test] += e.Output
			case "pass", "fail", "skip":
				all[e.Test] = e.Action
				fmt.Fprintln(os.Stderr, e.Action, cmp.Or(e.Test, "the package"))
				if e.Action == "fail" {
					fmt.Fprint(os.Stderr, said[e.Test])
				}
				delete(said, e.Test)
			}
		}
		if err != nil {
			return all
		}
	}
}

// The outcome of a row is one of these words, and the reason unless it passed.
const (
	passed   = "passed"
	failure  = "**failed**: "
	notTried = "not tried: "
)

// judge makes the result of a row from the outcomes of its tests. A row passes only if
// each of its tests ran and passed, and the counterpart tells its version.
func (r row) judge(all outcomes) result {
	got := result{outcome: passed, date: today()}
	var failed, skipped []string
	for _, t := range r.tries {
		switch all[t.test] {
		case "pass":
		case "skip":
			skipped = append(skipped, t.what)
		case "fail":
			failed = append(failed, t.what)
		default:
			failed = append(failed, t.what+" (did not run)")
		}
	}
	version, err := r.version.ask()
	if err != nil {
		fmt.Fprintln(os.Stderr, "interop:", err)
		failed = append(failed, "it does not tell its version")
	}
	got.version = version
	switch {
	case len(failed) > 0:
		got.outcome = failure + strings.Join(failed, "; ")
	case len(skipped) > 0:
		got.outcome = notTried + "the tests skip " + strings.Join(skipped, "; ")
	}
	return got
}
