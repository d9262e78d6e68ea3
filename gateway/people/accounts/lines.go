package accounts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"authgate/gateway/people/factors"
	"authgate/gateway/strictyaml"
	"authgate/gateway/wire/strictjson"
)

// isLines reports whether an accounts file has one account in each line.
func isLines(file string) bool { return filepath.Ext(file) == ".jsonl" }

// userLines are the lines of a file that has one user in each line. Empty lines
// and lines that begin with # are skipped. The place of a value is found when it
// is needed, because such files are large.
type userLines struct {
	doc     *strictyaml.Document
	numbers []int // of the lines with users, from 0
	// column returns where the value of a key begins in a line, in bytes from 0.
	column func(line, key string) (int, bool)
}

// newUserLines finds the lines of users in a document.
func newUserLines(doc *strictyaml.Document, column func(line, key string) (int, bool)) *userLines {
	l := &userLines{doc: doc, column: column}
	for i, line := range doc.Lines() {
		if strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "#") {
			l.numbers = append(l.numbers, i)
		}
	}
	doc.LocateWith(l.locate)
	return l
}

// path returns the path of a user.
func (l *userLines) path(user int) string { return l.doc.Root() + "[" + strconv.Itoa(user) + "]" }

// line returns the line of a user.
func (l *userLines) line(user int) string { return l.doc.Lines()[l.numbers[user]] }

// locate returns the place of a path like ROOT[7] or ROOT[7].username. Line and
// column count from 1.
func (l *userLines) locate(path string) (line, column int, ok bool) {
	index, found := strings.CutPrefix(path, l.doc.Root()+"[")
	if !found {
		return 0, 0, false
	}
	index, key, _ := strings.Cut(index, "]")
	user, err := strconv.Atoi(index)
	if err != nil || user < 0 || user >= len(l.numbers) {
		return 0, 0, false
	}
	if key == "" {
		return l.numbers[user] + 1, 1, true
	}
	at, ok := l.column(l.line(user), strings.TrimPrefix(key, "."))
	if !ok {
		return 0, 0, false
	}
	return l.numbers[user] + 1, utf8.RuneCountInString(l.line(user)[:at]) + 1, true
}

// parseLines parses a file of accounts in which each line is a JSON object with the keys
// of an account.
func parseLines(reader *strictyaml.Reader, name string, content []byte) (*strictyaml.Document, []Account) {
	doc, ok := reader.ReadLines(name, content, maxLinesSize, FileKey, reader.MaskJSON)
	if ok && len(content) == 0 {
		// Without accounts, all logins would end.
		doc.Fault(FileKey, "the file is empty; if there are no accounts, write a line that begins with #")
		ok = false
	}
	if !ok {
		doc.Break(FileKey)
		return doc, nil
	}
	lines := newUserLines(doc, jsonColumn)
	users := make([]Account, len(lines.numbers))
	for i := range users {
		lines.account(i, &users[i])
	}
	return doc, users
}

// account parses the line of a user.
func (l *userLines) account(user int, account *Account) {
	path := l.path(user)
	given := make(map[string]bool, 8)
	err := eachMember(l.line(user), func(key string, value json.RawMessage) {
		at := strictyaml.Join(path, key)
		if given[key] {
			l.doc.Missing(at, "duplicate key; it is given in this line already")
			return
		}
		given[key] = true
		field := fieldOf(account, key)
		if field == nil {
			meant, _ := strictyaml.Nearest(key, accountKeys)
			l.doc.Missing(at, "unknown key; %s", strictyaml.Hint(key, "keys here", accountKeys))
			l.doc.Break(strictyaml.Join(path, meant))
			return
		}
		if found := describeJSON(value); found != describeField(field) {
			l.doc.Missing(at, "expected %s, found %s", describeField(field), found)
		} else if err := setField(field, value); err != nil {
			l.doc.Missing(at, "%v", err)
		} else if roles, ok := field.(*[]Role); ok {
			account.setRoles(*roles)
		}
	})
	if err != nil {
		l.doc.Missing(path,
			`%v; expected an account as a JSON object in one line, like {"username": "alice", "password_hash": "...", `+
				`"roles": ["staff"]}`, err)
	}
}

// accountKeys are the keys of an account in JSON, sorted.
var accountKeys = []string{
	"disabled", "email", "id", "name", "passkeys", "password_hash", "recovery_codes", "roles", "totp", "until",
	"username",
}

