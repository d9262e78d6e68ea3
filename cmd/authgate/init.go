package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"authgate/gateway/config/listening"
)

func initCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Write a configuration to begin with",
		Long: "Write a configuration with comments to begin with, and beside it a file with the first\n" +
			"account, and a JSON Schema for editors. On a terminal it asks for what no flag says,\n" +
			"one thing at a time, and checks each answer at once. With --yes it asks nothing, and\n" +
			"prints the password that it generates. In the end it says what comes next.\n\n" +
			"--front says what is in front of the gateway:\n\n" +
			"    nothing   clients reach it directly, and it has the certificates\n" +
			"    nginx, caddy, traefik or haproxy\n" +
			"              a proxy on this machine, which has the certificates; the lines for\n" +
			"              its configuration are printed\n" +
			"    test      nothing, and only this machine reaches it: the host is localhost\n\n" +
			"Without it, localhost is a test, and any other host has nothing in front.\n\n" +
			"The start page is at / of the gateway's host, and the application at a host beside it.\n" +
			"Beside an address there is none: the application is there itself then, as it is with\n" +
			"--app-host and the gateway's own host, and the start page at /.authgate/account/apps.\n\n" +
			"All who have an account may open the application. With --issuer, users sign in at an\n" +
			"identity provider too, and --provider-users says who of them may.",
		Example: "  authgate init\n" +
			"  authgate init --yes --host home.example.org --app wiki --upstream http://127.0.0.1:3000 " +
			"--certificates acme\n" +
			"  authgate init --yes --host home.example.org --front nginx\n" +
			"  authgate init --yes --host home.example.org --issuer https://accounts.google.com --client-id ID " +
			"--client-secret-file google.secret --provider-users alice@example.org",
		Args: noArguments,
	}
	in := initialization{path: configFlag(cmd), flags: cmd.Flags()}
	in.steps.addFlags(in.flags)
	in.flags.BoolVar(&in.yes, "yes", false, "ask nothing")
	in.flags.BoolVar(&in.force, "force", false,
		"replace a configuration and accounts that exist, but for its data_dir")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return in.run(cmd) }
	return cmd
}

// initialization writes a configuration to begin with.
type initialization struct {
	path       *string // of the configuration
	flags      *pflag.FlagSet
	steps      firstSteps
	yes, force bool
}

func (in *initialization) run(cmd *cobra.Command) error {
	path, steps := *in.path, &in.steps
	if path == standardInput {
		return &usageError{errors.New("init writes a file; give its path")}
	}
	if in.force {
		steps.keepData(path)
	} else if err := checkAbsent(path, accountsBeside(path)); err != nil {
		return err
	}
	plain, err := in.complete(cmd)
	if err != nil {
		return err
	}
	if err := steps.write(path, plain, in.force); err != nil {
		return err
	}
	if in.yes {
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "The password of %s is %s\n", steps.User, plain); err != nil {
			return fmt.Errorf("the password of %s is lost, so run init again with --force: %w", steps.User, err)
		}
	}
	return steps.tell(cmd.OutOrStdout(), path)
}

// complete completes the first steps, and returns a password: with questions at a terminal, or without.
func (in *initialization) complete(cmd *cobra.Command) (plain string, err error) {
	if in.yes {
		return rand.Text(), in.steps.settle(*in.path, in.flags.Changed("certificates"))
	}
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return "", &usageError{
			errors.New("standard input is not a terminal, so init cannot ask; give --yes for the defaults"),
		}
	}
	d := dialogue{
		steps: &in.steps, path: *in.path, given: in.flags.Changed, typist: terminal{os.Stdin, cmd.ErrOrStderr()},
	}
	if plain, err = d.ask(); err != nil {
		return "", fmt.Errorf("%w; nothing is written", err)
	}
	return plain, nil
}

// addFlags adds the flags that answer the questions.
func (s *firstSteps) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&s.Front, "front", "",
		"what is in front of the gateway: "+listed(fronts, "or")+" (default: by the host)")
	flags.StringVar(&s.Host, "host", "localhost",
		"host of the gateway, with or without a port, where users sign in and have their start page")
	flags.StringVar(&s.Upstream, "upstream", defaultUpstream, "address of the application")
	flags.StringVar(&s.App, "app", defaultApp, "name of the application")
	flags.StringVar(&s.Place, "app-host", "",
		"its host, also with a path (default: its name beside the host of the gateway)")
	flags.StringVar(&s.User, "user", defaultUser, "name of the first user")
	flags.StringVar(&s.Certificates, "certificates", listening.TLSInternal,
		"internal: a local authority; acme: Let's Encrypt")
	s.idp.addFlags(flags)
}
