package journey

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"authgate/gateway/identity/auth"
	"authgate/gateway/identity/provider"
	"authgate/gateway/store"
	"authgate/gateway/store/record"
	"authgate/gateway/store/seal"
)

// attemptPrefix begins the store keys of attempts.
const attemptPrefix = "attempt:" // + hash of the state

// AttemptLifetime is how long a person may take to sign in at a provider.
const AttemptLifetime = 10 * time.Minute

// ErrNoAttempt: the state is unknown, used, expired, or of another browser.
var ErrNoAttempt = errors.New("login: no such attempt to log in")

// Attempt is a login attempt at a provider: the browser is on its way to the provider
// and back (RFC 6749, section 4.1). It is stored encrypted, and its key is a hash of
// the state.
type Attempt struct {
	provider.Attempt
	Provider  string    `json:"provider"`            // its name in the configuration
	Issuer    string    `json:"issuer"`              // the provider's issuer at the time
	Browser   string    `json:"browser"`             // hash of the secret in the browser's cookie
	ReturnTo  string    `json:"return_to,omitempty"` // a path, or a URL of another host of the gateway
	Binding   string    `json:"binding,omitempty"`   // of the browser at that host, if it waits for a session there
	Elsewhere bool      `json:"elsewhere,omitempty"` // another site began it; see Ticket
	Before    []string  `json:"before,omitempty"`    // sids of the logins that the new login replaces
	Started   time.Time `json:"started"`
	Used      bool      `json:"used,omitempty"` // only the place, the browser and the time are left of it
}

// Attempts keeps the login attempts. Each can be finished once, by the browser that
// began it.
type Attempts struct {
	store  store.Store
	box    *seal.Box
	now    func() time.Time
	starts *auth.Starts
}

// NewAttempts returns attempts stored in s and encrypted with box. now is the clock of
// s; see store.ClockOf.
func NewAttempts(s store.Store, box *seal.Box, now func() time.Time) *Attempts {
	return &Attempts{store: s, box: box, now: now, starts: auth.NewStarts(now)}
}

// New returns an attempt of browser at a provider, with new secrets. It cannot be
// finished before Begin has recorded it.
func (a *Attempts) New(browser, name, issuer, returnTo string) *Attempt {
	return &Attempt{
		// RFC 7636, section 4.1 recommends 32 random bytes for the code verifier.
		Attempt:  provider.Attempt{State: newSecret(), Nonce: newSecret(), Verifier: newSecret()},
		Provider: name, Issuer: issuer, ReturnTo: returnTo,
		Browser: record.Hash([]byte(browser)), Started: a.now(),
	}
}

// Begin records the attempt, which expires after AttemptLifetime. The error is a
// *auth.StartsError if the client begins too many.
func (a *Attempts) Begin(ctx context.Context, client netip.Addr, attempt *Attempt) error {
	if err := a.starts.Begin(client); err != nil {
		return err
	}
	return a.record(ctx, attempt)
}

func (a *Attempts) record(ctx context.Context, attempt *Attempt) error {
	value, err := json.Marshal(attempt)
	if err != nil {
		return fmt.Errorf("recording an attempt to log in: %w", err)
	}
	key := attemptKey(attempt.State)
	if err := a.store.Put(ctx, key, a.box.Seal(value, key), attempt.Started.Add(AttemptLifetime)); err != nil {
		return fmt.Errorf("recording an attempt to log in: %w", err)
	}
	return nil
}

// Finish returns the attempt with that state and uses it up. The error is
// ErrNoAttempt if browser has no such attempt. An attempt of another browser is kept.
// Beside ErrNoAttempt, Finish returns the place of an attempt that the browser has used
// before, until the attempt would have ended: people press the button of a provider
// twice, and go back.
func (a *Attempts) Finish(ctx context.Context, browser, state string) (*Attempt, error) {
	key := attemptKey(state)
	sealed, err := a.store.Get(ctx, key)
	if err != nil {
		return nil, attemptError(err, "unknown state, or older than "+AttemptLifetime.String())
	}
	value, err := a.box.Open(sealed, key)
	if err != nil {
		return nil, attemptError(store.ErrNotFound, "sealed with another key")
	}
	attempt, err := record.Decode[Attempt](value)
	if err != nil {
		return nil, err
	}
	now := a.now()
	if browser == "" || record.InFuture(attempt.Started, now) || !now.Before(attempt.Started.Add(AttemptLifetime)) {
		return nil, attemptError(store.ErrNotFound,
			"too old, begun before the clock was set back, or from a browser without the cookie")
	}
	if subtle.ConstantTimeCompare([]byte(attempt.Browser), []byte(record.Hash([]byte(browser)))) != 1 {
		return nil, attemptError(store.ErrNotFound, "the state is of another browser")
	}
	if attempt.Used {
		return attempt, attemptError(store.ErrNotFound, "the state is used already")
	}
	left := &Attempt{
		Browser: attempt.Browser, ReturnTo: attempt.ReturnTo, Binding: attempt.Binding,
		Elsewhere: attempt.Elsewhere, Started: attempt.Started, Used: true,
	}
	used, err := json.Marshal(left)
	if err != nil {
		return nil, attemptError(err, "")
	}
	switch err := a.store.Swap(ctx, key, sealed, a.box.Seal(used, key), attempt.Started.Add(AttemptLifetime)); {
	case errors.Is(err, store.ErrConflict), errors.Is(err, store.ErrNotFound):
		return left, attemptError(store.ErrNotFound, "the state was used at this very moment")
	case err != nil:
		return nil, attemptError(err, "")
	}
	return attempt, nil
}

func attemptError(err error, reason string) error {
	if errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("%w: %s", ErrNoAttempt, reason)
	}
	return fmt.Errorf("finishing an attempt to log in: %w", err)
}

func attemptKey(state string) string { return attemptPrefix + record.Hash([]byte(state)) }
