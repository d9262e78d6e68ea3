package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"authgate/gateway/config"
)

// standardInput is the path that means standard input.
const standardInput = "-"

// defaultConfig is the path of the configuration without a flag.
const defaultConfig = "config.yaml"

// configFlag adds the flag with the path of the configuration file.
func configFlag(cmd *cobra.Command) *string {
	return configFlagFor(cmd, "configuration file")
}

// configOrInputFlag is configFlag for a command that calls loadConfig.
func configOrInputFlag(cmd *cobra.Command) *string {
	return configFlagFor(cmd, "configuration file; - is standard input")
}

func configFlagFor(cmd *cobra.Command, meaning string) *string {
	path := cmd.Flags().StringP("config", "c", defaultConfig, meaning)
	if err := cmd.MarkFlagFilename("config", "yaml", "yml"); err != nil {
		panic(err) // the flag exists
	}
	return path
}

// placeholdersFlag adds the flag for a configuration that is checked where its secrets are not.
func placeholdersFlag(cmd *cobra.Command) *bool {
	return cmd.Flags().Bool("placeholders", false,
		"give variables that are not set, and secrets whose file cannot be read, a stand-in")
}

// loadConfig reads the configuration at path, or from standard input. name is how
// messages call it. The command ends soon, so that collecting garbage, which is a
// quarter of the work of reading a large configuration, hardly pays.
func loadConfig(cmd *cobra.Command, path string, from config.Environment) (cfg *config.Config, name string, err error) {
	debug.SetGCPercent(400)
	if path == standardInput {
		name = "standard input"
		cfg, err = from.Read(name, cmd.InOrStdin())
		return cfg, name, err
	}
	cfg, err = loadFile(cmd, path, from)
	return cfg, path, err
}

// loadFile reads the configuration at path. If fewer mistakes are left with --placeholders, the error of a
// command with that flag tells of it.
func loadFile(cmd *cobra.Command, path string, from config.Environment) (*config.Config, error) {
	cfg, err := from.Load(path)
	problems, ok := errors.AsType[config.Diagnostics](err)
	if !ok || from.Placeholders || cmd.Flags().Lookup("placeholders") == nil {
		return cfg, err
	}
	from.Placeholders = true
	_, left := from.Load(path)
	if others, _ := errors.AsType[config.Diagnostics](left); len(others) < len(problems) {
		err = &hintedError{err, "To check a configuration where variables and files with secrets are not, " +
			"add --placeholders."}
	}
	return cfg, err
}

// hintedError is a failure after which a command prints a hint.
type hintedError struct {
	error
	hint string
}

func (e *hintedError) Unwrap() error { return e.error }

// hintOf returns the hint of an error, also where it is another configuration that there is: config.yml
// for config.yaml. It is empty if there is none.
func hintOf(cmd *cobra.Command, err error) string {
	if hinted, ok := errors.AsType[*hintedError](err); ok {
		return hinted.hint
	}
	_, unreadable := errors.AsType[*config.ReadError](err)
	flag := cmd.Flags().Lookup("config")
	if !unreadable || !errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if flag != nil {
		other := otherExtension(flag.Value.String())
		if _, err := os.Stat(other); other != "" && err == nil {
			return fmt.Sprintf("There is %s: name it with --config %s.", printable(other), printable(other))
		}
	}
	return "authgate init writes a configuration; --config names another file."
}

// otherExtension returns the path of a YAML file with its other extension, "" if it has neither.
func otherExtension(path string) string {
	if base, found := strings.CutSuffix(path, ".yaml"); found {
		return base + ".yml"
	}
	if base, found := strings.CutSuffix(path, ".yml"); found {
		return base + ".yaml"
	}
	return ""
}
