package http1

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
)

// Errors of upstreams that break the rules of HTTP/1.1. They quote nothing of
// what the upstream has said: that may be somebody's answer.
var (
	// ErrInformational means that hints came instead of an answer.
	ErrInformational = fmt.Errorf("more than %d informational responses", MaxInformational)

	errMethod    = errors.New("the method of the request is no token (RFC 9110, section 9.1)")
	errHeader    = errors.New("the header of the response is malformed")
	errTooLong   = fmt.Errorf("the header of the response is longer than %d bytes", maxHeader)
	errBody      = errors.New("the body of the response is malformed")
	errUnasked   = errors.New("the upstream switches to a protocol that was not asked for")
	errNotWanted = errors.New("the upstream has answered without the body of the request")
)

// unansweredError is the end of a connection before any byte of the response.
type unansweredError struct{ err error }

// Error implements error.
func (e *unansweredError) Error() string {
	return "the upstream closed the connection without an answer: " + e.err.Error()
}

// Unwrap lets errors.Is find the cause.
func (e *unansweredError) Unwrap() error { return e.err }

// plain returns err if it comes from the network or from here, and instead
// otherwise: net/http quotes what it cannot read.
func plain(err, instead error) error {
	var network net.Error
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), errors.Is(err, context.Canceled),
		errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &network):
		return err
	}
	return instead
}
