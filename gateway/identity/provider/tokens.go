package provider

import (
	"log/slog"
	"time"
)

// Tokens are the tokens that a provider has issued for one login. They are secret:
// formatted or logged they are "[redacted]". Their JSON is for the encrypted store.
type Tokens struct {
	Access  string    `json:"access,omitempty"`
	Refresh string    `json:"refresh,omitempty"`
	ID      string    `json:"id,omitempty"`
	Expires time.Time `json:"expires,omitzero"` // of Access; zero: unknown
}

const redacted = "[redacted]"

// String hides the tokens.
func (Tokens) String() string { return redacted }

// GoString hides the tokens from %#v.
func (Tokens) GoString() string { return redacted }

// LogValue hides the tokens from slog.
func (Tokens) LogValue() slog.Value { return slog.StringValue(redacted) }

// String hides the secrets.
func (Attempt) String() string { return redacted }

// GoString hides the secrets from %#v.
func (Attempt) GoString() string { return redacted }

// LogValue hides the secrets from slog.
func (Attempt) LogValue() slog.Value { return slog.StringValue(redacted) }
