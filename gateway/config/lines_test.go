package config

import (
	"authgate/gateway/accounts"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// JSON lines have the same keys as YAML.
func TestAccountKeys(t *testing.T) {
	t.Parallel()
	var keys []string
	var account accounts.Account
	for i := range reflect.TypeFor[accounts.Account]().NumField() {
		field := reflect.TypeFor[accounts.Account]().Field(i)
		key := field.Tag.Get("yaml")
		if key == "-" || !field.IsExported() {
			continue
		}
		keys = append(keys, key)
		if pointer := reflect.ValueOf(fieldOf(&account, key)); !pointer.IsValid() ||
			pointer.Type().Elem().Kind() != field.Type.Kind() {
			t.Errorf("%s is decoded into %v, want a %s", key, pointer, field.Type)
		}
	}
	if slices.Sort(keys); !slices.Equal(keys, accountKeys) {
		t.Errorf("the keys in YAML are %q, in JSON %q", keys, accountKeys)
	}
}

// The same accounts in YAML and in JSON lines are the same, and only the extension
// decides how a file is read.
func TestAccountFormatsAgree(t *testing.T) {
	t.Parallel()
	dir := folder{t, t.TempDir()}
	yaml := dir.write("accounts.yaml", `- {username: alice, password_hash: "`+environment["HASH"]+`", name: "Älice \"A\" \\", email: a@example.org, roles: [user, "", admin]}
- {username: bob, password_hash: "`+environment["HASH"]+`", disabled: true, roles: []}
`)
	lines := dir.write("accounts.jsonl", `{"username": "alice", "password_hash": "`+environment["HASH"]+`", "name": "Älice \"A\" \\", "email": "a@example.org", "roles": ["user", "", "admin"]}
# a comment, and an empty line

{"username":"\u0062ob","password_hash":"`+environment["HASH"]+`","disabled":true,"roles":[]}
`)
	var users [][]accounts.Account
	for _, file := range []string{yaml, lines} {
		cfg := mustParse(t, "accounts: {file: "+file+"}\n")
		for i := range cfg.Accounts.Users { // an empty list is none
			cfg.Accounts.Users[i].Roles = append([]string(nil), cfg.Accounts.Users[i].Roles...)
		}
		users = append(users, cfg.Accounts.Users)
	}
	if diff := cmp.Diff(users[0], users[1], exported); diff != "" || len(users[0]) != 2 {
		t.Errorf("(-YAML +JSON lines):\n%s", diff)
	}
}

// A file of accounts in YAML is small, because its reader needs much memory. The
// error says what to do.
func TestLargeAccountFiles(t *testing.T) {
	t.Parallel()
	dir := folder{t, t.TempDir()}
	large := strings.Repeat("# a comment\n", maxListSize/12+1)
	lines := dir.write("large.jsonl", large)
	if cfg := mustParse(t, "accounts: {file: "+lines+"}\n"); len(cfg.Accounts.Users) != 0 {
		t.Errorf("got %d accounts", len(cfg.Accounts.Users))
	}
	yaml := dir.write("large.yaml", large+"[]\n")
	_, err := Parse("config.yaml", []byte("accounts: {file: "+yaml+"}\n"))
	if err == nil || !strings.Contains(err.Error(), "larger than 8 MiB; write it in JSON lines") {
		t.Errorf("got %.300v, want an error about the size", err)
	}
}

// A file in JSON lines gives accounts or errors, each with a place in the file.
func FuzzAccountLines(f *testing.F) {
	for _, seed := range []string{
		`{"username": "a", "password_hash": "` + environment["HASH"] + `"}`,
		`{"username": "a", "roles": ["x", null, 7], "disabled": true, "name": null}`,
		`{"username": "a"} {}`, `{"username": "a"`, `[]`, `{"a":{"b":[1,{"c":null}]},"a":1}`, "# x\n\n{}",
		`{"": 1, "username": "\u0000"}`, `{"username":"\ud800"}`,
	} {
		f.Add(seed + "\n")
	}
	f.Fuzz(func(t *testing.T, content string) {
		reader := newReader("config.yaml", lookup)
		main := &report{reader.Read("config.yaml", []byte("{}\n"), maxConfigSize, "", defaults())}
		side := sideReader{reader: reader, main: main}
		doc, users := side.parseAccountLines("accounts.jsonl", []byte(content))
		accounts := Accounts{Users: users}
		accounts.check(places(doc, doc.Root(), len(users)))
		err := reader.Err()
		if err == nil {
			for _, user := range users {
				if user.Username == "" || user.Hash.Encoded() == "" {
					t.Errorf("%q: an account without a name or a hash: %+v", content, user)
				}
			}
			return
		}
		for _, d := range err.(Diagnostics) {
			if lines := strings.Split(content, "\n"); d.Line < 1 || d.Line > len(lines) || d.Column < 1 ||
				!strings.HasPrefix(d.String(), fmt.Sprintf("accounts.jsonl:%d:%d: ", d.Line, d.Column)) {
				t.Errorf("%q: %s is not in the file", content, d)
			}
		}
	})
}
