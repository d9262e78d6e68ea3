package login

import (
	"testing"
	"time"

	"authgate/gateway/auth"
)

// A login counts while its account has the same version and the same epoch.
func TestCurrentAccount(t *testing.T) {
	t.Parallel()
	m := newMechanisms(t, nil)
	disabled, changed := alice(), alice()
	disabled.Disabled = true
	changed.PasswordHash = testHash("wonderland") // the same password
	epochs := func(m *mechanisms) *mechanisms {
		m.clock.advance(time.Minute)
		noError(t, m.accounts.UpdateEpochs(t.Context(), m.store, m.clock.now()))
		return m
	}
	before := m.signIn(t, "alice") // by a version that does not store epochs
	m = epochs(m)
	for _, gone := range [][]auth.Account{{bob()}, {disabled, bob()}, {changed, bob()}} {
		s, other := m.signIn(t, "alice"), m.signIn(t, "bob")
		m.wantDead(t, before)
		m.wantAlive(t, s)
		next := epochs(m.reloaded(t, gone...))
		next.wantDead(t, s)
		next.wantAlive(t, other)
		m = epochs(m.reloaded(t, alice(), bob()))
		m.wantDead(t, s) // although the account is the same again
		m.wantAlive(t, other)
	}
	login := Login{Created: m.clock.now()}
	if !login.inEpoch(login.Created) || login.inEpoch(login.Created.Add(1)) {
		t.Error("a login without an epoch must have been created in the epoch")
	}
}
