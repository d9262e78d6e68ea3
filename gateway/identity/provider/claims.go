package provider

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"authgate/gateway/wire/strictjson"
	"authgate/policy"
)

// claims are the members of the payload of a token, or of a userinfo answer.
// Numbers are json.Number.
type claims map[string]any

const (
	// clockLeeway is how far iat and nbf may be in the future, because the
	// provider's clock may be ahead. There is no leeway for exp.
	clockLeeway = time.Minute
	// maxSubject is the longest sub in bytes (OpenID Connect Core 1.0, section
	// 2). It is also the limit for user names, sid and jti.
	maxSubject = 255
)

// checkedClaims prove a token or name its user.
var checkedClaims = []string{"iss", "sub", "aud", "exp", "nbf", "iat", "jti", "nonce", "at_hash"}

// protocolClaims describe the token and not the user, or are secret. Profile has a
// field for sub.
var protocolClaims = slices.Concat(checkedClaims, []string{
	"c_hash", "s_hash", "sid", "events", "active", "_claim_names", "_claim_sources",
})

// decodeClaims decodes a JSON object in which no member may appear twice.
func decodeClaims(raw []byte) (claims, error) { return strictjson.Object(raw) }

// checkNames refuses a claim that differs from one of checkedClaims only in case,
// because other readers of the token may take "SUB" for sub.
func (c claims) checkNames() error {
	for name := range c {
		for _, checked := range checkedClaims {
			if name != checked && strings.EqualFold(name, checked) {
				return fmt.Errorf("the claim %q is almost %s", name, checked)
			}
		}
	}
	return nil
}

// first returns the claim at a dotted path (see policy.LookupClaim) from the first
// source that has it, or nil.
func first(path string, sources ...claims) any {
	for _, source := range sources {
		if found := policy.LookupClaim(source, path); found != nil {
			return found
		}
	}
	return nil
}

// date reads a NumericDate (RFC 7519, section 2). If the claim is missing or null, ok is
// false.
func (c claims) date(name string) (at time.Time, ok bool, err error) {
	value, ok := c.present(name)
	if !ok {
		return time.Time{}, false, nil
	}
	number, _ := value.(json.Number)
	seconds, err := number.Float64()
	if err != nil || seconds < 0 || seconds > 1<<40 {
		return time.Time{}, false, fmt.Errorf("%s is not a time in seconds since 1970", name)
	}
	return time.Unix(int64(seconds), 0), true, nil
}

// errExpired: the time in exp has passed.
var errExpired = errors.New("it expired")

// present returns a claim, unless it is missing, null or empty.
func (c claims) present(name string) (any, bool) {
	value := c[name]
	return value, value != nil && value != ""
}

// quoted returns a claim as the provider wrote it, for errors.
func quoted(value any) string {
	if value == nil {
		return "missing"
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return kindOf(value)
	}
	return clip(string(raw), maxSubject)
}

// checkTimes checks exp, nbf and iat if present, and that the needed claims are
// present. A time that cannot be read counts as absent, unless it is exp.
func (c claims) checkTimes(now time.Time, needed ...string) error {
	for _, name := range []string{"exp", "nbf", "iat"} {
		at, ok, err := c.date(name)
		switch {
		case err != nil && (name == "exp" || slices.Contains(needed, name)):
			return err
		case !ok && slices.Contains(needed, name):
			return fmt.Errorf("%s is missing", name)
		case !ok:
		case name == "exp" && !now.Before(at):
			return fmt.Errorf("%w at %s", errExpired, at.UTC().Format(time.RFC3339))
		case name != "exp" && at.After(now.Add(clockLeeway)):
			return fmt.Errorf("%s is in the future, at %s: %w", name, at.UTC().Format(time.RFC3339), ErrClock)
		}
	}
	return nil
}

// audience reads aud: a string, or an array of strings (RFC 7519, section 4.1.3).
func (c claims) audience() ([]string, error) {
	switch aud := c["aud"].(type) {
	case string:
		return []string{aud}, nil
	case []any:
		return stringsOf("aud", aud)
	}
	return nil, errors.New("aud is neither a string nor an array of strings")
}

// checkAudience returns an error unless aud contains one of wanted.
func (c claims) checkAudience(wanted ...string) error {
	audience, err := c.audience()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(audience, func(one string) bool { return slices.Contains(wanted, one) }) {
		return fmt.Errorf("aud is %q, expected one of %q", audience, wanted)
	}
	return nil
}

// identifier reads a claim that is an identifier.
func (c claims) identifier(name string) (string, error) {
	text, ok := c[name].(string)
	if !ok {
		return "", fmt.Errorf("%s is %s, expected a string", name, kindOf(c[name]))
	}
	return text, checkIdentifier(name, text)
}

// subject reads sub.
func (c claims) subject() (string, error) {
	subject, err := c.identifier("sub")
	if err != nil {
		return "", err
	}
	return subject, checkSubject("sub", subject)
}

// checkSubject checks a claim that identifies a person, and that names one who has no
// other name.
func checkSubject(name, text string) error {
	if err := checkIdentifier(name, text); err != nil {
		return err
	}
	return checkVisible(name, text)
}

// checkVisible refuses a text that people cannot tell from another one: with outer
// space, or with characters that are not seen or mean something else everywhere.
func checkVisible(name, text string) error {
	if strings.TrimSpace(text) != text {
		return fmt.Errorf("%s has outer space", name)
	}
	if strings.ContainsFunc(text, policy.Hidden) {
		return fmt.Errorf("%s has control, format or private-use characters", name)
	}
	return nil
}

func checkIdentifier(name, text string) error {
	if text == "" || len(text) > maxSubject || strings.ContainsFunc(text, unicode.IsControl) {
		return fmt.Errorf("%s is not 1 to %d bytes without control characters", name, maxSubject)
	}
	return nil
}

func stringsOf(name string, array []any) ([]string, error) {
	texts := make([]string, 0, len(array))
	for _, one := range array {
		text, ok := one.(string)
		if !ok {
			return nil, fmt.Errorf("%s is an array with %s in it, expected an array of strings", name, kindOf(one))
		}
		texts = append(texts, text)
	}
	return texts, nil
}

// kindOf returns the JSON type of a decoded value, for errors.
func kindOf(value any) string {
	switch value.(type) {
	case nil:
		return "missing or null"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case json.Number:
		return "a number"
	case []any:
		return "an array"
	}
	return "an object"
}
