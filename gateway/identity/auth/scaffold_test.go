package auth

import (
	"slices"
	"time"

	"authgate/gateway/people/accounts"
)

// newAccounts returns a set of users, with a key that is the same for each run.
func newAccounts(users ...accounts.Account) *accounts.Set {
	return accounts.New(slices.Clone(users), accounts.NewDecoyKey([]byte("a secret for tests")), time.Now)
}
