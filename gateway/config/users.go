package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"authgate/gateway/config/strictyaml"
	"authgate/gateway/password"
	"authgate/policy"
)

// located is a value with its place.
type located[T any] struct {
	doc   *strictyaml.Document
	path  string
	value T
}

// readSide reads the file name, which the key at path names.
func (l *loader) readSide(path, name string) (string, []byte, bool) {
	if name == "" {
		return "", nil, false
	}
	file := l.Resolve(name)
	if filepath.Clean(file) == filepath.Clean(l.Main) {
		l.missing(path, "is the configuration file itself")
		return "", nil, false
	}
	content, err := l.ReadSide(file, maxListSize)
	if err != nil {
		l.missing(path, "%v", err)
		return "", nil, false
	}
	return file, content, true
}

// locate returns the elements of a list with their places.
func locate[T any](doc *strictyaml.Document, path string, list []T) []located[*T] {
	all := make([]located[*T], len(list))
	for i := range list {
		all[i] = located[*T]{doc, fmt.Sprintf("%s[%d]", path, i), &list[i]}
	}
	return all
}

// values returns the values without their places.
func values[T any](all []located[*T]) []T {
	var list []T
	for _, one := range all {
		list = append(list, *one.value)
	}
	return list
}

// readUsers collects the users of the configuration and of the files that it
// names.
func (l *loader) readUsers() {
	l.basic = locate(l.main, "basic.users", l.cfg.Basic.Users)
	l.accounts = locate(l.main, "accounts.users", l.cfg.Accounts.Users)
	if name, content, ok := l.readSide("basic.htpasswd", l.cfg.Basic.Htpasswd); ok {
		doc, users := l.parseHtpasswd(name, content)
		l.basic = append(l.basic, locate(doc, doc.Root(), users)...)
	}
	if name, content, ok := l.readSide("accounts.file", l.cfg.Accounts.File); ok {
		var users []Account
		doc := l.Read(name, content, maxListSize, "accounts.file", &users)
		if doc.Unreadable(doc.Root()) {
			l.main.Break("accounts.file")
		}
		l.accounts = append(l.accounts, locate(doc, doc.Root(), users)...)
	}
}

// parseHtpasswd parses an Apache htpasswd file. Each line is NAME:HASH. Empty
// lines and lines that begin with # are skipped.
func (l *loader) parseHtpasswd(name string, content []byte) (*strictyaml.Document, []BasicUser) {
	doc, ok := l.ReadLines(name, content, maxListSize, "basic.htpasswd", maskHtpasswd)
	if !ok {
		l.main.Break(doc.Root())
		return doc, nil
	}
	var users []BasicUser
	for i, line := range doc.Lines() {
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
			continue
		}
		path := fmt.Sprintf("%s[%d]", doc.Root(), len(users))
		user, hash, found := strings.Cut(line, ":")
		doc.Locate(path, i+1, 1)
		doc.Locate(path+".username", i+1, 1)
		doc.Locate(path+".password_hash", i+1, utf8.RuneCountInString(user)+2)
		switch {
		case !found:
			doc.Missing(path, "expected USERNAME:HASH, found a line without a colon")
		case !strings.HasPrefix(hash, "$2"):
			doc.Missing(path+".password_hash", "expected a bcrypt hash, the only supported kind in this file; make it with `htpasswd -B`")
		}
		l.Redact(hash)
		users = append(users, BasicUser{Username: user, PasswordHash: Secret(hash)})
	}
	return doc, users
}

// maskHtpasswd hides the hash in a line of an htpasswd file.
func maskHtpasswd(line string) string {
	name, _, found := strings.Cut(line, ":")
	if !found {
		return line
	}
	return name + ":" + strictyaml.Masked
}

// checkUsers checks accounts and shared credentials.
func (l *loader) checkUsers() {
	names := map[string]string{}
	for _, u := range l.basic {
		l.checkUsername(u.doc, u.path, u.value.Username, names)
		u.value.Hash = parseUserHash(u.doc, u.path, u.value.PasswordHash)
	}
	clear(names)
	for _, u := range l.accounts {
		l.checkUsername(u.doc, u.path, u.value.Username, names)
		u.value.Hash = parseUserHash(u.doc, u.path, u.value.PasswordHash)
		l.checkProfile(u)
	}
	l.cfg.Basic.Users, l.cfg.Accounts.Users = values(l.basic), values(l.accounts)
}

// checkUsername checks a user name. Two names in one list must not differ only in
// case, because they would share one counter of failed logins.
func (l *loader) checkUsername(doc *strictyaml.Document, path, name string, names map[string]string) {
	path += ".username"
	if name == "" {
		doc.Fault(path, "a user name is needed and must not be empty")
		return
	}
	if err := policy.CheckName(name); err != nil {
		doc.Fault(path, "the user name %v", err)
		return
	}
	if strings.Contains(name, ":") {
		doc.Fault(path, "the user name contains a colon, which separates name and password in HTTP Basic")
		return
	}
	folded := strings.ToLower(name)
	if first, twice := names[folded]; twice {
		doc.Fault(path, "the user name %q is already used at %s; names must differ in more than case", name, first)
		return
	}
	names[folded] = doc.Place(path)
}

// parseUserHash parses the password hash of the user at path.
func parseUserHash(doc *strictyaml.Document, path string, hash Secret) password.Hash {
	path += ".password_hash"
	parsed, err := parseHash(hash.Reveal())
	if !doc.Given(path) {
		doc.Fault(path, "a hash of the password is needed; make one with `authgate hash-password`")
	} else if err != nil {
		doc.Fault(path, "%v", err)
	}
	return parsed
}

// checkProfile checks the name, the email address and the roles of an account,
// which upstreams receive. It removes empty roles.
func (l *loader) checkProfile(u located[*Account]) {
	account := u.value
	if strings.ContainsFunc(account.Name, unicode.IsControl) {
		u.doc.Fault(u.path+".name", "the name contains a control character")
	}
	local, domain, found := strings.Cut(account.Email, "@")
	if account.Email != "" && (!found || local == "" || domain == "" || strings.Contains(domain, "@") ||
		strings.ContainsFunc(account.Email, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) })) {
		u.doc.Fault(u.path+".email", "%q is not an address; expected one like alice@example.org", account.Email)
	}
	for i, role := range account.Roles {
		if err := policy.CheckRole(role); err != nil && role != "" {
			u.doc.Fault(fmt.Sprintf("%s.roles[%d]", u.path, i), "the role %q %v", role, err)
		}
	}
	account.Roles = slices.DeleteFunc(account.Roles, func(role string) bool { return role == "" })
}

// checkRealm checks basic.realm, which is a quoted string in WWW-Authenticate.
func (l *loader) checkRealm() {
	realm := l.cfg.Basic.Realm
	switch {
	case strings.TrimSpace(realm) == "":
		l.fault("basic.realm", "must not be empty")
	case strings.ContainsAny(realm, `"\`) || strings.ContainsFunc(realm, unicode.IsControl):
		l.fault("basic.realm", `%q contains a quote, a backslash or a control character`, realm)
	}
}
