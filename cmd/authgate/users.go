package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"authgate/cmd/internal/control"
	"authgate/gateway/config"
	"authgate/gateway/people/accounts"
	"authgate/gateway/people/factors"
	"authgate/gateway/strictyaml"
	"authgate/policy"
)

func usersCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "users",
		Short: "List, add, change and invite the users of accounts.file",
		Long: "List, add, change and invite the users of the file that accounts.file of the\n" +
			"configuration names. Comments, order and all other accounts in it stay as they are.\n" +
			"A gateway that runs applies a change before the command ends. If none runs, the\n" +
			"command says so, and the change applies when one starts.\n\n" +
			"Accounts that are written in the configuration file itself are listed, and only an\n" +
			"editor changes them. Run it as the user of the gateway.",
		Example:                    "  authgate users list",
		Args:                       knownCommand,
		SuggestionsMinimumDistance: 2,
		RunE: func(*cobra.Command, []string) error {
			return &usageError{errors.New(
				"a command is missing: list, add, remove, disable, enable, roles, invite or reset-factors")}
		},
	}
	cmd.AddCommand(usersListCommand(), usersAddCommand(), usersRemoveCommand(), usersDisableCommand(),
		usersEnableCommand(),
		usersRolesCommand(), usersInviteCommand(), usersResetFactorsCommand())
	return cmd
}

// userFile is the file of accounts of a configuration, and where its gateways are found.
type userFile struct {
	*accounts.File
	config, dataDir string
}

// openUsers returns the file of accounts of the configuration at path.
func openUsers(path string) (*userFile, error) {
	if path == standardInput {
		return nil, &usageError{errors.New("this command changes files; give the file that the gateway runs")}
	}
	dataDir, file, err := config.UsersOf(path)
	return &userFile{file, path, dataDir}, err
}

// userEdit is the change of a command to one account.
type userEdit struct {
	accounts.Edit
	did  string // said when it is done, after the name
	idle string // said when there is nothing to do; empty: did and "already"
	// also is done in each gateway after it has applied the change. Nil does nothing.
	also func(ctx context.Context, c *control.Client, username string) error
}

// errAlready: there is nothing to change.
var errAlready = errors.New("already")

// edit changes one account, and tells the gateways that run.
func (f *userFile) edit(ctx context.Context, out io.Writer, e userEdit) error {
	if f.Path == "" {
		return fmt.Errorf("%s has no accounts.file, and this command changes no accounts elsewhere; "+
			"set accounts.file, as in accounts: {file: accounts.yaml}", f.config)
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	if e.Add {
		if err := createUsers(f.Path); err != nil {
			return err
		}
	}
	name, change := e.Username, e.Change
	e.Change = func(a *accounts.Account) error {
		name = a.Username
		if change == nil {
			return nil
		}
		return change(a)
	}
	err := f.Edit(ctx, e.Edit)
	if errors.Is(err, errAlready) {
		fmt.Fprintf(out, "%s %s.\n", printable(name), cmp.Or(e.idle, e.did+" already"))
	} else if err != nil {
		return f.explain(e.Username, err)
	} else {
		fmt.Fprintf(out, "%s %s.\n", printable(name), e.did)
	}
	return f.tell(ctx, out, name, e.also)
}

// createUsers makes an empty file of accounts if there is none.
func createUsers(path string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("accounts.file does not exist, and cannot be made: %w", err)
	}
	empty := "[]\n"
	if filepath.Ext(path) == ".jsonl" {
		empty = "# no accounts\n"
	}
	_, err = file.WriteString(empty)
	return errors.Join(err, file.Close())
}

// explain returns the meaning of an error of an edit, with advice.
func (f *userFile) explain(username string, err error) error {
	named := printable(username)
	problems, invalid := errors.AsType[strictyaml.Diagnostics](err)
	switch {
	case errors.Is(err, accounts.ErrNotInFile):
		return f.unknown(username)
	case errors.Is(err, accounts.ErrExists):
		return fmt.Errorf("%s: %w; names must differ in more than case or Unicode normalization", named, err)
	case errors.Is(err, accounts.ErrInvalid) && invalid:
		// The arguments are wrong, not the file.
		var why []string
		for _, problem := range problems {
			why = append(why, problem.Message)
		}
		return &usageError{fmt.Errorf("%s is left as it is: %s", f.Path, strings.Join(why, "; "))}
	case errors.Is(err, accounts.ErrElsewhere):
		return fmt.Errorf("%s of %s: %w", named, f.Path, err)
	case errors.Is(err, accounts.ErrNotWritable):
		return fmt.Errorf("%w: run the command as the user who owns it, and let that user write to its folder", err)
	}
	return err
}

