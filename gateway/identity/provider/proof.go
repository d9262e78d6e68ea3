package provider

import (
	"slices"
	"time"

	"authgate/policy"
)

// TwoFactors are the values of an ID token that tell that the user has proved two factors.
// The zero value is none.
type TwoFactors struct {
	AMR []string // any of these methods (RFC 8176)
	ACR []string // any of these classes of a sign-in
}

const (
	// maxMethods and maxMethod bound the methods of a sign-in: how many, and how long each
	// is in bytes. Access tokens and records of logins hold them.
	maxMethods = 32
	maxMethod  = 64
)

// proof returns the user's proof at the provider, by an ID token alone: userinfo tells of a user
// and not of a sign-in, and has no signature. Only the configuration defines two factors. A claim
// that cannot be used counts as absent.
func (t TwoFactors) proof(id claims, now time.Time) policy.Proof {
	methods := id.methods()
	class, _ := id["acr"].(string)
	two := class != "" && slices.Contains(t.ACR, class) ||
		slices.ContainsFunc(methods, func(m string) bool { return slices.Contains(t.AMR, m) })
	methods = slices.DeleteFunc(methods, func(m string) bool { return m == policy.TwoFactors && !two })
	if two && !slices.Contains(methods, policy.TwoFactors) {
		methods = append(methods, policy.TwoFactors)
	}
	if len(methods) == 0 {
		methods = nil
	}
	return policy.Proof{AMR: methods, AuthTime: id.authTime(now)}
}

// methods returns the claim amr, each value once: an array of strings (OpenID Connect Core
// 1.0, section 2), or one string, as some providers write an array of one.
func (c claims) methods() []string {
	array, ok := c["amr"].([]any)
	if one, single := c["amr"].(string); single {
		array, ok = []any{one}, true
	}
	all, err := stringsOf("amr", array)
	if !ok || err != nil || len(all) > maxMethods {
		return nil
	}
	var methods []string
	for _, method := range all {
		if method != "" && len(method) <= maxMethod && !slices.ContainsFunc([]rune(method), policy.Hidden) &&
			!slices.Contains(methods, method) {
			methods = append(methods, method)
		}
	}
	return methods
}

// authTime returns when the user proved who they are, zero if that is not known. The
// provider's clock may be ahead: such a time is now.
func (c claims) authTime(now time.Time) time.Time {
	at, ok, err := c.date("auth_time")
	switch {
	case err != nil || !ok || at.Unix() == 0 || at.After(now.Add(clockLeeway)):
		return time.Time{}
	case at.After(now):
		return now
	}
	return at
}
