package accounts

import (
	"errors"
	"os"
	"strings"
	"testing"

	"authgate/gateway/people/password"
	"authgate/gateway/strictyaml"
	"authgate/internal/test/must"
)

const (
	oldHash   = "$2a$04$5Wz59EKxlb/jl//qPb/42udIqT6GIoGQ0zoeS4IglK1P8q6BUmwnW"
	otherHash = "$2a$04$pDRg7Ut1thqXWEVTWL/eyuwZ638YFSULB3vj1z8XhSUxXDFgBi4EC"
	newHash   = "$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4"
)

// newReader reads files as a configuration does that has no file.
func newReader() *strictyaml.Reader {
	options := strictyaml.Options{
		Main: "config.yaml", Lookup: os.LookupEnv, SecretKeys: []string{"password_hash"}, PublicKeys: []string{"htpasswd"},
	}
	Declare(&options)
	return strictyaml.NewReader(options)
}

// checked returns the accounts of a file with this content, which must be valid.
func checked(t testing.TB, file, content string) []Account {
	t.Helper()
	reader := newReader()
	doc, users := parse(reader, file, []byte(content))
	Check(users, Places(doc, doc.Root(), len(users)), false)
	must.Do(t, reader.Err())
	return users
}

// editHash changes the hash of a user in the content of a file from oldHash to newHash.
func editHash(file, content, username string) ([]byte, error) {
	f := &File{Path: file, Reader: newReader}
	return f.edited([]byte(content), Edit{Username: username, Change: SetPasswordHash(hashed(oldHash), newHash)})
}

// hashed returns an account with a hash.
func hashed(hash string) *Account {
	parsed, err := password.Parse(hash)
	if err != nil {
		panic(err)
	}
	return &Account{Hash: parsed}
}

// The hash changes, and nothing else in the file.
func TestSetPasswordHash(t *testing.T) {
	t.Setenv("AUTHGATE_TEST_NAME", "Alice")
	for name, content := range map[string]string{
		"in double quotes": "# people\n- username: bob # not her\n  password_hash: \"" + otherHash + "\"\n\n" +
			"- username: alice\n  # hers\n  password_hash: \"" + oldHash + "\"   # keep\n  roles: [a,\n    b]\n# end\n",
		"in quotes":        "- {username: alice, password_hash: '" + oldHash + "', name: \"${AUTHGATE_TEST_NAME}\"}\n",
		"without quotes":   "- username: alice\n  password_hash: " + oldHash + "\n  name: Zoë\n",
		"after characters": "- {name: \"Zoë 日本\", username: alice, password_hash: " + oldHash + "}\n",
		"with CRLF":        "- username: alice\r\n  password_hash: \"" + oldHash + "\"\r\n  name: A\r\n",
		"the same twice": "- {username: bob, password_hash: \"" + oldHash + "\"}\n" +
			"- {username: alice, password_hash: \"" + oldHash + "\"}\n",
		"indented": "  - username: alice\n    password_hash: \"" + oldHash + "\"\n    disabled: false\n",
	} {
		before, after, _ := cutLast(content, oldHash)
		quote := `"`
		if strings.HasSuffix(before, `"`) || strings.HasSuffix(before, `'`) {
			before, after = before[:len(before)-1], after[1:]
		}
		checked(t, "accounts.yaml", content)
		got, err := editHash("accounts.yaml", content, "alice")
		if want := before + quote + newHash + quote + after; err != nil || string(got) != want {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, got, want)
		}
		if again := checked(t, "accounts.yaml", string(got)); again[len(again)-1].Hash.Encoded() != newHash {
			t.Errorf("%s: the new file has another hash", name)
		}
	}
}

// cutLast is strings.Cut at the last separator.
func cutLast(s, separator string) (before, after string, found bool) {
	i := strings.LastIndex(s, separator)
	return s[:i], s[i+len(separator):], true
}

