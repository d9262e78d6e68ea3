package main

import (
	"bytes"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"authgate/gateway/config"
	"authgate/gateway/password"
)

//go:embed init.yaml.tmpl
var initTemplate string

//go:embed init.accounts.tmpl
var initAccountsTemplate string

// schemaFile is the name of a schema beside the configuration, to which init refers
// if `authgate schema` wrote it.
const schemaFile = "config.schema.json"

// firstSteps are the answers from which init writes a configuration.
type firstSteps struct {
	Host, Upstream, User, Certificates, Hash, Schema string

	Accounts string // the file with the account, beside the configuration; empty: the account is written in there
}

func initCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Write a configuration to begin with",
		Long: "Write a configuration with comments to begin with, and beside it a file with the first\n" +
			"account. On a terminal it asks for what it needs. With --yes it asks nothing, and\n" +
			"prints the password that it generates.",
		Example: "  authgate init\n" +
			"  authgate init --yes --host app.example.org --upstream http://127.0.0.1:3000 --certificates acme",
		Args: usage(cobra.NoArgs),
	}
	var steps firstSteps
	path, flags := configFlag(cmd), cmd.Flags()
	flags.StringVar(&steps.Host, "host", "localhost", "host at which clients reach the gateway, with or without a port")
	flags.StringVar(&steps.Upstream, "upstream", "http://127.0.0.1:3000", "address of the application")
	flags.StringVar(&steps.User, "user", "admin", "name of the first user")
	flags.StringVar(&steps.Certificates, "certificates", config.TLSInternal,
		"internal: a local authority; acme: Let's Encrypt")
	yes := flags.Bool("yes", false, "ask nothing")
	force := flags.Bool("force", false, "replace a configuration and accounts that exist")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *path == standardInput {
			return &usageError{errors.New("init writes a file; give its path")}
		}
		for _, file := range []string{*path, accountsBeside(*path)} {
			if _, err := os.Lstat(file); err == nil && !*force {
				return existsError(file)
			}
		}
		plain := rand.Text()
		switch {
		case *yes:
		case !term.IsTerminal(int(os.Stdin.Fd())):
			return &usageError{errors.New("standard input is not a terminal, so init cannot ask; give --yes for the defaults")}
		default:
			var err error
			if plain, err = steps.ask(os.Stdin, cmd.ErrOrStderr()); err != nil {
				return err
			}
		}
		if err := steps.write(*path, plain, *force); err != nil {
			return err
		}
		if *yes {
			fmt.Fprintf(cmd.OutOrStdout(), "The password of %s is %s\n", steps.User, plain)
		}
		fmt.Fprintf(cmd.OutOrStdout(),
			"%s is written, and %s with the account. To run the gateway: authgate serve --config %s\n",
			*path, accountsBeside(*path), *path)
		return nil
	}
	return cmd
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

// ask asks for each answer, with the current one as the default, and for a password.
func (s *firstSteps) ask(in *os.File, prompt io.Writer) (plain string, err error) {
	for _, question := range []struct {
		text   string
		answer *string
	}{
		{"Host at which clients reach the gateway", &s.Host},
		{"Address of the application", &s.Upstream},
		{"Certificates: internal (a local authority) or acme (Let's Encrypt)", &s.Certificates},
		{"Name of the first user", &s.User},
	} {
		fmt.Fprintf(prompt, "%s [%s]: ", question.text, *question.answer)
		line, err := readLine(in)
		if err != nil {
			return "", fmt.Errorf("reading the answer: %w", err)
		}
		if line = strings.TrimSpace(line); line != "" {
			*question.answer = line
		}
	}
	return askTwice(in, prompt)
}

// readLine reads one line and no byte more, because askTwice reads the next one.
func readLine(in io.Reader) (string, error) {
	var line []byte
	for one := make([]byte, 1); ; {
		if _, err := io.ReadFull(in, one); err != nil {
			return "", err
		}
		if one[0] == '\n' {
			return string(line), nil
		}
		line = append(line, one[0])
	}
}

// write writes the configuration to path, and the account beside it, if they are valid.
func (s *firstSteps) write(path, plain string, force bool) error {
	hash, err := password.New(plain)
	if err != nil {
		return err
	}
	s.Hash = hash
	if written, err := os.ReadFile(filepath.Join(filepath.Dir(path), schemaFile)); err == nil &&
		bytes.Equal(written, config.Schema()) {
		s.Schema = schemaFile
	}
	text, err := s.render(initTemplate)
	if err != nil {
		return err
	}
	if _, err := config.Parse(path, text); err != nil {
		return err
	}
	beside := accountsBeside(path)
	s.Accounts = filepath.Base(beside)
	if text, err = s.render(initTemplate); err != nil {
		return err
	}
	account, err := s.render(initAccountsTemplate)
	if err != nil {
		return err
	}
	if err := writeFile(beside, account, force); err != nil {
		return err
	}
	if err := writeFile(path, text, force); err != nil {
		if !force {
			err = errors.Join(err, os.Remove(beside))
		}
		return err
	}
	return nil
}

// render fills in a template.
func (s *firstSteps) render(text string) ([]byte, error) {
	var filled bytes.Buffer
	parsed := template.Must(template.New("").Funcs(template.FuncMap{"quote": quoteYAML}).Parse(text))
	err := parsed.Execute(&filled, s)
	return filled.Bytes(), err
}

// PublicURL, HTTPS and HTTP are values of the configuration. A host without a port
// has the usual one with acme, else one that needs no privileges.
func (s *firstSteps) PublicURL() string {
	if _, _, err := net.SplitHostPort(s.Host); err != nil && s.Certificates != config.TLSACME {
		return "https://" + s.Host + ":8443"
	}
	return "https://" + s.Host
}

func (s *firstSteps) HTTPS() string {
	if _, port, err := net.SplitHostPort(s.Host); err == nil {
		return ":" + port
	}
	if s.Certificates == config.TLSACME {
		return ":443"
	}
	return ":8443"
}

func (s *firstSteps) HTTP() string {
	if s.Certificates == config.TLSACME {
		return ":80"
	}
	return ":8080"
}

// quoteYAML writes a string in double quotes, in which no ${ is a variable.
func quoteYAML(s string) (string, error) {
	quoted, err := json.Marshal(s)
	return strings.ReplaceAll(string(quoted), "${", "$${"), err
}

// writeFile writes a file that only its owner can read. Without force, a file that
// exists stays.
func writeFile(path string, content []byte, force bool) error {
	if force {
		return replaceFile(path, content)
	}
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

// replaceFile is writeFile with force. After an error, the old file is still there.
func replaceFile(path string, content []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".authgate-init-") // with mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
