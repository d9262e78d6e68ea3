package upstream

import (
	"context"
	"net/http/httptrace"
	"net/textproto"
	"regexp"

	"authgate/gateway/upstream/http1"
)

// Error is a failure on the way to an upstream.
type Error struct {
	Upstream string // the name of the upstream
	Err      error
}

// Error implements error. Its text does not contain what the upstream sent;
// some errors of net/http quote it.
func (e *Error) Error() string { return "upstream " + e.Upstream + ": " + Unquoted(e.Err.Error()) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// quotation matches the output of %q, also if it is cut off.
var quotation = regexp.MustCompile(`"(?:[^"\\]|\\.)*(?:"|\\?$)`)

// Unquoted returns text without the quotations in it.
func Unquoted(text string) string { return quotation.ReplaceAllLiteralString(text, `"..."`) }

// LimitInformational returns a context for a request that bounds the bytes of
// informational responses. http.Transport has no bound of its own for those that are
// passed on over HTTP/2.
func LimitInformational(ctx context.Context) context.Context {
	const statusLine = len("HTTP/1.1 103 Early Hints\r\n\r\n")
	bytes := 0
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
			bytes += statusLine
			for name, values := range h {
				for _, value := range values {
					bytes += len(name) + len(": ") + len(value) + len("\r\n")
				}
			}
			if bytes > http1.MaxInformational {
				return http1.ErrInformational
			}
			return nil
		},
	})
}
