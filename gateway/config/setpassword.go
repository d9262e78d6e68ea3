package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"authgate/gateway/accounts"
	"authgate/gateway/config/strictyaml"
)

// Errors of SetPasswordHash.
var (
	// ErrNotInFile: the accounts file has no such account.
	ErrNotInFile = errors.New("config: accounts.file does not have the account")
	// ErrOtherHash: the accounts file has another hash for the account.
	ErrOtherHash = errors.New("config: accounts.file has another password hash for the account")
	// ErrHashElsewhere: the hash is not written in place, where it can be replaced.
	ErrHashElsewhere = errors.New("config: the password hash comes from a variable, an alias or a file of its own, or " +
		"is written with escapes; write it in place")
)

// AccountInFile reports whether the account of that name comes from accounts.file.
func (c *Config) AccountInFile(username string) bool {
	named := func(a accounts.Account) bool { return a.Username == username }
	own, file := c.Accounts.Users[:c.ownAccounts], c.Accounts.Users[c.ownAccounts:]
	return !slices.ContainsFunc(own, named) && slices.ContainsFunc(file, named)
}

// SetPasswordHash returns the content of accounts.file with the hash changed in place
// of old for an account. Every other byte stays, comments too. The errors are those
// above, and Diagnostics if content is no valid accounts file.
func (c *Config) SetPasswordHash(content []byte, username, old, changed string) ([]byte, error) {
	if len(content) == 0 || content[len(content)-1] != '\n' {
		return nil, errors.New("config: accounts.file does not end with a line break, so it may be cut off")
	}
	if isLines(c.Accounts.File) {
		return setHashInLine(content, username, old, changed)
	}
	before, doc, err := c.readAccounts(content)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(before, func(a accounts.Account) bool { return a.Username == username })
	switch {
	case at < 0:
		return nil, ErrNotInFile
	case before[at].PasswordHash.Reveal() != old:
		return nil, ErrOtherHash
	}
	line, column, ok := doc.Position(fmt.Sprintf("%s[%d].password_hash", doc.Root(), at))
	if !ok {
		return nil, ErrHashElsewhere
	}
	next, ok := replaceScalar(content, line, column, old, changed)
	if !ok {
		return nil, ErrHashElsewhere
	}
	// An anchor, or a merge key, can make one place belong to several accounts.
	after, _, err := c.readAccounts(next)
	before[at].PasswordHash = Secret(changed)
	if err != nil || !reflect.DeepEqual(after, before) {
		return nil, ErrHashElsewhere
	}
	return next, nil
}

// readAccounts reads the content of an accounts file in YAML.
func (c *Config) readAccounts(content []byte) ([]accounts.Account, *strictyaml.Document, error) {
	reader := newReader(c.path, c.lookup)
	var users []accounts.Account
	doc := reader.Read(c.Accounts.File, content, maxListSize, accountsKey, &users)
	return users, doc, reader.Err()
}

// replaceScalar replaces a YAML string that begins at a place of the source. Line and
// column count from 1. It returns false if the string is not written there as it is,
// with quotes or without.
func replaceScalar(source []byte, line, column int, old, changed string) ([]byte, bool) {
	start := 0
	for range line - 1 {
		start += bytes.IndexByte(source[start:], '\n') + 1
	}
	for range column - 1 {
		_, width := utf8.DecodeRune(source[start:])
		start += width
	}
	for _, quote := range []string{`"`, `'`, ""} {
		if written := quote + old + quote; bytes.HasPrefix(source[start:], []byte(written)) {
			return slices.Concat(source[:start], []byte(`"`+changed+`"`), source[start+len(written):]), true
		}
	}
	return nil, false
}

// setHashInLine is SetPasswordHash for JSON lines.
func setHashInLine(content []byte, username, old, changed string) ([]byte, error) {
	start := 0
	for line := range strings.Lines(string(content)) {
		next, found, err := setHash(line, username, old, changed)
		if err != nil {
			return nil, err
		}
		if found {
			return slices.Concat(content[:start], []byte(next), content[start+len(line):]), nil
		}
		start += len(line)
	}
	return nil, ErrNotInFile
}

// setHash replaces the hash in the line of an account, if it is that of username.
func setHash(line, username, old, changed string) (next string, found bool, err error) {
	if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
		return "", false, nil
	}
	var account accounts.Account
	err = eachMember(line, func(key string, value json.RawMessage) {
		if field := fieldOf(&account, key); field == &account.Username || field == (*string)(&account.PasswordHash) {
			_ = json.Unmarshal(value, field) // what is no string is no account of that name
		}
	})
	switch {
	case err != nil:
		return "", false, fmt.Errorf("config: accounts.file: %w", err)
	case account.Username != username:
		return "", false, nil
	case account.PasswordHash.Reveal() != old:
		return "", true, ErrOtherHash
	}
	at, ok := jsonColumn(line, "password_hash")
	if !ok {
		return "", true, ErrHashElsewhere
	}
	value := json.NewDecoder(strings.NewReader(line[at:]))
	var raw json.RawMessage
	if err := value.Decode(&raw); err != nil {
		return "", true, ErrHashElsewhere
	}
	return line[:at] + `"` + changed + `"` + line[at+int(value.InputOffset()):], true, nil
}
