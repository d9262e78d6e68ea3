package accounts

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"authgate/gateway/store/rewrite"
	"authgate/gateway/strictyaml"
	"authgate/policy"
)

// Errors of File.Edit.
var (
	// ErrNotInFile: the file has no such account.
	ErrNotInFile = errors.New("accounts.file does not have the account")
	// ErrExists: there is an account of that name, or of one that differs only in case or
	// Unicode normalization.
	ErrExists = errors.New("the account exists already")
	// ErrOtherHash: the file has another hash for the account, or a namesake of it.
	ErrOtherHash = errors.New("accounts.file has another password hash for the account, or a later account of its name")
	// ErrInvalid: the new content would not be valid.
	ErrInvalid = errors.New("the edited file would not be valid")
	// ErrElsewhere: a value is not written in place, where it can be replaced.
	ErrElsewhere = errors.New("what is to change comes from a variable, an alias or a file of its own, or " +
		"belongs to several accounts; write it in place")
	// ErrNotWritable: the file cannot be replaced.
	ErrNotWritable = rewrite.ErrNotWritable
	// ErrOvertaken: again and again, another program saves the file at the same time.
	ErrOvertaken = rewrite.ErrOvertaken
)

// idLength is the number of characters of an ID.
const idLength = 12

// File is the file of accounts of a configuration.
type File struct {
	Path   string                    // empty: there is none
	Reader func() *strictyaml.Reader // makes a reader of the files of the configuration
	// Main are the accounts of the main file, whose names the file cannot have.
	Main []Account
	// Colons tells that names may hold a colon; see Check.
	Colons bool
}

// Edit is a change of one account.
type Edit struct {
	Username string
	// Add makes a new account with an ID of its own, after the others. Remove removes the
	// account after Change.
	Add, Remove bool
	// Change changes the account, which is as the file has it; a new one has its name and ID.
	// It must not change the elements of lists. Nil changes nothing.
	Change func(*Account) error
	// Check looks at all accounts as the file has them, before Change, while no other edit
	// can be made. It must not change them. Nil checks nothing.
	Check func(users []Account) error
	// Ready is called once when only the disk, or an editor, can still prevent the change.
	// Nil does nothing.
	Ready func() error
	// Apply is called when the file has changed. If it fails, the file gets its old
	// content again. Nil does nothing.
	Apply func() error
}

// Edit changes, adds or removes one account in the file. Every other byte of the file stays,
// comments too. Other edits wait until Apply has returned; ctx bounds how long this one
// waits. If an editor has saved the file meanwhile, the edit begins again with its content.
// The errors are those above, ErrNotWritable, ErrOvertaken, Diagnostics if the content is not
// valid or would not be, those of e, and those of files.
func (f *File) Edit(ctx context.Context, e Edit) error {
	edit := func(content []byte) ([]byte, error) { return f.edited(content, e) }
	return rewrite.File(ctx, f.Path, edit, e.Ready, e.Apply)
}

// Writable reports whether Edit can replace the file. Its path may be a link.
func (f *File) Writable() bool { return rewrite.Possible(f.Path) }

// Users returns the accounts of the file, and those of the main file after them. The error is
// Diagnostics, or that of the file.
func (f *File) Users() ([]Account, error) {
	if f.Path == "" {
		return f.Main, nil
	}
	content, _, err := strictyaml.ReadFile(f.Path, maxLinesSize)
	if err != nil {
		return nil, err
	}
	_, users, err := f.parse(content, false)
	return append(users, f.Main...), err
}

// SetPasswordHash is a change of an Edit: another hash in the place of that of an account,
// which is still the one in the file.
func SetPasswordHash(of *Account, changed string) func(*Account) error {
	return func(a *Account) error {
		if a.PasswordHash.Reveal() != of.Hash.Encoded() || a.ID != of.ID {
			return ErrOtherHash
		}
		a.PasswordHash = strictyaml.Secret(changed)
		return nil
	}
}

