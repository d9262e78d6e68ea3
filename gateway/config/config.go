package config

import (
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"os"
	"reflect"
	"slices"
	"time"

	"authgate/gateway/config/forwarding"
	"authgate/gateway/config/issuers"
	"authgate/gateway/config/listening"
	"authgate/gateway/config/section"
	"authgate/gateway/people/accounts"
	"authgate/gateway/strictyaml"
	"authgate/policy"
)

// Config is a valid configuration. It contains all defaults, relative paths are
// resolved against the folder of the file, and ${NAME} and x_file are replaced
// by their values. It must not be changed.
type Config struct {
	Include         []string                       `yaml:"include"`
	PublicURL       *url.URL                       `yaml:"public_url" default:"https://localhost:8443"`
	Listen          listening.Listen               `yaml:"listen" reload:"restart"`
	TLS             listening.TLS                  `yaml:"tls"`
	Certificates    listening.Certificates         `yaml:"certificates"`
	DataDir         string                         `yaml:"data_dir" default:"data" file:"secret" reload:"restart"`
	Store           Store                          `yaml:"store" reload:"restart"`
	Endpoints       endpoints                      `yaml:"endpoints"`
	Basic           basic                          `yaml:"basic"`
	Accounts        localAccounts                  `yaml:"accounts"`
	Factors         secondFactors                  `yaml:"factors"`
	Session         session                        `yaml:"session"`
	Token           token                          `yaml:"token"`
	Providers       []issuers.Provider             `yaml:"providers"`
	Delegated       issuers.Delegated              `yaml:"delegated"`
	Upstreams       map[string]forwarding.Upstream `yaml:"upstreams"`
	IdentityHeaders forwarding.IdentityHeaders     `yaml:"identity_headers"`
	Policies        map[string]*policy.Spec        `yaml:"policies"`
	Routes          []Route                        `yaml:"routes"`
	OAuth           OAuth                          `yaml:"oauth"`
	Site            site                           `yaml:"site"`
	Limits          Limits                         `yaml:"limits"`
	ShutdownDelay   time.Duration                  `yaml:"shutdown_delay"`
	ShutdownTimeout time.Duration                  `yaml:"shutdown_timeout" default:"30s" min:"1ns"`
	Log             Log                            `yaml:"log" reload:"restart"`
	Webhooks        []Webhook                      `yaml:"webhooks"`
	Tracing         Tracing                        `yaml:"tracing"`

	table       *policy.Table // of Routes
	admins      *policy.Route // of Accounts.Admins
	hosts       []string
	ownAccounts int    // how many of Accounts.Users are in the main file
	path        string // of the file
	environment Environment
	source      func() *sources // its content; a function, so that fmt does not print its secrets
	sideFiles   []File
	publicFiles []string
	namedFiles  []string
	secretFiles []string
	warnings    Diagnostics

	clientPolicies map[string]*policy.Route // of OAuth.Clients, by ID
	wellKnown      WellKnown
}

// Why returns why keys of the section have the bounds that they have.
func (Config) Why() map[string]string {
	return map[string]string{"shutdown_timeout": "; with 0 a stop would end every request in flight"}
}

// Secret is a value that prints as "[redacted]" wherever it is formatted,
// logged or marshalled. Only its method Reveal returns the value.
type Secret = strictyaml.Secret

// Diagnostic is one mistake in a configuration, and Diagnostics are all of
// them. They are the error that Load and Parse return.
type (
	Diagnostic  = strictyaml.Diagnostic
	Diagnostics = strictyaml.Diagnostics
)

// File is a file of a configuration as it was when it was read.
type File = strictyaml.File

// maxConfigSize is how large a file of the configuration may be, in bytes.
const maxConfigSize = 8 << 20

// ReadError reports that the configuration file itself cannot be read. It
// wraps the reason, for example fs.ErrNotExist.
type ReadError struct{ err error }

func (e *ReadError) Error() string { return e.err.Error() }

func (e *ReadError) Unwrap() error { return e.err }

// Environment is where a configuration has the values from that it only names.
type Environment struct {
	Lookup func(string) (string, bool) // reads an environment variable; nil: os.LookupEnv
	// Placeholders gives variables that are not set, and secrets whose file cannot be read, a
	// stand-in. Such a configuration can be checked, and must not be served.
	Placeholders bool
	// Sockets has the addresses of sockets that the process got, by the keys of their listeners. They
	// take the place of the configured addresses.
	Sockets map[string]string
}