// unknown is the error for a user who is not in the file.
func (f *userFile) unknown(username string) error {
	users, err := f.Users()
	if err != nil {
		return err
	}
	name := policy.NormalName(username)
	for i := range f.Main {
		if policy.NormalName(f.Main[i].Username) == name {
			return fmt.Errorf("%s is written in %s itself, not in accounts.file; only an editor changes it there",
				printable(username), f.config)
		}
	}
	var names []string
	for i := range users {
		if policy.FoldName(users[i].Username) == policy.FoldName(username) {
			return fmt.Errorf("no account %s in %s; did you mean %s?",
				printable(username), f.Path, printable(users[i].Username))
		}
		names = append(names, users[i].Username)
	}
	if near, ok := strictyaml.Nearest(username, names); ok {
		return fmt.Errorf("no account %s in %s; did you mean %s?",
			printable(username), f.Path, printable(near))
	}
	return fmt.Errorf("no account %s in %s; authgate users list prints the names", printable(username), f.Path)
}

// tell makes the gateways that run apply the file.
func (f *userFile) tell(
	ctx context.Context, out io.Writer, username string, also func(context.Context, *control.Client, string) error,
) error {
	return applyNow(ctx, out, f.dataDir, f.Path, func(client *control.Client) error {
		if also == nil {
			return nil
		}
		return also(ctx, client, username)
	})
}

// editCommand completes a command that changes one account: its arguments are those of args,
// the first is the user name, and editOf returns the change.
func editCommand(
	cmd *cobra.Command, args cobra.PositionalArgs, editOf func(args []string) (userEdit, error),
) *cobra.Command {
	cmd.Args = usage(args)
	path := configFlagFor(cmd, "configuration file, which names accounts.file")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		edit, err := editOf(args)
		if err != nil {
			return &usageError{err}
		}
		edit.Username = args[0]
		file, err := openUsers(*path)
		if err != nil {
			return err
		}
		if err := accounts.CheckNewUsername(args[0], file.Colons); edit.Add && err != nil {
			return &usageError{err}
		}
		return file.edit(cmd.Context(), cmd.OutOrStdout(), edit)
	}
	return cmd
}

func usersAddCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "add NAME",
		Short: "Add a user without a password",
		Long: "Add a user to the end of accounts.file. The account has no password, so no user\n" +
			"can sign in to it until one is set: authgate users invite prints a link for that.\n" +
			"The file is made if it does not exist.",
		Example: "  authgate users add carol --roles staff,admin --email carol@example.org\n" +
			"  authgate users add dave --roles staff --until 2026-12-04T18:00:00Z",
	}
	roles := cmd.Flags().String("roles", "", "roles, separated by commas")
	name := cmd.Flags().String("name", "", "display name")
	email := cmd.Flags().String("email", "", "email address")
	until := timeFlag(cmd, "until", "when the account ends, like 2026-12-04T18:00:00Z (default: never)")
	return editCommand(cmd, cobra.ExactArgs(1), func(args []string) (userEdit, error) {
		given, err := readRoles(*roles)
		if err == nil {
			if err = policy.CheckVisible(*name); err != nil {
				err = fmt.Errorf("the name %w", err)
			}
		}
		if err != nil {
			return userEdit{}, err
		}
		return userEdit{did: "is added, without a password", Edit: accounts.Edit{
			Add: true,
			Change: func(a *accounts.Account) error {
				a.Name, a.Email, a.Roles, a.Until = *name, *email, given, *until
				return nil
			},
		}}, accounts.CheckNewUsername(args[0], true) // the configuration says whether colons are allowed
	})
}

