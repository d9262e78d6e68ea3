package login

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/auth"
	"authgate/gateway/clocktest"
	"authgate/gateway/provider"
)

// After the clock is set back by hours, what providers say counts at once.
func TestProviderClockSetBack(t *testing.T) {
	t.Parallel()
	const far = 5 * time.Hour
	if now := time.Now(); inFuture(now.Add(clockLeeway), now) || !inFuture(now.Add(clockLeeway+1), now) {
		t.Error("clocks may differ by the leeway and no more")
	}
	t.Run("a login after a logout at the provider", func(t *testing.T) {
		t.Parallel()
		d := newDelegation(t, nil)
		before := d.signIn(t, d.grant("user"))
		must(d.users.BackChannel(t.Context(), "keycloak", d.logoutToken("one", testPerson, "")))(t)
		d.clock.Advance(-far)
		d.wantOut(t, before)
		// It is unknown whether the first attempt began before the logout.
		if _, err := d.users.Begin(t.Context(), "keycloak", d.grant("user"), d.now()); !errors.Is(err, auth.ErrRejected) {
			t.Errorf("the first attempt: %v", err)
		}
		d.clock.Advance(time.Second)
		d.wantIn(t, d.signIn(t, d.grant("user")), "user")
	})
	t.Run("an attempt that began before", func(t *testing.T) {
		t.Parallel()
		w := newWaiting(t)
		w.clock.Advance(-far)
		w.wantNoAttempt(t, w.browser, w.attempt.State)
	})
	t.Run("roles at a new login", func(t *testing.T) {
		t.Parallel()
		d := newDelegation(t, nil)
		first := d.signIn(t, d.grant("user", "admin"))
		d.clock.Advance(-far)
		d.wantIn(t, d.signIn(t, d.grant("user")), "user")
		d.wantIn(t, first, "user")
	})
	t.Run("roles at a renewal", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			d := newDelegation(t, nil)
			s := d.signIn(t, d.grant("user", "admin"))
			d.clock.Advance(-far)
			d.op.answers(func(context.Context) (*provider.Grant, error) { return d.grant("user"), nil })
			_, _ = d.by(t, s) // starts the renewal in the background
			synctest.Wait()
			d.wantIn(t, s, "user")
			d.wantIn(t, s, "user")
			if n := len(d.op.refreshes()); n != 1 {
				t.Errorf("%d renewals, want one", n)
			}
		})
	})
}

// The store's clock differs from the local one. A revocation expires by the store's
// clock, and the token must not be valid longer.
func TestRevocationOutlivesToken(t *testing.T) {
	t.Parallel()
	o := newIssuers(t, nil)
	local := clocktest.At(o.clock.Now().Add(-time.Minute)) // the store is a minute ahead
	o.trusted.now = local.Now
	const token = "opaque"
	o.asked.knows(token, o.access("one"))
	ends := o.access("").Expires
	must(o.by(t, token))(t)
	must(o.trusted.revoke(t.Context(), token))(t)
	for range 4 * 61 { // until the token ends by either clock
		if id, err := o.by(t, token); !errors.Is(err, auth.ErrRejected) {
			t.Fatalf("%v before its end by the local clock: %+v, %v", ends.Sub(local.Now()), id, err)
		}
		o.clock.Advance(15 * time.Second)
		local.Advance(15 * time.Second)
	}
}
