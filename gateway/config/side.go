package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"authgate/gateway/accounts"
	"authgate/gateway/config/strictyaml"
)

// Keys of the files of users.
const (
	accountsKey = "accounts.file"
	htpasswdKey = "basic.htpasswd"
)

// sideReader reads the files that keys of the main file name.
type sideReader struct {
	reader *strictyaml.Reader
	main   *report
	now    time.Time // for which certificates must be valid
}

// read reads a file of at most limit bytes, which the key at path names.
func (s sideReader) read(path, file string, limit int) (content []byte, ok bool) {
	content, err := s.reader.ReadSide(path, file, limit)
	if err == nil {
		return content, true
	}
	if _, large := errors.AsType[*strictyaml.SizeError](err); large && path == accountsKey && !isLines(file) {
		err = fmt.Errorf("%w; write it in JSON lines, with the extension .jsonl, which may have %d MiB",
			err, maxLinesSize>>20)
	}
	s.main.Missing(path, "%v", err)
	return nil, false
}

// list reads a file of users of at most limit bytes, which the key at path names.
func (s sideReader) list(path, file string, limit int) (content []byte, ok bool) {
	if file == "" {
		return nil, false
	}
	if filepath.Clean(file) == filepath.Clean(s.reader.Main) {
		s.main.Missing(path, "is the configuration file itself")
		return nil, false
	}
	return s.read(path, file, limit)
}

// place is where a user is written.
type place struct {
	doc  *strictyaml.Document
	path string
}

// userPlaces has the place of each element of Basic.Users and Accounts.Users.
type userPlaces struct{ basic, accounts []place }

// places returns the places of the n elements of a list at path.
func places(doc *strictyaml.Document, path string, n int) []place {
	all := make([]place, n)
	for i := range all {
		all[i] = place{doc, fmt.Sprintf("%s[%d]", path, i)}
	}
	return all
}

// users adds the users of the htpasswd file and the accounts file to those of
// the main file.
func (s sideReader) users(c *Config) userPlaces {
	written := userPlaces{
		basic:    places(s.main.Document, "basic.users", len(c.Basic.Users)),
		accounts: places(s.main.Document, "accounts.users", len(c.Accounts.Users)),
	}
	if content, ok := s.list(htpasswdKey, c.Basic.Htpasswd, maxListSize); ok {
		doc, users := s.parseHtpasswd(c.Basic.Htpasswd, content)
		c.Basic.Users = append(c.Basic.Users, users...)
		written.basic = append(written.basic, places(doc, doc.Root(), len(users))...)
	}
	limit := maxListSize
	if isLines(c.Accounts.File) {
		limit = maxLinesSize
	}
	if content, ok := s.list(accountsKey, c.Accounts.File, limit); ok {
		doc, users := s.accounts(c.Accounts.File, content)
		if doc.Unreadable(doc.Root()) {
			s.main.Break(accountsKey)
		}
		if len(c.Accounts.Users) == 0 {
			c.Accounts.Users = users // not a copy, which may be large
		} else {
			c.Accounts.Users = append(c.Accounts.Users, users...)
		}
		written.accounts = append(written.accounts, places(doc, doc.Root(), len(users))...)
	}
	return written
}

// accounts parses an accounts file.
func (s sideReader) accounts(file string, content []byte) (*strictyaml.Document, []accounts.Account) {
	if isLines(file) {
		return s.parseAccountLines(file, content)
	}
	var users []accounts.Account
	doc := s.reader.Read(file, content, maxListSize, accountsKey, &users)
	return doc, users
}

// parseHtpasswd parses an Apache htpasswd file. Each line is NAME:HASH.
func (s sideReader) parseHtpasswd(name string, content []byte) (*strictyaml.Document, []BasicUser) {
	doc, ok := s.reader.ReadLines(name, content, maxListSize, htpasswdKey, maskHtpasswd)
	if !ok {
		s.main.Break(doc.Root())
		return doc, nil
	}
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
		users[i] = BasicUser{Username: user, PasswordHash: Secret(hash)}
	}
	return doc, users
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
