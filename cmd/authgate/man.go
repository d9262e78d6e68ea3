package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// manCommand writes the man pages. Packages need it, and users do not.
func manCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "Write the man pages",
		Long:    "Write a man page for each command into a folder. SOURCE_DATE_EPOCH sets their date.",
		Example: "  authgate man /usr/local/share/man/man1",
		Args:    usage(cobra.ExactArgs(1)),
		Hidden:  true,
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := args[0]
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true // it has the day of the build
			header := &doc.GenManHeader{Section: "1", Source: "authgate " + buildVersion(), Manual: "authgate"}
			if err := doc.GenManTree(root, header, dir); err != nil {
				return fmt.Errorf("writing the man pages: %w", err)
			}
			fmt.Fprintln(cmd.OutOrStdout(), "The man pages are in "+dir+".")
			return nil
		},
	}
}