func TestSetPasswordHashInLines(t *testing.T) {
	t.Parallel()
	const first, last = "# people\n\n{\"username\": \"bob\", \"password_hash\": \"" + otherHash + "\"}\n",
		"{\"username\":\"zoe\",\"password_hash\":\"" + oldHash + "\"}\n"
	slashed := strings.ReplaceAll(oldHash, "/", `\/`)
	for line, want := range map[string]string{
		`{"username": "alice", "password_hash": "` + oldHash + `", "roles": ["a"]}`: `{"username": "alice", ` +
			`"password_hash": "` + newHash + `", "roles": ["a"]}`,
		`{"password_hash"  :  "` + oldHash + `"  ,"name":"password_hash","username":"al\u0069ce"}`: `{"password_hash"  :  "` +
			newHash + `"  ,"name":"password_hash","username":"al\u0069ce"}`,
		`{"username":"alice","password_hash":"` + slashed + `"}`: `{"username":"alice","password_hash":"` +
			newHash + `"}`,
	} {
		content := first + line + "\n" + last
		checked(t, "accounts.jsonl", content)
		got, err := editHash("accounts.jsonl", content, "alice")
		if err != nil || string(got) != first+want+"\n"+last {
			t.Errorf("%v\n%s\nwant\n%s", err, got, first+want+"\n"+last)
		}
		checked(t, "accounts.jsonl", string(got))
	}
}

// A hash that is not written in place is not changed, nor is that of another account.
func TestSetPasswordHashRefuses(t *testing.T) {
	t.Setenv("AUTHGATE_TEST_HASH", oldHash)
	const alice = "- {username: alice, password_hash: \"" + oldHash + "\"}\n"
	for name, c := range map[string]struct {
		file, content, username string
		want                    error
	}{
		"another account": {"accounts.yaml", alice, "carol", ErrNotInFile},
		"another hash": {"accounts.yaml", "- {username: alice, password_hash: \"" + otherHash + "\"}\n",
			"alice", ErrOtherHash},
		"a namesake": {"accounts.yaml", "- {username: alice, id: x, password_hash: \"" + oldHash + "\"}\n",
			"alice", ErrOtherHash},
		"a variable": {"accounts.yaml", "- {username: alice, password_hash: \"${AUTHGATE_TEST_HASH}\"}\n",
			"alice", ErrElsewhere},
		"an alias": {"accounts.yaml", "- {username: bob, password_hash: &h \"" + oldHash + "\"}\n" +
			"- {username: alice, password_hash: *h}\n", "alice", ErrElsewhere},
		"an anchor": {"accounts.yaml", "- {username: alice, password_hash: &h \"" + oldHash + "\"}\n" +
			"- {username: bob, password_hash: *h}\n", "alice", ErrElsewhere},
		"merged by another": {"accounts.yaml", "- &a {username: alice, password_hash: \"" + oldHash + "\"}\n" +
			"- {<<: *a, username: bob}\n", "alice", ErrElsewhere},
		"a line: another": {"accounts.jsonl", `{"username":"alice","password_hash":"` + otherHash + "\"}\n",
			"alice", ErrOtherHash},
		"a line: not in file": {"accounts.jsonl", `{"username":"alice","password_hash":"` + otherHash + "\"}\n",
			"ALICE", ErrNotInFile},
	} {
		checked(t, c.file, c.content)
		if got, err := editHash(c.file, c.content, c.username); !errors.Is(err, c.want) || got != nil {
			t.Errorf("%s: got %q, %v; want %v", name, got, err, c.want)
		}
	}
	for _, content := range []string{
		"", strings.TrimSpace(alice), "- {username: [}\n", "- {username: alice, password: x}\n",
	} {
		if got, err := editHash("accounts.yaml", content, "alice"); err == nil || got != nil {
			t.Errorf("%q: got %q, %v", content, got, err)
		} else if strings.Contains(err.Error(), oldHash) {
			t.Errorf("the error quotes the hash: %v", err)
		}
	}
	for _, content := range []string{"", "{}", "{\"username\":\"alice\n", "[]\n"} {
		if got, err := editHash("accounts.jsonl", content, "alice"); err == nil || got != nil {
			t.Errorf("%q: got %q, %v", content, got, err)
		}
	}
}
