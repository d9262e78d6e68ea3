package upstream

import (
	"time"

	"authgate/gateway/wire/jose"
	"authgate/policy"
)

// Assertion signs who makes a request, for applications that verify it instead of trusting the
// network between (JWT, RFC 7519).
type Assertion struct {
	Header   string // its name
	Keys     *jose.Keys
	Issuer   string
	Audience string
	Lifetime time.Duration
	Now      func() time.Time
}

// sign returns the assertion of an identity with those roles, and when the next one is due: it
// is sent again while half of its lifetime remains, and ends with the account and each of the roles.
func (a *Assertion) sign(id *policy.Identity, roles []string) (token string, due time.Time, err error) {
	now := a.Now().Truncate(time.Second)
	expires, due := id.Bound(now.Add(a.Lifetime)), now.Add(a.Lifetime/2)
	if expires.Before(due) {
		due = expires
	}
	claims := map[string]any{
		"iss": a.Issuer, "aud": a.Audience, "sub": id.Subject,
		"iat": now.Unix(), "nbf": now.Unix(), "exp": expires.Unix(),
		"username": id.Username, "name": id.Name, "email": id.Email, "roles": append([]string{}, roles...),
		"mechanism": id.Mechanism, "provider": id.Provider,
	}
	if id.Login != "" {
		claims["sid"] = id.Login
	}
	if act := id.Act(); act != nil {
		claims["act"] = act
	}
	token, err = a.Keys.Sign(claims)
	return token, due, err
}

// same reports whether two assertions say and prove the same.
func (a *Assertion) same(o *Assertion) bool {
	if a == nil || o == nil {
		return a == o
	}
	return a.Header == o.Header && a.Keys.ID() == o.Keys.ID() && a.Issuer == o.Issuer && a.Audience == o.Audience &&
		a.Lifetime == o.Lifetime
}
