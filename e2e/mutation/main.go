// Command mutation tells how much of a package its tests prove. It makes
// small faults in the package, one at a time, and runs the tests on each. A
// fault that no test finds survives. The score is the share of faults that
// tests find.
//
//	go run -C e2e ./mutation -package ./policy
//	go run -C e2e ./mutation -package ./gateway/proxy/upstream -files '^headers' -tests './gateway/proxy/upstream ./gateway'
//
// The faults are a sample, chosen by -seed, of all that are possible in code
// that the tests run. One that does not compile does not count; another takes
// its place. Tests run with go test -overlay, so the files of the tree never
// change. A test run that takes too long counts as failed, because a fault can
// make a loop endless.
//
// It prints a line for each survivor, and the score. Exit status: 0; 1 when a
// test fails without any fault, or a command cannot run; 2 when called wrongly.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"time"
)

type options struct {
	dir      string         // the module
	pkg      string         // the package to change, as for go list
	tests    []string       // the packages whose tests run
	testArgs []string       // further arguments of go test
	files    *regexp.Regexp // names of the source files to change
	count    int            // how many mutants count at most
	seed     uint64
	timeout  time.Duration // of the tests of one mutant
	verbose  bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	o, err := parseOptions(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		os.Exit(2)
	}
	if err := run(ctx, o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "mutation:", err)
		os.Exit(1)
	}
}

func parseOptions(args []string, errs io.Writer) (options, error) {
	var o options
	set := flag.NewFlagSet("mutation", flag.ContinueOnError)
	set.SetOutput(errs)
	set.StringVar(&o.dir, "dir", "..", "directory of the module")
	set.StringVar(&o.pkg, "package", "", "the package to change, such as ./policy")
	tests := set.String("tests", "", "the packages whose tests run, separated by spaces (default: the package)")
	test := set.String("run", "", "the tests that run, as for go test")
	files := set.String("files", "", "regular expression for the names of the files to change (default: all)")
	set.IntVar(&o.count, "mutants", 100, "how many mutants to try; 0: all")
	set.Uint64Var(&o.seed, "seed", 1, "seed of the sample")
	set.DurationVar(&o.timeout, "timeout", 0,
		"how long the tests of one mutant may take (default: 30s and three times as long as without a mutant)")
	set.BoolVar(&o.verbose, "v", false, "print each mutant, not only survivors")
	if err := set.Parse(args); err != nil {
		return o, err
	}
	var err error
	if o.files, err = regexp.Compile(*files); err == nil &&
		(o.pkg == "" || set.NArg() > 0 || o.count < 0 || o.timeout < 0) {
		err = errors.New("usage: mutation -package PACKAGE [flags]")
	}
	if err != nil {
		fmt.Fprintln(errs, err)
		return o, err
	}
	o.tests = strings.Fields(*tests)
	if len(o.tests) == 0 {
		o.tests = []string{o.pkg}
	}
	if *test != "" {
		o.testArgs = []string{"-run", *test}
	}
	return o, nil
}
