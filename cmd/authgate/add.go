package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"authgate/cmd/internal/control"
	"authgate/gateway/config"
	"authgate/gateway/config/addition"
	"authgate/gateway/store/rewrite"
	"authgate/policy"
)

func addCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "add [NAME]",
		Short: "Add an application to a configuration",
		Long: "Add an application to a configuration: an upstream that is called NAME, and the route\n" +
			"that leads to it. Comments, order and all other lines stay as they are. What would not be\n" +
			"valid is refused, and the file then stays as it is. On a terminal the command asks for\n" +
			"what is missing. It prints the lines that it adds, where they are, and what the host needs:\n" +
			"a DNS name, a certificate. A gateway that runs applies the change before the command ends.\n\n" +
			"Users must sign in. --roles or --policy say which of them may pass; --public lets\n" +
			"everybody in. With --title, the start page of users lists the application.\n\n" +
			"With --to, the lines go into a part that include of the configuration names. The part\n" +
			"must exist, and may be empty.",
		Example: "  authgate add\n" +
			"  authgate add wiki --host wiki.example.org --upstream http://127.0.0.1:4000\n" +
			"  authgate add files --host files.example.org --upstream http://127.0.0.1:5000 " +
			"--roles staff --title Files",
		Args: usage(cobra.MaximumNArgs(1)),
	}
	a := adding{flags: cmd.Flags()}
	path, placeholders := configFlag(cmd), placeholdersFlag(cmd)
	a.addFlags()
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *path == standardInput {
			return &usageError{errors.New("add changes a file; give its path")}
		}
		if err := a.readFlags(args); err != nil {
			return &usageError{err}
		}
		if err := a.open(*path, config.Environment{Placeholders: *placeholders}); err != nil {
			return err
		}
		if err := a.complete(cmd.ErrOrStderr()); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), answerTime)
		defer cancel()
		return a.run(ctx, cmd.OutOrStdout(), cmd.ErrOrStderr())
	}
	return cmd
}

// adding adds an application to a configuration.
type adding struct {
	flags  *pflag.FlagSet
	from   config.Environment
	cfg    *config.Config // before
	to     string         // the file to write to
	app    addition.Application
	host   string // and the path
	roles  string // as the flag lists them
	public bool
}

// addFlags adds the flags for the application.
func (a *adding) addFlags() {
	for _, one := range []struct {
		value         *string
		name, meaning string
	}{
		{&a.host, "host", "its host, also with a path, such as wiki.example.org or example.org/wiki/"},
		{&a.app.URL, "upstream", "its address, such as http://127.0.0.1:4000"},
		{&a.roles, "roles", "roles of which a user needs one, separated by commas"},
		{&a.app.Policy, "policy", "name of a policy that must hold"},
		{&a.app.Title, "title", "its name on the start page"},
		{&a.app.Description, "description", "a sentence about it on the start page"},
		{&a.app.Icon, "icon", "its PNG or SVG file for the start page"},
		{&a.to, "to", "file to write to (default: the configuration file)"},
	} {
		a.flags.StringVar(one.value, one.name, "", one.meaning)
	}
	a.flags.BoolVar(&a.public, "public", false, "let everybody in, without sign-in")
}

// readFlags takes the application from the command line.
func (a *adding) readFlags(args []string) error {
	a.app.Name = strings.Join(args, "")
	who := 0
	for _, given := range []bool{a.flags.Changed("roles"), a.flags.Changed("policy"), a.public} {
		if given {
			who++
		}
	}
	switch {
	case who > 1:
		return errors.New("give one of --roles, --policy and --public")
	case a.flags.Changed("roles"):
		return a.setRoles(a.roles)
	case a.flags.Changed("policy") && a.app.Policy == "": // such as a variable that is not set
		return errors.New("no policy is given; without --policy, every user who signs in may pass")
	}
	return nil
}

// open reads the configuration.
func (a *adding) open(path string, from config.Environment) (err error) {
	a.from = from
	if a.cfg, err = from.Load(path); err != nil {
		return err
	}
	if a.to == "" {
		a.to = path
		return nil
	}
	content, err := os.ReadFile(a.to)
	if errors.Is(err, fs.ErrNotExist) {
		return &usageError{fmt.Errorf("%s does not exist; make an empty file first, which the gateway can read", a.to)}
	}
	if err != nil {
		return err
	}
	if _, err = a.cfg.Edited(a.to, content); errors.Is(err, config.ErrNoPart) {
		return &usageError{fmt.Errorf("%s is not a part of %s: %w", a.to, path, err)}
	}
	return err
}

// complete asks at a terminal for more, if a required value is missing.
func (a *adding) complete(prompt io.Writer) error {
	missing := a.missing()
	if len(missing) == 0 {
		return nil
	}
	verb := "is"
	if len(missing) > 1 {
		verb = "are"
	}
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return &usageError{fmt.Errorf("%s %s missing, and standard input is not a terminal, so add cannot ask",
			listed(missing, "and"), verb)}
	}
	if err := a.ask(terminal{os.Stdin, prompt}); err != nil {
		return fmt.Errorf("%w; nothing is written", err)
	}
	return nil
}

