package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"authgate/gateway/audit"
	"authgate/gateway/config"
)

func auditCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:                        "audit",
		Short:                      "Look after the file of audit events",
		Long:                       "Look after the file of audit events that log.audit_file names.",
		Example:                    "  authgate audit verify data/audit.jsonl",
		Args:                       knownCommand,
		SuggestionsMinimumDistance: 2,
		RunE: func(*cobra.Command, []string) error {
			return &usageError{errors.New("a command is missing: verify")}
		},
	}
	cmd.AddCommand(auditVerifyCommand())
	return cmd
}

// auditFlags are the flags of audit verify.
type auditFlags struct {
	config    *string
	key, last string
}

func auditVerifyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify FILE...",
		Short: "Check that no line of the audit files was changed, removed, moved or added",
		Long: "Check files of log.audit_file, the oldest first. Each line has a seq, and a mac that\n" +
			"covers it and the line before.\n\n" +
			"Only --last finds lines that are missing at the end: with the seq and the mac of a\n" +
			"line that left the machine.\n\n" +
			"The exit status is 0 if all lines are as the gateway wrote them, 1 if one is not,\n" +
			"and 2 if a file cannot be read.",
		Example: "  authgate audit verify data/audit.jsonl.1 data/audit.jsonl\n" +
			"  authgate audit verify --key audit.key audit.jsonl",
		Args: usage(cobra.MinimumNArgs(1)),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault
		},
	}
	flags := auditFlags{config: configFlagFor(cmd, "configuration file, whose data_dir has audit.key")}
	cmd.Flags().StringVar(&flags.key, "key", "", "file of the key, instead of audit.key in the data_dir")
	cmd.Flags().StringVar(&flags.last, "last", "", "SEQ:MAC of a line that the files must hold")
	cmd.RunE = func(cmd *cobra.Command, paths []string) error {
		verifier := audit.Verifier{}
		if cmd.Flags().Changed("last") { // an empty text is an empty variable of a script
			var err error
			if verifier.Want, err = audit.ParsePosition(flags.last); err != nil {
				return &usageError{fmt.Errorf("--last: %w", err)}
			}
		}
		err := flags.verify(&verifier, paths)
		if _, broken := errors.AsType[*audit.BrokenError](err); err != nil && !broken {
			fmt.Fprintln(cmd.ErrOrStderr(), describeFailure(err))
			return &printedError{2}
		}
		if err == nil && !verifier.Holds() {
			err = errors.New("the files do not hold the line of --last: " +
				"lines are missing at the end, or the line is of another gateway")
		}
		if err == nil {
			flags.print(cmd.OutOrStdout(), &verifier.Summary)
		}
		return err
	}
	return cmd
}

// verify verifies files. The error is a *audit.BrokenError, or that of reading.
func (f *auditFlags) verify(verifier *audit.Verifier, paths []string) error {
	key := f.key
	if key == "" {
		dataDir, err := config.DataDir(*f.config)
		if err != nil {
			return err
		}
		key = audit.KeyFile(dataDir)
	}
	var err error
	if verifier.Key, err = audit.ReadKey(key); err != nil {
		return err
	}
	var files []*os.File // open before the first is verified, so that a wrong name is found at once
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		files = append(files, file)
	}
	for _, file := range files {
		if err := verifier.Read(file.Name(), file); err != nil {
			return err
		}
	}
	return nil
}

func (f *auditFlags) print(out io.Writer, s *audit.Summary) {
	fmt.Fprintf(out, "events: %d", s.Events)
	if s.Events > 0 {
		fmt.Fprintf(out, ", from %s to %s", s.From.Format(time.RFC3339), s.To.Format(time.RFC3339))
	}
	fmt.Fprintf(out, "\naudit_cut: %d, audit_lost: %d\n", s.Cut, s.Lost)
	if s.Continues {
		fmt.Fprintln(out, "The first file continues an earlier one, which was not seen.")
	}
	if f.last == "" {
		fmt.Fprintln(out, "Lines may be missing at the end: --last, with a line that left the machine, finds that.")
	}
}
