package journey

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"authgate/gateway/store"
	"authgate/gateway/store/record"
	"authgate/gateway/store/seal"
)

// ticketPrefix begins the store keys of tickets.
const ticketPrefix = "ticket:" // + hash of the ticket

// ticketLifetime is how long a ticket is valid. The browser uses it at once.
const ticketLifetime = time.Minute

// ErrNoTicket: the ticket is unknown, used, expired, of another browser or for
// another host, or its login has ended.
var ErrNoTicket = errors.New("login: no such ticket")

// Ticket brings a login from the host where the user signed in to another host
// of the gateway. It is stored encrypted with a key made from its secret, so
// that every instance on the store can open it, and a copy of the store opens
// none.
type Ticket struct {
	Login   string `json:"sid"`
	Scope   string `json:"scope"`          // of the session that it gives; see auth.Credentials
	Browser string `json:"browser"`        // the binding of the browser that may use it
	Path    string `json:"path,omitempty"` // where the user goes on
	// Elsewhere tells that another site began the sign-in, so that a page asks.
	Elsewhere bool      `json:"elsewhere,omitempty"`
	Issued    time.Time `json:"issued"`
}

// Tickets issues tickets. Each can be used once.
type Tickets struct {
	store store.Store
	now   func() time.Time
}

// NewTickets returns tickets stored in s. now is the clock of s; see
// store.ClockOf.
func NewTickets(s store.Store, now func() time.Time) *Tickets { return &Tickets{store: s, now: now} }

// Issue records a ticket, which expires after ticketLifetime, and returns its
// secret. It sets the time of issue.
func (t *Tickets) Issue(ctx context.Context, ticket Ticket) (secret string, err error) {
	secret, ticket.Issued = newSecret(), t.now()
	key, box, err := ticketBox(secret)
	if err != nil {
		return "", err
	}
	value, err := json.Marshal(ticket)
	if err != nil {
		return "", fmt.Errorf("recording a ticket: %w", err)
	}
	if err := t.store.Put(ctx, key, box.Seal(value, key), ticket.Issued.Add(ticketLifetime)); err != nil {
		return "", fmt.Errorf("recording a ticket: %w", err)
	}
	return secret, nil
}

// Use returns the ticket with that secret and deletes it. The error is
// ErrNoTicket if browser, which holds the secret of its binding, has no such
// ticket for scope. The first use is the only one, right or wrong: a ticket that
// comes to another host, or from another browser, may have been stolen.
func (t *Tickets) Use(ctx context.Context, secret, scope, browser string) (*Ticket, error) {
	if !ValidBrowserSecret(secret) { // tickets have the same form
		return nil, noTicket("malformed")
	}
	key, box, err := ticketBox(secret)
	if err != nil {
		return nil, err
	}
	sealed, err := t.store.Take(ctx, key)
	if err != nil {
		return nil, ticketError(err, "unknown, used, or older than "+ticketLifetime.String())
	}
	value, err := box.Open(sealed, key)
	if err != nil {
		return nil, fmt.Errorf("a record in the store is damaged: %w", err)
	}
	ticket, err := record.Decode[Ticket](value)
	if err != nil {
		return nil, err
	}
	now := t.now()
	switch {
	case record.InFuture(ticket.Issued, now) || !now.Before(ticket.Issued.Add(ticketLifetime)):
		return nil, noTicket("too old, or issued before the clock was set back")
	case ticket.Scope != scope || scope == "":
		return nil, noTicket("for another host")
	case !ValidBrowserSecret(browser):
		return nil, noTicket("from a browser without the cookie")
	case subtle.ConstantTimeCompare([]byte(ticket.Browser), []byte(Binding(browser))) != 1:
		return nil, noTicket("of another browser")
	}
	return ticket, nil
}

// ticketBox returns the store key of a ticket and the box that encrypts its record.
func ticketBox(secret string) (key string, box *seal.Box, err error) {
	if box, err = seal.New([]byte(secret)); err != nil {
		return "", nil, fmt.Errorf("encrypting a ticket: %w", err)
	}
	return ticketPrefix + record.Hash([]byte(secret)), box, nil
}

func noTicket(reason string) error { return fmt.Errorf("%w: %s", ErrNoTicket, reason) }

func ticketError(err error, reason string) error {
	if errors.Is(err, store.ErrNotFound) {
		return noTicket(reason)
	}
	return fmt.Errorf("using a ticket: %w", err)
}
