package accounts

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"authgate/gateway/people/factors"
	"authgate/gateway/people/password"
)

const (
	coseKey  = "pQECAyYgASFYIOFBUvc4JECBqixk7gIgd8ohWaA5suphASaaj0_bnz94IlggrnvcAOTYI8luQjfkH4-vikpVDiD8IUsJkN_aqDo8KbY"
	codeHash = "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"
)

// passkey returns a passkey with an id.
func passkey(id string) factors.Passkey {
	return factors.Passkey{
		ID: id, Name: "Zoë's \"key\" ${HOME}", PublicKey: coseKey, UserHandle: "aGFuZGxl", SignCount: 7,
		Transports: []string{"usb", "internal"}, UserVerified: true, AAGUID: "00000000-0000-0000-0000-000000000000",
	}
}

func someFactors() factors.Set {
	return factors.Set{
		Passkeys: []factors.Passkey{passkey("a2V5"), passkey("b3RoZXI")}, TOTP: &factors.TOTP{Secret: "c2VhbGVk", Step: 5},
		Recovery: []string{codeHash},
	}
}

const (
	passkeyYAML = `{id: a2V5, name: "Zoë's \"key\" $${HOME}", public_key: ` + coseKey + `, ` +
		`user_handle: aGFuZGxl, sign_count: 7, ` +
		`transports: [usb, internal], backup_eligible: false, backed_up: false, user_verified: true, ` +
		`aaguid: 00000000-0000-0000-0000-000000000000}`
	passkeyJSON = `{"id":"a2V5","name":"Zoë's \"key\" ${HOME}","public_key":"` + coseKey + `","user_handle":"aGFuZGxl",` +
		`"sign_count":7,"transports":["usb","internal"],"user_verified":true,"aaguid":"00000000-0000-0000-0000-000000000000"}`
)

// Both kinds of files have the factors of an account.
func TestReadFactors(t *testing.T) {
	t.Parallel()
	want := someFactors()
	for file, content := range map[string]string{
		"accounts.yaml": "- username: alice\n  passkeys:\n    - " + passkeyYAML +
			"\n    - " + strings.Replace(passkeyYAML, "a2V5", "b3RoZXI", 1) +
			"\n  totp: {secret: c2VhbGVk, step: 5}\n  recovery_codes: [" + codeHash + "]\n",
		"accounts.jsonl": `{"username":"alice","passkeys":[` + passkeyJSON +
			`,` + strings.Replace(passkeyJSON, "a2V5", "b3RoZXI", 1) +
			`],"totp":{"secret":"c2VhbGVk","step":5},"recovery_codes":["` + codeHash + `"]}` + "\n",
	} {
		users := checked(t, file, content)
		if diff := cmp.Diff(want, users[0].Factors); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", file, diff)
		}
	}
}

// What is wrong with factors is told with its place, and no such file is used.
func TestReadFactorsRefuses(t *testing.T) {
	t.Parallel()
	const yaml, lines = "accounts.yaml", "accounts.jsonl"
	twice := strings.ReplaceAll(passkeyJSON, `"a2V5"`, `"AA"`)
	for _, c := range []struct{ file, content, want string }{
		{yaml, "- {username: a, passkeys: [{id: x}]}\n", "accounts.file[0].passkeys[0].id"},
		{yaml, "- {username: a, passkeys: [{ids: x}]}\n", "unknown key"},
		{yaml, "- {username: a, passkeys: {}}\n", "expected a list"},
		{yaml, "- {username: a, totp: {secret: '', step: 1}}\n", "accounts.file[0].totp.secret"},
		{yaml, "- {username: a, totp:}\n", "expected a mapping"},
		{yaml, "- {username: a, recovery_codes: [abcd]}\n", "accounts.file[0].recovery_codes[0]"},
		{yaml, "- {username: a, passkeys: [" + passkeyYAML + "]}\n- {username: b, passkeys: [" + passkeyYAML + "]}\n",
			"a passkey belongs to one account"},
		{yaml, "- {username: a, password_hash: ''}\n", "the hash is empty"},
		{lines, `{"username":"a","passkeys":[{"id":"x"}]}` + "\n", "accounts.file[0].passkeys[0].id"},
		{lines, `{"username":"a","passkeys":[{"ids":"x"}]}` + "\n", `unknown field "ids"`},
		{lines, `{"username":"a","passkeys":[{"id":"AA","id":"BB"}]}` + "\n", "twice"},
		{lines, `{"username":"a","passkeys":{}}` + "\n", "expected a list, found an object"},
		{lines, `{"username":"a","passkeys":null}` + "\n", "expected a list, found null"},
		{lines, `{"username":"a","totp":null}` + "\n", "expected an object, found null"},
		{lines, `{"username":"a","totp":{"secret":"","step":1}}` + "\n", "accounts.file[0].totp.secret"},
		{lines, `{"username":"a","recovery_codes":[null]}` + "\n", "expected a list of strings"},
		{lines, `{"username":"a","passkeys":[` + twice + `,` + twice + `]}` + "\n", "again"},
		{lines, `{"username":"a","password_hash":""}` + "\n", "the hash is empty"},
	} {
		reader := newReader()
		doc, users := parse(reader, c.file, []byte(c.content))
		Check(users, Places(doc, doc.Root(), len(users)), false)
		if err := reader.Err(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.content, err, c.want)
		}
	}
}

