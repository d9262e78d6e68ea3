package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"authgate/gateway/strictyaml"
)

// usageError is a wrong command line.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// usage makes the errors of an argument check usage errors.
func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return &usageError{fmt.Errorf("%w; expected %s", err, cmd.UseLine())}
		}
		return nil
	}
}

// noArguments is the argument check of a command without arguments. It repeats none but the name of a
// configuration: one can be a password.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := strings.TrimPrefix(cmd.CommandPath(), "authgate ") + " takes no arguments"
	if cmd.Flags().Lookup("config") != nil && otherExtension(args[0]) != "" {
		text += fmt.Sprintf("; did you mean --config %s?", printable(args[0]))
	}
	return &usageError{errors.New(text)}
}

// knownCommand is the argument check of a command that only has subcommands. The
// arguments begin with a word that is none of them.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := fmt.Sprintf("unknown command %q for %q", args[0], cmd.CommandPath())
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		text += fmt.Sprintf("; did you mean %s?", strings.Join(near, " or "))
	}
	return &usageError{errors.New(text)}
}

// unknownFlag is a usage error that suggests the flag of cmd that is meant.
func unknownFlag(cmd *cobra.Command, err error) error {
	unknown, ok := errors.AsType[interface {
		error
		GetSpecifiedName() string
	}](err)
	if !ok || cmd.Flags().Lookup(unknown.GetSpecifiedName()) != nil {
		return &usageError{err}
	}
	if text, _, several := strings.Cut(err.Error(), " in -"); several { // the other letters may be a secret
		return &usageError{errors.New(text)}
	}
	var flags []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { flags = append(flags, f.Name) })
	if near, ok := strictyaml.Nearest(unknown.GetSpecifiedName(), flags); ok {
		return &usageError{fmt.Errorf("%w; did you mean --%s?", err, near)}
	}
	return &usageError{err}
}

// completeUsage adds cobra's commands help and completion, which take unknown
// words for a request for help, and makes such words usage errors.
func completeUsage(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help":
			cmd.Args = func(_ *cobra.Command, args []string) error {
				if found, _, err := root.Find(args); err != nil || found == root && len(args) > 0 {
					return knownCommand(root, args)
				}
				return nil
			}
		case "completion":
			cmd.Args, cmd.SuggestionsMinimumDistance = knownCommand, 2
			cmd.RunE = func(*cobra.Command, []string) error {
				return &usageError{errors.New("a shell is missing: bash, zsh, fish or powershell")}
			}
			for _, shell := range cmd.Commands() {
				shell.Args = noArguments
			}
		}
	}
}
