package config

import (
	"net/netip"
	"net/url"
	"os"
	"reflect"
	"slices"

	"authgate/gateway/config/strictyaml"
	"authgate/policy"
)

// Largest sizes of files, in bytes.
const (
	maxConfigSize = 1 << 20
	maxListSize   = 8 << 20 // an accounts or htpasswd file
)

// ReadError reports that the configuration file itself cannot be read. It
// wraps the reason, for example fs.ErrNotExist.
type ReadError struct{ err error }

func (e *ReadError) Error() string { return e.err.Error() }
func (e *ReadError) Unwrap() error { return e.err }

// Load reads the configuration file at path and the files that it names. The
// error is Diagnostics or a *ReadError.
func Load(path string) (*Config, error) {
	source, err := strictyaml.ReadFile(path, maxConfigSize)
	if err != nil {
		return nil, &ReadError{err}
	}
	return Parse(path, source)
}

// Parse is Load for the content of a file. Relative paths in it start from the
// folder of path. The error is Diagnostics.
func Parse(path string, source []byte) (*Config, error) {
	return parse(path, source, os.LookupEnv)
}

// Reread returns the same configuration with the current content of the files
// that it names. It does not read the main file again. The error is Diagnostics.
func (c *Config) Reread() (*Config, error) { return Parse(c.path, c.source()) }

// SideFiles returns the paths of the files whose content belongs to the
// configuration, besides the main file: accounts.file, basic.htpasswd, the
// certificate and its key, and each x_file. They are sorted.
func (c *Config) SideFiles() []string { return slices.Clone(c.sideFiles) }

// Warnings returns the parts of a valid configuration that are probably
// mistakes, in the order of the text.
func (c *Config) Warnings() Diagnostics { return slices.Clone(c.warnings) }

// Table returns the table of Routes with their compiled policies. The route at
// index i of the table is the one at index i of Routes.
func (c *Config) Table() *policy.Table { return c.table }

// loader reads and checks one configuration.
type loader struct {
	*strictyaml.Reader
	cfg      *Config
	main     *strictyaml.Document
	basic    []located[*BasicUser]
	accounts []located[*Account]
	policies *policy.Set
}

func newLoader(path string, lookup func(string) (string, bool)) *loader {
	return &loader{cfg: defaults(), Reader: strictyaml.NewReader(strictyaml.Options{
		Main: path, Lookup: lookup, Defaults: setDefaults,
		SecretKeys: []string{"secret", "password", "client_secret", "password_hash", "encryption_key", "sentinel_password"},
		PublicKeys: []string{"htpasswd"},
		Parse: map[reflect.Type]func(path, value string) (any, error){
			reflect.TypeFor[*url.URL]():     func(path, value string) (any, error) { return parseAddress(path, value) },
			reflect.TypeFor[netip.Prefix](): func(_, value string) (any, error) { return policy.ParseNetwork(value) },
		},
		Either: map[reflect.Type]string{
			reflect.TypeFor[policy.Ref](): "the name of a policy, or a policy written in place",
		},
	})}
}

// parse is Parse with the environment that lookup reads.
func parse(path string, source []byte, lookup func(string) (string, bool)) (*Config, error) {
	l := newLoader(path, lookup)
	l.main = l.Read(path, source, maxConfigSize, "", l.cfg)
	if !l.main.Unreadable("") {
		l.readUsers()
		l.complete()
		l.check()
	}
	if err := l.Err(); err != nil {
		return nil, err
	}
	kept := slices.Clone(source)
	l.cfg.path, l.cfg.source = path, func() []byte { return kept }
	l.cfg.hosts, l.cfg.sideFiles, l.cfg.warnings = l.cfg.allHosts(), l.Files(), l.Warnings()
	return l.cfg, nil
}

// fault reports that the value at path of the main file is wrong.
func (l *loader) fault(path, format string, args ...any) { l.main.Fault(path, format, args...) }

// missing reports that a key of the main file must be given.
func (l *loader) missing(path, format string, args ...any) { l.main.Missing(path, format, args...) }