// No password signs in to an account without one, at the cost of an unknown name.
func TestAccountWithoutPassword(t *testing.T) {
	t.Parallel()
	users := checked(t, "accounts.yaml", "- {username: alice, password_hash: '"+oldHash+"'}\n- username: bob\n")
	set := New(users, NewDecoyKey([]byte("key")), time.Now)
	account, hash := set.Target("bob")
	if _, unknown := set.Target("nobody"); account != nil || hash.Cost() != unknown.Cost() || hash.Verify("") {
		t.Errorf("got the account %v, and a hash of cost %s", account, hash.Cost())
	}
	if bob, ok := set.Lookup("bob"); !ok || bob.HasPassword() || bob.Version() == "" {
		t.Errorf("the account without a password is %+v, %v", bob, ok)
	}
	alone := New(checked(t, "accounts.yaml", "- username: bob\n"), NewDecoyKey([]byte("key")), time.Now)
	for _, name := range []string{"bob", "nobody"} {
		if account, hash := alone.Target(name); account != nil || hash.Cost() != password.Unmatched().Cost() {
			t.Errorf("%s: got %v and the cost %s", name, account, hash.Cost())
		}
	}
}

// A change of factors ends logins, and nothing else that an account has.
func TestLoginVersion(t *testing.T) {
	t.Parallel()
	of := func(f factors.Set) *Account {
		users := []Account{{Username: "alice", Factors: f}}
		New(users, NewDecoyKey(nil), time.Now)
		return &users[0]
	}
	all := someFactors()
	swapped := someFactors()
	swapped.Passkeys[0], swapped.Passkeys[1] = swapped.Passkeys[1], swapped.Passkeys[0]
	swapped.Passkeys[0].Name, swapped.Passkeys[0].SignCount, swapped.Recovery = "other", 9, nil
	if of(all).LoginVersion() != of(swapped).LoginVersion() {
		t.Error("names, order or recovery codes of factors end logins")
	}
	seen := map[string]string{}
	without, _ := all.WithoutPasskey("a2V5")
	replaced := someFactors()
	replaced.Passkeys[0].PublicKey = "other"
	noTOTP, _ := all.WithoutTOTP()
	for name, f := range map[string]factors.Set{
		"none": {}, "all": all, "one passkey less": without, "another key": replaced, "no TOTP": noTOTP,
		"another secret": all.WithTOTP(&factors.TOTP{Secret: "b3RoZXI"}), "TOTP alone": {TOTP: all.TOTP},
	} {
		account := of(f)
		if other, twice := seen[account.LoginVersion()]; twice {
			t.Errorf("%s is the same as %s", name, other)
		}
		seen[account.LoginVersion()] = name
		if account.Version() != of(factors.Set{}).Version() {
			t.Errorf("%s: the version of the password has changed", name)
		}
	}
	if none := of(factors.Set{}); none.LoginVersion() != none.Version() {
		t.Error("a login of an account without factors, begun by an older version, would end")
	}
	text := fmt.Sprint(of(factors.Set{Recovery: all.Recovery}).LoginVersion())
	if text != of(factors.Set{}).LoginVersion() {
		t.Error("recovery codes alone are a factor")
	}
}
