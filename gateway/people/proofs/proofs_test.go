package proofs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"authgate/gateway/people/accounts"
	"authgate/gateway/people/factors"
	"authgate/gateway/store"
	"authgate/internal/test/must"
)

// A TOTP code signs in once, and so does each later one. The code that confirmed the secret
// is used.
func TestCodeOfTOTP(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	secret, codes := r.addTOTP("alice")
	if len(codes) != 10 {
		t.Errorf("the recovery codes are %q", codes)
	}
	alice := r.account("alice")
	if got := told(r.Code(t.Context(), alice, r.code(secret))); !strings.Contains(got, "wrong, too old or used") {
		t.Errorf("the code that confirmed: %s", got)
	}
	code := r.nextCode(secret)
	if got := told(r.Code(t.Context(), alice, code)); got != "pwd otp mfa <nil>" {
		t.Errorf("a new code: %s", got)
	}
	if _, err := r.Code(t.Context(), alice, code); !errors.Is(err, factors.ErrWrongCode) {
		t.Errorf("the code again: %v", err)
	}
	if _, err := r.Code(t.Context(), r.account("bob"), r.nextCode(secret)); !errors.Is(err, factors.ErrWrongCode) {
		t.Errorf("the code of another user: %v", err)
	}
	if got := told(r.Code(t.Context(), alice, r.code(secret))); got != "pwd otp mfa <nil>" {
		t.Errorf("the next code: %s", got)
	}
}

// each calls f for each of n at once, and returns how many returned nil. Any other error than
// loss fails the test.
func each(t *testing.T, n int, loss error, f func(i int) error) int {
	t.Helper()
	var won atomic.Int64
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-start
			if err := f(i); err == nil {
				won.Add(1)
			} else if !errors.Is(err, loss) {
				t.Error(err)
			}
		})
	}
	close(start)
	all.Wait()
	return int(won.Load())
}

// Of equal codes and answers that come at once to instances with one store, one counts.
func TestOneOfManyAtOnceWins(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	key := verified()
	r.addPasskey(key, "alice")
	secret, codes := r.addTOTP("alice")
	instances := []*Proofs{r.Proofs, r.instance(), r.instance(), r.instance()}
	by := func(i int) *Proofs { return instances[i%len(instances)] }

	code := r.nextCode(secret)
	alice := r.account("alice")
	if won := each(t, 16, factors.ErrWrongCode, func(i int) error {
		_, err := by(i).Code(t.Context(), alice, code)
		return err
	}); won != 1 {
		t.Errorf("%d sign-ins with one TOTP code", won)
	}
	if won := each(t, 8, factors.ErrWrongCode, func(i int) error {
		_, err := by(i).Code(t.Context(), alice, codes[0])
		return err
	}); won != 1 {
		t.Errorf("%d sign-ins with one recovery code", won)
	}
	answer := must.Get(key.Get(must.Get(r.BeginSignIn(t.Context()))(t)))(t)
	if won := each(t, 16, factors.ErrRefused, func(i int) error {
		_, err := by(i).SignIn(t.Context(), answer)
		return err
	}); won != 1 {
		t.Errorf("%d sign-ins with one assertion", won)
	}
	// Two copies of an authenticator, which show the same counter, with a challenge each.
	copies := [][]byte{}
	for range 4 {
		one := key.Clone()
		copies = append(copies, must.Get(one.Get(must.Get(r.BeginSignIn(t.Context()))(t)))(t))
	}
	if won := each(t, len(copies), factors.ErrCounter, func(i int) error {
		_, err := by(i).SignIn(t.Context(), copies[i])
		return err
	}); won != 1 {
		t.Errorf("%d sign-ins with copies of an authenticator", won)
	}
	pending, _, err := r.BeginTOTP(t.Context(), r.account("bob"))
	must.Do(t, err)
	bob, code := r.account("bob"), r.code(pending.Reveal())
	if won := each(t, 8, ErrNoPending, func(i int) error {
		_, err := by(i).ConfirmTOTP(t.Context(), bob, code, r.edit("bob"))
		return err
	}); won != 1 {
		t.Errorf("%d confirmations of one secret", won)
	}
}

