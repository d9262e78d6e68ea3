package proofs

import (
	"errors"
	"strings"
	"testing"
	"time"

	"authgate/gateway/people/factors"
	"authgate/gateway/store"
	"authgate/internal/test/authenticator"
	"authgate/internal/test/must"
)

// begun are the options that a browser got.
func (r *rig) begun(options []byte, err error) []byte {
	r.Helper()
	return must.Get(options, err)(r)
}

// A passkey with verification signs in alone. After the password it may be one without.
func TestSignInWithPasskey(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	key, simple := verified(), &authenticator.Authenticator{Origin: origin}
	r.addPasskey(key, "alice")
	r.addPasskey(simple, "bob")
	signedIn := must.Get(r.SignIn(t.Context(), must.Get(key.Get(r.begun(r.BeginSignIn(t.Context()))))(t)))(t)
	if got := told(signedIn.AMR(), nil); signedIn.Account.Username != "alice" || got != "hwk user mfa <nil>" {
		t.Errorf("%s signed in: %s", signedIn.Account.Username, got)
	}
	alone := must.Get(simple.Get(r.begun(r.BeginSignIn(t.Context()))))(t)
	if _, err := r.SignIn(t.Context(), alone); !errors.Is(err, factors.ErrUnverified) {
		t.Errorf("without verification: %v", err)
	}
	after := r.begun(r.BeginSecondFactor(t.Context(), r.account("bob")))
	signedIn = must.Get(r.SignIn(t.Context(), must.Get(simple.Get(after))(t)))(t)
	if got := told(signedIn.AMR(), nil); signedIn.Account.Username != "bob" || got != "pwd hwk mfa <nil>" {
		t.Errorf("after the password, %s signed in: %s", signedIn.Account.Username, got)
	}
}

// A passkey is added whatever the browser says about its transports, and signs in. Windows and
// old browsers say nothing.
func TestPasskeyWithoutKnownTransports(t *testing.T) {
	t.Parallel()
	for _, said := range []any{"absent", nil, []string{}, []string{"quantum"}, []string{"usb", "quantum"}} {
		r, key := newRig(t), verified()
		key.Answer = func(answer map[string]any) {
			response := answer["response"].(map[string]any)
			if response["transports"] = said; said == "absent" {
				delete(response, "transports")
			}
		}
		r.addPasskey(key, "alice")
		key.Answer = nil
		must.Get(r.SignIn(t.Context(), must.Get(key.Get(r.begun(r.BeginSignIn(t.Context()))))(t)))(t)
	}
}

// An answer counts once, for the user and the purpose of its challenge, for ten minutes.
func TestChallengeServesOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	key, other := verified(), verified()
	r.addPasskey(key, "alice")
	r.addPasskey(other, "bob")
	alice, bob := r.account("alice"), r.account("bob")
	get := func(a *authenticator.Authenticator, options []byte) []byte { return must.Get(a.Get(options))(t) }
	refuse := func(what string, answer []byte) {
		t.Helper()
		if s, err := r.SignIn(t.Context(), answer); !errors.Is(err, factors.ErrRefused) {
			t.Errorf("%s: %v %v", what, s, err)
		}
	}
	answer := get(key, r.begun(r.BeginSignIn(t.Context())))
	must.Get(r.SignIn(t.Context(), answer))(t)
	refuse("the answer again", answer)

	options := r.begun(r.BeginSignIn(t.Context()))
	stranger := key.Clone()
	stranger.Origin = "https://evil.example"
	refuse("from another origin", get(stranger, options))
	refuse("the challenge again, after a wrong answer", get(key, options))

	stranger = other.Clone()
	stranger.Credentials[0].ID = key.Credentials[0].ID
	refuse("the id of another user's passkey", get(stranger, r.begun(r.BeginSignIn(t.Context()))))
	crossed := r.begun(r.BeginSecondFactor(t.Context(), alice))
	refuse("the passkey of another user", get(other, []byte(strings.ReplaceAll(string(crossed),
		authenticator.Encode(key.Credentials[0].ID), authenticator.Encode(other.Credentials[0].ID)))))

	enrolment := r.begun(r.BeginPasskey(t.Context(), alice))
	refuse("the challenge of an enrolment", get(key, []byte(strings.Replace(string(enrolment), `"rp":{`,
		`"rpId":"example.org","rp":{`, 1))))
	creation := must.Get(verified().Create(r.begun(r.BeginPasskey(t.Context(), bob))))(t)
	_, _, err := r.AddPasskey(t.Context(), alice, "mine", creation, r.edit("alice"))
	if !errors.Is(err, factors.ErrRefused) {
		t.Errorf("the enrolment of another user: %v", err)
	}
	if _, _, err := r.AddPasskey(t.Context(), bob, "mine", creation, r.edit("bob")); !errors.Is(err, factors.ErrRefused) {
		t.Errorf("the challenge of an enrolment again: %v", err)
	}
	options = r.begun(r.BeginSignIn(t.Context()))
	r.clock.Advance(factors.ChallengeLife)
	refuse("after ten minutes", get(key, options))

	options = r.begun(r.BeginSecondFactor(t.Context(), alice))
	r.addPasskey(verified(), "alice")
	refuse("after a change of the account", get(key, options))
}

