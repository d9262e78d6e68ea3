package accounts

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"authgate/gateway/people/factors"
	"authgate/internal/test/must"
)

// editCase is an edit of alice, and what it makes of a file.
type editCase struct {
	name, content string
	edit          Edit
	want          string
}

func add(name string, change func(*Account)) Edit {
	return Edit{Username: name, Add: true, Change: func(a *Account) error { change(a); return nil }}
}

func alter(change func(*Account)) Edit {
	return Edit{Username: "alice", Change: func(a *Account) error { change(a); return nil }}
}

func editCases() []editCase {
	roles := func(roles ...string) Edit { return alter(func(a *Account) { a.Roles = roles }) }
	disable := alter(func(a *Account) { a.Disabled = true })
	enable := alter(func(a *Account) { a.Disabled = false })
	forget := alter(func(a *Account) { a.Factors = factors.Set{} })
	remove := Edit{Username: "alice", Remove: true}
	plain := add("bob", func(a *Account) {})
	full := add("bob", func(a *Account) {
		a.Name, a.Email, a.Roles = "Bob B.", "bob@example.org", []string{"user", "yes", "a b"}
	})
	const fullBlock = "- username: bob\n  name: \"Bob B.\"\n  email: bob@example.org\n  roles: [user, \"yes\", \"a b\"]\n"
	const fullFlow = `{username: bob, name: "Bob B.", email: bob@example.org, roles: [user, "yes", "a b"]}`
	return []editCase{
		// Blocks.
		{"a key that is not there", "- username: alice # hers\n  # more\n\n- username: zoe\n", disable,
			"- username: alice # hers\n  disabled: true\n  # more\n\n- username: zoe\n"},
		{"deeper", "---\n# all\n  -   username: alice\n      roles:   [a]  # why\n  -   username: zoe\n", disable,
			"---\n# all\n  -   username: alice\n      roles:   [a]  # why\n      disabled: true\n  -   username: zoe\n"},
		{"the dash alone", "-\n  username: alice\n-\n  username: zoe\n", disable,
			"-\n  username: alice\n  disabled: true\n-\n  username: zoe\n"},
		{"a truth", "- username: alice\n  disabled:  true # gone\n  name: A\n", enable,
			"- username: alice\n  disabled:  false # gone\n  name: A\n"},
		{"a truth before others", "- disabled: true\n  username: alice\n", enable, "- disabled: false\n  username: alice\n"},
		{"an anchor of a value", "- username: alice\n  name: &n A # hers\n  roles: &r\n    - a\n" +
			"- {username: bob, name: &m B}\n",
			alter(func(a *Account) { a.Name, a.Roles = "C", []string{"a", "b"} }),
			"- username: alice\n  name: &n C # hers\n  roles: &r\n    - a\n    - b\n- {username: bob, name: &m B}\n"},
		{"roles in brackets", "- username: alice\n  roles: [ a, # one\n    b ]   # two\n  name: x\n", roles("c", "a"),
			"- username: alice\n  roles: [c, a]   # two\n  name: x\n"},
		{"roles in lines", "- username: alice\n  roles: # these\n    # first\n    - a # A\n" +
			"    # second\n    - b # B\n    - c\n  name: x\n", roles("d", "b", "e"),
			"- username: alice\n  roles: # these\n    # first\n    - d\n    # second\n    - b # B\n    - e\n  name: x\n"},
		{"roles in lines, not indented", "- roles:\n  - a\n  - b\n  username: alice\n", roles("b"),
			"- roles:\n  - b\n  username: alice\n"},
		{"no roles any more", "- username: alice\n  roles:\n    - a\n    - b # B\n  name: x\n", roles(),
			"- username: alice\n  roles: [] # B\n  name: x\n"},
		{"a text with a comment sign", "- username: alice\n  name: A#B # c\n", alter(func(a *Account) { a.Name = "C: #" }),
			"- username: alice\n  name: \"C: #\" # c\n"},
		{"a text in lines", "- username: alice\n  name: Alice\n    Liddell # c\n  email: a@b.c\n",
			alter(func(a *Account) { a.Name = "Al" }),
			"- username: alice\n  name: Al # c\n  email: a@b.c\n"},
		{"a block text", "- username: alice\n  name: >-\n    Alice\n    Liddell\n  email: a@b.c\n",
			alter(func(a *Account) { a.Name = "Al" }),
			"- username: alice\n  name: Al\n  email: a@b.c\n"},
		{"an empty block text", "- username: alice\n  name: |\n  email: a@b.c\n",
			alter(func(a *Account) { a.Name = "Al" }), "- username: alice\n  name: Al\n  email: a@b.c\n"},
		{"a variable as text", "- username: alice\n", alter(func(a *Account) { a.Name = "${HOME} $${HOME}" }),
			"- username: alice\n  name: \"$${HOME} $$${HOME}\"\n"},
		{"an escape", "- username: \"\\u0061lice\"\n  name: \"\\u0041\"\n", alter(func(a *Account) { a.Name = "B" }),
			"- username: \"\\u0061lice\"\n  name: \"B\"\n"},
		{"merged", "- &x {username: bob, name: B}\n- <<: *x\n  username: alice\n", alter(func(a *Account) { a.Name = "A" }),
			"- &x {username: bob, name: B}\n- <<: *x\n  username: alice\n  name: A\n"},
		{"an anchor", "- &x\n  username: alice\n  roles: &r [a]\n- username: bob\n  roles: [b]\n", disable,
			"- &x\n  username: alice\n  roles: &r [a]\n  disabled: true\n- username: bob\n  roles: [b]\n"},
		{"CRLF", "- username: alice\r\n  roles:\r\n    - a\r\n- username: zoe\r\n",
			alter(func(a *Account) { a.Disabled, a.Roles = true, []string{"a", "b"} }),
			"- username: alice\r\n  roles:\r\n    - a\r\n    - b\r\n  disabled: true\r\n- username: zoe\r\n"},
		{"a first password", "- username: alice\n  name: A\n", alter(func(a *Account) { a.PasswordHash = oldHash }),
			"- username: alice\n  name: A\n  password_hash: \"" + oldHash + "\"\n"},
		{"no password any more", "- password_hash: \"" + oldHash + "\" # old\n  username: alice\n",
			alter(func(a *Account) { a.PasswordHash = "" }), "- username: alice\n"},
		{"factors", "- username: alice\n  # end\n", alter(func(a *Account) {
			a.Factors = factors.Set{TOTP: &factors.TOTP{Secret: "c2VhbGVk", Step: 5}, Recovery: []string{codeHash}}
		}), "- username: alice\n  totp: {secret: c2VhbGVk, step: 5}\n" +
			"  recovery_codes:\n    - \"" + codeHash + "\"\n  # end\n"},
		{"factors end", "- username: alice\n  totp: {secret: c2VhbGVk,\n    step: 5} # phone\n  name: A # hers\n" +
			"  recovery_codes:\n    - " + codeHash + "\n  # kept\n- username: bob\n", forget,
			"- username: alice\n  name: A # hers\n  # kept\n- username: bob\n"},
		{"an empty role", "- username: alice\n  roles:\n    - \"\" # none\n    - a # A\n    - b\n", roles("a"),
			"- username: alice\n  roles:\n    - a # A\n"},
		{"an empty role stays", "- username: alice\n  roles: [\"\", a]\n", disable,
			"- username: alice\n  roles: [\"\", a]\n  disabled: true\n"},
		// Braces.
		{"in braces", "- {username: alice} # hers\n- {username: zoe}\n", disable,
			"- {username: alice, disabled: true} # hers\n- {username: zoe}\n"},
		{"in braces, a comma at the end", "- {username: alice,  }\n", disable, "- {username: alice, disabled: true,  }\n"},
		{"in braces in lines", "- {\n    username: alice, # name\n    roles: [a, b] # roles\n  }\n",
			alter(func(a *Account) { a.Disabled, a.Roles = true, []string{"b"} }),
			"- {\n    username: alice, # name\n    roles: [b], disabled: true # roles\n  }\n"},
		{"all in brackets", "[{username: zoe, name: \"a}],#\"}, {username: alice, name: it's}]\n",
			alter(func(a *Account) { a.Name = "that's, it" }),
			"[{username: zoe, name: \"a}],#\"}, {username: alice, name: \"that's, it\"}]\n"},
		{"factors in braces end", "- {totp: {secret: c2VhbGVk, step: 5}, username: alice, " +
			"recovery_codes: [" + codeHash + "]}\n", forget, "- {username: alice}\n"},
		{"JSON", `[{"username":"alice","name":"A"}]` + "\n",
			alter(func(a *Account) { a.Name, a.Roles = "B", []string{"r"} }),
			`[{"username":"alice","name":"B", roles: [r]}]` + "\n"},
		// Others.
		{"removed", "# all\n- username: bob\n# of alice\n- username: alice\n  roles:\n  - a\n  # in\n" +
			"  name: x\n# of zoe\n- username: zoe\n", remove,
			"# all\n- username: bob\n# of alice\n# of zoe\n- username: zoe\n"},
		{"removed, the last", "# all\n  - username: alice\n# end\n", remove, "# all\n  []\n# end\n"},
		{"removed from brackets", "[{username: bob}, {username: alice}, {username: zoe}] # x\n", remove,
			"[{username: bob}, {username: zoe}] # x\n"},
		{"removed first from brackets", "[ {username: alice}, # a\n  {username: zoe} ]\n", remove, "[ {username: zoe} ]\n"},
		{"removed, the last from brackets", "[{username: alice},]\n", remove, "[]\n"},
		{"added", "# all\n- username: alice\n  roles:\n  - a\n\n# end\n", full,
			"# all\n- username: alice\n  roles:\n  - a\n" + fullBlock + "\n# end\n"},
		{"added deeper", "  -   username: alice\n", plain, "  -   username: alice\n  -   username: bob\n"},
		{"added with braces", "- {username: alice}\n", full, "- {username: alice}\n- " + fullFlow + "\n"},
		{"added in brackets", "[{username: alice}]\n", full, "[{username: alice}, " + fullFlow + "]\n"},
		{"added in lines of brackets", "[\n  {username: alice}, # hers\n]\n", plain,
			"[\n  {username: alice},\n  {username: bob} # hers\n]\n"},
		{"added to none", "# people\n[] # none yet\n# end\n", full,
			"# people\n" + strings.TrimSuffix(fullBlock, "\n") + " # none yet\n# end\n"},
		{"added to none in lines", "[\n  # none yet\n]\n", plain, "[{username: bob}\n  # none yet\n]\n"},
		{"added to comments", "# people\n\n", full, "# people\n\n" + fullBlock},
		{"added to nothing", "", plain, "- username: bob\n"},
		{"added after a mark", "---\n", plain, "---\n- username: bob\n"},
		{"added before a mark", "---\n- username: alice\n...\n", plain, "---\n- username: alice\n- username: bob\n...\n"},
	}
}

