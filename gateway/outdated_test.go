package gateway

import (
	"testing"

	"authgate/internal/test/must"
	"authgate/internal/test/storetest"
)

// A reload that takes an account, or gives it another password, ends its logins: also those
// that are not used again.
func TestReloadEndsLogins(t *testing.T) {
	t.Parallel()
	for name, change := range map[string][2]string{
		"removed":  {"username: bob,", "username: robert,"},
		"disabled": {"username: bob,", "username: bob, disabled: true,"},
		"password": {"$b2YtYm9iLi4$suj", "$b2YtYm9iLi4$suk"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, baseConfig)
			alice, _, _ := r.login(aliceIn), r.login(bobIn), r.login(bobIn)
			logins := func() int { return len(storetest.Keys(t, r.store, "login:")) }
			r.mustReload(edit(t, baseConfig, "{username: bob, roles: [user]", "{username: bob, roles: [user, admin]"))
			r.mustReload(edit(t, baseConfig, change[0], change[1]))
			must.Eventually(t, "the logins end", func() bool { return logins() == 1 })
			r.good(alice, true)
		})
	}
}