// Load reads the configuration file at path and the files that it names. The
// error is Diagnostics or a *ReadError.
func Load(path string) (*Config, error) { return Environment{}.Load(path) }

// Load is the function Load in this environment.
func (e Environment) Load(path string) (*Config, error) {
	cfg, _, err := e.LoadFiles(path)
	return cfg, err
}

// LoadFiles is Load. It also returns the main file, its parts, their patterns and all files that
// these name, as they were when they were read, even if the configuration has mistakes.
func (e Environment) LoadFiles(path string) (*Config, []File, error) {
	source, main, err := strictyaml.ReadFile(path, maxConfigSize)
	if err != nil {
		return nil, []File{main}, &ReadError{err}
	}
	cfg, files, err := e.parse(path, &sources{main: source})
	return cfg, append([]File{main}, files...), err
}

// DataDir returns the data_dir of the configuration file at path, also if the file
// has mistakes elsewhere. The error is Diagnostics or a *ReadError.
func DataDir(path string) (string, error) {
	source, _, err := strictyaml.ReadFile(path, maxConfigSize)
	if err != nil {
		return "", &ReadError{err}
	}
	reader, main, cfg := Environment{}.readMain(path, source)
	if main.Unreadable("") || main.Broken("data_dir") || cfg.DataDir == "" {
		if err := reader.Err(); err != nil {
			return "", err
		}
		return "", &ReadError{fmt.Errorf("%s: data_dir is empty", path)}
	}
	return cfg.DataDir, nil
}

// Read is Load for a configuration that is not in a file. name takes the place
// of its path: messages show it, and relative paths start from its folder.
func (e Environment) Read(name string, r io.Reader) (*Config, error) {
	source, err := io.ReadAll(io.LimitReader(r, maxConfigSize+1)) // Parse refuses one byte too many
	if err != nil {
		return nil, &ReadError{fmt.Errorf("cannot read %s: %w", name, err)}
	}
	cfg, _, err := e.parse(name, &sources{main: source})
	return cfg, err
}

// Parse is Load for the content of a file. Relative paths in it start from the
// folder of path. The error is Diagnostics.
func Parse(path string, source []byte) (*Config, error) {
	cfg, _, err := Environment{}.parse(path, &sources{main: slices.Clone(source)})
	return cfg, err
}

// Reread returns the same configuration with the current content of the files
// that it names. It reads neither the main file nor its parts again. The error is Diagnostics.
func (c *Config) Reread() (*Config, error) {
	cfg, _, err := c.environment.parse(c.path, c.source())
	return cfg, err
}

// Files returns the files of SideFiles as they were when they were read. A file
// that several keys name is there several times.
func (c *Config) Files() []File { return slices.Clone(c.sideFiles) }

// AwaitsAuthority reports whether a key names the certificate of the authority of tls.mode internal, and that is not
// there: the gateway has not started yet. Such a configuration is valid, and must not be served.
func (c *Config) AwaitsAuthority() bool { return slices.ContainsFunc(c.sideFiles, File.IsMissing) }

// SideFiles returns the paths of the files whose content belongs to the
// configuration, besides the main file: lists of users, certificates and keys,
// site.logo and other images, site.texts, and each x_file. They are sorted.
func (c *Config) SideFiles() []string {
	paths := make([]string, len(c.sideFiles))
	for i, file := range c.sideFiles {
		paths[i] = file.Path
	}
	return slices.Compact(paths)
}

// PublicFiles returns the paths of the files without secrets among SideFiles.
func (c *Config) PublicFiles() []string { return slices.Clone(c.publicFiles) }

// NamedFiles returns the paths that keys name as files, except x_file. Some are read or run later, such as a
// credential_file, and are no SideFiles.
func (c *Config) NamedFiles() []string { return slices.Clone(c.namedFiles) }

// Path returns the path of the configuration file, as it was given.
func (c *Config) Path() string { return c.path }

// Parts returns the paths of the files of include.
func (c *Config) Parts() []string {
	var paths []string
	for _, one := range c.source().parts {
		paths = append(paths, one.path)
	}
	return paths
}