// A counter must rise, whatever has become of the store: the higher of the stored counter and
// that of the enrolment counts.
func TestCounter(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	key := verified()
	r.addPasskey(key, "alice")
	signIn := func(a *authenticator.Authenticator) error {
		_, err := r.SignIn(t.Context(), must.Get(a.Get(r.begun(r.BeginSignIn(t.Context()))))(t))
		return err
	}
	old := key.Clone()
	for range 3 {
		must.Do(t, signIn(key))
	}
	if err := signIn(old.Clone()); !errors.Is(err, factors.ErrCounter) {
		t.Errorf("an older counter: %v", err)
	}
	r.clock.Advance(1000 * 24 * time.Hour)
	if err := signIn(old.Clone()); !errors.Is(err, factors.ErrCounter) {
		t.Errorf("an older counter, years later: %v", err)
	}
	r.Store = store.NewMemory(r.clock.Now)
	r.reload()
	must.Do(t, signIn(old.Clone())) // the store is lost: the counter of the enrolment counts
	old.Credentials[0].Counter = 0
	old.NoCounter = true
	r.Store = store.NewMemory(r.clock.Now)
	r.reload()
	if err := signIn(old); !errors.Is(err, factors.ErrCounter) {
		t.Errorf("no counter any more: %v", err)
	}
}

// Of the counter of the enrolment and the stored one, the higher counts, whichever that is.
func TestStoredCounters(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	key := verified()
	r.addPasskey(key, "alice")
	passkey := &r.account("alice").Factors.Passkeys[0]
	for _, c := range []struct {
		enrolled int64
		stored   string
		now      uint32
		ok       bool
	}{
		{5, "9", 10, true}, {5, "9", 9, false}, {5, "9", 6, false}, {9, "5", 9, false}, {9, "5", 10, true},
		{0, "9", 0, false}, {0, "1", 1, false}, {0, "1", 2, true},
	} {
		passkey.SignCount, key.Credentials[0].Counter = c.enrolled, c.now-1
		must.Do(t, r.Store.Put(t.Context(), counterKey(passkey.ID), []byte(c.stored), time.Time{}))
		_, err := r.SignIn(t.Context(), must.Get(key.Get(r.begun(r.BeginSignIn(t.Context()))))(t))
		if (err == nil) != c.ok || err != nil && !errors.Is(err, factors.ErrCounter) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// Without a site there are no passkeys, and without an issuer no new TOTP. TOTP that an
// account has goes on.
func TestOff(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	key := verified()
	r.addPasskey(key, "alice")
	secret, _ := r.addTOTP("alice")
	answer := must.Get(key.Get(r.begun(r.BeginSignIn(t.Context()))))(t)
	r.Site, r.Issuer = nil, ""
	alice := r.account("alice")
	for name, attempt := range map[string]func() error{
		"sign in": func() error { _, err := r.BeginSignIn(t.Context()); return err },
		"answer":  func() error { _, err := r.SignIn(t.Context(), answer); return err },
		"second":  func() error { _, err := r.BeginSecondFactor(t.Context(), alice); return err },
		"enrol":   func() error { _, err := r.BeginPasskey(t.Context(), alice); return err },
		"add":     func() error { _, _, err := r.AddPasskey(t.Context(), alice, "x", answer, r.edit("alice")); return err },
		"TOTP":    func() error { _, _, err := r.BeginTOTP(t.Context(), alice); return err },
		"confirm": func() error { _, err := r.ConfirmTOTP(t.Context(), alice, "1", r.edit("alice")); return err },
	} {
		if err := attempt(); !errors.Is(err, ErrOff) {
			t.Errorf("%s: %v", name, err)
		}
	}
	must.Get(r.Code(t.Context(), alice, r.nextCode(secret)))(t)
}

// A credential id belongs to one account, and a user without passkeys has no second step.
func TestOwners(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	key := verified()
	r.addPasskey(key, "alice")
	twin := verified()
	twin.NewID = func() []byte { return key.Credentials[0].ID }
	answer := must.Get(twin.Create(r.begun(r.BeginPasskey(t.Context(), r.account("bob")))))(t)
	_, _, err := r.AddPasskey(t.Context(), r.account("bob"), "x", answer, r.edit("bob"))
	if !errors.Is(err, factors.ErrRefused) {
		t.Errorf("the id of alice's passkey for bob: %v", err)
	}
	if _, err := r.BeginSecondFactor(t.Context(), r.account("bob")); !errors.Is(err, ErrNoFactor) {
		t.Errorf("options for bob: %v", err)
	}
}
