package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"authgate/gateway/config/listening"
	"authgate/gateway/store/rewrite"
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
	var steps firstSteps
	path, flags := configFlag(cmd), cmd.Flags()
	steps.addFlags(flags)
	yes := flags.Bool("yes", false, "ask nothing")
	force := flags.Bool("force", false, "replace a configuration and accounts that exist, but for its data_dir")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *path == standardInput {
			return &usageError{errors.New("init writes a file; give its path")}
		}
		if *force {
			steps.keepData(*path)
		} else if err := checkAbsent(*path, accountsBeside(*path)); err != nil {
			return err
		}
		ask := func() (string, error) { return askFirst(cmd, &steps, *path) }
		if *yes {
			ask = func() (string, error) { return rand.Text(), steps.settle(*path, flags.Changed("certificates")) }
		}
		plain, err := ask()
		if err != nil {
			return err
		}
		if err := steps.write(*path, plain, *force); err != nil {
			return err
		}
		if *yes {
			fmt.Fprintf(cmd.OutOrStdout(), "The password of %s is %s\n", steps.User, plain)
		}
		return steps.tell(cmd.OutOrStdout(), *path)
	}
	return cmd
}

// checkAbsent returns an error for a file that exists.
func checkAbsent(files ...string) error {
	for _, file := range files {
		if _, err := os.Lstat(file); err == nil {
			return existsError(file)
		}
	}
	return nil
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

// askFirst asks at a terminal for the first steps, and for a password.
func askFirst(cmd *cobra.Command, steps *firstSteps, path string) (plain string, err error) {
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return "", &usageError{
			errors.New("standard input is not a terminal, so init cannot ask; give --yes for the defaults"),
		}
	}
	d := dialogue{steps: steps, path: path, given: cmd.Flags().Changed, typist: terminal{os.Stdin, cmd.ErrOrStderr()}}
	if plain, err = d.ask(); err != nil {
		return "", fmt.Errorf("%w; nothing is written", err)
	}
	return plain, nil
}

// accountsBeside returns where the account for the configuration at path is written. Several
// configurations can be in one folder.
func accountsBeside(path string) string {
	folder, name := filepath.Split(path)
	if name = strings.TrimSuffix(name, filepath.Ext(name)); name == "config" {
		return folder + "accounts.yaml"
	}
	return folder + name + ".accounts.yaml"
}

func existsError(path string) error {
	return fmt.Errorf("%s exists; choose another file with --config, or give --force to replace it", path)
}

// newFile is a file to write.
type newFile struct {
	path    string
	content []byte
}

// writeFiles writes files, of which the configuration is the last. With force it replaces files that
// exist. Without, it writes all or none.
func writeFiles(files []newFile, force bool) error {
	for i, file := range files {
		var err error
		if force {
			err = replaceFile(file.path, files[len(files)-1].path, file.content)
		} else if err = writeFile(file.path, file.content); err != nil {
			for _, written := range files[:i] {
				err = errors.Join(err, os.Remove(written.path))
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// writeFile writes a file that only its owner can read. A file that exists stays.
func writeFile(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return existsError(path)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// replaceFile is writeFile for a file that may exist. The owner and the group stay, and so does the
// right of the group to read; a new file takes them from the file like. After an error, the old file is
// still there.
func replaceFile(path, like string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".authgate-init-") // with mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	old, statErr := os.Lstat(path)
	if errors.Is(statErr, fs.ErrNotExist) {
		old, statErr = os.Lstat(like)
	}
	if statErr == nil && old.Mode().IsRegular() && rewrite.KeepOwner(f, old) == nil {
		err = errors.Join(err, f.Chmod(0o600|old.Mode()&0o040))
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