// A recovery code serves once. That it is used is known without the store, and to instances
// that have not read the file since.
func TestRecoveryCode(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, codes := r.addTOTP("alice")
	alice, other := r.account("alice"), r.instance()
	typed := strings.ToLower(strings.ReplaceAll(codes[3], "-", " "))
	if got := told(r.Code(t.Context(), alice, typed)); got != "pwd mfa <nil>" {
		t.Errorf("a recovery code: %s", got)
	}
	other.Store = store.NewMemory(r.clock.Now)
	if _, err := other.Code(t.Context(), alice, codes[3]); !errors.Is(err, factors.ErrWrongCode) {
		t.Errorf("the code again, at an instance without the store: %v", err)
	}
	r.reload()
	if left := len(r.account("alice").Factors.Recovery); left != 9 {
		t.Errorf("%d codes are left", left)
	}
	fresh := must.Get(r.RecoveryCodes(t.Context(), r.edit("alice")))(t)
	r.reload()
	if _, err := r.Code(t.Context(), r.account("alice"), codes[4]); !errors.Is(err, factors.ErrWrongCode) {
		t.Errorf("a code that was replaced: %v", err)
	}
	if got := told(r.Code(t.Context(), r.account("alice"), fresh[0])); got != "pwd mfa <nil>" {
		t.Errorf("a new code: %s", got)
	}
	if _, err := r.Code(t.Context(), r.account("bob"), fresh[1]); !errors.Is(err, factors.ErrWrongCode) {
		t.Errorf("a code of another user: %v", err)
	}
	if _, err := r.RecoveryCodes(t.Context(), r.edit("bob")); !errors.Is(err, ErrNoFactor) {
		t.Errorf("codes without a factor: %v", err)
	}
}

// Recovery codes come with the first factor and end with the last.
func TestRecoveryCodesComeAndGo(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if codes := r.addPasskey(verified(), "alice"); len(codes) != 10 {
		t.Errorf("with the first passkey: %q", codes)
	}
	if codes := r.addPasskey(verified(), "alice"); codes != nil {
		t.Errorf("with the second passkey: %q", codes)
	}
	r.addTOTP("alice")
	for _, passkey := range r.account("alice").Factors.Passkeys {
		must.Do(t, r.RemovePasskey(t.Context(), passkey.ID, r.edit("alice")))
		if err := r.RemovePasskey(t.Context(), passkey.ID, r.edit("alice")); !errors.Is(err, ErrNoFactor) {
			t.Errorf("a passkey that is gone: %v", err)
		}
	}
	r.reload()
	if f := r.account("alice").Factors; len(f.Recovery) != 10 || f.Count() != 1 {
		t.Errorf("without the passkeys: %d codes, %d factors", len(f.Recovery), f.Count())
	}
	must.Do(t, r.RemoveTOTP(t.Context(), r.edit("alice")))
	if err := r.RemoveTOTP(t.Context(), r.edit("alice")); !errors.Is(err, ErrNoFactor) {
		t.Errorf("TOTP that is gone: %v", err)
	}
	r.reload()
	if f := r.account("alice").Factors; len(f.Recovery) != 0 || f.Any() {
		t.Errorf("at last: %+v", f)
	}
}

// A TOTP secret waits for its code for ten minutes, for its user alone, and a wrong code
// leaves it there. A new secret takes the place of one that waits.
func TestConfirmTOTP(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	alice, bob := r.account("alice"), r.account("bob")
	confirm := func(account *accounts.Account, code string) error {
		_, err := r.ConfirmTOTP(t.Context(), account, code, r.edit(account.Username))
		return err
	}
	if err := confirm(alice, "123456"); !errors.Is(err, ErrNoPending) {
		t.Errorf("without a secret: %v", err)
	}
	first, _, err := r.BeginTOTP(t.Context(), alice)
	must.Do(t, err)
	secret, uri, err := r.BeginTOTP(t.Context(), alice)
	must.Do(t, err)
	if !strings.Contains(uri, "otpauth://totp/Example:alice?") || !strings.Contains(uri, secret.Reveal()) {
		t.Errorf("the URI is %s", uri)
	}
	if err := confirm(alice, r.code(first.Reveal())); !errors.Is(err, factors.ErrWrongCode) {
		t.Errorf("a code of the secret before: %v", err)
	}
	if err := confirm(bob, r.code(secret.Reveal())); !errors.Is(err, ErrNoPending) {
		t.Errorf("of another user: %v", err)
	}
	r.clock.Advance(factors.ChallengeLife - time.Second)
	must.Do(t, confirm(alice, r.code(secret.Reveal())))
	if err := confirm(alice, r.nextCode(secret.Reveal())); !errors.Is(err, ErrNoPending) {
		t.Errorf("again: %v", err)
	}
	late, _, err := r.BeginTOTP(t.Context(), bob)
	must.Do(t, err)
	r.clock.Advance(factors.ChallengeLife)
	if err := confirm(bob, r.code(late.Reveal())); !errors.Is(err, ErrNoPending) {
		t.Errorf("after ten minutes: %v", err)
	}
	for _, stored := range []string{secret.Reveal(), first.Reveal()} {
		content := must.Get(os.ReadFile(r.path))(t)
		if strings.Contains(string(content), stored) {
			t.Errorf("the file has the secret %s:\n%s", stored, content)
		}
	}
}

