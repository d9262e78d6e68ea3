package accounts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"unicode/utf8"

	"authgate/gateway/config/strictyaml"
)

// Errors of File.Edit.
var (
	// ErrNotInFile: the file has no such account.
	ErrNotInFile = errors.New("accounts.file does not have the account")
	// ErrOtherHash: the file has another hash for the account.
	ErrOtherHash = errors.New("accounts.file has another password hash for the account")
	// ErrElsewhere: a value is not written in place, where it can be replaced.
	ErrElsewhere = errors.New("what is to change comes from a variable, an alias or a file of its own, or " +
		"is written with escapes; write it in place")
)

// File is the file of accounts of a configuration.
type File struct {
	Path   string                    // empty: there is none
	Reader func() *strictyaml.Reader // makes a reader of the files of the configuration
}

// Edit is a change of one account.
type Edit struct {
	Username string
	// Change changes the account, which is as the file has it. It can change texts that
	// the file has already.
	Change func(*Account) error
	// Ready is called when only the disk can still prevent the change.
	Ready func() error
	// Apply is called when the file has changed. If it fails, the file gets its old
	// content again.
	Apply func() error
}

// Edit changes one account in the file. Every other byte of the file stays, comments too.
// Other edits wait until Apply has returned; ctx bounds how long this one waits. The errors
// are those above, ErrNotWritable, Diagnostics if the content is not valid, those of e, and
// those of files.
func (f *File) Edit(ctx context.Context, e Edit) error {
	edit := func(content []byte) ([]byte, error) {
		next, err := f.edited(content, e.Username, e.Change)
		if err != nil {
			return nil, err
		}
		return next, e.Ready()
	}
	return changeFile(ctx, f.Path, edit, e.Apply)
}

// SetPasswordHash is a change of an Edit: another hash in the place of old.
func SetPasswordHash(old, changed string) func(*Account) error {
	return func(a *Account) error {
		if a.PasswordHash.Reveal() != old {
			return ErrOtherHash
		}
		a.PasswordHash = strictyaml.Secret(changed)
		return nil
	}
}

// edited returns the content of the file with one account changed.
func (f *File) edited(content []byte, username string, change func(*Account) error) ([]byte, error) {
	doc, users, err := f.parse(content)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(users, func(a Account) bool { return a.Username == username })
	if at < 0 {
		return nil, ErrNotInFile
	}
	want := slices.Clone(users)
	want[at].Roles = slices.Clone(want[at].Roles)
	if err := change(&want[at]); err != nil {
		return nil, err
	}
	for _, key := range accountKeys {
		was, is := fieldOf(&users[at], key), fieldOf(&want[at], key)
		if reflect.DeepEqual(was, is) {
			continue
		}
		next, ok := f.replaceText(doc, content, fmt.Sprintf("%s[%d].%s", doc.Root(), at, key), was, is)
		if !ok {
			return nil, ErrElsewhere
		}
		content = next
		if doc, users, err = f.parse(content); err != nil || len(users) != len(want) {
			return nil, ErrElsewhere
		}
	}
	// An anchor, or a merge key, can make one place belong to several accounts.
	if !reflect.DeepEqual(users, want) {
		return nil, ErrElsewhere
	}
	return content, nil
}

// parse parses the content of the file. The error is Diagnostics.
func (f *File) parse(content []byte) (*strictyaml.Document, []Account, error) {
	reader := f.Reader()
	doc, users := parse(reader, f.Path, content)
	return doc, users, reader.Err()
}

// replaceText replaces the text at a path of the document. It returns false if that is no
// text, or not written in the document as it is.
func (f *File) replaceText(doc *strictyaml.Document, source []byte, path string, was, is any) ([]byte, bool) {
	old, isText := was.(*string)
	line, column, written := doc.Position(path)
	if !isText || !written {
		return nil, false
	}
	start := offset(source, line, column)
	length, found := lengthInYAML(source[start:], *old)
	if isLines(f.Path) {
		length, found = lengthInJSON(source[start:])
	}
	changed, err := json.Marshal(is) // YAML reads it too
	if !found || err != nil {
		return nil, false
	}
	return slices.Concat(source[:start], changed, source[start+length:]), true
}

// offset returns the offset of a place in a source. Line and column count from 1.
func offset(source []byte, line, column int) int {
	at := 0
	for range line - 1 {
		at += bytes.IndexByte(source[at:], '\n') + 1
	}
	for range column - 1 {
		_, width := utf8.DecodeRune(source[at:])
		at += width
	}
	return at
}

// lengthInYAML returns the length of a text at the beginning of a YAML source. It returns
// false if the text is not written there as it is, with quotes or without.
func lengthInYAML(source []byte, text string) (int, bool) {
	for _, quote := range []string{`"`, `'`, ""} {
		if written := quote + text + quote; bytes.HasPrefix(source, []byte(written)) {
			return len(written), true
		}
	}
	return 0, false
}

// lengthInJSON returns the length of the value at the beginning of a JSON source.
func lengthInJSON(source []byte) (int, bool) {
	d := json.NewDecoder(bytes.NewReader(source))
	var value json.RawMessage
	err := d.Decode(&value)
	return int(d.InputOffset()), err == nil
}