// missing returns the names of required values without one.
func (a *adding) missing() (all []string) {
	for _, one := range []struct{ name, value string }{
		{"NAME", a.app.Name}, {"--host", a.host}, {"--upstream", a.app.URL},
	} {
		if one.value == "" {
			all = append(all, one.name)
		}
	}
	return all
}

// setRoles sets the roles of which a user needs one.
func (a *adding) setRoles(list string) error {
	roles, err := readRoles(list)
	if err == nil && len(roles) == 0 {
		err = errors.New("no role is given; without --roles, every user who signs in may pass")
	}
	a.app.Roles = roles
	return err
}

// setHost sets the host, and the path if there is one. Of the address of a page, it takes both.
func (a *adding) setHost(answer string) error {
	match, err := readPlace(answer, a.cfg.PublicURL)
	if err == nil {
		a.host, a.app.Match = answer, match
	}
	return err
}

// application returns the whole addition to a configuration.
func (a *adding) application(cfg *config.Config) (addition.Application, error) {
	err := a.setHost(a.host)
	app := a.app
	if app.Title == "" && app.Description+app.Icon != "" {
		err = errors.New("--description and --icon are for the start page, which lists no application without --title")
	}
	if len(app.Roles) > 0 {
		app.Policy = policyOf(cfg, app.Roles)
	}
	switch {
	case a.public:
		app.Auth = []policy.Mechanism{policy.None}
	case len(cfg.Providers) == 0:
		app.Auth = []policy.Mechanism{policy.Session}
	case len(cfg.Accounts.Users) == 0 && cfg.Accounts.File == "":
		app.Auth = []policy.Mechanism{policy.OIDC}
	default:
		app.Auth = []policy.Mechanism{policy.Session, policy.OIDC}
	}
	return app, err
}

// policyOf returns the name of a policy that asks for one of these roles and for nothing else,
// empty if there is none.
func policyOf(cfg *config.Config, roles []string) string {
	for _, name := range slices.Sorted(maps.Keys(cfg.Policies)) {
		if reflect.DeepEqual(*cfg.Policies[name], policy.Spec{Roles: roles}) {
			return name
		}
	}
	return ""
}

// added returns the file after the addition. The error is about the application, unless it is
// Diagnostics.
func (a *adding) added(content []byte) (done added, err error) {
	if done.old, err = a.cfg.Edited(a.to, content); err != nil {
		return done, err
	}
	app, err := a.application(done.old)
	if err != nil {
		return done, err
	}
	if err := app.Taken(done.old); err != nil {
		return done, err
	}
	done.lines = app.Lines()
	if done.text, done.changes, err = app.Into(content); err != nil {
		return done, err
	}
	done.new, err = done.old.Edited(a.to, done.text)
	if err != nil {
		return done, withoutPlaces(err)
	}
	return done, app.Check(done.old, done.new)
}

// withoutPlaces returns the mistakes of a configuration without their places, which are in a text that no
// user has seen, and another error as it is.
func withoutPlaces(err error) error {
	problems, ok := errors.AsType[config.Diagnostics](err)
	if !ok {
		return err
	}
	var all []string
	for _, one := range problems {
		all = append(all, printable(one.Key+": "+one.Message))
	}
	return errors.New(strings.Join(all, "\n"))
}

// run adds the application, and prints the next steps.
func (a *adding) run(ctx context.Context, stdout, stderr io.Writer) error {
	var (
		done     added
		applied  bytes.Buffer
		applyErr error
	)
	err := rewrite.File(ctx, a.to, func(content []byte) (text []byte, err error) {
		if a.cfg, err = a.from.Load(a.cfg.Path()); err != nil { // the other files can have changed too
			return nil, err
		}
		done, err = a.added(content)
		return done.text, err
	}, nil, func() error {
		applyErr = applyNow(ctx, &applied, a.cfg.DataDir, a.to, func(*control.Client) error { return nil })
		if refused, ok := errors.AsType[*control.RefusedError](applyErr); ok { // the next start would refuse it too
			return fmt.Errorf("%s is left as it is, because a gateway that runs refuses the addition:\n%w",
				a.to, refused)
		}
		return nil
	})
	switch _, invalid := errors.AsType[config.Diagnostics](err); {
	case errors.Is(err, addition.ErrNoPlace) || errors.Is(err, addition.ErrMore):
		return fmt.Errorf("%s is left as it is: %w. These are the lines:\n\n%s", a.to, err, done.lines)
	case errors.Is(err, rewrite.ErrNotWritable):
		return fmt.Errorf("%w: run the command as the user who owns it, and let that user write to its folder", err)
	case err != nil && done.new == nil && !invalid && ctx.Err() == nil:
		return &usageError{fmt.Errorf("%w\n%s is left as it is", err, a.to)}
	case err != nil:
		return err
	}
	done.printWarnings(stderr)
	place := placeURL(a.cfg.PublicURL, a.app.Match)
	a.printAddition(stdout, place, done)
	_, _ = applied.WriteTo(stdout)
	if applyErr == nil && !strings.HasPrefix(a.app.Match, "*.") { // which is no place to open
		fmt.Fprintf(stdout, "Next: open %s.\n", place)
	}
	return applyErr
}
