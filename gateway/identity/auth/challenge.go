package auth

import (
	"strconv"
	"strings"

	"authgate/policy"
)

// Challenge is the value of one WWW-Authenticate header (RFC 9110, section
// 11.6.1). It is empty if the mechanism has none.
type Challenge string

// BasicChallenge asks for Basic credentials (RFC 7617, sections 2 and 2.1).
func BasicChallenge(realm string) Challenge {
	return Challenge(`Basic realm=` + quote(realm) + `, charset="UTF-8"`)
}

// IsBasic reports whether the challenge asks for Basic credentials.
func (c Challenge) IsBasic() bool { return strings.HasPrefix(string(c), "Basic ") }

// BearerChallenge asks for a bearer token. With presented it also says that the
// token of the request is not valid (RFC 6750, section 3).
func BearerChallenge(realm string, presented bool) Challenge {
	challenge := "Bearer realm=" + quote(realm)
	if presented {
		challenge += `, error="invalid_token"`
	}
	return Challenge(challenge)
}

// ScopeChallenge asks for a token with one of those scopes (RFC 6750, section 3.1).
func ScopeChallenge(realm string, scopes []string) Challenge {
	return Challenge(`Bearer error="insufficient_scope", scope=` + quote(strings.Join(scopes, " ")) +
		", realm=" + quote(realm))
}

// With returns the challenge with one more parameter; an empty one stays as it is.
func (c Challenge) With(name, value string) Challenge {
	if c == "" {
		return c
	}
	return c + Challenge(", "+name+"="+quote(value))
}

// StepUpChallenge asks for a token of a login that has proved more (RFC 9470, section 3).
func StepUpChallenge(realm string, d policy.Demand) Challenge {
	challenge := `Bearer error="insufficient_user_authentication"`
	if d.MaxAge > 0 {
		challenge += `, max_age="` + strconv.FormatInt(d.Seconds(), 10) + `"`
	}
	if d.Factors > 1 {
		challenge += `, acr_values="factors:` + strconv.Itoa(d.Factors) + `"`
	}
	return Challenge(challenge + ", realm=" + quote(realm))
}

// quote returns s as a quoted-string (RFC 9110, section 5.6.4).
func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
