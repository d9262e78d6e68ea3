package accounts

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"authgate/gateway/strictyaml"
	"authgate/internal/test/must"
)

// JSON lines have the same keys as YAML.
func TestAccountKeys(t *testing.T) {
	t.Parallel()
	var keys []string
	var account Account
	for i := range reflect.TypeFor[fileAccount]().NumField() {
		field := reflect.TypeFor[fileAccount]().Field(i)
		key := field.Tag.Get("yaml")
		keys = append(keys, key)
		if field.Type == reflect.TypeFor[[]WrittenRole]() {
			field.Type = reflect.TypeFor[[]Role]()
		}
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
	yaml := checked(t, "accounts.yaml", `- {username: alice, password_hash: "`+oldHash+`", `+
		`name: "Älice \"A\" \\", email: a@example.org, roles: [user, "", admin]}
- {username: bob, password_hash: "`+oldHash+`", disabled: true}
`)
	lines := checked(t, "accounts.jsonl", `{"username": "alice", "password_hash": "`+oldHash+`", `+
		`"name": "Älice \"A\" \\", "email": "a@example.org", "roles": ["user", "", "admin"]}
# a comment, and an empty line

{"username":"\u0062ob","password_hash":"`+oldHash+`","disabled":true,"roles":[]}
`)
	if !reflect.DeepEqual(yaml, lines) || len(yaml) != 2 {
		t.Errorf("in YAML %+v, in JSON lines %+v", yaml, lines)
	}
}

// A file of accounts in YAML is small, because its reader needs much memory. The
// error says what to do.
func TestLargeAccountFiles(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("# a comment\n", maxListSize/12+1)
	for name, want := range map[string]string{
		"large.jsonl": "", "large.yaml": "larger than 8 MiB; write it in JSON lines",
	} {
		path := filepath.Join(t.TempDir(), name)
		must.Do(t, os.WriteFile(path, []byte(large), 0o600))
		reader := newReader()
		users, _ := Lists{reader, reader.Read("config.yaml", []byte("{}\n"), 1<<10, "", &struct{}{})}.Accounts(path)
		if err := reader.Err(); len(users) > 0 || (err == nil) != (want == "") || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: got %d accounts, %.300v, want %q", name, len(users), err, want)
		}
	}
}

// A file in JSON lines gives accounts or errors, each with a place in the file.
func FuzzAccountLines(f *testing.F) {
	for _, seed := range []string{
		`{"username": "a", "password_hash": "` + oldHash + `"}`,
		`{"username": "a", "roles": ["x", null, 7], "disabled": true, "name": null}`,
		`{"username": "a"} {}`, `{"username": "a"`, `[]`, `{"a":{"b":[1,{"c":null}]},"a":1}`, "# x\n\n{}",
		`{"": 1, "username": "\u0000"}`, `{"username":"\ud800"}`,
	} {
		f.Add(seed + "\n")
	}
	f.Fuzz(func(t *testing.T, content string) {
		reader := newReader()
		doc, users := parse(reader, "accounts.jsonl", []byte(content))
		Check(users, Places(doc, doc.Root(), len(users)), false)
		err := reader.Err()
		if err == nil {
			for _, user := range users {
				if user.Username == "" {
					t.Errorf("%q: an account without a name: %+v", content, user)
				}
			}
			return
		}
		for _, d := range err.(strictyaml.Diagnostics) {
			if lines := strings.Split(content, "\n"); d.Line < 1 || d.Line > len(lines) || d.Column < 1 ||
				!strings.HasPrefix(d.String(), fmt.Sprintf("accounts.jsonl:%d:%d: ", d.Line, d.Column)) {
				t.Errorf("%q: %s is not in the file", content, d)
			}
		}
	})
}
