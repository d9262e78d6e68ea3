// Command authgate is an auth gateway: a reverse proxy that authenticates each
// request, checks it against a policy, and forwards it with an identity that the
// application can trust.
//
// The exit status is 0 for success, 1 for a failure, and 2 for wrong usage or a
// configuration that has mistakes or cannot be read.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"authgate/cmd/internal/app"
	"authgate/cmd/internal/systemd"
	"authgate/gateway/config"
)

// version is set by the linker.
var version = ""

func main() {
	os.Exit(run())
}

func run() int {
	command, err := root().ExecuteC()
	var (
		problems   config.Diagnostics
		unreadable *config.ReadError
		usage      *usageError
	)
	if printed, ok := errors.AsType[*printedError](err); ok {
		return printed.status
	}
	switch {
	case err == nil:
		return 0
	case errors.As(err, &problems):
		fmt.Fprintln(os.Stderr, problems.Error())
	default:
		fmt.Fprintln(os.Stderr, "authgate:", err)
	}
	if hint := hintOf(command, err); hint != "" {
		fmt.Fprintln(os.Stderr, hint)
	}
	if errors.As(err, &usage) {
		fmt.Fprintf(os.Stderr, "Try %s --help.\n", command.CommandPath())
	}
	if problems != nil || errors.As(err, &usage) || errors.As(err, &unreadable) {
		return 2
	}
	return 1
}

// printedError is a failure that the command has printed itself.
type printedError struct{ status int }

func (e *printedError) Error() string { return fmt.Sprintf("exit status %d", e.status) }

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "authgate",
		Short: "An auth gateway: authenticates, decides and forwards",
		Long: "authgate is an auth gateway: a reverse proxy that authenticates each request,\n" +
			"checks it against a policy, and forwards it with an identity that the application\n" +
			"can trust.\n\n" +
			"The exit status is 0 for success, 1 for a failure, and 2 for wrong usage or a\n" +
			"configuration that has mistakes or cannot be read.",
		Example: "  authgate init\n" +
			"  authgate serve --config config.yaml",
		Version:       versionLine(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          knownCommand,
		RunE: func(*cobra.Command, []string) error {
			return &usageError{errors.New("a command is missing")}
		},
		SuggestionsMinimumDistance: 2,
	}
	cmd.SetVersionTemplate("{{.Version}}\n")
	cmd.SetFlagErrorFunc(unknownFlag)
	cmd.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	cmd.AddCommand(serveCommand(), validateCommand(), explainCommand(), accessCommand(), testCommand(),
		hashPasswordCommand(), healthcheckCommand(), reloadCommand(), sessionsCommand(),
		usersCommand(), certificatesCommand(), auditCommand(), initCommand(), addCommand(),
		schemaCommand(), versionCommand(), manCommand())
	completeUsage(cmd)
	return cmd
}

func serveCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the gateway",
		Long: "Run the gateway until SIGTERM or SIGINT. Requests in progress can finish.\n" +
			"A change of the configuration, or of a file that it names, applies at once, and\n" +
			"SIGHUP reloads it too. A configuration with mistakes changes nothing.",
		Example: "  authgate serve --config /etc/authgate/config.yaml",
		Args:    noArguments,
	}
	path := configFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *path == standardInput {
			return &usageError{errors.New("serve reads its configuration again at each reload, so it needs a file, " +
				"not standard input")}
		}
		ctx, stop := untilSignalled(cmd.Context())
		defer stop()
		reload := make(chan os.Signal, 1)
		signal.Notify(reload, syscall.SIGHUP)
		app.OutliveReaders()
		service, err := systemd.Take()
		if err != nil {
			return err
		}
		a, err := app.Open(ctx, *path, buildVersion(), os.Stderr, service)
		if err != nil {
			return err
		}
		a.TakeStandardLog()
		if err := a.Run(ctx, reload); err != nil {
			return &printedError{1} // in the log, whose reader a print would wait for
		}
		return nil
	}
	return cmd
}

// untilSignalled returns a context that ends at SIGTERM or SIGINT, or when stop is called. A second
// signal ends the process at once.
func untilSignalled(parent context.Context) (ctx context.Context, stop context.CancelFunc) {
	signalled, release := signal.NotifyContext(parent, syscall.SIGTERM, os.Interrupt)
	ctx, end := context.WithCancel(parent)
	context.AfterFunc(signalled, func() {
		release() // before ctx ends, so that a second signal has its default effect by then
		end()
	})
	return ctx, func() {
		end()
		release()
	}
}

func validateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "validate",
		Short: "Check the configuration and list every mistake",
		Long: "Check the configuration and the files that it names. Every mistake is listed with\n" +
			"its file, line, column and key, and makes the exit status 2. What is valid and\n" +
			"probably wrong, such as an expired certificate or a file that other users can\n" +
			"change, is a warning.\n\n" +
			"With --placeholders, the configuration can be checked where its secrets are not,\n" +
			"for example in CI. Certificates and lists of users must be there.",
		Example: "  authgate validate --config new.yaml\n" +
			"  authgate validate -c - <new.yaml\n" +
			"  authgate validate --config new.yaml --placeholders",
		Args: noArguments,
	}
	path, placeholders := configOrInputFlag(cmd), placeholdersFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, name, err := loadConfig(cmd, *path, config.Environment{Placeholders: *placeholders})
		if err != nil {
			return err
		}
		excerpt := func(d config.Diagnostic) string { return config.Diagnostics{d}.Error() }
		for _, warning := range app.Warnings(cfg, excerpt) {
			fmt.Fprintln(cmd.ErrOrStderr(), "warning: "+warning)
		}
		fmt.Fprintln(cmd.OutOrStdout(), name+" is valid")
		return nil
	}
	return cmd
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  authgate version",
		Args:    noArguments,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintln(cmd.OutOrStdout(), versionLine())
		},
	}
}

// versionLine is the output of authgate version and authgate --version.
func versionLine() string {
	return fmt.Sprintf("authgate %s %s %s/%s", buildVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// buildVersion returns the linked version, else the version in the build info.
func buildVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
