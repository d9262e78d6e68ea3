package config

import (
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"authgate/policy"
)

// ReadError reports that the configuration file itself cannot be read. It
// wraps the reason, for instance one that is fs.ErrNotExist.
type ReadError struct{ err error }

func (e *ReadError) Error() string { return "read the configuration: " + e.err.Error() }
func (e *ReadError) Unwrap() error { return e.err }

// Load reads the configuration file at path and the files that it names. An
// error is Diagnostics, or a *ReadError.
func Load(path string) (*Config, error) {
	source, err := readFile(path, maxConfigSize)
	if err != nil {
		return nil, &ReadError{err}
	}
	return Parse(path, source)
}

// Parse is Load for a file whose content has been read already. path is where
// it is: relative paths in it start from there. An error is Diagnostics.
func Parse(path string, source []byte) (*Config, error) {
	return parse(path, source, os.LookupEnv)
}

// Reread is the same configuration with the files that it names as they are
// now; of the main file it is the content that was read then. An error is
// Diagnostics.
func (c *Config) Reread() (*Config, error) { return Parse(c.path, c.source()) }

// SideFiles are the paths of the files besides the configuration file that
// a change of which changes the configuration: accounts.file, basic.htpasswd,
// the certificate and its key, and each x_file. They are sorted.
func (c *Config) SideFiles() []string { return slices.Clone(c.sideFiles) }

// Table returns the table of Routes with their compiled policies: the route at
// index i of the table is the one at index i of Routes.
func (c *Config) Table() *policy.Table { return c.table }

// Warnings are the parts of a valid configuration that are probably mistakes,
// ordered as the text is. They keep nothing from running.
func (c *Config) Warnings() Diagnostics { return slices.Clone(c.warnings) }

// loader carries one run of parse.
type loader struct {
	problems
	warnings  problems
	cfg       *Config
	main      *document
	dir       string // where relative paths start
	lookup    func(name string) (string, bool)
	parsers   map[reflect.Type]func(path, value string) (any, error)
	sideFiles []string
	basic     []located[*BasicUser]
	accounts  []located[*Account]
	policies  *policy.Set
}

func newLoader(path string, lookup func(string) (string, bool)) *loader {
	return &loader{
		cfg: defaults(), dir: filepath.Dir(path), lookup: lookup,
		parsers: map[reflect.Type]func(path, value string) (any, error){
			reflect.TypeFor[*url.URL]():     func(path, value string) (any, error) { return parseAddress(path, value) },
			reflect.TypeFor[netip.Prefix](): func(_, value string) (any, error) { return policy.ParseNetwork(value) },
		},
	}
}

// parse is Parse with the environment that lookup reads.
func parse(path string, source []byte, lookup func(string) (string, bool)) (*Config, error) {
	l := newLoader(path, lookup)
	l.main = l.decode(newText(path, source, maskYAML), source, maxConfigSize, "", l.cfg)
	if !l.main.broken[""] {
		l.readUsers()
		l.complete()
		l.check()
	}
	if err := l.result(path); err != nil {
		return nil, err
	}
	l.cfg.hosts = l.cfg.allHosts()
	slices.Sort(l.sideFiles)
	kept := slices.Clone(source)
	l.cfg.path, l.cfg.source = path, func() []byte { return kept }
	l.cfg.sideFiles = slices.Compact(l.sideFiles)
	l.cfg.warnings = l.warnings.ordered(path, l.redacter())
	return l.cfg, nil
}

// resolve makes a path of the configuration file relative to its folder.
func (l *loader) resolvePath(path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(l.dir, path)
}
