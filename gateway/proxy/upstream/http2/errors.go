package http2

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"regexp"
	"slices"

	"golang.org/x/net/http2"

	"authgate/gateway/proxy/upstream/http1"
)

// Error is a failure of an exchange over HTTP/2 that the upstream has ended, without a valid
// response. It quotes nothing that the upstream sent but the code.
type Error struct {
	// Code is that of the RST_STREAM or GOAWAY (RFC 9113, section 7), of either side, and
	// empty if the connection was lost.
	Code string
	text string
	// none says that the upstream may have processed the request, and that no byte of a response came.
	none bool
	// again says that the body of the request is as it was, so that it can be sent again.
	again bool
	err   error
}

// Error implements error.
func (e *Error) Error() string { return e.text }

// Unwrap returns the cause, if that quotes nothing.
func (e *Error) Unwrap() error { return e.err }

// NoResponse is for http1.NoResponse.
func (e *Error) NoResponse() bool { return e.none }

// NeedsHTTP1 reports whether err says that the upstream serves the request over HTTP/1.1
// only (RFC 9113, section 7), and has not processed it. again says that it can be sent
// again: its body is as it was.
func NeedsHTTP1(err error) (needed, again bool) {
	var e *Error
	if !errors.As(err, &e) || !e.needsHTTP1() {
		return false, false
	}
	return true, e.again
}

func (e *Error) needsHTTP1() bool { return e.Code == http2.ErrCodeHTTP11Required.String() }

// errExchange replaces errors of net/http that may quote the upstream.
var errExchange = errors.New("the exchange over HTTP/2 failed")

// errCrowded means that the request has waited for its place on a connection for the whole time limit.
var errCrowded = errors.New("no connection over HTTP/2 takes the request")

// errUnusable means that a new connection ended before it took a request.
var errUnusable = errors.New("the connection over HTTP/2 ended before it took the request")

// Texts of errors of net/http that have no type.
var (
	// Requests that were not sent, or not processed (RFC 9113, section 6.8).
	unsent = []string{
		"http2: client conn not usable", "http2: client conn is closed", "http2: client conn could not be established",
		"http2: Transport received Server's graceful shutdown GOAWAY",
	}
	lost   = "http2: client connection lost" // no answer to a PING
	goAway = regexp.MustCompile(`^http2: (?:server sent GOAWAY and closed the connection; LastStreamID=\d+, ErrCode=|` +
		`Transport received GOAWAY from server ErrCode:)([A-Z0-9_]+|unknown error code 0x[0-9a-f]+)(?:,|$)`)
	fromPeer = "received from peer" // why a stream was reset
)

// unprocessed reports whether the upstream has certainly not processed the request.
func unprocessed(err error) bool { return err == errUnusable || slices.Contains(unsent, err.Error()) }

// explain returns err without bytes of the upstream.
func explain(err error) error {
	var (
		reset       http2.StreamError
		network     net.Error
		certificate *tls.CertificateVerificationError
		own         *Error
	)
	switch {
	case errors.As(err, &own):
		return err
	case errors.As(err, &reset) && (reset.Cause == nil || reset.Cause.Error() != fromPeer): // net/http has reset it
		text := fmt.Sprintf("the upstream broke the rules of HTTP/2: %v", reset.Code)
		return &Error{Code: reset.Code.String(), text: text}
	case errors.As(err, &reset):
		return &Error{
			Code: reset.Code.String(), text: fmt.Sprintf("the upstream reset the stream: %v", reset.Code), none: true,
		}
	case err.Error() == lost:
		return &Error{text: "the connection over HTTP/2 was lost: the upstream did not answer a PING", none: true}
	case unprocessed(err), errors.Is(err, context.Canceled), errors.Is(err, http.ErrBodyReadAfterClose),
		errors.As(err, &certificate):
		return err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &network) && !network.Timeout():
		return &Error{text: "the connection over HTTP/2 ended: " + err.Error(), none: true, err: err}
	case errors.As(err, &network):
		return err
	}
	if code := goAway.FindStringSubmatch(err.Error()); code != nil {
		return &Error{Code: code[1], text: "the upstream closed the connection over HTTP/2: " + code[1], none: true}
	}
	return errExchange
}

// budget is how many bytes of informational responses may still come.
type budget struct{ spent int }

// spend counts an informational response.
func (b *budget) spend(h textproto.MIMEHeader) error {
	const statusLine = len("HTTP/1.1 103 Early Hints\r\n\r\n")
	b.spent += statusLine
	for name, values := range h {
		for _, value := range values {
			b.spent += len(name) + len(": ") + len(value) + len("\r\n")
		}
	}
	if b.spent > http1.MaxInformational {
		return http1.ErrInformational
	}
	return nil
}
