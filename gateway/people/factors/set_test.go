package factors

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"authgate/gateway/strictyaml"
	"authgate/internal/test/must"
)

func TestSetKinds(t *testing.T) {
	t.Parallel()
	totp, keys := &TOTP{}, []Passkey{{ID: "a"}, {ID: "b"}}
	for _, c := range []struct {
		set   Set
		any   bool
		count int
		kinds []string
	}{
		{Set{}, false, 0, []string{}},
		{Set{Recovery: []string{"x"}}, false, 0, []string{}},
		{Set{TOTP: totp}, true, 1, []string{"totp"}},
		{Set{Passkeys: keys}, true, 2, []string{"passkey"}},
		{Set{TOTP: totp, Passkeys: keys}, true, 3, []string{"totp", "passkey"}},
	} {
		if c.set.Any() != c.any || c.set.Count() != c.count || !slices.Equal(c.set.Kinds(), c.kinds) || c.set.Kinds() == nil {
			t.Errorf("%+v: got %v, %d, %v", c.set, c.set.Any(), c.set.Count(), c.set.Kinds())
		}
	}
}

// TestSetChanges checks that changes leave the set alone, and that recovery codes end with
// the last factor.
func TestSetChanges(t *testing.T) {
	t.Parallel()
	full, _ := Set{TOTP: &TOTP{}, Passkeys: []Passkey{{ID: "a"}, {ID: "b"}}}.WithRecoveryCodes("alice")
	before := fmt.Sprintf("%+v", full)
	noA, ok := full.WithoutPasskey("a")
	if _, has := noA.Passkey("b"); !ok || !has || len(noA.Passkeys) != 1 {
		t.Errorf("got %v and %+v without a", ok, noA)
	}
	noTOTP, ok := noA.WithoutTOTP()
	if !ok || noTOTP.TOTP != nil || len(noTOTP.Recovery) != 10 {
		t.Errorf("got %v and %+v without TOTP", ok, noTOTP)
	}
	if last, ok := noTOTP.WithoutPasskey("b"); !ok || last.Any() || len(last.Recovery) != 0 {
		t.Errorf("got %v and %+v without the last factor", ok, last)
	}
	if _, ok := noTOTP.WithoutTOTP(); ok {
		t.Error("TOTP is removed twice")
	}
	for _, id := range []string{"", "c"} {
		if _, ok := full.WithoutPasskey(id); ok {
			t.Errorf("the passkey %q is removed", id)
		}
	}
	if _, err := full.WithPasskey(Passkey{ID: "a"}); err == nil {
		t.Error("a passkey is added twice")
	}
	if more, err := full.WithPasskey(Passkey{ID: "c"}); err != nil || len(more.Passkeys) != 3 {
		t.Errorf("got %+v, %v with another passkey", more, err)
	}
	many := Set{}
	for i := range MaxPasskeys + 1 {
		next, err := many.WithPasskey(Passkey{ID: fmt.Sprint(i)})
		if (err == nil) != (i < MaxPasskeys) {
			t.Errorf("passkey %d: got %v", i, err)
		}
		many = next
	}
	if after := fmt.Sprintf("%+v", full); after != before {
		t.Errorf("the set has become %s", after)
	}
}

// TestSetYAML checks that a set that is written to YAML is read as it was.
func TestSetYAML(t *testing.T) {
	t.Parallel()
	p := site(t).add(verified(), "alice", "Schlüssel")
	_, totp := enrolled(t, box(t, "k"))
	want, _ := Set{Passkeys: []Passkey{*p}, TOTP: totp}.WithRecoveryCodes("alice")
	source := fmt.Sprintf(`passkeys:
  - id: %q
    name: %q
    public_key: %q
    user_handle: %q
    sign_count: %d
    transports: [hybrid, internal]
    backup_eligible: %t
    backed_up: %t
    user_verified: %t
    aaguid: %q
totp: {secret: %q, step: %d}
recovery_codes: [%s]
`, p.ID, p.Name, p.PublicKey, p.UserHandle, p.SignCount, p.BackupEligible, p.BackedUp, p.UserVerified, p.AAGUID,
		totp.Secret, totp.Step, `"`+strings.Join(want.Recovery, `", "`)+`"`)
	reader := strictyaml.NewReader(strictyaml.Options{Lookup: os.LookupEnv})
	var got Set
	reader.Read("users.yaml", []byte(source), 1<<20, "", &got)
	must.Do(t, reader.Err())
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what is read differs (-want +got):\n%s", diff)
	}
	got.Check(func(path, format string, args ...any) { t.Errorf("%s: "+format, append([]any{path}, args...)...) })
}

