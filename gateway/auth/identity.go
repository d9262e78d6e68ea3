package auth

import (
	"time"

	"authgate/policy"
)

// identity is what the account looks like to policies and upstreams when
// mechanism proved it. sid names its login, expires is when the credential
// ends.
func (a *Account) identity(mechanism policy.Mechanism, sid string, expires time.Time) *policy.Identity {
	return &policy.Identity{
		Username:  a.Username,
		Subject:   policy.LocalProvider + ":" + a.Username,
		Name:      a.Name,
		Email:     a.Email,
		Roles:     a.Roles,
		Mechanism: mechanism,
		Provider:  policy.LocalProvider,
		Login:     sid,
		Expires:   expires,
	}
}
