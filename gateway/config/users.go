package config

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
)

// located is a value together with where it was read.
type located[T any] struct {
	doc   *document
	path  string
	value T
}

// fileError is what is wrong with reading the file that a key names, without
// the name of the system call.
func fileError(path string, err error) error {
	var cause *fs.PathError
	if errors.As(err, &cause) {
		return fmt.Errorf("cannot read %s: %w", path, cause.Err)
	}
	return err
}

// readSecret reads a file with one secret. One newline at its end is not part
// of the secret.
func (l *loader) readSecret(name string) (string, error) {
	if name == "" {
		return "", errors.New("expected the path of a file")
	}
	path := l.resolvePath(name)
	l.sideFiles = append(l.sideFiles, path)
	content, err := readFile(path, maxSecretSize)
	if err != nil {
		return "", fileError(path, err)
	}
	secret := strings.TrimSuffix(strings.TrimSuffix(string(content), "\n"), "\r")
	if secret == "" {
		return "", fmt.Errorf("the file %s is empty", path)
	}
	l.secrets = append(l.secrets, secret)
	return secret, nil
}

// readSide reads the file that the key at path names, if it names one.
func (l *loader) readSide(path, name string) (string, []byte, bool) {
	if name == "" {
		return "", nil, false
	}
	file := l.resolvePath(name)
	l.sideFiles = append(l.sideFiles, file)
	if filepath.Clean(file) == filepath.Clean(l.main.name) {
		l.missing(l.main, path, "names the configuration file itself")
		return "", nil, false
	}
	content, err := readFile(file, maxListSize)
	if err != nil {
		l.missing(l.main, path, "%v", fileError(file, err))
		return "", nil, false
	}
	return file, content, true
}

// locate notes where the elements of a list were read.
func locate[T any](doc *document, path string, list []T) []located[*T] {
	all := make([]located[*T], len(list))
	for i := range list {
		all[i] = located[*T]{doc, fmt.Sprintf("%s[%d]", path, i), &list[i]}
	}
	return all
}

// values are the elements of several lists in one.
func values[T any](all []located[*T]) []T {
	var list []T
	for _, one := range all {
		list = append(list, *one.value)
	}
	return list
}

// readUsers puts together the users of the configuration and those of the
// files that it names.
func (l *loader) readUsers() {
	l.basic = locate(l.main, "basic.users", l.cfg.Basic.Users)
	l.accounts = locate(l.main, "accounts.users", l.cfg.Accounts.Users)
	if name, content, ok := l.readSide("basic.htpasswd", l.cfg.Basic.Htpasswd); ok {
		doc, users := l.parseHtpasswd(name, content)
		l.basic = append(l.basic, locate(doc, doc.root, users)...)
	}
	if name, content, ok := l.readSide("accounts.file", l.cfg.Accounts.File); ok {
		var users []Account
		doc := l.decode(newText(name, content, maskYAML), content, maxListSize, "accounts.file", &users)
		if doc.broken[doc.root] {
			l.main.breaks("accounts.file")
		}
		l.accounts = append(l.accounts, locate(doc, doc.root, users)...)
	}
}

// parseHtpasswd reads the users of an Apache htpasswd file: a line for each,
// its name and hash around a colon. Empty lines and lines that begin with #
// are skipped.
func (l *loader) parseHtpasswd(name string, content []byte) (*document, []BasicUser) {
	doc := newDocument(newText(name, content, maskHtpasswd), "basic.htpasswd")
	if !l.wellFormed(doc.text, content, maxListSize) {
		l.main.breaks(doc.root)
		return doc, nil
	}
	var users []BasicUser
	for i, line := range doc.lines {
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
			continue
		}
		path := fmt.Sprintf("%s[%d]", doc.root, len(users))
		at := position{i + 1, 1}
		user, hash, found := strings.Cut(line, ":")
		doc.places[path] = span{at, at}
		doc.places[path+".username"] = span{at, at}
		at.column += len([]rune(user)) + 1
		doc.places[path+".password_hash"] = span{at, at}
		switch {
		case !found:
			l.missing(doc, path, "expected USERNAME:HASH in the line, found no colon")
		case !strings.HasPrefix(hash, "$2"):
			l.missing(doc, path+".password_hash", "expected a bcrypt hash, the only kind supported here; make it with `htpasswd -B`")
		}
		l.secrets = append(l.secrets, hash)
		users = append(users, BasicUser{Username: user, PasswordHash: Secret(hash)})
	}
	return doc, users
}

