package main

import (
	"bytes"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
	"unicode/utf8"

	"authgate/gateway/config"
	"authgate/gateway/config/listening"
	"authgate/gateway/people/password"
	"authgate/gateway/strictyaml"
	"authgate/policy"
)

//go:embed init.yaml.tmpl
var initTemplate string

//go:embed init.accounts.tmpl
var initAccountsTemplate string

// schemaFile is the name of the schema that init writes beside the configuration, and to
// which the configuration refers.
const schemaFile = "config.schema.json"

// Fronts of the gateway, beside the proxies of proxyLines.
const (
	frontNothing = "nothing"
	frontTest    = "test" // and only this machine reaches it
)

var fronts = []string{frontNothing, "nginx", "caddy", "traefik", "haproxy", frontTest}

// The answers by default.
const (
	defaultUpstream = "http://127.0.0.1:3000"
	defaultApp      = "app"
	defaultUser     = "admin"
)

// firstSteps are the answers from which init writes a configuration.
type firstSteps struct {
	Front, Host, Upstream, User, Certificates, Hash, Schema string

	App   string // the name of the application
	Place string // its host, also with a path; empty: a host beside that of the gateway
	Match string // of its route; empty: the application has the host of the gateway
	idp

	Accounts string // the file with the account, beside the configuration; empty: the account is written in there
	Data     string // data_dir; empty: the default
}

// settle completes the values of flags for a configuration at path, and checks them together.
// certificates tells that there is a flag for them.
func (s *firstSteps) settle(path string, certificates bool) error {
	err := s.setHost(s.Host)
	if err == nil {
		err = s.setFront(s.Front)
	}
	if err == nil && s.Proxied() && certificates {
		err = fmt.Errorf("with %s in front, it has the certificates; leave out --certificates", s.Front)
	}
	if err == nil {
		err = s.setPlace(cmp.Or(s.Place, s.likelyPlace()))
	}
	if err == nil {
		err = s.idp.settle(path)
	}
	if err != nil {
		return &usageError{err}
	}
	return nil
}

// setFront sets the front of the gateway. Empty: the one that the host suggests.
func (s *firstSteps) setFront(front string) error {
	front = strings.ToLower(front)
	switch loopback := isLoopback(s.host()); {
	case front == "" && loopback && s.Certificates != listening.TLSACME:
		front = frontTest
	case front == "":
		front = frontNothing
	case !slices.Contains(fronts, front):
		message := fmt.Sprintf("%q is not known to be in front of a gateway; expected %s", front, listed(fronts, "or"))
		if near, ok := strictyaml.Nearest(front, fronts); ok {
			message += fmt.Sprintf("; did you mean %q?", near)
		}
		return errors.New(message)
	case front == frontTest && !loopback:
		return fmt.Errorf("a test is for this machine alone, at localhost, not at %s", s.Host)
	}
	s.Front = front
	return s.checkName()
}

// checkName checks that the host is one that the lines for a proxy can name.
func (s *firstSteps) checkName() error {
	if s.Front != "" && s.Proxied() && strings.Contains(s.host(), ":") {
		return fmt.Errorf("the lines for %s need a name, not the address %s; give the host that the proxy has a "+
			"certificate for", s.Front, s.Host)
	}
	return nil
}

// setHost sets the host. Of the address of a page, it takes the host.
func (s *firstSteps) setHost(answer string) error {
	host := answer
	if rest := withoutScheme(answer); rest != answer {
		host = strings.TrimSuffix(rest, "/")
	}
	switch {
	case host == "":
		return errors.New("a host is needed, such as app.example.org")
	case strings.ContainsAny(host, "/?#"):
		return fmt.Errorf("%q has a path, and the gateway is at a host as a whole; give the host alone, "+
			"such as app.example.org", answer)
	}
	s.Host = host
	return s.checkName()
}

// setPlace sets the place of the application.
func (s *firstSteps) setPlace(answer string) error {
	public, err := url.Parse(s.PublicURL())
	if err != nil {
		return err
	}
	match, err := readPlace(answer, public)
	if err != nil {
		return err
	}
	host, path, _ := strings.Cut(match, "/")
	switch own := strings.EqualFold(strings.Trim(host, "[]"), s.host()); {
	case own && path == "":
		match = ""
	case s.Local() && !isLoopback(strings.Trim(host, "[]")):
		return fmt.Errorf("a test is for this machine alone, and %s may be another; give a host like app.localhost",
			host)
	}
	s.Place, s.Match = answer, match
	return nil
}