// fieldOf returns the field of an account for a key, nil if there is none. It is a pointer to a
// string, a list of strings, a bool, a time or factors. The roles are a copy.
func fieldOf(a *Account, key string) any {
	switch key {
	case "username":
		return &a.Username
	case "password_hash":
		return (*string)(&a.PasswordHash)
	case "name":
		return &a.Name
	case "email":
		return &a.Email
	case "roles":
		roles := a.rolesWritten()
		return &roles
	case "until":
		return &a.Until
	case "disabled":
		return &a.Disabled
	case "id":
		return &a.ID
	case "passkeys":
		return &a.Factors.Passkeys
	case "totp":
		return &a.Factors.TOTP
	case "recovery_codes":
		return &a.Factors.Recovery
	}
	return nil
}

// setField decodes a value, of the kind that the field takes, into the field.
func setField(field any, value json.RawMessage) error {
	if text, ok := field.(*string); ok && bytes.IndexByte(value, '\\') < 0 {
		*text = string(value[1 : len(value)-1]) // as json.Unmarshal, in less time
		return nil
	}
	switch field := field.(type) {
	case *[]factors.Passkey, **factors.TOTP:
		return decodeFactors(value, field)
	case *time.Time:
		var text string
		err := json.Unmarshal(value, &text)
		if err == nil {
			*field, err = ParseTime(text)
		}
		return err
	}
	list, ok := field.(*[]string)
	if !ok {
		return json.Unmarshal(value, field)
	}
	var elements []*string // a nil is a null
	if err := json.Unmarshal(value, &elements); err != nil || slices.Contains(elements, nil) {
		return errors.New("expected a list of strings")
	}
	for _, element := range elements {
		*list = append(*list, *element)
	}
	return nil
}

// UnmarshalJSON decodes a name, or an object of a name and an end.
func (r *Role) UnmarshalJSON(value []byte) error {
	if value[0] == '"' {
		return json.Unmarshal(value, &r.Name)
	}
	if err := strictjson.Unique(value); err != nil {
		return fmt.Errorf("not valid JSON: %w", err)
	}
	var members map[string]string
	err := json.Unmarshal(value, &members)
	until, ends := members["until"]
	if r.Name = members["name"]; err != nil || r.Name == "" || len(members) > 2 || len(members) == 2 && !ends {
		return errors.New(`expected a list of strings, or of objects like ` +
			`{"name": "admin", "until": "2026-12-04T18:00:00Z"}`)
	}
	if ends {
		r.Until, err = ParseTime(until)
	}
	return err
}

// decodeFactors decodes a value of factors.
func decodeFactors(value json.RawMessage, into any) error {
	if err := strictjson.Unique(value); err != nil {
		return fmt.Errorf("not valid JSON: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(value))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return errors.New("is not what the gateway writes there: " + strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

// describeField names the kind of value that a field takes, in the words of
// describeJSON.
func describeField(field any) string {
	switch field.(type) {
	case *string, *time.Time:
		return "a string"
	case *bool:
		return "true or false"
	case **factors.TOTP:
		return "an object"
	}
	return "a list"
}

// describeJSON names the kind of a JSON value.
func describeJSON(value json.RawMessage) string {
	switch value[0] {
	case '"':
		return "a string"
	case 't', 'f':
		return "true or false"
	case '[':
		return "a list"
	case '{':
		return "an object"
	case 'n':
		return "null"
	}
	return "a number"
}

// eachMember calls f for each member of the JSON object that is the whole line.
func eachMember(line string, f func(key string, value json.RawMessage)) error {
	d := json.NewDecoder(strings.NewReader(line))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return errors.New("the line is not a JSON object")
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return jsonFault(err)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return jsonFault(err)
		}
		f(key.(string), value) // in an object, a key is a string
	}
	if _, err := d.Token(); err != nil {
		return jsonFault(err)
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("something follows the JSON object")
	}
	return nil
}

// jsonFault explains an error of the JSON decoder.
func jsonFault(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("not valid JSON: the object does not end in this line")
	}
	return fmt.Errorf("not valid JSON: %w", err)
}

// jsonColumn returns where the value of a key begins in a line with a JSON
// object, in bytes.
func jsonColumn(line, key string) (int, bool) {
	d := json.NewDecoder(strings.NewReader(line))
	if _, err := d.Token(); err != nil {
		return 0, false
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return 0, false
		}
		start := int(d.InputOffset())
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return 0, false
		}
		if name == key {
			isValue := func(r rune) bool { return r != ':' && !unicode.IsSpace(r) }
			return start + strings.IndexFunc(line[start:], isValue), true
		}
	}
	return 0, false
}
