package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"authgate/cmd/internal/control"
	"authgate/policy"
)

// listedUser is a user as authgate users list prints it.
type listedUser struct {
	Username string   `json:"username"`
	Name     string   `json:"name"`
	Email    string   `json:"email"`
	Roles    []string `json:"roles"`
	Disabled bool     `json:"disabled"`
	policy.Ends
	Factors  int  `json:"factors"`  // passkeys, and one for one-time codes
	Sessions *int `json:"sessions"` // live logins; nil: no gateway runs
}

func usersListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the users",
		Long: "List the users of accounts.file, and then those of the configuration file: user name,\n" +
			"display name, address, roles, whether the account is enabled, how many factors it\n" +
			"has beside its password, and how many live logins, if the gateway runs. On a\n" +
			"terminal the first line names the columns.",
		Example: "  authgate users list\n" +
			"  authgate users list --json",
		Args: noArguments,
	}
	path := configFlagFor(cmd, "configuration file, which names accounts.file")
	asJSON := cmd.Flags().Bool("json", false, "print a JSON object")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		file, err := openUsers(*path)
		if err != nil {
			return err
		}
		users, err := file.list(cmd.Context())
		if err != nil {
			return err
		}
		out := cmd.OutOrStdout()
		if *asJSON {
			encoder := json.NewEncoder(out)
			encoder.SetIndent("", "  ")
			return encoder.Encode(map[string][]listedUser{"users": users})
		}
		terminal, ok := out.(*os.File)
		return printUsers(out, users, ok && term.IsTerminal(int(terminal.Fd())))
	}
	return cmd
}

// list returns the users of the file and of the main file.
func (f *userFile) list(ctx context.Context) ([]listedUser, error) {
	all, err := f.Users()
	if err != nil {
		return nil, err
	}
	logins, err := f.logins(ctx)
	if err != nil {
		return nil, err
	}
	list, now := make([]listedUser, len(all)), time.Now()
	for i, a := range all {
		roles, ends := a.Current(now)
		list[i] = listedUser{
			Username: a.Username, Name: a.Name, Email: a.Email, Roles: append([]string{}, roles...),
			Disabled: a.Disabled, Ends: ends, Factors: a.Factors.Count(),
		}
		if logins != nil {
			n := logins[a.Username]
			list[i].Sessions = &n
		}
	}
	return list, nil
}

// logins returns how many live logins each user has, nil if no gateway runs. Gateways that
// run at the same time have one store.
func (f *userFile) logins(ctx context.Context) (map[string]int, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	clients, err := control.All(ctx, f.dataDir)
	if err != nil || len(clients) == 0 {
		return nil, nil // the users are known without it
	}
	logins := map[string]int{}
	err = clients[0].EachLogin(ctx, func(l *control.Login) error {
		if l.Provider == policy.LocalProvider {
			logins[l.User]++
		}
		return nil
	})
	return logins, err
}

// printUsers prints users as a table.
func printUsers(out io.Writer, users []listedUser, head bool) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if head {
		fmt.Fprintln(table, "USER\tNAME\tEMAIL\tROLES\tSTATE\tFACTORS\tLOGINS")
	}
	for _, u := range users {
		state, sessions := "enabled", "-"
		switch until := u.Ends.Account; {
		case u.Disabled:
			state = "disabled"
		case until.IsZero():
		case until.After(time.Now()):
			state += " until " + until.Format(time.RFC3339)
		default:
			state = "ended"
		}
		roles := make([]string, len(u.Roles))
		for i, role := range u.Roles {
			if roles[i] = role; !u.Ends.Roles[role].IsZero() {
				roles[i] += " until " + u.Ends.Roles[role].Format(time.RFC3339)
			}
		}
		if u.Sessions != nil {
			sessions = strconv.Itoa(*u.Sessions)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%d\t%s\n", printable(u.Username), cmp.Or(printable(u.Name), "-"),
			cmp.Or(printable(u.Email), "-"), cmp.Or(printable(strings.Join(roles, ",")), "-"),
			state, u.Factors, sessions)
	}
	return table.Flush()
}
