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
	Upstream string // its name
	Err      error
}

// Error implements error. Some errors of net/http quote what the upstream said.
func (e *Error) Error() string { return "upstream " + e.Upstream + ": " + Unquoted(e.Err.Error()) }

// Unwrap lets errors.Is find the cause.
func (e *Error) Unwrap() error { return e.Err }

// quotation is text that %q has made, whole or cut off.
var quotation = regexp.MustCompile(`"(?:[^"\\]|\\.)*(?:"|\\?$)`)

// Unquoted is text without what is quoted in it.
func Unquoted(text string) string { return quotation.ReplaceAllLiteralString(text, `"..."`) }

// LimitHints bounds the informational responses of an upstream over HTTP/2, which
// http.Transport would pass on without end; http1 has the same bound.
func LimitHints(ctx context.Context) context.Context {
	hints := 0
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		Got1xxResponse: func(int, textproto.MIMEHeader) error {
			if hints++; hints > http1.MaxInformational {
				return http1.ErrInformational
			}
			return nil
		},
	})
}