var newIDText = regexp.MustCompile(`(\r?\n +|, )"?id"?: "?[A-Z2-7]{12}"?`)

// withoutNewID returns a content without the ID of the account that was added.
func withoutNewID(content []byte) []byte { return newIDText.ReplaceAll(content, nil) }

// An edit changes what it must change, and nothing else.
func TestEditYAML(t *testing.T) {
	t.Parallel()
	f := &File{Path: "accounts.yaml", Reader: newReader}
	for _, c := range editCases() {
		got, err := f.edited([]byte(c.content), c.edit)
		if got = withoutNewID(got); err != nil || string(got) != c.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", c.name, err, got, c.want)
		}
	}
}

func TestEditLines(t *testing.T) {
	t.Parallel()
	f := &File{Path: "accounts.jsonl", Reader: newReader}
	const zoe = "# end\n{\"username\":\"zoe\"}\n"
	for _, c := range []editCase{
		{"a key", `{"username":"alice"}` + "\n" + zoe, alter(func(a *Account) { a.Disabled, a.Roles = true, []string{"a"} }),
			`{"username":"alice", "roles": ["a"], "disabled": true}` + "\n" + zoe},
		{"with spaces", ` { "username" : "alice" , "roles" : [ "b" ] } ` + "\n" + zoe,
			alter(func(a *Account) { a.Name, a.Roles = "${A} <b>", []string{"a", "#"} }),
			` { "username" : "alice" , "roles" : ["a", "#"], "name": "${A} <b>" } ` + "\n" + zoe},
		{"factors", `{"username": "alice"}` + "\n" + zoe,
			alter(func(a *Account) { a.Factors = factors.Set{TOTP: &factors.TOTP{Secret: "c2VhbGVk", Step: 5}} }),
			`{"username": "alice", "totp": {"secret": "c2VhbGVk", "step": 5}}` + "\n" + zoe},
		{"factors end",
			`{"totp":{"secret":"c2VhbGVk","step":5},"username":"alice","recovery_codes":["` + codeHash + `"]}` + "\n" + zoe,
			alter(func(a *Account) { a.Factors = factors.Set{} }), `{"username":"alice"}` + "\n" + zoe},
		{"removed", "# all\n{\"username\":\"alice\"}\n" + zoe, Edit{Username: "alice", Remove: true}, "# all\n" + zoe},
		{"removed, the last", "{\"username\":\"alice\"}\n", Edit{Username: "alice", Remove: true}, "# no accounts\n"},
		{"added", "{\"username\":\"alice\"}\n" + zoe, add("bob", func(a *Account) { a.Roles = []string{"a"} }),
			"{\"username\":\"alice\"}\n" + zoe + `{"username": "bob", "roles": ["a"]}` + "\n"},
		{"added to comments", "# none\n", add("bob", func(*Account) {}), "# none\n" + `{"username": "bob"}` + "\n"},
		{"added to nothing", "", add("bob", func(*Account) {}), `{"username": "bob"}` + "\n"},
	} {
		got, err := f.edited([]byte(c.content), c.edit)
		if got = withoutNewID(got); err != nil || string(got) != c.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", c.name, err, got, c.want)
		}
	}
}

