package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"authgate/cmd/internal/control"
	"authgate/gateway/pages"
)

// tablePart is how many lines of a table are aligned together. A list of a million
// logins is printed as it comes.
const tablePart = 256

func sessionsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sessions",
		Short: "List and end the live logins of a running gateway",
		Long: "List and end the live logins of a running gateway: sessions of both kinds, and\n" +
			"logins with tokens. With Redis these are the logins at all instances.\n" +
			"Run it as the user of the gateway.",
		Example:                    "  authgate sessions list",
		Args:                       knownCommand,
		SuggestionsMinimumDistance: 2,
		RunE: func(*cobra.Command, []string) error {
			return &usageError{errors.New("a command is missing: list or end")}
		},
	}
	cmd.AddCommand(sessionsListCommand(), sessionsEndCommand())
	return cmd
}

func sessionsListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the live logins",
		Long: "List the live logins, in no order: id, user, mechanism, start, last use, address\n" +
			"of the client, and device. On a terminal the first line names the columns.",
		Example: "  authgate sessions list\n" +
			"  authgate sessions list --json",
		Args: noArguments,
	}
	which := registerGateway(cmd)
	asJSON := cmd.Flags().Bool("json", false, "print a JSON object")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		client, err := which.findGateway(cmd.Context())
		if err != nil {
			return err
		}
		out := cmd.OutOrStdout()
		if *asJSON {
			return listJSON(cmd.Context(), out, client)
		}
		file, ok := out.(*os.File)
		return listTable(cmd.Context(), out, client, ok && term.IsTerminal(int(file.Fd())))
	}
	return cmd
}

// listTable prints the logins as a table.
func listTable(ctx context.Context, out io.Writer, client *control.Client, head bool) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if head {
		fmt.Fprintln(table, "ID\tUSER\tMECHANISM\tSTART\tLAST USE\tCLIENT\tDEVICE")
	}
	lines := 0
	err := client.EachLogin(ctx, func(l *control.Login) error {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", l.ID, printable(l.User), l.Mechanism,
			l.Created.Format(time.RFC3339), l.LastUsed.Format(time.RFC3339),
			cmp.Or(l.Client, "-"), printable(deviceOf(l.UserAgent)))
		if lines++; lines%tablePart == 0 {
			return table.Flush()
		}
		return nil
	})
	return errors.Join(table.Flush(), err)
}

// deviceOf returns a device as the account page names it.
func deviceOf(agent string) string {
	name, system := pages.Program(agent)
	if system != "" {
		name += " on " + system
	}
	return cmp.Or(name, "-")
}

// listJSON prints the logins as a JSON object, one in a line.
func listJSON(ctx context.Context, out io.Writer, client *control.Client) error {
	separator := `{"sessions":[` + "\n"
	err := client.EachLogin(ctx, func(l *control.Login) error {
		line, err := json.Marshal(l)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(out, "%s%s", separator, line)
		separator = ",\n"
		return err
	})
	if err != nil {
		return err // and the object has no end
	}
	if separator != ",\n" {
		_, err = fmt.Fprintln(out, `{"sessions":[]}`)
		return err
	}
	_, err = fmt.Fprintln(out, "\n]}")
	return err
}

func sessionsEndCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "end {ID | --user NAME}",
		Short: "End a login, or all logins of a user",
		Long: "End a login, as a logout does: its sessions and tokens are refused on every\n" +
			"instance, its open streams end within a second, and a login at a provider ends\n" +
			"there too. The exit status is 1 if there is no login with this id.\n\n" +
			"With --user, end all logins of a user. API tokens stay. The exit status is 0\n" +
			"also if there are none.",
		Example: "  authgate sessions end 5XJ3CYVRFWKZ6NMNZN4HSYKXLQ\n" +
			"  authgate sessions end --user alice\n" +
			"  authgate sessions end --user keycloak:alice",
		Args: usage(cobra.MaximumNArgs(1)),
	}
	which := registerGateway(cmd)
	user := cmd.Flags().String("user", "", "end all logins of `NAME`: a local account, or PROVIDER:NAME")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if all := cmd.Flags().Changed("user"); all == (len(args) > 0) || all && *user == "" {
			return &usageError{errors.New("expected the id of a login, or --user NAME")}
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), answerTime)
		defer cancel()
		client, err := which.findGateway(ctx)
		if err != nil {
			return err
		}
		if len(args) == 0 {
			return endLoginsOf(ctx, cmd.OutOrStdout(), client, *user)
		}
		err = client.EndLogin(ctx, args[0])
		if refused, ok := errors.AsType[*control.RefusedError](err); ok && refused.Status == http.StatusNotFound {
			return fmt.Errorf("no live login has the id %s; authgate sessions list prints the ids", printable(args[0]))
		}
		if err != nil {
			return fmt.Errorf("the login may still be valid: %w", err)
		}
		fmt.Fprintln(cmd.OutOrStdout(), "The login "+args[0]+" has ended.")
		return nil
	}
	return cmd
}

func endLoginsOf(ctx context.Context, out io.Writer, client *control.Client, user string) error {
	n, err := client.EndLoginsOf(ctx, user)
	if err != nil {
		return fmt.Errorf("some logins of %s may still be valid: %w", printable(user), err)
	}
	switch user = printable(user); n {
	case 0:
		fmt.Fprintf(out, "%s has no live login.\n", user)
	case 1:
		fmt.Fprintf(out, "The login of %s has ended.\n", user)
	default:
		fmt.Fprintf(out, "%d logins of %s have ended.\n", n, user)
	}
	return nil
}
