package config

import (
	"slices"
	"strings"
	"unicode"

	"authgate/gateway/config/section"
	"authgate/gateway/people/accounts"
	"authgate/gateway/strictyaml"
	"authgate/policy"
)

// basic configures the mechanism basic.
type basic struct {
	Realm    string               `yaml:"realm" default:"authgate"`
	Htpasswd string               `yaml:"htpasswd" file:"secret"`
	Users    []accounts.BasicUser `yaml:"users"` // includes the users of the htpasswd file
}

// localAccounts are the local accounts.
type localAccounts struct {
	File  string             `yaml:"file" file:"secret"`
	Users []accounts.Account `yaml:"users"` // includes the users of the file
	// Admins is who looks after the accounts of the file; all must hold. Nil: no user does.
	Admins []policy.Ref `yaml:"admins,single"`
}

// userPlaces has the place of each element of Basic.Users and Accounts.Users.
type userPlaces struct{ basic, accounts []accounts.Place }

// users adds the users of the htpasswd file and of the file of accounts to those of the
// main file.
func (s sideReader) users(c *Config) userPlaces {
	lists := accounts.Lists{Reader: s.Reader, Main: s.Main.Document}
	basic, basicPlaces := lists.Htpasswd(c.Basic.Htpasswd)
	local, localPlaces := lists.Accounts(c.Accounts.File)
	places := userPlaces{
		basic:    accounts.Places(s.Main.Document, "basic.users", len(c.Basic.Users)),
		accounts: accounts.Places(s.Main.Document, "accounts.users", len(c.Accounts.Users)),
	}
	c.Basic.Users, places.basic = append(c.Basic.Users, basic...), append(places.basic, basicPlaces...)
	c.ownAccounts = len(c.Accounts.Users)
	if c.ownAccounts == 0 {
		c.Accounts.Users = local // not a copy, which may be large
	} else {
		c.Accounts.Users = append(c.Accounts.Users, local...)
	}
	places.accounts = append(places.accounts, localPlaces...)
	return places
}

// AccountsFile returns the file of accounts, whose path may be empty.
func (c *Config) AccountsFile() *accounts.File {
	return &accounts.File{
		Path:   c.Accounts.File,
		Reader: func() *strictyaml.Reader { return c.environment.reader(c.path) },
		Main:   c.Accounts.Users[:c.ownAccounts], Colons: c.Certificates.Username != "",
	}
}

// UsersOf returns the data_dir and the file of accounts of the configuration file at path,
// also if it has other mistakes. The error is Diagnostics or a *ReadError.
func UsersOf(path string) (dataDir string, file *accounts.File, err error) {
	source, _, err := strictyaml.ReadFile(path, maxConfigSize)
	if err != nil {
		return "", nil, &ReadError{err}
	}
	reader, main, c := Environment{}.readMain(path, source)
	c.path = path
	if main.Unreadable("") || main.Broken("data_dir") || main.Broken("accounts.file") || main.Broken("accounts.users") {
		return "", nil, reader.Err()
	}
	c.ownAccounts = len(c.Accounts.Users)
	return c.DataDir, c.AccountsFile(), nil
}

// AccountInFile reports whether the account of that name comes from accounts.file.
func (c *Config) AccountInFile(username string) bool {
	named := func(a accounts.Account) bool { return a.Username == username }
	own, file := c.Accounts.Users[:c.ownAccounts], c.Accounts.Users[c.ownAccounts:]
	return !slices.ContainsFunc(own, named) && slices.ContainsFunc(file, named)
}

// admins compiles accounts.admins.
func (k *checker) admins() {
	const path = "accounts.admins"
	c := k.cfg
	compiled := k.refs.compile(path, c.Accounts.Admins, false)
	if compiled == nil {
		return
	}
	if c.Accounts.File == "" && !k.report.Broken(accounts.FileKey) {
		k.report.Fault(path, "there is no file whose accounts they could change; set accounts.file, or remove this key")
	}
	c.admins = &policy.Route{
		Name: path, Mechanisms: []policy.Mechanism{policy.Session, policy.OIDC}, Policy: compiled,
	}
}

// Admins returns what decides who looks after the accounts of the file, by a session. It is
// nil if no user does.
func (c *Config) Admins() *policy.Route { return c.admins }

// PolicyRoutes returns all rules that decide by a policy: of routes, of OAuth clients and of
// accounts.admins. A policy that several rules share comes once.
func (c *Config) PolicyRoutes() (all []*policy.Route) {
	known := map[*policy.Policy]bool{nil: true}
	add := func(r *policy.Route) {
		if r != nil && !known[r.Policy] {
			known[r.Policy] = true
			all = append(all, r)
		}
	}
	for _, route := range c.table.Routes() {
		add(route)
	}
	for i := range c.OAuth.Clients {
		add(c.clientPolicies[c.OAuth.Clients[i].ID])
	}
	add(c.admins)
	return all
}

// checkRealm checks the realm of the section basic.
func (b *basic) checkRealm(r *section.Report) {
	switch {
	case strings.TrimSpace(b.Realm) == "":
		r.Fault("basic.realm", "must not be empty")
	case strings.ContainsAny(b.Realm, `"\`) || strings.ContainsFunc(b.Realm, unicode.IsControl):
		// WWW-Authenticate has it as a quoted string.
		r.Fault("basic.realm", `%q contains a quote, a backslash or a control character`, b.Realm)
	}
}