// checkUsers checks accounts and shared credentials.
func (l *loader) checkUsers() {
	names := map[string]string{}
	for _, u := range l.basic {
		l.checkUsername(u.doc, u.path, u.value.Username, names)
		l.checkHash(u.doc, u.path, u.value.PasswordHash)
	}
	clear(names)
	for _, u := range l.accounts {
		l.checkUsername(u.doc, u.path, u.value.Username, names)
		l.checkHash(u.doc, u.path, u.value.PasswordHash)
		l.checkProfile(u)
	}
	l.cfg.Basic.Users, l.cfg.Accounts.Users = values(l.basic), values(l.accounts)
}

// checkUsername checks a user name and that no other of its list is the same.
// Names that differ in case alone would share one count of failed logins.
func (l *loader) checkUsername(doc *document, path, name string, names map[string]string) {
	path += ".username"
	if name == "" {
		l.fault(doc, path, "a user name is needed and must not be empty")
		return
	}
	if problem := nameProblem(name); problem != "" {
		l.fault(doc, path, "the user name %s", problem)
		return
	}
	if strings.Contains(name, ":") {
		l.fault(doc, path, "the user name holds a colon, which separates it from the password in HTTP Basic")
		return
	}
	folded := strings.ToLower(name)
	if first, twice := names[folded]; twice {
		l.fault(doc, path, "the user name %q is taken at %s already; case does not tell names apart", name, first)
		return
	}
	names[folded] = fmt.Sprintf("%s:%d", doc.name, doc.at(path).line)
}

func (l *loader) checkHash(doc *document, path string, hash Secret) {
	path += ".password_hash"
	if err := checkPasswordHash(hash.Reveal()); !doc.given(path) {
		l.fault(doc, path, "a hash of the password is needed; make one with `authgate hash-password`")
	} else if err != nil {
		l.fault(doc, path, "%v", err)
	}
}

// checkProfile checks what an upstream is told about an account. A role that
// is empty is none.
func (l *loader) checkProfile(u located[*Account]) {
	account := u.value
	if strings.ContainsFunc(account.Name, unicode.IsControl) {
		l.fault(u.doc, u.path+".name", "the name holds a control character")
	}
	local, domain, found := strings.Cut(account.Email, "@")
	if account.Email != "" && (!found || local == "" || domain == "" || strings.Contains(domain, "@") ||
		strings.ContainsFunc(account.Email, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) })) {
		l.fault(u.doc, u.path+".email", "%q is not an address; expected one like alice@example.org", account.Email)
	}
	for i, role := range account.Roles {
		path := fmt.Sprintf("%s.roles[%d]", u.path, i)
		if strings.Contains(role, ",") {
			l.fault(u.doc, path, "the role %q holds a comma; write each role as an entry of its own", role)
		} else if problem := nameProblem(role); problem != "" && role != "" {
			l.fault(u.doc, path, "the role %q %s", role, problem)
		}
	}
	account.Roles = slices.DeleteFunc(account.Roles, func(role string) bool { return role == "" })
}

// nameProblem says what is wrong with a name that is compared exactly.
func nameProblem(name string) string {
	switch {
	case strings.TrimSpace(name) == "":
		return "is empty"
	case strings.TrimSpace(name) != name:
		return "has a space before or after it"
	case strings.ContainsFunc(name, unicode.IsControl):
		return "holds a control character"
	}
	return ""
}
