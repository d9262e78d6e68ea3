// Package auth finds out who sends a request. It reads the credentials of the
// request, knows the accounts, checks passwords, and slows down guessing.
//
// # Job
//
// ReadCredentials reads once what a request presents. The result is both what
// the mechanisms verify and what the gateway removes before it forwards the
// request. An Authenticator is one mechanism: it turns Credentials into a
// policy.Identity or returns an error. A Chain asks several mechanisms in
// order. The mechanism of this package is Basic. The mechanisms whose
// credentials are only good while a record in the store says so (sessions,
// access tokens, tokens of trusted issuers) are in package login, which imports
// this package. No mechanism here asks the store, so auth needs no interface to
// logins, and everything that a logout must end is in one package.
//
// # Limits
//
// The package never writes a response. The gateway maps errors to HTTP in one
// place. The counts of Throttle are in memory: each instance counts for itself,
// and a restart clears them.
//
// # Threats
//
// Throttle slows down guessing by account and by address. A password check
// costs the same whether the account exists or not. Passwords are stored as
// argon2id or bcrypt hashes. A request with two different credentials of one
// kind is refused, because the gateway and the application could each use
// another one. A changed, disabled or removed account begins a new epoch, and
// logins of an older epoch do not count.
package auth

import (
	"context"
	"errors"

	"authgate/policy"
)

// Errors of Authenticate and of the operations on logins. Any other error
// means that the answer could not be found out, and must end in 503 or 500.
var (
	// ErrNoCredentials: the request presents nothing of this mechanism; the
	// next one may be asked.
	ErrNoCredentials = errors.New("auth: no credentials")
	// ErrRejected: a credential was presented and is not good; nothing else
	// on the request may be tried.
	ErrRejected = errors.New("auth: credential rejected")
)

// Rejection is an ErrRejected that knows why.
type Rejection struct {
	Detail string // for whoever asks; tells nothing that helps guessing
	Reason string // for operators

	// Cookie is the cookie that the credential came in, if it came in one. The
	// answer of the store was definite: the cookie will never be good again.
	Cookie CookieRole
}

func (r *Rejection) Error() string { return "auth: credential rejected: " + r.Reason }

// Is makes a Rejection match ErrRejected.
func (r *Rejection) Is(target error) bool { return target == ErrRejected }

// The details that a client may see. They tell wrong credentials from a
// missing session, and nothing more.
const (
	DetailWrongPassword = "Invalid username or password."
	DetailNotSignedIn   = "Not signed in."
	DetailBadToken      = "The access token is invalid, expired or revoked."
	DetailBadRefresh    = "The refresh token is invalid, expired or already used."
)

// Authenticator is one mechanism. Implementations are safe for concurrent use.
type Authenticator interface {
	// Authenticate returns the proved identity; ErrNoCredentials when the
	// next mechanism may be tried; an error that is ErrRejected when the
	// request must be refused with 401; a *ThrottledError for 429; any other
	// error where the answer could not be found out.
	Authenticate(context.Context, *Credentials) (*policy.Identity, error)

	// Challenge returns what a 401 invites the client to present.
	Challenge(*Credentials) Challenge

	// Alive returns the identity that credentials which were accepted before
	// prove now. Its errors are those of Authenticate without *ThrottledError.
	// It is called a few times a second for each open stream, so it is cheap
	// and leaves no trace: it does not count as activity, renews nothing,
	// counts no failure, hashes no password, and waits for nothing but the
	// store.
	Alive(context.Context, *Credentials) (*policy.Identity, error)
}

// Chain asks mechanisms in turn: the first that finds a credential of its own
// decides, and a rejected credential is never followed by another attempt.
type Chain []Authenticator

// Authenticate implements Authenticator.
func (c Chain) Authenticate(ctx context.Context, creds *Credentials) (*policy.Identity, error) {
	for _, a := range c {
		id, err := a.Authenticate(ctx, creds)
		if !errors.Is(err, ErrNoCredentials) {
			return id, err
		}
	}
	return nil, ErrNoCredentials
}

// Alive implements Authenticator.
func (c Chain) Alive(ctx context.Context, creds *Credentials) (*policy.Identity, error) {
	for _, a := range c {
		id, err := a.Alive(ctx, creds)
		if !errors.Is(err, ErrNoCredentials) {
			return id, err
		}
	}
	return nil, ErrNoCredentials
}

// Challenges returns the challenges of all mechanisms that have one.
func (c Chain) Challenges(creds *Credentials) []Challenge {
	var all []Challenge
	for _, a := range c {
		if ch := a.Challenge(creds); ch != "" {
			all = append(all, ch)
		}
	}
	return all
}
