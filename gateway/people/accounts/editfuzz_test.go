package accounts

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"authgate/gateway/people/factors"
	"authgate/internal/test/must"
)

// scribe writes random files of accounts, as people and programs do.
type scribe struct {
	*rand.Rand
	json bool
}

func (s *scribe) one(of ...string) string { return of[s.IntN(len(of))] }

// account returns a random account.
func (s *scribe) account(name string) Account {
	a := Account{Username: name, Name: s.one("", "", "Al", "A: b", "it's # 1", `"q"`, "Zoë ${X} $${Y}", "[a]", "null"),
		Email: s.one("", "", "a@example.org"), Disabled: s.IntN(4) == 0}
	for _, role := range []string{"user", "admin", "a b", "yes", "{x}", ""} {
		if s.IntN(3) == 0 {
			a.Roles = append(a.Roles, role)
		}
	}
	ends := func() time.Time {
		at, _ := ParseTime(s.one("2026-12-04T18:00:00Z", "2026-11-30T12:00:00.5+01:00", "0001-01-01T00:00:00Z"))
		return at
	}
	for _, role := range a.Roles {
		if role != "" && s.IntN(3) == 0 {
			a.RoleEnds = map[string]time.Time{role: ends()}
		}
	}
	if s.IntN(4) == 0 {
		a.Until = ends()
	}
	if s.IntN(2) == 0 {
		a.PasswordHash = oldHash
	}
	if s.IntN(3) == 0 {
		a.Factors.TOTP = &factors.TOTP{Secret: "c2VhbGVk", Step: int64(s.IntN(9))}
	}
	for i := range s.IntN(3) {
		p := passkey(encodeID(name, i))
		p.Transports = [][]string{nil, {}, p.Transports}[s.IntN(3)]
		a.Factors.Passkeys = append(a.Factors.Passkeys, p)
	}
	if a.Factors.Any() && s.IntN(2) == 0 {
		a.Factors.Recovery = []string{codeHash}
	}
	return a
}

// encodeID returns the id of a passkey.
func encodeID(name string, i int) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Append(nil, name, i))
}

// write returns the text of an account. Its keys are in any order.
func (s *scribe) write(a *Account) string {
	keys := slices.DeleteFunc(writtenOrder(), func(key string) bool {
		return isEmpty(fieldOf(a, key)) && (mayLack(key) || s.IntN(3) > 0)
	})
	s.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	if s.json {
		return s.braces(a, keys) + "\n"
	}
	if s.IntN(3) == 0 {
		return "- " + s.braces(a, keys) + s.one("", " # note") + "\n"
	}
	l := &layout{}
	text := "-" + s.one("", " # note") + "\n"
	for _, key := range keys {
		if s.IntN(6) == 0 {
			text += s.one("\n", "  # note\n", "# note\n")
		}
		if field, list := fieldOf(a, key).(*[]Role); list && len(*field) > 0 && s.IntN(2) == 0 {
			text += "  " + key + ":" + s.one("", " # note") + "\n"
			dash := s.one("  - ", "    - ", "  -   ")
			for _, one := range *field {
				text += dash + style{quoted: s.IntN(2) == 0}.value(reflect.ValueOf(one)) + s.one("", " # note") + "\n" + s.one("", "", "    # note\n")
			}
			continue
		}
		text += strings.Replace(l.blockEntry("  ", key, fieldOf(a, key)), ": ", s.one(": ", ":   "), 1)
	}
	if strings.HasPrefix(text, "-\n  ") && s.IntN(4) > 0 {
		text = "- " + text[len("-\n  "):]
	}
	return text
}

// braces returns an account in braces.
func (s *scribe) braces(a *Account, keys []string) string {
	style := style{json: s.json, quoted: s.IntN(2) == 0}
	var pairs []string
	for _, key := range keys {
		pairs = append(pairs, style.pair(key, reflectOf(fieldOf(a, key))))
	}
	open, comma, end := s.one("{", "{ "), s.one(", ", ","), s.one("}", " }")
	if !s.json && s.IntN(3) == 0 {
		comma, end = s.one(",\n    ", " , # note\n    "), s.one("}", "\n  }", ", }")
	}
	return open + strings.Join(pairs, comma) + end
}

// between returns what may stand between accounts.
func (s *scribe) between() string { return s.one("", "", "# note\n", "\n", "\n# - username: old\n") }

// file returns a file of accounts, and where in it each account is.
func (s *scribe) file(users []Account) (content string, at [][2]int) {
	content = s.between()
	if !s.json && s.IntN(4) == 0 {
		content += s.one("---\n", "--- # note\n")
	}
	for i := range users {
		start := len(content)
		content += s.write(&users[i])
		at = append(at, [2]int{start, len(content)})
		content += s.between()
	}
	return content, at
}

