package apitokens

import (
	"slices"
	"testing"
	"time"

	"authgate/internal/test/must"
)

// An API token, warm or not, loses the role of its owner that ends, and is refused with the account.
func TestOwnerEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ending := alice
	ending.Until = r.now().Add(20 * time.Second)
	ending.RoleEnds = map[string]time.Time{"admin": r.now().Add(10 * time.Second)}
	r = r.withAccounts(t, ending)
	token, _ := r.newToken(t, "alice", "user", "admin")
	has := func(want ...string) {
		t.Helper()
		for range 2 {
			if id := must.Get(r.byToken(t, token))(t); !slices.Equal(id.Roles, want) {
				t.Errorf("the token has %q, want %q", id.Roles, want)
			}
		}
	}
	has("user", "admin")
	r.clock.Advance(10*time.Second - 1)
	has("user", "admin")
	r.clock.Advance(1)
	has("user")
	r.clock.Advance(10 * time.Second)
	if id, err := r.byToken(t, token); err == nil {
		t.Errorf("the token is still %+v", id)
	}
}
