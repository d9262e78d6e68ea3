package http1

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
)

// Errors about upstreams that break the rules of HTTP/1.1. They quote nothing
// that the upstream sent, which may be the response to another user.
var (
	// ErrInformational means that informational responses do not end.
	ErrInformational = fmt.Errorf("more than %d bytes of informational responses", MaxInformational)

	// errTruncated means that a connection ended below TLS, without a word of TLS about it.
	errTruncated = fmt.Errorf("the upstream closed the connection without a close_notify of TLS, "+
		"so that the response may be cut off: %w", io.ErrUnexpectedEOF)

	errMethod    = errors.New("the method of the request is not a token (RFC 9110, section 9.1)")
	errHeader    = errors.New("the header of the response is malformed")
	errTooLong   = fmt.Errorf("the header of the response is longer than %d bytes", maxHeader)
	errBody      = errors.New("the body of the response is malformed")
	errUnasked   = errors.New("the upstream switches to a protocol that the request did not ask for")
	errNotQuiet  = errors.New("the idle connection is closed, or has unread bytes")
	errNotWanted = errors.New("the upstream has responded without reading the body of the request")
)

// noResponseError means that a connection ended before a byte of the response.
type noResponseError struct{ err error }

// Error implements error.
func (e *noResponseError) Error() string {
	return "the upstream closed the connection without a response: " + e.err.Error()
}

// NoResponse is for the function of that name.
func (e *noResponseError) NoResponse() bool { return true }

// Unwrap returns the cause.
func (e *noResponseError) Unwrap() error { return e.err }

// withoutQuotes returns err if it comes from the network or a context, and
// instead otherwise: errors of net/http quote bytes that it cannot parse.
func withoutQuotes(err, instead error) error {
	var network net.Error
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), errors.Is(err, context.Canceled),
		errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &network):
		return err
	}
	return instead
}
