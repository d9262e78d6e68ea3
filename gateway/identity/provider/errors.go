package provider

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
)

// The kinds of failure, for errors.Is.
var (
	// ErrRefused means that the provider works and has refused the request,
	// with invalid_grant for example. It would refuse it again.
	ErrRefused = errors.New("refused by the provider")
	// ErrEnded means that the provider has answered a renewal, and that the login
	// ends with that: it refuses, its answer cannot be used, or it is about another
	// person.
	ErrEnded = errors.New("the provider ends the login")
	// ErrClient means that the provider does not accept the gateway as its client
	// (invalid_client). That is a fault of the configuration, and says nothing about
	// a user.
	ErrClient = errors.New("the provider does not accept this client")
	// ErrFault means that the provider cannot be reached, or that its answer is
	// not acceptable.
	ErrFault = errors.New("fault of the provider")
	// ErrTimeout means that the provider did not answer in time.
	ErrTimeout = errors.New("no answer of the provider in time")
	// ErrMixUp means that the iss parameter of an authorization response names
	// another issuer, or is missing although the provider announces it (RFC
	// 9207).
	ErrMixUp = errors.New("response of another provider")
	// ErrInvalid means that a logout token or a bearer token is not valid.
	ErrInvalid = errors.New("token not valid")

	// ErrClock is a cause beside a kind: the times in a new token can be right
	// only if the clocks differ.
	ErrClock = errors.New("compare the clocks of the gateway and the provider")
)

// Error is the error of all methods of Provider and Trusted. It contains no token,
// code or secret, and of an answer only error and error_description (RFC 6749,
// section 5.2). If the caller's context was cancelled, it is also context.Canceled.
type Error struct {
	Provider string // its name, or the issuer of a Trusted
	// Operation is authorization, callback, discovery, keys, token, userinfo, profile,
	// logout, logout token, access token or introspection.
	Operation string
	Kind      error // one of the Err values
	Err       error // the cause
}

// maxErrorText bounds the text of an error, because parts of it, such as a wrong
// claim, come from outside.
const maxErrorText = 500

func (e *Error) Error() string {
	return fmt.Sprintf("provider %s: %s: %v: %s", e.Provider, e.Operation, e.Kind, clip(e.Err.Error(), maxErrorText))
}

// Unwrap returns the kind and the cause.
func (e *Error) Unwrap() []error { return []error{e.Kind, e.Err} }

// fail returns an *Error, which is err if err is one.
func fail(provider, operation string, kind, err error) error {
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	return &Error{Provider: provider, Operation: operation, Kind: kind, Err: err}
}

// timedOut reports whether err is a timeout of a context or a connection.
func timedOut(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	network, ok := errors.AsType[net.Error](err)
	return ok && network.Timeout()
}

// clip shortens text that comes from outside.
func clip(text string, size int) string {
	if len(text) <= size {
		return text
	}
	return strings.ToValidUTF8(text[:size], "") + "…"
}