// Each account that is added has another ID, which edits keep. IDs make versions.
func TestEditGivesIDs(t *testing.T) {
	t.Parallel()
	for file, content := range map[string]string{
		"accounts.yaml": "- username: alice\n", "accounts.jsonl": "{\"username\": \"alice\"}\n",
	} {
		f := &File{Path: file, Reader: newReader}
		ids := map[string]bool{}
		var versions []string
		for range 2 {
			added := must.Get(f.edited([]byte(content), add("bob", func(*Account) {})))(t)
			got := checked(t, file, string(must.Get(f.edited(added, alter(func(a *Account) { a.Roles = []string{"a"} })))(t)))
			if got[0].ID != "" || len(got[1].ID) != idLength {
				t.Errorf("%s: alice has the ID %q, bob %q", file, got[0].ID, got[1].ID)
			}
			ids[got[1].ID] = true
			bob, _ := newAccounts(got...).Lookup("bob")
			versions = append(versions, bob.Version())
		}
		if len(ids) != 2 || versions[0] == versions[1] {
			t.Errorf("%s: the IDs %v, the versions %q", file, ids, versions)
		}
	}
}

// Passkeys are written in lines of their own, and one of them is removed with its line.
func TestEditPasskeys(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ file, content string }{
		{"accounts.yaml", "- username: alice\n  name: A # hers\n- username: zoe\n"},
		{"accounts.yaml", "- {username: alice, name: A} # hers\n- {username: zoe}\n"},
		{"accounts.jsonl", "{\"username\": \"alice\", \"name\": \"A\"}\n{\"username\": \"zoe\"}\n"},
	} {
		f := &File{Path: c.file, Reader: newReader}
		content := []byte(c.content)
		for _, set := range []factors.Set{
			{Passkeys: someFactors().Passkeys[:1]}, someFactors(), {Passkeys: someFactors().Passkeys[1:]}, {},
		} {
			next, err := f.edited(content, alter(func(a *Account) { a.Factors = set }))
			if err != nil {
				t.Fatalf("%s: %v in\n%s", c.file, err, content)
			}
			content = next
		}
		if string(content) != c.content {
			t.Errorf("it comes back as\n%s\nnot\n%s", content, c.content)
		}
	}
}

