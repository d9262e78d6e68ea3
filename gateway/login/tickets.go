package login

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"authgate/gateway/auth"
	"authgate/gateway/record"
	"authgate/gateway/seal"
	"authgate/gateway/store"
)

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

// Binding returns what tells a browser's secret without giving it away.
func Binding(secret string) string { return record.Hash([]byte(secret)) }

// Begun returns a proof for the host of public_url: the browser that has a session
// there also has a binding at another host. The browser brings the proof to the other
// host, which returns it to this browser alone. Only who knows the session can make the
// proof, and the proof does not reveal the session.
func Begun(session, host, binding string) string {
	mac := hmac.New(sha256.New, []byte(session))
	fmt.Fprintf(mac, "begun\x00%s\x00%s", host, binding)
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// ValidBinding reports whether binding has the form of a binding.
func ValidBinding(binding string) bool { return ValidBrowserSecret(binding) }

// Issue records a ticket, which expires after ticketLifetime, and returns its
// secret. It sets the time of issue.
func (t *Tickets) Issue(ctx context.Context, ticket Ticket) (secret string, err error) {
	secret, ticket.Issued = newSecretText(), t.now()
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

// ticketBox returns the store key of a ticket and what encrypts its record.
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

// How many sessions at other hosts a login keeps. Browsers that forget cookies
// ask for more.
const (
	maxAttached       = 256
	maxAttachedAtHost = 8 // tabs that arrive at the same moment
)

// attached is a session that a login got after it began, at another host.
type attached struct {
	Scope string `json:"scope"`
	Key   string `json:"key"` // in the store
}

// Attach records one more handle of a login, for scope, and returns the login.
// The error is ErrNoTicket if the login has ended. The client must get nothing
// of the handle unless the error is nil.
func (l *Logins) Attach(ctx context.Context, sid, scope string, handle Handle) (*Login, error) {
	login, err := l.amend(ctx, sid, func(login *Login) (made, left []string, err error) {
		if login.Yielded {
			return nil, nil, auth.ErrRejected
		}
		key, value, expires, err := handle(login)
		if err != nil {
			return nil, nil, err
		}
		if !l.now().Before(expires) {
			return nil, nil, noTicket("its login is too old for a session")
		}
		for _, old := range login.attach(attached{Scope: scope, Key: key}) {
			left = append(left, old.Key)
		}
		return []string{key}, left, l.put(ctx, key, value, expires)
	})
	switch {
	case errors.Is(err, auth.ErrRejected):
		return nil, noTicket("its login has ended")
	case err != nil && !errors.Is(err, ErrNoTicket):
		return nil, fmt.Errorf("attaching a session: %w", err)
	}
	return login, err
}

// attach adds one and returns those that there is no room for any more.
func (login *Login) attach(one attached) (dropped []attached) {
	atHost := 0
	for _, a := range login.Attached {
		if a.Scope == one.Scope {
			atHost++
		}
	}
	kept := login.Attached[:0:0]
	for _, a := range login.Attached {
		if a.Scope == one.Scope && atHost >= maxAttachedAtHost {
			dropped, atHost = append(dropped, a), atHost-1
			continue
		}
		kept = append(kept, a)
	}
	if over := len(kept) + 1 - maxAttached; over > 0 {
		dropped, kept = append(dropped, kept[:over]...), kept[over:]
	}
	login.Attached = append(kept, one)
	return dropped
}
