package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"authgate/gateway"
	"authgate/gateway/config"
	"authgate/gateway/explain"
)

func testCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "test FILE...",
		Short: "Run the tests of a configuration",
		Long: "Run tests of routes and policies. Each describes a request, and what the gateway\n" +
			"is expected to do with it, as explain says. Nothing is sent, and no gateway needs\n" +
			"to run.\n\n" +
			"The exit status is 0 if all tests pass, 1 if one fails, and 2 if a file or its\n" +
			"configuration cannot be read or has mistakes.",
		Example: "  authgate test policies.test.yaml\n" +
			"  authgate test --placeholders policies.test.yaml",
		Args: usage(cobra.MinimumNArgs(1)),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt
		},
	}
	placeholders := placeholdersFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, files []string) error {
		out, problems := cmd.OutOrStdout(), cmd.ErrOrStderr()
		var total tally
		unreadable := false
		for _, file := range files {
			of, err := runTests(cmd, file, config.Environment{Placeholders: *placeholders})
			if err != nil {
				unreadable = true
				fmt.Fprintln(problems, describeFailure(err))
			}
			if hinted, ok := errors.AsType[*hintedError](err); ok {
				fmt.Fprintln(problems, hinted.hint)
			}
			total.passed += of.passed
			total.failed += of.failed
		}
		fmt.Fprintf(out, "%d passed, %d failed\n", total.passed, total.failed)
		switch {
		case unreadable:
			return &printedError{2}
		case total.failed > 0:
			return &printedError{1}
		}
		return nil
	}
	return cmd
}

// tally counts tests.
type tally struct{ passed, failed int }

// describeFailure returns the mistakes of a file.
func describeFailure(err error) string {
	if problems, ok := errors.AsType[config.Diagnostics](err); ok {
		return problems.Error()
	}
	return "authgate: " + err.Error()
}

// runTests runs the tests of one file. The error means that they could not be run.
func runTests(cmd *cobra.Command, path string, from config.Environment) (tally, error) {
	out := cmd.OutOrStdout()
	file, err := readTestFile(path)
	if err != nil {
		return tally{}, err
	}
	cfg, err := loadFile(cmd, file.Config, from)
	if err != nil {
		return tally{}, err
	}
	explainer, err := gateway.NewExplainer(cfg)
	if err != nil {
		return tally{}, err
	}
	var of tally
	for i := range file.Tests {
		t := &file.Tests[i]
		x, err := explainer.Explain(t.described())
		failures := t.Expect.failures(x, err)
		if len(failures) == 0 {
			of.passed++
			fmt.Fprintf(out, "ok    %s\n", printable(t.Name))
			continue
		}
		of.failed++
		fmt.Fprintf(out, "FAIL  %s (%s)\n", printable(t.Name), t.place)
		for _, failure := range failures {
			fmt.Fprintf(out, "      %s\n", printable(failure))
		}
	}
	return of, explainer.Close()
}

// failures returns the differences from the expectation. err is that of Explain.
func (e *expectation) failures(x *explain.Result, err error) (all []string) {
	if err != nil {
		return []string{err.Error()}
	}
	differs := func(what, got, want string) {
		if got != want {
			all = append(all, fmt.Sprintf("%s is %q, expected %q", what, got, want))
		}
	}
	if e.Outcome != "" {
		differs("outcome", x.Outcome, e.Outcome)
	}
	if e.hasRoute {
		differs("route", x.Route, e.Route)
	}
	for _, name := range slices.Sorted(maps.Keys(e.Headers)) {
		differs("header "+name, headerValue(x.Header, name), e.Headers[name])
	}
	if all != nil {
		all = append(all, "because: "+strings.TrimSpace(x.Reason))
	}
	return all
}