// A passkey without transports is written, and the next edit keeps its line, whether that has an
// empty list of them or none.
func TestEditPasskeysWithoutTransports(t *testing.T) {
	t.Parallel()
	for file, content := range map[string]string{
		"accounts.yaml": "- username: alice\n- username: zoe\n", "accounts.jsonl": "{\"username\": \"alice\"}\n",
	} {
		f := &File{Path: file, Reader: newReader}
		for _, transports := range [][]string{nil, {}, {"usb"}} {
			first, second := passkey("a2V5"), passkey("b3RoZXI")
			first.Transports = transports
			one := must.Get(f.edited([]byte(content), alter(func(a *Account) {
				a.Factors.Passkeys = []factors.Passkey{first}
			})))(t)
			for _, kept := range []string{string(one), noTransports.ReplaceAllString(string(one), "")} {
				two := must.Get(f.edited([]byte(kept), alter(func(a *Account) {
					first.Transports = slices.Clone(transports)
					a.Factors.Passkeys = []factors.Passkey{first, second}
				})))(t)
				if line := "  - {id: a2V5"; file == "accounts.yaml" && strings.Count(string(two), line) != 1 ||
					len(checked(t, file, string(two))[0].Factors.Passkeys) != 2 {
					t.Errorf("%s, %#v: it becomes\n%s", file, transports, two)
				}
			}
		}
	}
}