// likelyPlace returns a host of the application beside that of the gateway, or the gateway's own: no
// other leads to an address.
func (s *firstSteps) likelyPlace() string { return cmp.Or(besideHost(s.host(), s.App), s.Host) }

// withoutScheme returns an address without https:// or http://.
func withoutScheme(address string) string {
	for _, scheme := range []string{"https://", "http://"} {
		if len(address) >= len(scheme) && strings.EqualFold(address[:len(scheme)], scheme) {
			return address[len(scheme):]
		}
	}
	return address
}

// host returns the host without its port, and without brackets.
func (s *firstSteps) host() string {
	if host, _, err := net.SplitHostPort(s.Host); err == nil {
		return host
	}
	return strings.TrimSuffix(strings.TrimPrefix(s.Host, "["), "]")
}

// port returns the port of the host, empty if it has none.
func (s *firstSteps) port() string {
	_, port, _ := net.SplitHostPort(s.Host)
	return port
}

// isLoopback reports whether a host is this machine in each of its browsers.
func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return err == nil && address.IsLoopback() ||
		strings.EqualFold(host, "localhost") || strings.HasSuffix(strings.ToLower(host), ".localhost")
}

// findMistakes returns the mistakes that the answers would be in a configuration at path, in
// the words of its check.
func (s firstSteps) findMistakes(path string) []string {
	s.Hash = exampleHash
	err := s.checkConfig(path)
	problems, ok := errors.AsType[config.Diagnostics](err)
	if err != nil && !ok {
		return []string{err.Error()}
	}
	var all []string
	for _, problem := range problems {
		all = append(all, problem.Message)
	}
	if err := s.checkUser(); err != nil {
		all = append(all, err.Error())
	}
	return all
}

// checkConfig checks the configuration without the files that are to be beside it.
func (s firstSteps) checkConfig(path string) error {
	if s.Accounts = ""; s.secret != "" {
		s.SecretFile = ""
	}
	text, err := s.render(initTemplate)
	if err == nil {
		_, err = config.Parse(path, text)
	}
	return err
}

// checkUser refuses a name of the first user that looks like another one, of which the configuration
// only warns.
func (s *firstSteps) checkUser() error {
	if err := policy.CheckVisible(s.User); err != nil {
		return &usageError{fmt.Errorf("the user name %w", err)}
	}
	return nil
}

// exampleHash is of no password, and has the form of a hash.
const exampleHash = "$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4"

// write writes the configuration to path, and the account and the schema beside it, if they
// are valid.
func (s *firstSteps) write(path, plain string, force bool) error {
	if err := s.checkUser(); err != nil {
		return err
	}
	hash, err := password.New(plain)
	if err != nil {
		return err
	}
	s.Hash = hash
	if err := s.checkConfig(path); err != nil {
		return err
	}
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	if err := s.writeSchema(folder); err != nil {
		return err
	}
	s.Accounts = filepath.Base(accountsBeside(path))
	text, err := s.render(initTemplate)
	if err != nil {
		return err
	}
	account, err := s.render(initAccountsTemplate)
	if err != nil {
		return err
	}
	files := []newFile{{accountsBeside(path), account}, {path, text}}
	if s.secret != "" {
		files = slices.Insert(files, 0, newFile{filepath.Join(folder, s.SecretFile), []byte(s.secret + "\n")})
	}
	return writeFiles(files, force)
}

// writeSchema writes the schema into a folder, unless a file of its name is there. If that is
// another schema, the configuration does not refer to it.
func (s *firstSteps) writeSchema(folder string) error {
	path := filepath.Join(folder, schemaFile)
	there, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = writeFile(path, config.Schema())
	case err == nil && !bytes.Equal(there, config.Schema()):
		return nil
	}
	if err == nil {
		s.Schema = schemaFile
	}
	return err
}

// render fills in a template, and aligns the comments behind its lines.
func (s *firstSteps) render(text string) ([]byte, error) {
	var filled bytes.Buffer
	parsed := template.Must(template.New("").Funcs(template.FuncMap{
		"quote": strictyaml.Quoted, "text": strictyaml.Text, "key": strictyaml.Key, "join": strings.Join,
	}).Parse(text))
	err := parsed.Execute(&filled, s)
	return aligned(filled.String()), err
}

