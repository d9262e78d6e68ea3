package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"authgate/gateway/config"
	"authgate/gateway/people/password"
)

// errPasswordArgument is a usage error that does not repeat an argument that may be a password.
var errPasswordArgument = &usageError{errors.New("a password is no argument, because others see it in the list of " +
	"processes and in the history of the shell; without arguments, the command asks for it on a terminal, or reads " +
	"the first line of standard input")}

func hashPasswordCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "hash-password",
		Short: "Hash a password for password_hash",
		Long: "Print the argon2id hash of a password, for password_hash in the configuration.\n" +
			"On a terminal it asks twice, without echo. Otherwise it reads the first line\n" +
			"of standard input. A password that is blank, begins or ends with a space, is not\n" +
			"UTF-8, or has a byte order mark or a control character is refused.",
		Example: "  authgate hash-password\n" +
			"  authgate hash-password <password.txt",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return errPasswordArgument
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			plain, err := readPassword(os.Stdin, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			hash, err := password.New(plain)
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), hash)
			return nil
		},
	}
	cmd.SetFlagErrorFunc(func(*cobra.Command, error) error { return errPasswordArgument })
	return cmd
}

// readPassword asks for a password on a terminal, or reads the first line of another
// input.
func readPassword(in *os.File, prompt io.Writer) (string, error) {
	if term.IsTerminal(int(in.Fd())) {
		return askTwice(in, prompt)
	}
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && (!errors.Is(err, io.EOF) || line == "") {
		return "", fmt.Errorf("reading the password from standard input: %w", err)
	}
	if text, ended := strings.CutSuffix(line, "\n"); ended {
		line = strings.TrimSuffix(text, "\r")
	}
	return line, checkPassword(line)
}

// checkPassword refuses a password that cannot be the one that is meant, by the rules
// for secrets in the configuration.
func checkPassword(plain string) error {
	if err := config.Secret(plain).Check(); err != nil {
		return fmt.Errorf("the password %w", err)
	}
	return nil
}

func askTwice(in *os.File, prompt io.Writer) (string, error) {
	typed, err := typeTwice(in, prompt)
	if err != nil {
		return "", err
	}
	if typed[0] != typed[1] {
		return "", errors.New("the two passwords are not the same")
	}
	return typed[0], checkPassword(typed[0])
}

// typeTwice asks for a password and its repetition, and returns both, typed without echo.
func typeTwice(in *os.File, prompt io.Writer) (typed [2]string, err error) {
	for i, question := range []string{"Password: ", "Again: "} {
		if typed[i], err = typeHidden(in, prompt, question); err != nil {
			return typed, fmt.Errorf("reading the password: %w", err)
		}
	}
	return typed, nil
}

// typeHidden asks a question, and returns the answer, typed without echo.
func typeHidden(in *os.File, prompt io.Writer, question string) (string, error) {
	fmt.Fprint(prompt, question)
	typed, err := term.ReadPassword(int(in.Fd()))
	fmt.Fprintln(prompt)
	return string(typed), err
}