// timeFlag adds a flag with a time, zero without it.
func timeFlag(cmd *cobra.Command, name, meaning string) *time.Time {
	at := new(time.Time)
	cmd.Flags().Func(name, meaning, func(text string) (err error) {
		if *at, err = accounts.ParseTime(text); err != nil {
			err = fmt.Errorf("%q is not a time in RFC 3339 with an offset, like 2026-12-04T18:00:00Z", text)
		}
		return err
	})
	return at
}

// readRoles reads roles that are separated by commas.
func readRoles(text string) (roles []string, err error) {
	for role := range strings.SplitSeq(text, ",") {
		role = strings.TrimSpace(role)
		if role == "" || slices.Contains(roles, role) {
			continue
		}
		if err := cmp.Or(policy.CheckRole(role), policy.CheckVisible(role)); err != nil {
			return nil, fmt.Errorf("the role %q %w", role, err)
		}
		roles = append(roles, role)
	}
	return roles, nil
}

func usersRemoveCommand() *cobra.Command {
	return editCommand(&cobra.Command{
		Use:   "remove NAME",
		Short: "Remove a user",
		Long: "Remove a user from accounts.file. All logins and API tokens of the user end, also if\n" +
			"a user of that name is added later.",
		Example: "  authgate users remove carol",
	}, cobra.ExactArgs(1), func([]string) (userEdit, error) {
		return userEdit{did: "is removed", Edit: accounts.Edit{Remove: true}}, nil
	})
}

// disabling is the edit that sets disabled.
func disabling(disabled bool, did string) func([]string) (userEdit, error) {
	return func([]string) (userEdit, error) {
		return userEdit{did: did, Edit: accounts.Edit{Change: func(a *accounts.Account) error {
			if a.Disabled == disabled {
				return errAlready
			}
			a.Disabled = disabled
			return nil
		}}}, nil
	}
}

func usersDisableCommand() *cobra.Command {
	return editCommand(&cobra.Command{
		Use:   "disable NAME",
		Short: "Disable a user, who can then not sign in",
		Long: "Disable a user. All logins, API tokens and the invitation of the user end, and stay\n" +
			"ended when the user is enabled again.",
		Example: "  authgate users disable carol",
	}, cobra.ExactArgs(1), disabling(true, "is disabled"))
}

func usersEnableCommand() *cobra.Command {
	return editCommand(&cobra.Command{
		Use:     "enable NAME",
		Short:   "Enable a user who is disabled",
		Long:    "Enable a user who is disabled. The password and the factors are those of before.",
		Example: "  authgate users enable carol",
	}, cobra.ExactArgs(1), disabling(false, "is enabled"))
}

func usersRolesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "roles NAME ROLES",
		Short: "Replace the roles of a user",
		Long: "Replace the roles of a user by those of a list that is separated by commas. An empty\n" +
			"list takes all roles away. Logins go on with the new roles. --until is the end of the\n" +
			"roles that the user does not have yet; the others keep theirs.",
		Example: "  authgate users roles carol staff,admin\n" +
			"  authgate users roles carol staff,admin --until 2026-11-30T12:00:00+01:00\n" +
			"  authgate users roles carol \"\"",
	}
	until := timeFlag(cmd, "until", "when roles that the user does not have yet end (default: never)")
	return editCommand(cmd, cobra.ExactArgs(2), func(args []string) (userEdit, error) {
		roles, err := readRoles(args[1])
		did := "has the roles " + strings.Join(roles, ", ")
		if len(roles) == 0 {
			did = "has no roles"
		}
		return userEdit{did: did, Edit: accounts.Edit{Change: func(a *accounts.Account) error {
			before := a.RolesText()
			if a.GiveRoles(roles, *until, time.Now()); a.RolesText() == before {
				return errAlready
			}
			return nil
		}}}, err
	})
}