var noTransports = regexp.MustCompile(`"?transports"?: \[\], `)

// A check sees the accounts as they are in use: without empty roles.
func TestEditChecksAccountsInUse(t *testing.T) {
	t.Parallel()
	f := &File{Path: "accounts.yaml", Reader: newReader}
	e := alter(func(a *Account) { a.Disabled = true })
	e.Check = func(users []Account) error {
		if got := users[0].Roles; !slices.Equal(got, []string{"a"}) {
			t.Errorf("alice has the roles %q", got)
		}
		return nil
	}
	must.Get(f.edited([]byte("- username: alice\n  roles: [\"\", a, \"\"]\n"), e))(t)
}

// What is not written in place is not changed, and nothing that would make the file invalid.
func TestEditRefuses(t *testing.T) {
	t.Setenv("AUTHGATE_TEST_NAME", "Alice")
	f := &File{Path: "accounts.yaml", Reader: newReader, Main: []Account{{Username: "Zoé"}}}
	rename := alter(func(a *Account) { a.Name = "B" })
	const two = "- username: alice\n- username: Élan\n"
	errTold := errors.New("told")
	for name, c := range map[string]struct {
		content string
		edit    Edit
		want    error
	}{
		"a variable": {"- username: alice\n  name: ${AUTHGATE_TEST_NAME}\n", rename, ErrElsewhere},
		"an alias": {"- {username: bob, name: &n B}\n- {username: alice, name: *n}\n",
			alter(func(a *Account) { a.Name = "C" }), ErrElsewhere},
		"merged by another": {"- &a {username: alice, name: A}\n- {<<: *a, username: bob}\n", rename, ErrElsewhere},
		"removed for another": {"- &a {username: alice, name: A}\n- {<<: *a, username: bob}\n",
			Edit{Username: "alice", Remove: true}, nil},
		"all of it an alias": {"- &a {username: bob}\n- {username: alice, roles: [b]}\n- <<: *a\n  username: eve\n",
			alter(func(a *Account) { a.Email = "x" }), nil},
		"unknown":             {two, Edit{Username: "bob"}, ErrNotInFile},
		"in the main file":    {two, Edit{Username: "Zoé"}, ErrNotInFile},
		"another case":        {two, Edit{Username: "ALICE"}, ErrNotInFile},
		"added twice":         {two, add("alice", func(*Account) {}), ErrExists},
		"added, another case": {two, add("Alice", func(*Account) {}), ErrExists},
		"added, another form": {two, add("e\u0301lan", func(*Account) {}), ErrExists},
		"added, main file":    {two, add("ZOE\u0301", func(*Account) {}), ErrExists},
		"no name":             {two, add("a:b", func(*Account) {}), nil},
		"no role":             {two, alter(func(a *Account) { a.Roles = []string{"a,b"} }), nil},
		"a change fails":      {two, Edit{Username: "alice", Change: func(*Account) error { return errTold }}, errTold},
		"a check fails":       {two, Edit{Username: "alice", Check: func([]Account) error { return errTold }}, errTold},
		"invalid before":      {"- username: alice\n- username: ALICE\n", rename, nil},
		"no list":             {"alice: {}\n", add("bob", func(*Account) {}), nil},
		"nothing":             {"# none\n", rename, nil},
	} {
		got, err := f.edited([]byte(c.content), c.edit)
		if err == nil || got != nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: got %q, %v; want %v", name, got, err, c.want)
		}
	}
	got, err := f.edited([]byte(two), Edit{
		Username: "E\u0301lan", Change: func(a *Account) error { a.Disabled = true; return nil },
	})
	if want := two + "  disabled: true\n"; err != nil || string(got) != want {
		t.Errorf("by another form of the name: %v, %s", err, got)
	}
}
