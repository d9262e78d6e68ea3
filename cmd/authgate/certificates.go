package main

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"authgate/gateway/config"
	"authgate/gateway/config/listening"
	"authgate/gateway/strictyaml"
	"authgate/gateway/wire/clientcert"
)

func certificatesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:                        "certificates",
		Short:                      "Issue certificates for clients",
		Long:                       "Issue certificates for clients, by the gateway's own authority for them.",
		Example:                    "  authgate certificates issue",
		Args:                       knownCommand,
		SuggestionsMinimumDistance: 2,
		RunE: func(*cobra.Command, []string) error {
			return &usageError{errors.New("a command is missing: issue")}
		},
	}
	cmd.AddCommand(certificatesIssueCommand())
	return cmd
}

// issueFlags are those of a certificate.
type issueFlags struct{ username, out, lifetime string }

func certificatesIssueCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "issue",
		Short: "Make a key and a certificate that opens the gateway as a user",
		Long: "Write a new key and its certificate to a file that phones, browsers and other\n" +
			"programs import (PKCS #12). The name goes where certificates.username looks. The\n" +
			"first line of standard input is the passphrase of the file. On a terminal, or\n" +
			"without a line, one is made and printed.\n\n" +
			"The authority is data_dir/clients-ca.pem, which tls.client_ca: local names. It is made\n" +
			"if there is none. Run the command as the user of the gateway.",
		Example: "  authgate certificates issue --for alice --out alice.p12\n" +
			"  authgate certificates issue --for alice --out alice.p12 <passphrase.txt",
		Args: noArguments,
	}
	path := configFlagFor(cmd, "configuration file, which names data_dir")
	var f issueFlags
	cmd.Flags().StringVar(&f.username, "for", "", "the user that the certificate names")
	cmd.Flags().StringVar(&f.out, "out", "", "the file to write, which must not exist")
	cmd.Flags().StringVar(&f.lifetime, "lifetime", "365d", "how long the certificate is valid")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		lifetime, err := f.checkFlags(*path)
		if err != nil {
			return &usageError{err}
		}
		issuer, err := config.ClientIssuerOf(*path)
		if err != nil {
			return err
		}
		passphrase, made, err := readPassphrase(os.Stdin)
		if err != nil {
			return err
		}
		if err := issue(issuer, &f, passphrase, lifetime); err != nil {
			return err
		}
		tellIssued(cmd.ErrOrStderr(), issuer, &f)
		if made {
			fmt.Fprintln(cmd.OutOrStdout(), passphrase)
		}
		return nil
	}
	return cmd
}

// checkFlags checks the command line.
func (f *issueFlags) checkFlags(path string) (lifetime time.Duration, err error) {
	switch {
	case path == standardInput:
		return 0, errors.New("standard input is the passphrase; give the configuration as a file")
	case f.username == "":
		return 0, errors.New("--for is missing; give the name of a user")
	case f.out == "":
		return 0, errors.New("--out is missing; give the file to write, like alice.p12")
	}
	lifetime, err = strictyaml.ParseDuration(f.lifetime)
	if err != nil || lifetime <= 0 {
		return 0, fmt.Errorf("--lifetime %q is not a duration like 90d or 365d", f.lifetime)
	}
	return lifetime, nil
}

// readPassphrase returns the first line of an input that is no terminal, or else one that it makes.
func readPassphrase(in *os.File) (passphrase string, made bool, err error) {
	if !term.IsTerminal(int(in.Fd())) {
		line, err := bufio.NewReader(in).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return "", false, fmt.Errorf("reading the passphrase from standard input: %w", err)
		}
		if line = strings.TrimRight(line, "\r\n"); line != "" {
			if err := config.Secret(line).Check(); err != nil {
				return "", false, fmt.Errorf("the passphrase %w", err)
			}
			return line, false, nil
		}
	}
	text := strings.ToLower(rand.Text()[:20]) // 100 bits, which a person can type on a phone
	return strings.Join([]string{text[:5], text[5:10], text[10:15], text[15:]}, "-"), true, nil
}

// issue writes the file. It replaces none.
func issue(issuer *config.ClientIssuer, f *issueFlags, passphrase string, lifetime time.Duration) error {
	now := time.Now()
	authority, err := clientcert.OpenAuthority(issuer.DataDir, now)
	if err != nil {
		return err
	}
	content, err := authority.Issue(f.username, issuer.Username, passphrase, now, lifetime)
	if err != nil {
		return err
	}
	out, err := os.OpenFile(f.out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = out.Write(content)
	if err := errors.Join(err, out.Close()); err != nil {
		return errors.Join(err, os.Remove(f.out))
	}
	return nil
}

// tellIssued prints the issued certificate, and the missing steps for its use.
func tellIssued(to io.Writer, issuer *config.ClientIssuer, f *issueFlags) {
	fmt.Fprintf(to, "%s has a key and a certificate with %s %s.\n", printable(f.out), issuer.Username,
		printable(f.username))
	if issuer.ClientCA != listening.ClientCALocal {
		fmt.Fprintf(to, "tls.client_ca is not local: the gateway accepts it only if that file has the content of %s.\n",
			clientcert.AuthorityFile)
	}
}