// change changes some keys of an account.
func (s *scribe) change(a *Account) {
	other := s.account(a.Username)
	for _, key := range writtenOrder() {
		if s.IntN(3) > 0 {
			continue
		}
		if key == "roles" {
			a.setRoles(other.rolesWritten())
			continue
		}
		reflectOf(fieldOf(a, key)).Set(reflectOf(fieldOf(&other, key)))
	}
	if s.IntN(3) == 0 {
		a.Roles = append(slices.Clone(a.Roles), "last")
	}
}

// checkEdit makes a random edit of a random file. The result has the accounts that are
// wanted, and all lines of others and between them are as they were.
func checkEdit(t *testing.T, seed uint64) {
	s := &scribe{Rand: rand.New(rand.NewPCG(seed, 1))}
	s.json = s.IntN(3) == 0
	f := &File{Path: "accounts.yaml", Reader: newReader}
	if s.json {
		f.Path = "accounts.jsonl"
	}
	var users []Account
	for _, name := range []string{"alice", "bobb", "carl", "dora"}[:1+s.IntN(4)] {
		users = append(users, s.account(name))
	}
	content, at := s.file(users)
	checked(t, f.Path, content)
	target := s.IntN(len(users))
	e, want := Edit{Username: users[target].Username}, slices.Clone(users)
	before, after := content[:at[target][0]], content[at[target][1]:]
	switch s.IntN(4) {
	case 0:
		last := at[len(users)-1][1]
		before, after = strings.TrimRight(content[:last], "\n# note"), content[last:]
		want = append(want, s.account("zoee"))
		e = Edit{Username: "zoee", Add: true, Change: func(a *Account) error { *a = want[len(users)]; return nil }}
	case 1:
		e.Remove, want = true, slices.Delete(want, target, target+1)
	default:
		s.change(&want[target])
		e.Change = func(a *Account) error { *a = want[target]; return nil }
	}
	got, err := f.edited([]byte(content), e)
	if err != nil {
		t.Fatalf("seed %d: %v in\n%s\nwanted %+v", seed, err, content, want)
	}
	var result []Account
	if len(want) > 0 {
		result, _, err = f.parse(got, false)
		must.Do(t, err)
	}
	if !slices.EqualFunc(result, want, func(a, b Account) bool { return sameKeys(&a, &b) }) {
		t.Errorf("seed %d: got %+v, want %+v from\n%s", seed, result, want, got)
	}
	if text := string(got); !strings.HasPrefix(text, before) || !strings.HasSuffix(text, after) {
		t.Errorf("seed %d: the edit of %+v makes of\n%s\nthis\n%s", seed, e, content, got)
	}
}

func TestRandomEdits(t *testing.T) {
	t.Parallel()
	for seed := range uint64(500) {
		if checkEdit(t, seed); t.Failed() {
			return
		}
	}
}

// A random edit of a random file of accounts gives the wanted accounts, and leaves the lines of all others.
func FuzzEdit(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(checkEdit)
}

// FuzzEditContent edits any content. Either nothing is written, or the accounts are those that
// are wanted.
func FuzzEditContent(f *testing.F) {
	for _, c := range editCases() {
		f.Add(c.content, false)
	}
	f.Add(`{"username":"alice","roles":["a"]}`+"\n", true)
	for _, broken := range []string{"- {a: [}\n", "- ?\n- -\n", "- |\n", "-\n", "- *a\n", "- &a\n", "[\n",
		"- a: !t\n"} {
		f.Add(broken, false)
	}
	f.Fuzz(func(t *testing.T, content string, json bool) {
		file := &File{Path: "accounts.yaml", Reader: newReader}
		if json {
			file.Path = "accounts.jsonl"
		}
		for _, e := range []Edit{
			alter(func(a *Account) { a.Roles, a.Disabled = append([]string{"new"}, a.Roles...), !a.Disabled }),
			alter(func(a *Account) { a.Factors, a.Name = someFactors(), "" }),
			{Username: "alice", Remove: true}, add("zoe", func(a *Account) { a.Email = "zoe@example.org" }),
		} {
			got, err := file.edited([]byte(content), e)
			if err != nil {
				if got != nil {
					t.Errorf("%q, %v", got, err)
				}
				continue
			}
			_, there := lookUp(checked(t, file.Path, string(got)), e.Username)
			if there == e.Remove {
				t.Errorf("%q becomes %q", content, got)
			}
		}
	})
}

func lookUp(users []Account, name string) (Account, bool) {
	at := slices.IndexFunc(users, func(a Account) bool { return a.Username == name })
	if at < 0 {
		return Account{}, false
	}
	return users[at], true
}

// reflectOf returns the field that a pointer of fieldOf leads to.
func reflectOf(field any) reflect.Value { return reflect.ValueOf(field).Elem() }
