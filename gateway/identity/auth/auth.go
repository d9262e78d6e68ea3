// Package auth finds out who sends a request. It reads the credentials of the
// request, checks passwords, and slows down guessing.
//
// # Job
//
// Credentials.Read reads the credentials of a request, once. The mechanisms verify the result, and
// the gateway removes it before it forwards the request. An Authenticator is one mechanism: it
// turns Credentials into a policy.Identity or returns an error. A Chain asks several mechanisms in
// order. The mechanisms of this package are Basic and Certificates. The mechanisms whose
// credentials are only good while a record in the store says so (sessions, access tokens, tokens of
// trusted issuers) are in package login, which imports this package. No mechanism here asks the
// store, so auth needs no interface to logins, and everything that a logout must end is in one
// package.
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
// another one.
package auth

import (
	"context"
	"errors"

	"authgate/policy"
)

// Errors of Authenticate and of the operations on logins. Any other error means
// that the answer is unknown. The gateway answers it with 503 or 500.
var (
	// ErrNoCredentials: the request presents no credentials of this mechanism.
	// The next mechanism may be asked.
	ErrNoCredentials = errors.New("auth: no credentials")
	// ErrRejected: the request presents a credential that is not valid. No
	// other credential of the request may be tried.
	ErrRejected = errors.New("auth: credential rejected")
)

// Rejection is an ErrRejected with its reasons.
type Rejection struct {
	Detail string // for the client; it must not help with guessing
	Reason string // for operators

	// Cookie is the role of the cookie that held the credential, if a cookie
	// did. The cookie will never be valid again, so it can be cleared.
	Cookie CookieRole
	// Ended tells that it held a session which has ended by time.
	Ended bool

	// Past tells that the credential was good once: it has expired, it was revoked, or its login has ended.
	Past bool

	// Connection tells that the credential belongs to the connection of the client, so that
	// another one needs a new connection.
	Connection bool
}

func (r *Rejection) Error() string { return "auth: credential rejected: " + r.Reason }

// Past returns the rejection of a credential that was good once.
func Past(err error) error {
	if rejection, ok := errors.AsType[*Rejection](err); ok {
		rejection.Past = true
	}
	return err
}

// Is makes a Rejection match ErrRejected.
func (r *Rejection) Is(target error) bool { return target == ErrRejected }

// The details that a client may see. They tell a wrong credential from a missing
// session and nothing more.
const (
	DetailWrongPassword = "Invalid username or password."
	DetailNotSignedIn   = "Not signed in."
	DetailSessionEnded  = "Your session has ended."
	detailCertificate   = "The certificate is not one that is accepted here."
	DetailBadToken      = "The access token is invalid, expired or revoked."
	DetailBadRefresh    = "The refresh token is invalid, expired or already used."
)

// Authenticator is one mechanism. Implementations are safe for concurrent use.
type Authenticator interface {
	// Authenticate returns the identity that the credentials prove. The error is
	// ErrNoCredentials if the next mechanism may be tried, an ErrRejected if the
	// gateway must answer 401, and a *ThrottledError if it must answer 429. Any
	// other error means that the answer is unknown.
	Authenticate(context.Context, *Credentials) (*policy.Identity, error)

	// Challenge returns the challenge for a 401 response.
	Challenge(*Credentials) Challenge

	// Alive returns the identity that credentials prove now, after Authenticate
	// has accepted them. Its errors are those of Authenticate, except
	// *ThrottledError. It is called a few times a second for each open stream, so
	// it must be cheap: it does not count as activity, counts no failure, hashes no
	// password, and waits only for the store. The profile from a provider is renewed in the
	// background when that is due.
	Alive(context.Context, *Credentials) (*policy.Identity, error)
}

// Chain is a list of mechanisms. The first one that finds a credential of its own
// decides; after a rejection no other mechanism is asked.
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

// Challenges returns the challenges of all mechanisms in the chain.
func (c Chain) Challenges(creds *Credentials) []Challenge {
	var all []Challenge
	for _, a := range c {
		if ch := a.Challenge(creds); ch != "" {
			all = append(all, ch)
		}
	}
	return all
}