// Neither the loss of the store nor that of data_dir, where nothing of it is, takes a factor
// from an account. Without the key, codes do not fit any more, and the account keeps the
// factor.
func TestLosses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	key := verified()
	r.addPasskey(key, "alice")
	secret, codes := r.addTOTP("alice")
	code := r.nextCode(secret)
	_, err := r.Code(t.Context(), r.account("alice"), code)
	must.Do(t, err)

	r.Store = store.NewMemory(r.clock.Now)
	r.reload()
	if got := told(r.Code(t.Context(), r.account("alice"), r.nextCode(secret))); got != "pwd otp mfa <nil>" {
		t.Errorf("without the store: %s", got)
	}
	must.Get(r.SignIn(t.Context(), must.Get(key.Get(must.Get(r.BeginSignIn(t.Context()))(t)))(t)))(t)

	file := r.path + keySuffix
	if info := must.Get(os.Stat(file))(t); info.Mode().Perm() != 0o600 {
		t.Errorf("the key has the mode %v", info.Mode())
	}
	must.Do(t, os.Remove(file))
	r.reload()
	alice := r.account("alice")
	if got := alice.Factors.Kinds(); !slices.Equal(got, []string{factors.KindTOTP, factors.KindPasskey}) {
		t.Errorf("without the key, the account has %q", got)
	}
	if _, err := r.Code(t.Context(), alice, r.nextCode(secret)); !errors.Is(err, factors.ErrSealed) {
		t.Errorf("without the key: %v", err)
	}
	if got := told(r.Code(t.Context(), alice, codes[0])); got != "pwd mfa <nil>" {
		t.Errorf("a recovery code without the key: %s", got)
	}
}

// The key of the configuration encrypts new secrets. Those that the key of the file has
// encrypted still open.
func TestKeys(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	before, _ := r.addTOTP("alice")
	r.key = strings.Repeat("k", 32)
	r.reload()
	after, _ := r.addTOTP("bob")
	must.Get(r.Code(t.Context(), r.account("alice"), r.nextCode(before)))(t)
	must.Get(r.Code(t.Context(), r.account("bob"), r.code(after)))(t)
	must.Do(t, os.Remove(r.path+keySuffix))
	if _, err := r.Code(t.Context(), r.account("alice"), r.nextCode(before)); !errors.Is(err, factors.ErrSealed) {
		t.Errorf("with another key: %v", err)
	}
	must.Get(r.Code(t.Context(), r.account("bob"), r.code(after)))(t)
	if _, err := NewKey("short", r.path); err == nil || !strings.Contains(err.Error(), "store.encryption_key") {
		t.Errorf("a short key: %v", err)
	}
	// Instances that reach the accounts by a link have the same key.
	link := filepath.Join(t.TempDir(), "link.yaml")
	must.Do(t, os.Symlink(r.path, link))
	must.Do(t, os.WriteFile(r.path+keySuffix, []byte("short"), 0o600))
	for _, path := range []string{link, r.path} {
		key := must.Get(NewKey("", path))(t)
		if _, err := key.sealing(); err == nil || !strings.Contains(err.Error(), r.path+keySuffix) {
			t.Errorf("a damaged key by %s: %v", path, err)
		}
	}
}

// A store that does not answer proves nothing, and says so.
func TestStoreFails(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	key := verified()
	r.addPasskey(key, "alice")
	secret, _ := r.addTOTP("alice")
	alice, code := r.account("alice"), r.nextCode(secret)
	answer := must.Get(key.Get(must.Get(r.BeginSignIn(t.Context()))(t)))(t)
	ended, end := context.WithCancel(t.Context())
	end()
	for name, attempt := range map[string]func() error{
		"a code":        func() error { _, err := r.Code(ended, alice, code); return err },
		"an answer":     func() error { _, err := r.SignIn(ended, answer); return err },
		"options":       func() error { _, err := r.BeginSignIn(ended); return err },
		"a second step": func() error { _, err := r.BeginSecondFactor(ended, alice); return err },
		"TOTP":          func() error { _, _, err := r.BeginTOTP(ended, alice); return err },
		"confirmation":  func() error { _, err := r.ConfirmTOTP(ended, alice, code, r.edit("alice")); return err },
	} {
		if err := attempt(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	must.Get(r.Code(t.Context(), alice, code))(t) // it is not spent
}
