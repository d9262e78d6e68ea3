package proofs

import (
	"errors"
	"testing"
	"time"

	"authgate/gateway/people/accounts"
	"authgate/gateway/people/factors"
	"authgate/internal/test/authenticator"
	"authgate/internal/test/must"
)

// A password that was given to an account proves nothing any more once the account was
// disabled, also if it is enabled again by then.
func TestDisabledMeanwhile(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	record := func() {
		must.Do(t, r.Accounts.RecordChanges(t.Context(), r.Store, accounts.Reload{Now: r.clock.Now()}))
	}
	a := &authenticator.Authenticator{Origin: origin}
	r.addPasskey(a, "alice")
	record()
	begun := must.Get(r.BeginStep(t.Context(), r.account("alice"), "browser"))(t)
	answer := must.Get(a.Get(must.Get(r.BeginSecondFactor(t.Context(), r.account("alice")))(t)))(t)
	r.reload() // which changes nothing
	record()
	must.Get(r.Step(t.Context(), begun, "browser"))(t)
	for _, disabled := range []bool{true, false} {
		r.clock.Advance(time.Second)
		must.Do(t, r.edit("alice")(t.Context(), func(account *accounts.Account) error {
			account.Disabled = disabled
			return nil
		}))
		r.reload()
		record()
	}
	if _, err := r.Step(t.Context(), begun, "browser"); !errors.Is(err, ErrNoStep) {
		t.Errorf("the second step goes on: %v", err)
	}
	if _, err := r.SignIn(t.Context(), answer); !errors.Is(err, factors.ErrRefused) {
		t.Errorf("a passkey after the password: %v", err)
	}
}
