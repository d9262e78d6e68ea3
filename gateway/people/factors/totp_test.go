package factors

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"authgate/gateway/store/seal"
	"authgate/gateway/strictyaml"
	"authgate/internal/test/authenticator"
	"authgate/internal/test/must"
)

// noon is when tests check codes: in the middle of a step.
func noon() time.Time { return time.Date(2026, 11, 26, 12, 0, 15, 0, time.UTC) }

func box(tb testing.TB, fill string) *seal.Box {
	tb.Helper()
	return must.Get(seal.New([]byte(strings.Repeat(fill, seal.MinSecret))))(tb)
}

// enrolled returns a new secret and the TOTP that it became for alice an hour before noon.
func enrolled(tb testing.TB, b *seal.Box) (Secret, *TOTP) {
	tb.Helper()
	s, before := NewSecret(), noon().Add(-time.Hour)
	return s, must.Get(s.Confirm(b, "alice", code(tb, s, before), before))(tb)
}

func code(tb testing.TB, s Secret, at time.Time) string {
	tb.Helper()
	return must.Get(authenticator.Code(s.Reveal(), at))(tb)
}

// TestTOTPVectors checks the vectors of RFC 6238, appendix B. Codes of six digits are the
// ends of those of eight.
func TestTOTPVectors(t *testing.T) {
	t.Parallel()
	secret := Secret{strictyaml.Secret(base32Text.EncodeToString([]byte("12345678901234567890")))}
	for at, code := range map[int64]string{
		59: "94287082", 1111111109: "07081804", 1111111111: "14050471",
		1234567890: "89005924", 2000000000: "69279037", 20000000000: "65353130",
	} {
		if step, err := secret.checkCode(code[2:], time.Unix(at, 0), 0); err != nil || step != at/30 {
			t.Errorf("at %d: got step %d, %v, want %d", at, step, err, at/30)
		}
	}
}

// TestTOTPOnce checks that a code counts in its step and one before and after, that a used
// one does not count again, and that neither does an earlier one.
func TestTOTPOnce(t *testing.T) {
	t.Parallel()
	b := box(t, "k")
	secret, kept := enrolled(t, b)
	now := noon().Unix() / 30
	for steps := int64(-3); steps <= 3; steps++ {
		typed := code(t, secret, noon().Add(time.Duration(steps)*30*time.Second))
		step, err := kept.Check(b, "alice", typed, noon(), 0)
		if near := steps >= -1 && steps <= 1; near != (err == nil) || near && step != now+steps {
			t.Errorf("a code of %d steps later: got step %d, %v", steps, step-now, err)
		}
		if err == nil {
			for _, last := range []int64{step, step + 1} {
				if _, err := kept.Check(b, "alice", typed, noon(), last); !errors.Is(err, ErrWrongCode) {
					t.Errorf("with step %d used: got %v for the code of step %d", last-now, err, steps)
				}
			}
		}
	}
}

// TestTOTPConfirmationSpends checks that the code that confirmed a secret does not sign in,
// even if nothing else remembers it.
func TestTOTPConfirmationSpends(t *testing.T) {
	t.Parallel()
	b, secret := box(t, "k"), NewSecret()
	typed := code(t, secret, noon())
	kept := must.Get(secret.Confirm(b, "alice", typed, noon()))(t)
	if _, err := kept.Check(b, "alice", typed, noon(), 0); !errors.Is(err, ErrWrongCode) {
		t.Errorf("got %v for the code of the confirmation", err)
	}
	next := noon().Add(30 * time.Second)
	if _, err := kept.Check(b, "alice", code(t, secret, next), next, 0); err != nil {
		t.Errorf("the next code: %v", err)
	}
	if _, err := secret.Confirm(b, "alice", "000000", time.Unix(0, 0)); !errors.Is(err, ErrWrongCode) {
		t.Errorf("a wrong code: got %v", err)
	}
}

// TestTypedTOTP checks which texts are read as a code of an app.
func TestTypedTOTP(t *testing.T) {
	t.Parallel()
	b := box(t, "k")
	secret, kept := enrolled(t, b)
	at := noon().Add(time.Minute)
	right := code(t, secret, at)
	for _, gap := range gaps {
		if _, err := kept.Check(b, "alice", gap+right[:3]+gap+right[3:]+gap, at, 0); err != nil {
			t.Errorf("%q between the digits: %v", gap, err)
		}
	}
	for _, typed := range []string{
		"", " ", right[:5], right + "7", "+" + right, "0x" + right[:4], right[:5] + "a", right + "\x00",
		strings.Repeat(" ", maxTyped) + right,
	} {
		if _, err := kept.Check(b, "alice", typed, at, 0); !errors.Is(err, ErrWrongCode) {
			t.Errorf("%q: %v", typed, err)
		}
	}
}

