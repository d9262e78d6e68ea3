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
	// ErrRefused: the provider said no, with invalid_grant and the like. It
	// works, and will say no again.
	ErrRefused = errors.New("refused by the provider")
	// ErrFault: the provider cannot be reached, or what it answered is not
	// acceptable.
	ErrFault = errors.New("fault of the provider")
	// ErrTimeout: the provider did not answer in time.
	ErrTimeout = errors.New("no answer of the provider in time")
	// ErrMixUp: the iss parameter of an authorization response names somebody
	// else, or is missing although the provider promises it (RFC 9207).
	ErrMixUp = errors.New("response of another provider")
	// ErrInvalid: a token that somebody presented, a logout token or a bearer
	// token, is not good.
	ErrInvalid = errors.New("token not valid")
)

// Error is what every method of Provider and Trusted fails with. It holds no
// token, code or secret, and of an answer only what RFC 6749, section 5.2,
// calls error and error_description. Where the caller's context was cancelled,
// it is context.Canceled too.
type Error struct {
	Provider  string // its name, or the issuer of a Trusted
	Operation string // authorization, callback, discovery, keys, token, userinfo, profile, logout, logout token, access token, introspection
	Kind      error  // one of the Err values
	Err       error  // what was wrong
}

// maxErrorText bounds what an error says, because parts of it, as a claim that
// is not the expected one, come from outside.
const maxErrorText = 500

func (e *Error) Error() string {
	return fmt.Sprintf("provider %s: %s: %v: %s", e.Provider, e.Operation, e.Kind, clip(e.Err.Error(), maxErrorText))
}

// Unwrap gives the kind and the cause.
func (e *Error) Unwrap() []error { return []error{e.Kind, e.Err} }

// fail makes an Error, unless err is one already.
func fail(provider, operation string, kind, err error) error {
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	return &Error{Provider: provider, Operation: operation, Kind: kind, Err: err}
}

// timedOut reports whether err says that time ran out: that of a context, or
// of a connection.
func timedOut(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	network, ok := errors.AsType[net.Error](err)
	return ok && network.Timeout()
}

// clip cuts text that comes from outside.
func clip(text string, size int) string {
	if len(text) <= size {
		return text
	}
	return strings.ToValidUTF8(text[:size], "") + "…"
}
