package upstream

import "regexp"

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
