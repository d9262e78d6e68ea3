package main

import (
	"github.com/spf13/cobra"

	"authgate/gateway/config"
)

func schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print a JSON Schema of the configuration, for editors",
		Long: "Print a JSON Schema (draft 2020-12) of the configuration, with which editors\n" +
			"complete and check it. For those with yaml-language-server, write it to a file:\n" +
			"    authgate schema > config.schema.json\n" +
			"and make this the first line of the configuration beside it:\n" +
			"    # yaml-language-server: $schema=config.schema.json",
		Example: "  authgate schema > config.schema.json",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(config.Schema())
			return err
		},
	}
}