// edited returns the content of the file after an edit.
func (f *File) edited(content []byte, e Edit) ([]byte, error) {
	written, users, err := f.parse(content, e.Add)
	if err != nil {
		return nil, err
	}
	if e.Check != nil {
		if err := e.Check(users); err != nil {
			return nil, err
		}
	}
	at, err := f.findAccount(written, e)
	if err != nil {
		return nil, err
	}
	want := slices.Clone(written)
	if e.Add {
		at, want = len(written), append(want, Account{Username: e.Username, ID: newID()})
	}
	if e.Change != nil {
		if err := e.Change(&want[at]); err != nil {
			return nil, err
		}
	}
	next, ok := f.written(content, written, want[at], at, e.Remove)
	if !ok {
		return nil, ErrElsewhere
	}
	if e.Remove {
		want = slices.Delete(want, at, at+1)
	}
	if err := f.verify(next, want); err != nil {
		return nil, err
	}
	return next, nil
}

// newID returns an ID that no account has had before.
func newID() string { return rand.Text()[:idLength] }

// findAccount returns the index of the account of an edit among the accounts of the file.
func (f *File) findAccount(users []Account, e Edit) (int, error) {
	if !e.Add {
		name := policy.NormalName(e.Username)
		at := slices.IndexFunc(users, func(a Account) bool { return policy.NormalName(a.Username) == name })
		if at < 0 {
			return 0, ErrNotInFile
		}
		return at, nil
	}
	folded := policy.FoldName(e.Username)
	for _, list := range [][]Account{users, f.Main} {
		for i := range list {
			if policy.FoldName(list[i].Username) == folded {
				return 0, fmt.Errorf("%w as %q", ErrExists, list[i].Username)
			}
		}
	}
	return 0, nil
}

// parse parses and checks the content of the file. It returns the accounts as they are
// written, which an edit compares, and as Check makes them. The error is Diagnostics. An empty
// file has no accounts if empty is set.
func (f *File) parse(content []byte, empty bool) (written, users []Account, err error) {
	if empty && f.layOut(content).kind == emptyFile {
		return nil, nil, nil
	}
	reader := f.Reader()
	doc, written := parse(reader, f.Path, content)
	users = slices.Clone(written)
	if reader.Err() == nil {
		Check(users, Places(doc, doc.Root(), len(users)), f.Colons)
	}
	return written, users, reader.Err()
}

// verify checks that a content has the accounts that are wanted. An anchor, or a merge key,
// can make one place belong to several accounts.
func (f *File) verify(content []byte, want []Account) error {
	written, _, err := f.parse(content, false)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if !slices.EqualFunc(written, want, func(a, b Account) bool { return sameKeys(&a, &b) }) {
		return ErrElsewhere
	}
	return nil
}

// sameKeys reports whether two accounts are written alike.
func sameKeys(a, b *Account) bool {
	differs := func(key string) bool { return !sameValue(fieldOf(a, key), fieldOf(b, key)) }
	return !slices.ContainsFunc(accountKeys, differs)
}

// sameValue reports whether two fields have the same value, or are written alike: at any depth,
// a list without elements is the same as none.
func sameValue(a, b any) bool {
	x, y := reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem()
	switch {
	case reflect.DeepEqual(x.Interface(), y.Interface()):
		return true
	case isEmpty(a) || isEmpty(b):
		return isEmpty(a) && isEmpty(b)
	}
	return style{}.value(x) == style{}.value(y)
}

func (f *File) layOut(content []byte) *layout {
	if isLines(f.Path) {
		return layOutLines(content)
	}
	return layOutYAML(content)
}

// written returns the content with one of its accounts changed, added or removed. It returns
// false if it finds no place for that.
func (f *File) written(content []byte, users []Account, account Account, at int, remove bool) ([]byte, bool) {
	l := f.layOut(content)
	if len(l.items) != len(users) {
		return nil, false
	}
	switch {
	case remove:
		return l.remove(at), true
	case at == len(users):
		return l.add(&account), true
	}
	for _, key := range writtenOrder() {
		was, is := fieldOf(&users[at], key), fieldOf(&account, key)
		if sameValue(was, is) {
			continue
		}
		changed, ok := l.set(at, key, was, is)
		if !ok {
			return nil, false
		}
		l = f.layOut(changed)
		if len(l.items) != len(users) {
			return nil, false
		}
	}
	return l.source, true
}

// splice returns the source with another text from start to end.
func (l *layout) splice(start, end int, text string) []byte {
	return slices.Concat(l.source[:start], []byte(text), l.source[end:])
}

// newline returns the line break of the file.
func (l *layout) newline() string {
	if i := bytes.IndexByte(l.source, '\n'); i > 0 && l.source[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}