// TestTOTPSealed checks that a secret opens for its account and its use alone, with its key
// alone, and that one that does not open is an error of its own.
func TestTOTPSealed(t *testing.T) {
	t.Parallel()
	b := box(t, "k")
	secret, kept := enrolled(t, b)
	right := code(t, secret, noon())
	pending := &TOTP{Secret: encode(secret.Pending(b, "alice"))}
	for name, check := range map[string]func() (int64, error){
		"another account": func() (int64, error) { return kept.Check(b, "bob", right, noon(), 0) },
		"another key":     func() (int64, error) { return kept.Check(box(t, "x"), "alice", right, noon(), 0) },
		"not confirmed":   func() (int64, error) { return pending.Check(b, "alice", right, noon(), 0) },
		"no base64":       func() (int64, error) { return (&TOTP{Secret: "?"}).Check(b, "alice", right, noon(), 0) },
		"empty":           func() (int64, error) { return (&TOTP{}).Check(b, "alice", right, noon(), 0) },
	} {
		if step, err := check(); !errors.Is(err, ErrSealed) || step != 0 {
			t.Errorf("%s: got %d, %v", name, step, err)
		}
	}
	if _, err := OpenPending(b, "bob", secret.Pending(b, "alice")); !errors.Is(err, ErrSealed) {
		t.Errorf("pending, of another account: got %v", err)
	}
	if opened, err := OpenPending(b, "alice", secret.Pending(b, "alice")); err != nil || opened != secret {
		t.Errorf("pending: got another secret, or %v", err)
	}
	if strings.Contains(kept.Secret, secret.Reveal()) {
		t.Error("the secret is kept as it is")
	}
}

// TestSecretHidden checks that a secret does not show where it is printed.
func TestSecretHidden(t *testing.T) {
	t.Parallel()
	s := NewSecret()
	for _, printed := range []string{fmt.Sprint(s), fmt.Sprintf("%+v", s), fmt.Sprintf("%#v", s), fmt.Sprintf("%q", s)} {
		if strings.Contains(printed, s.Reveal()) {
			t.Errorf("it is printed: %s", printed)
		}
	}
	if len(s.Reveal()) != 32 || s == NewSecret() {
		t.Errorf("got %d symbols or the same secret twice, want 160 random bits", len(s.Reveal()))
	}
}

func TestURI(t *testing.T) {
	t.Parallel()
	s := NewSecret()
	for _, c := range []struct{ issuer, account, label string }{
		{"Example Ltd", "alice", "Example Ltd:alice"},
		{"auth.example.org:8443", "a:b", "auth.example.org 8443:a b"},
		{"Wiki & Co?#", "älice/%2f", "Wiki & Co?#:älice/%2f"},
		{"1+1&secret=A", "a+b@c", "1+1&secret=A:a+b@c"},
	} {
		text := s.URI(c.issuer, c.account)
		u := must.Get(url.Parse(text))(t)
		issuer, _, _ := strings.Cut(c.label, ":")
		want := map[string]string{
			"secret": s.Reveal(), "issuer": issuer, "algorithm": "SHA1", "digits": "6", "period": "30",
		}
		for name, value := range want {
			if got := u.Query().Get(name); got != value {
				t.Errorf("%s: %s is %q, want %q", text, name, got, value)
			}
		}
		if u.Scheme != "otpauth" || u.Host != "totp" || u.Path != "/"+c.label {
			t.Errorf("%s: got the label %q, want %q", text, u.Path, c.label)
		}
		if strings.Contains(u.RawQuery, "+") {
			t.Errorf("%s: a space is written as +, which apps show", text)
		}
	}
}

// FuzzTOTP checks, for any code, time and last step, that a code is accepted only if it is
// the code of a step near the time and later than the last, and that it is then used.
func FuzzTOTP(f *testing.F) {
	f.Add("287082", int64(59), int64(0))
	f.Add("28 70 82", int64(59), int64(1))
	f.Add("755224", int64(-1), int64(-5))
	secret := Secret{strictyaml.Secret(base32Text.EncodeToString([]byte("12345678901234567890")))}
	f.Fuzz(func(t *testing.T, typed string, at, last int64) {
		now := time.Unix(at, 0)
		for _, typed := range []string{typed, code(t, secret, now), code(t, secret, now.Add(time.Minute))} {
			step, err := secret.checkCode(typed, now, last)
			if err != nil {
				if step != 0 {
					t.Fatalf("%q: got step %d with an error", typed, step)
				}
				continue
			}
			off := step - at/30
			if off < -1 || off > 1 || step <= last || step <= 0 {
				t.Fatalf("%q at %d: got step %d with %d used", typed, at, step, last)
			}
			if want := code(t, secret, time.Unix(step*30, 0)); strings.ReplaceAll(typed, " ", "") != want {
				t.Fatalf("%q counts as the code of step %d, which is %s", typed, step, want)
			}
			if again, err := secret.checkCode(typed, now, step); err == nil {
				t.Fatalf("%q counts twice, as step %d and %d", typed, step, again)
			}
		}
	})
}
