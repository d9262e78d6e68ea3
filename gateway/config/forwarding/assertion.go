package forwarding

import (
	"strings"
	"time"
	"unicode"

	"golang.org/x/net/http/httpguts"

	"authgate/gateway/config/section"
	"authgate/gateway/wire/headername"
)

// Assertion configures the signed identity that an upstream gets, a JWT (RFC 7519).
type Assertion struct {
	Header   string        `yaml:"header" default:"X-Auth-Assertion"`
	Audience string        `yaml:"audience"` // default: the name of the upstream
	Lifetime time.Duration `yaml:"lifetime" default:"5m" min:"1s" max:"24h"`
}

// Why returns why keys of the section have the bounds that they have.
func (Assertion) Why() map[string]string {
	return map[string]string{"lifetime": "; the application cannot see a logout before the end"}
}

// checkAssertion checks the section at path. identity has the other identity headers of the upstream.
func (a *Assertion) checkAssertion(r *section.Report, path string, identity *IdentityHeaders) {
	folded := headername.Fold(a.Header)
	switch {
	case !httpguts.ValidHeaderFieldName(a.Header):
		r.Fault(path+".header", "%q is not the name of a header; use letters, digits and -", a.Header)
	case HasMeaning(folded):
		r.Fault(path+".header", "%q has another meaning and cannot contain an identity; choose another name", a.Header)
	case identity.Has(folded):
		r.Fault(path+".header", "%q is already one of the identity headers; choose another name", a.Header)
	}
	if a.Audience == "" || strings.ContainsFunc(a.Audience, unicode.IsControl) {
		r.Fault(path+".audience", "must be a text without control characters, which the application compares with aud")
	}
}
