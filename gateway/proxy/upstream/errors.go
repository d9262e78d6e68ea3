package upstream

import (
	"crypto/tls"
	"errors"
	"net"
	"regexp"

	"authgate/gateway/proxy/upstream/http1"
	"authgate/gateway/proxy/upstream/http2"
)

// Error is a failure on the way to an upstream.
type Error struct {
	Upstream string // the name of the upstream
	Err      error
}

// Error implements error. Its text contains no bytes of the upstream; some
// errors of net/http quote them.
func (e *Error) Error() string { return "upstream " + e.Upstream + ": " + Unquoted(e.Err.Error()) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Answered reports whether the upstream could be reached, and its response is at fault.
func (e *Error) Answered() bool {
	var (
		told        *http2.Error
		network     net.Error
		certificate *tls.CertificateVerificationError
	)
	switch {
	case errors.As(e.Err, &told):
		return told.Code != ""
	case http1.NoResponse(e.Err), errors.As(e.Err, &certificate), errors.As(e.Err, &network):
		return false
	}
	return true
}

// quotation matches the output of %q, also if it is cut off.
var quotation = regexp.MustCompile(`"(?:[^"\\]|\\.)*(?:"|\\?$)`)

// Unquoted returns text without the quotations in it.
func Unquoted(text string) string { return quotation.ReplaceAllLiteralString(text, `"..."`) }