// aligned returns a text whose comments, each of which follows a tab, begin in one column.
func aligned(text string) []byte {
	column := 0
	for line := range strings.Lines(text) {
		if code, _, ok := strings.Cut(line, "\t#"); ok {
			column = max(column, utf8.RuneCountInString(code)+2)
		}
	}
	var b bytes.Buffer
	for line := range strings.Lines(text) {
		if code, comment, ok := strings.Cut(line, "\t#"); ok {
			line = code + strings.Repeat(" ", column-utf8.RuneCountInString(code)) + "#" + comment
		}
		b.WriteString(line)
	}
	return b.Bytes()
}

// Proxied and Local report whether a proxy that has the certificates, or only programs of this
// machine, are in front of the gateway.
func (s *firstSteps) Proxied() bool { return s.Front != frontNothing && s.Front != frontTest }
func (s *firstSteps) Local() bool   { return s.Front == frontTest }

// keepData takes data_dir of a configuration that is to be replaced. That of a package is a folder
// that its service can write to.
func (s *firstSteps) keepData(path string) {
	data, err := config.DataDir(path)
	if err != nil {
		return
	}
	beside, err := filepath.Rel(filepath.Dir(path), data)
	if err == nil && (filepath.IsLocal(beside) || !filepath.IsAbs(data)) {
		data = beside
	}
	s.Data = data
}

// DataDir is data_dir as the configuration has it.
func (s *firstSteps) DataDir() string { return cmp.Or(s.Data, "data") }

// authority returns the file with the local authority of the configuration at path.
func (s *firstSteps) authority(path string) string {
	file := filepath.Join(s.DataDir(), "ca.pem")
	if filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(filepath.Dir(path), file)
}

// Name is the host as its clients call it, without its port.
func (s *firstSteps) Name() string { return s.host() }

// FrontPort is the port at which clients reach the proxy in front.
func (s *firstSteps) FrontPort() string { return cmp.Or(s.port(), "443") }

// PublicURL, HTTPS and HTTP are values of the configuration. A host without a port
// has the usual one with acme and behind a proxy, else one that needs no privileges.
func (s *firstSteps) PublicURL() string {
	host := s.Host
	if s.port() == "" {
		if host = s.host(); strings.Contains(host, ":") {
			host = "[" + host + "]"
		}
		if s.Certificates != listening.TLSACME && !s.Proxied() {
			host += ":8443"
		}
	}
	return "https://" + host
}

// StartPage is where users find their applications: at / unless an application is there.
func (s *firstSteps) StartPage() string {
	if s.Match == "" {
		return s.PublicURL() + ownPrefix + config.EndpointApps
	}
	return s.PublicURL() + "/"
}

// RedirectURI is where an identity provider leads users back.
func (s *firstSteps) RedirectURI() string { return s.PublicURL() + ownPrefix + "callback" }

// ownPrefix is endpoints.prefix of the configuration.
const ownPrefix = "/.authgate/"

// AppURL is where users open the application.
func (s *firstSteps) AppURL() string {
	public, err := url.Parse(s.PublicURL())
	if err != nil || s.Match == "" {
		return s.PublicURL() + "/"
	}
	return placeURL(public, s.Match)
}

// Names are the hosts at which clients reach the gateway, without a port.
func (s *firstSteps) Names() []string {
	names := []string{s.Name()}
	if host, _, _ := strings.Cut(s.Match, "/"); host != "" && !strings.EqualFold(host, s.Name()) {
		names = append(names, host)
	}
	return names
}

func (s *firstSteps) HTTPS() string {
	switch port := s.port(); {
	case port != "":
		return s.listenAt(port)
	case s.Certificates == listening.TLSACME:
		return s.listenAt("443")
	}
	return s.listenAt("8443")
}

func (s *firstSteps) HTTP() string {
	switch {
	case s.Proxied():
		return "127.0.0.1:8080"
	case s.Certificates == listening.TLSACME:
		return s.listenAt("80")
	}
	return s.listenAt("8080")
}

// listenAt returns the address to listen at with a port.
func (s *firstSteps) listenAt(port string) string {
	switch {
	case !s.Local():
		return ":" + port
	case s.host() == "::1":
		return net.JoinHostPort("::1", port)
	}
	return net.JoinHostPort("127.0.0.1", port)
}

// listed returns words as a list for people, with a conjunction before the last one.
func listed(words []string, conjunction string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " " + conjunction + " " + words[last]
}
