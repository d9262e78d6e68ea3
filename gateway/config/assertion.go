package config

import (
	"strings"
	"time"
	"unicode"

	"golang.org/x/net/http/httpguts"

	"authgate/gateway/headername"
)

// assertion configures the signed identity that an upstream gets, a JWT (RFC 7519).
type assertion struct {
	Header   string        `yaml:"header"`
	Audience string        `yaml:"audience"` // default: the name of the upstream
	Lifetime time.Duration `yaml:"lifetime"`
}

// maxAssertionLifetime bounds how long an application may believe an assertion.
const maxAssertionLifetime = 24 * time.Hour

func defaultAssertion() assertion {
	return assertion{Header: "X-Auth-Assertion", Lifetime: 5 * time.Minute}
}

// check checks the section at path. identity has the other identity headers of the upstream.
func (a *assertion) check(r *report, path string, identity *IdentityHeaders) {
	folded := headername.Fold(a.Header)
	switch {
	case !httpguts.ValidHeaderFieldName(a.Header):
		r.Fault(path+".header", "%q is not the name of a header; use letters, digits and -", a.Header)
	case hasMeaning(folded):
		r.Fault(path+".header", "%q has another meaning and cannot contain an identity; choose another name", a.Header)
	case identity.has(folded):
		r.Fault(path+".header", "%q is already one of the identity headers; choose another name", a.Header)
	}
	if a.Audience == "" || strings.ContainsFunc(a.Audience, unicode.IsControl) {
		r.Fault(path+".audience", "must be a text without control characters, which the application compares with aud")
	}
	switch {
	case a.Lifetime < time.Second:
		r.Fault(path+".lifetime", "must be at least 1s")
	case a.Lifetime > maxAssertionLifetime:
		r.Fault(path+".lifetime", "is longer than 24h; the application cannot see a logout before the end")
	}
}

// Asserts reports whether some upstream gets signed identities.
func (c *Config) Asserts() bool {
	for _, u := range c.Upstreams {
		if u.Assertion != nil {
			return true
		}
	}
	return false
}

// PublishesKeys reports whether others verify what the gateway signs with
// token.private_key, whatever signs access tokens.
func (c *Config) PublishesKeys() bool { return c.OAuth.Enabled || c.Asserts() }
