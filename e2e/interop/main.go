package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// document is the file with the table, seen from e2e.
const document = "../docs/interop.md"

func main() {
	only := flag.String("rows", "", "run only the rows whose names match this regular `expression`")
	flag.Parse()
	failed, err := run(*only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "interop:", err)
	}
	if err != nil || failed {
		os.Exit(1)
	}
}

// run runs the rows that match, prints the table and writes it. failed reports whether a
// row failed.
func run(only string) (failed bool, err error) {
	wanted, err := regexp.Compile(only)
	if err != nil {
		return false, err
	}
	before, err := os.ReadFile(document)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, err
	}
	kept, results := parse(string(before)), map[string]result{}
	var chosen []row
	for _, r := range rows() {
		switch {
		case r.never != "":
			results[r.name] = result{outcome: notTried + r.never}
		case wanted.MatchString(r.name):
			chosen = append(chosen, r)
		case kept[r.name].outcome != "":
			results[r.name] = kept[r.name]
		default:
			results[r.name] = result{outcome: notTried + "not run yet"}
		}
	}
	if len(chosen) == 0 {
		return false, fmt.Errorf("-rows %q matches no row; the names are in %s", only, document)
	}
	try := tryAll(chosen)
	for _, r := range chosen {
		results[r.name] = try[r.name]
		failed = failed || strings.HasPrefix(try[r.name].outcome, failure)
	}
	text := render(results)
	fmt.Print(text)
	return failed, os.WriteFile(document, []byte(text), 0o644)
}

// tryAll runs the tests of rows: those that need no PATH of their own at once.
func tryAll(chosen []row) map[string]result {
	results := map[string]result{}
	var together []row
	for _, r := range chosen {
		if missing := r.missing(); missing != "" {
			results[r.name] = result{outcome: notTried + missing, date: today()}
		} else if r.path == "" {
			together = append(together, r)
		} else {
			results[r.name] = r.judge(test([]row{r}, r.path))
		}
	}
	outcomes := test(together, "")
	for _, r := range together {
		results[r.name] = r.judge(outcomes)
	}
	return results
}

func today() string { return time.Now().UTC().Format(time.DateOnly) }

// missing returns the needs of the row that this machine does not have.
func (r row) missing() string {
	for _, need := range r.needs {
		if strings.Contains(need, "/") {
			if _, err := os.Stat(need); err != nil {
				return filepath.Clean(need) + " is missing"
			}
			continue
		}
		if _, err := exec.LookPath(need); err == nil {
			continue
		}
		if _, err := exec.LookPath("/usr/sbin/" + need); err != nil {
			return need + " is missing"
		}
	}
	return ""
}

// ask returns the version that the counterpart reports.
func (v version) ask() (string, error) {
	cmd := exec.Command("sh", "-c", v.command)
	cmd.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/sbin")
	said, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", v.command, err, said)
	}
	match := v.match
	if match == "" {
		match = `(?:^|\s)v?(\d+\.\d\S*)`
	}
	found := regexp.MustCompile(match).FindSubmatch(said)
	if found == nil {
		return "", fmt.Errorf("%s: there is no version in %s", v.command, said)
	}
	return string(bytes.TrimRight(found[1], ",;")), nil
}
