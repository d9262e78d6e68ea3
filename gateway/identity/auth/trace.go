package auth

import (
	"encoding/base64"
	"time"

	"authgate/gateway/store/record"
)

// TraceLifetime is how long a user is told that a session has ended by time.
const TraceLifetime = 24 * time.Hour

// TraceLength is the length of a trace, in bytes.
const TraceLength = 43

// Trace returns the value of the cookie that tells of the end of a session, empty if session is the
// value of none. It finds the record that outlives the session, and opens nothing.
func Trace(session string) string {
	// The length must be checked first, because base64 skips line breaks.
	if len(session) != base64.RawURLEncoding.EncodedLen(32) {
		return ""
	}
	secret, err := base64.RawURLEncoding.Strict().DecodeString(session)
	if err != nil {
		return ""
	}
	return record.Hash(secret)
}
