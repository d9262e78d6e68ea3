package main

import (
	"runtime/debug"

	"github.com/spf13/cobra"

	"authgate/gateway/config"
)

// standardInput is the path that means standard input.
const standardInput = "-"

// configFlag adds the flag with the path of the configuration file.
func configFlag(cmd *cobra.Command) *string {
	return configFlagFor(cmd, "configuration file")
}

// configOrInputFlag is configFlag for a command that calls loadConfig.
func configOrInputFlag(cmd *cobra.Command) *string {
	return configFlagFor(cmd, "configuration file; - is standard input")
}

func configFlagFor(cmd *cobra.Command, meaning string) *string {
	path := cmd.Flags().StringP("config", "c", "config.yaml", meaning)
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
	cfg, err = from.Load(path)
	return cfg, path, err
}