func usersResetFactorsCommand() *cobra.Command {
	return editCommand(&cobra.Command{
		Use:   "reset-factors NAME",
		Short: "Remove the second factors of a user, and end the logins",
		Long: "Remove the passkeys, the one-time codes and the recovery codes of a user who has\n" +
			"lost them, and end the user's logins. The password alone signs in then, until the\n" +
			"user adds a factor: make sure who asks. API tokens stay.",
		Example: "  authgate users reset-factors carol",
	}, cobra.ExactArgs(1), func([]string) (userEdit, error) {
		return userEdit{
			did: "has lost all second factors; the password alone signs in", idle: "has no second factor",
			Edit: accounts.Edit{Change: func(a *accounts.Account) error {
				if !a.Factors.Any() && len(a.Factors.Recovery) == 0 {
					return errAlready
				}
				a.Factors = factors.Set{}
				return nil
			}},
			also: func(ctx context.Context, c *control.Client, username string) error {
				if _, err := c.EndLoginsOf(ctx, username); err != nil {
					return fmt.Errorf("the factors are removed, and the user's logins may still be valid: %w", err)
				}
				return nil
			},
		}, nil
	})
}

func usersInviteCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "invite NAME",
		Short: "Print a link with which a user sets a password",
		Long: "Print a link with which a user of accounts.file sets a password, and may add a\n" +
			"factor. It is valid once, for 72 hours, and until the next one is made. It ends with\n" +
			"the account, and when the account is disabled or gets another password. Anyone who\n" +
			"has the link can set the password: send it on a way that you trust. Factors that\n" +
			"the user has stay. With --until, the account ends at that time, and the link no\n" +
			"later.\n\n" +
			"The running gateway makes the link. Without one the exit status is 1.",
		Example: "  authgate users invite carol\n" +
			"  authgate users invite carol --until 2026-12-04T18:00:00Z",
		Args: usage(cobra.ExactArgs(1)),
	}
	which, until := registerGateway(cmd), timeFlag(cmd, "until", "when the account ends (default: as before)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), answerTime)
		defer cancel()
		file, err := openUsers(*which.path)
		if err != nil {
			return err
		}
		client, err := which.findGateway(ctx)
		if err != nil {
			return err
		}
		if err := file.endAt(cmd, args[0], *until); err != nil {
			return err
		}
		link, err := client.Invite(ctx, args[0])
		if refused, ok := errors.AsType[*control.RefusedError](err); ok && refused.Status == http.StatusConflict {
			return file.notInvited(args[0], refused)
		}
		if err != nil {
			return fmt.Errorf("asking the gateway (process %d) for an invitation: %w", client.PID, err)
		}
		fmt.Fprintln(cmd.OutOrStdout(), link)
		return nil
	}
	return cmd
}

// endAt gives an account that is to be invited an end, unless that is zero, and tells the gateways.
func (f *userFile) endAt(cmd *cobra.Command, username string, end time.Time) error {
	if end.IsZero() {
		return nil
	}
	return f.edit(cmd.Context(), cmd.ErrOrStderr(), userEdit{
		did: "ends at " + end.Format(time.RFC3339),
		Edit: accounts.Edit{Username: username, Change: func(a *accounts.Account) error {
			if a.Until = end; a.Disabled || a.Ended(time.Now()) {
				return notInvitable(a)
			}
			return nil
		}},
	})
}

// notInvitable says why an account is not invited.
func notInvitable(a *accounts.Account) error {
	if a.Disabled {
		return fmt.Errorf("%s is disabled; enable the user first", printable(a.Username))
	}
	return fmt.Errorf("%s has ended at %s; give a later end with --until", printable(a.Username),
		a.Until.Format(time.RFC3339))
}

// notInvited says why the gateway does not invite a user.
func (f *userFile) notInvited(username string, refused *control.RefusedError) error {
	if f.Path == "" {
		return fmt.Errorf("%s has no accounts.file, where the password would be written", f.config)
	}
	users, err := f.Users()
	if err != nil {
		return err
	}
	own := users[:len(users)-len(f.Main)]
	name := policy.NormalName(username)
	at := slices.IndexFunc(own, func(a accounts.Account) bool { return policy.NormalName(a.Username) == name })
	switch {
	case at < 0:
		return f.unknown(username)
	case own[at].Disabled, own[at].Ended(time.Now()):
		return notInvitable(&own[at])
	}
	return fmt.Errorf("%s: %s", printable(username), cmp.Or(refused.Reason, filepath.Base(f.Path)))
}
