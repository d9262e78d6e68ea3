// Package auth proves who is asking. It holds the mechanisms, one file each,
// and what they share: accounts, the check of a password, throttling, and
// the login that sessions and tokens belong to.
//
// # Shape
//
// An Authenticator turns the credentials that a request presents into a
// policy.Identity, or says why not. It never writes a response: the gateway
// maps errors to HTTP in one place. What a request presents is read once,
// into Credentials, so that what is verified here is what is stripped before
// the request goes on.
//
// A successful sign-in is a login, a record in the store named by its sid.
// Session identifiers, refresh tokens and access tokens are handles to it and
// are worth nothing without it, so ending a login is one delete: see Logins.
//
// # Threats
//
// Guessing is slowed by Throttle and by password hashes that cost the same
// for accounts that do not exist. Stolen stores are useless: identifiers and
// refresh tokens are kept as hashes, passwords as argon2id or bcrypt. Stolen
// refresh tokens are noticed when both sides use them, and the login ends.
// Changed, disabled and removed accounts end their logins, because each login
// remembers the version of the account that made it. A store that does not
// answer is an error and never a decision.
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

// Challenge is the value of one WWW-Authenticate header (RFC 9110, section
// 11.6.1); empty where the mechanism has none.
type Challenge string

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
