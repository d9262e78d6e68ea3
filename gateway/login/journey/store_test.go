package journey

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"
	"time"

	"authgate/internal/test/must"
	"authgate/internal/test/storetest"
)

// A store that fails decides nothing, before or after the call had its effect: the error is that
// of the store, and tells no secret.
func TestFailingStore(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"put attempt:", "get attempt:", "swap attempt:", "put ticket:", "take ticket:"} {
		for _, late := range []bool{false, true} {
			r, browser := newRig(t), NewBrowserSecret()
			attempt, ticket := r.beginAttempt(t, browser), r.ticketFor(t, browser)
			operations := map[string]func() error{
				"put attempt:":  func() error { return r.attempts.Begin(t.Context(), netip.Addr{}, attempt) },
				"get attempt:":  func() error { return errorOf(r.attempts.Finish(t.Context(), browser, attempt.State)) },
				"swap attempt:": func() error { return errorOf(r.attempts.Finish(t.Context(), browser, attempt.State)) },
				"put ticket:": func() error {
					return errorOf(r.tickets.Issue(t.Context(), Ticket{Login: testLogin, Scope: otherHost}))
				},
				"take ticket:": func() error { return errorOf(r.tickets.Use(t.Context(), ticket, otherHost, browser)) },
			}
			r.store.Late = late
			r.store.Fails(call)
			err := operations[call]()
			r.store.Fails("")
			if !errors.Is(err, storetest.ErrNoAnswer) || errors.Is(err, ErrNoAttempt) || errors.Is(err, ErrNoTicket) {
				t.Fatalf("%s late %t: got %v, want the error of the store", call, late, err)
			}
			for _, secret := range []string{attempt.State, attempt.Nonce, attempt.Verifier, browser, ticket} {
				if bytes.Contains([]byte(err.Error()), []byte(secret)) {
					t.Errorf("%s late %t: the error tells a secret: %v", call, late, err)
				}
			}
			again := operations[call]()
			used := late && (errors.Is(again, ErrNoAttempt) || errors.Is(again, ErrNoTicket))
			if again != nil && !used {
				t.Errorf("%s late %t: again, when the store works: %v", call, late, again)
			}
		}
	}
}

func errorOf[T any](_ T, err error) error { return err }

// The store never gets a secret.
func TestStoreHoldsNoReadableSecret(t *testing.T) {
	t.Parallel()
	r, browser := newRig(t), NewBrowserSecret()
	attempt, ticket := r.beginAttempt(t, browser), r.ticketFor(t, browser)
	r.wantAttempt(t, browser, attempt)
	written := r.store.EverWritten()
	if len(written) < 3 {
		t.Fatalf("%d records were written", len(written))
	}
	for _, secret := range []string{attempt.State, attempt.Nonce, attempt.Verifier, browser, ticket} {
		for _, record := range written {
			if bytes.Contains(record, []byte(secret)) {
				t.Errorf("the store was given %q: %q", secret, record)
			}
		}
	}
	must.Get(r.tickets.Use(t.Context(), ticket, otherHost, browser))(t)
}

// After the clock is set back by hours, nothing from before counts.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	r, browser := newRig(t), NewBrowserSecret()
	attempt, ticket := r.beginAttempt(t, browser), r.ticketFor(t, browser)
	r.clock.Advance(-5 * time.Hour)
	r.wantNoAttempt(t, browser, attempt.State)
	r.wantNoTicket(t, ticket, otherHost, browser)
}
