package accounts

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"authgate/gateway/people/factors"
	"authgate/gateway/people/password"
	"authgate/gateway/strictyaml"
)

// Keys of the configuration that name the files of users.
const (
	FileKey     = "accounts.file"
	HtpasswdKey = "basic.htpasswd"
)

// Largest sizes of files of users, in bytes.
const (
	maxListSize  = 8 << 20
	maxLinesSize = 64 << 20 // in JSON lines
)

// BasicUser is one shared credential.
type BasicUser struct {
	Username     string            `yaml:"username"`
	PasswordHash strictyaml.Secret `yaml:"password_hash"` // argon2id PHC string or bcrypt
	Hash         password.Hash     `yaml:"-"`             // PasswordHash, parsed
}

// Place is where a user is written: at a path in a file.
type Place struct {
	doc  *strictyaml.Document
	path string
}

// Places returns the places of the n users of a list at path.
func Places(doc *strictyaml.Document, path string, n int) []Place {
	all := make([]Place, n)
	for i := range all {
		all[i] = Place{doc, fmt.Sprintf("%s[%d]", path, i)}
	}
	return all
}

// inFile reports whether the user is in the file of accounts.
func (at Place) inFile() bool { return at.doc.Root() == FileKey }

// FaultHash reports that the password hash of the user is wrong.
func (at Place) FaultHash(format string, args ...any) {
	at.doc.Fault(at.path+".password_hash", format, args...)
}

// Lists reads the files of users that keys of the main file name.
type Lists struct {
	Reader *strictyaml.Reader
	Main   *strictyaml.Document
}

// Accounts reads the file of accounts, if there is one.
func (l Lists) Accounts(file string) ([]Account, []Place) {
	limit := maxListSize
	if isLines(file) {
		limit = maxLinesSize
	}
	content, ok := l.readFile(FileKey, file, limit)
	if !ok {
		return nil, nil
	}
	doc, users := parse(l.Reader, file, content)
	if doc.Unreadable(doc.Root()) {
		l.Main.Break(FileKey)
	}
	return users, Places(doc, doc.Root(), len(users))
}

// Htpasswd reads the htpasswd file, if there is one.
func (l Lists) Htpasswd(file string) ([]BasicUser, []Place) {
	content, ok := l.readFile(HtpasswdKey, file, maxListSize)
	if !ok {
		return nil, nil
	}
	doc, ok := l.Reader.ReadLines(file, content, maxListSize, HtpasswdKey, maskHtpasswd)
	if !ok {
		l.Main.Break(doc.Root())
		return nil, nil
	}
	users := parseHtpasswd(doc)
	return users, Places(doc, doc.Root(), len(users))
}

// readFile reads a file of at most limit bytes, which a key names. An empty path is no file.
func (l Lists) readFile(key, path string, limit int) (content []byte, ok bool) {
	if path == "" {
		return nil, false
	}
	if filepath.Clean(path) == filepath.Clean(l.Reader.Main) {
		l.Main.Missing(key, "is the configuration file itself")
		return nil, false
	}
	content, err := l.Reader.ReadSide(key, path, limit)
	if err == nil {
		return content, true
	}
	if _, large := errors.AsType[*strictyaml.SizeError](err); large && key == FileKey && !isLines(path) {
		err = fmt.Errorf("%w; write it in JSON lines, with the extension .jsonl, which may have %d MiB",
			err, maxLinesSize>>20)
	}
	l.Main.Missing(key, "%v", err)
	return nil, false
}

// parse parses the content of a file of accounts.
func parse(reader *strictyaml.Reader, file string, content []byte) (*strictyaml.Document, []Account) {
	if isLines(file) {
		return parseLines(reader, file, content)
	}
	var list []fileAccount
	doc := reader.Read(file, content, maxListSize, FileKey, &list)
	users := make([]Account, len(list))
	for i := range list {
		users[i] = list[i].account()
	}
	Settle(users)
	return doc, users
}

// fileAccount is an Account with the keys of the file of accounts, which has more than the
// main file.
type fileAccount struct {
	Username     string            `yaml:"username"`
	PasswordHash strictyaml.Secret `yaml:"password_hash"`
	Name         string            `yaml:"name"`
	Email        string            `yaml:"email"`
	Until        time.Time         `yaml:"until"`
	Roles        []WrittenRole     `yaml:"roles"`
	Disabled     bool              `yaml:"disabled"`
	ID           string            `yaml:"id"`
	Passkeys     []factors.Passkey `yaml:"passkeys"`
	TOTP         *factors.TOTP     `yaml:"totp"`
	Recovery     []string          `yaml:"recovery_codes"`
}

func (a *fileAccount) account() Account {
	return Account{
		Username: a.Username, PasswordHash: a.PasswordHash,
		Name: a.Name, Email: a.Email, Until: a.Until, WrittenRoles: a.Roles, Disabled: a.Disabled, ID: a.ID,
		Factors: factors.Set{Passkeys: a.Passkeys, TOTP: a.TOTP, Recovery: a.Recovery},
	}
}

// parseHtpasswd parses an Apache htpasswd file. Each line is NAME:HASH.
func parseHtpasswd(doc *strictyaml.Document) []BasicUser {
	lines := newUserLines(doc, htpasswdColumn)
	users := make([]BasicUser, len(lines.numbers))
	for i := range users {
		user, hash, found := strings.Cut(lines.line(i), ":")
		switch path := lines.path(i); {
		case !found:
			doc.Missing(path, "expected USERNAME:HASH, found a line without a colon")
		case !strings.HasPrefix(hash, "$2"):
			doc.Missing(path+".password_hash", "expected a bcrypt hash, the only supported kind in this file; "+
				"make it with `htpasswd -B -C 10`")
		}
		users[i] = BasicUser{Username: user, PasswordHash: strictyaml.Secret(hash)}
	}
	return users
}

// htpasswdColumn returns where a part of a line NAME:HASH begins.
func htpasswdColumn(line, key string) (int, bool) {
	if key == "password_hash" {
		return strings.IndexByte(line, ':') + 1, true
	}
	return 0, key == "username"
}

// maskHtpasswd hides the hash in a line of an htpasswd file.
func maskHtpasswd(line string) string {
	name, _, found := strings.Cut(line, ":")
	if !found {
		return line
	}
	return name + ":" + strictyaml.Masked
}