// SecretFiles returns those of the main file and its parts that have secrets or hashes of
// passwords in themselves. What is public, as in the demonstration, does not count.
func (c *Config) SecretFiles() []string { return slices.Clone(c.secretFiles) }

// Warnings returns the parts of a valid configuration that are probably
// mistakes, in the order of the text.
func (c *Config) Warnings() Diagnostics { return slices.Clone(c.warnings) }

// Table returns the table of Routes with their compiled policies. The route at
// index i of the table is the one at index i of Routes.
func (c *Config) Table() *policy.Table { return c.table }

// sources are the texts of a configuration. They must not be changed.
type sources struct {
	main  []byte
	parts []partFile
	read  bool // parts are known; else the patterns of include find them
}

// parse is Parse in this environment, and returns the parts, their patterns, and the files that
// the configuration names.
func (e Environment) parse(path string, from *sources) (*Config, []File, error) {
	reader, main, cfg := e.readMain(path, from.main)
	if main.HasSecrets() {
		cfg.secretFiles = append(cfg.secretFiles, path)
	}
	in := includes{main: main, path: path, parts: from.parts}
	if !from.read {
		in.findParts(cfg.Include)
	}
	if cfg.add(reader, main, in.parts) {
		made := cfg.TLS.MadeAuthority(cfg.DataDir)
		side := sideReader{section.Files{Reader: reader, Main: main, Now: time.Now(), Made: made}}
		places := side.users(cfg)
		chain := cfg.TLS.Read(side.Files, cfg.DataDir)
		side.signingKey(cfg.Token, cfg.PublishesKeys())
		side.clientRoots(&cfg.OAuth)
		issuers.Read(side.Files, cfg.Providers)
		issuers.ReadTrusted(side.Files, cfg.Token.TrustedIssuers)
		forwarding.Read(side.Files, cfg.Upstreams)
		side.webhookRoots(cfg.Webhooks)
		side.logo(&cfg.Site)
		side.texts(&cfg.Site)
		side.icons(cfg.Routes)
		cfg.complete(main)
		cfg.Listen.Take(main, e.Sockets)
		(&checker{report: main, cfg: cfg, places: places}).all()
		listening.WarnOfUncovered(main, chain, cfg.hosts)
	}
	files := slices.Concat(in.files, reader.Files())
	if err := reader.Err(); err != nil {
		return nil, files, err
	}
	kept := &sources{from.main, in.parts, true}
	cfg.path, cfg.environment, cfg.source = path, e, func() *sources { return kept }
	cfg.sideFiles, cfg.publicFiles, cfg.namedFiles = reader.Files(), reader.PublicFiles(), reader.NamedFiles()
	cfg.warnings = reader.Warnings()
	return cfg, files, nil
}

// readMain reads the main file, without the files that it names.
func (e Environment) readMain(path string, source []byte) (*strictyaml.Reader, *section.Report, *Config) {
	reader, cfg := e.reader(path), defaults()
	cfg.DataDir = reader.Resolve(cfg.DataDir)
	main := &section.Report{Document: reader.Read(path, source, maxConfigSize, "", cfg)}
	accounts.Settle(cfg.Accounts.Users)
	return reader, main, cfg
}

func (e Environment) reader(path string) *strictyaml.Reader {
	lookup := e.Lookup
	if lookup == nil {
		lookup = os.LookupEnv
	}
	options := strictyaml.Options{
		Main: path, Lookup: lookup, Placeholders: e.Placeholders, Checks: checks(),
		SecretKeys: []string{
			"secret", "secrets", "password", "client_secret", "password_hash", "encryption_key", "sentinel_password",
			"api_token", "key",
		},
		PublicKeys: publicKeys(), PublicSecrets: append([]Secret{demoClientSecret, demoClientHash}, demoHashes...),
		HashKeys: []string{"password_hash", "secrets"},
		Parse: map[reflect.Type]func(path, value string) (any, error){
			reflect.TypeFor[*url.URL]():     func(path, value string) (any, error) { return parseAddress(path, value) },
			reflect.TypeFor[netip.Prefix](): func(_, value string) (any, error) { return policy.ParseNetwork(value) },
		},
		Either: map[reflect.Type]string{
			reflect.TypeFor[policy.Ref](): "the name of a policy, or a policy written in place",
		},
	}
	accounts.Declare(&options)
	return strictyaml.NewReader(options)
}