// TestSetCheck checks what Check finds in a set.
func TestSetCheck(t *testing.T) {
	t.Parallel()
	s := site(t)
	valid := *s.add(verified(), "alice", "key")
	good := func() Set {
		_, totp := enrolled(t, box(t, "k"))
		set, _ := Set{Passkeys: []Passkey{valid}, TOTP: totp}.WithRecoveryCodes("alice")
		return set
	}
	for path, spoil := range map[string]func(*Set){
		"passkeys[0].id":          func(s *Set) { s.Passkeys[0].ID = "a b" },
		"passkeys[0].user_handle": func(s *Set) { s.Passkeys[0].UserHandle = "" },
		"passkeys[0].public_key":  func(s *Set) { s.Passkeys[0].PublicKey = "AAAA" },
		"passkeys[0].sign_count":  func(s *Set) { s.Passkeys[0].SignCount = 1 << 32 },
		"passkeys[1].id":          func(s *Set) { s.Passkeys = append(s.Passkeys, valid) },
		"passkeys":                func(s *Set) { s.Passkeys = slices.Repeat(s.Passkeys, MaxPasskeys+1) },
		"totp.secret":             func(s *Set) { s.TOTP = &TOTP{} },
		"totp.step":               func(s *Set) { s.TOTP.Step = -1 },
		"recovery_codes[9]":       func(s *Set) { s.Recovery[9] = s.Recovery[0] },
		"recovery_codes[0]":       func(s *Set) { s.Recovery[0] = "ABCD-EFGH-JKMN-PQRS" },
	} {
		set, found := good(), []string{}
		set.Check(func(path, _ string, _ ...any) { found = append(found, path) })
		if len(found) != 0 {
			t.Fatalf("a valid set: found %v", found)
		}
		spoil(&set)
		set.Check(func(path, _ string, _ ...any) { found = append(found, path) })
		if !slices.Contains(found, path) {
			t.Errorf("%s: found %v", path, found)
		}
	}
}

func TestCheckName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"key", "Söhne & Töchter 🔑", strings.Repeat("ä", MaxName)} {
		if err := CheckName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", "  ", "a\nb", "a\x00", "a\u202eb", "\xff", strings.Repeat("ä", MaxName+1)} {
		if CheckName(name) == nil {
			t.Errorf("%q is a name", name)
		}
	}
}

func TestAMR(t *testing.T) {
	t.Parallel()
	hardware, software := Passkey{UserVerified: true}, Passkey{UserVerified: true, BackupEligible: true}
	for _, c := range []struct {
		used []string
		want string
	}{
		{nil, ""},
		{[]string{Password}, "pwd"},
		{[]string{OTP, Password, OTP}, "pwd otp mfa"},
		{[]string{Password, Multi}, "pwd mfa"}, // a recovery code
		{[]string{OTP}, "otp"},
		{[]string{user}, "user"},
		{[]string{Password, user}, "pwd user"},
		{[]string{"fido", Password, ""}, "pwd"},
		{hardware.Methods(false), "hwk"},
		{hardware.Methods(true), "hwk user mfa"},
		{software.Methods(true), "swk user mfa"},
		{append(software.Methods(false), Password), "pwd swk mfa"},
		{append(hardware.Methods(true), Password), "pwd hwk user mfa"},
		{Passkey{}.Methods(true), "hwk"}, // not verified at the enrolment
	} {
		if got := strings.Join(AMR(c.used...), " "); got != c.want {
			t.Errorf("%v: got %q, want %q", c.used, got, c.want)
		}
	}
}
