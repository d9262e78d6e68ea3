package grants

import (
	"slices"
	"testing"
	"time"

	"authgate/internal/test/must"
)

// A token of a client ends no later than the account and each role that it names. One that was made before
// loses the role, also when it is warm, and is refused with the account.
func TestGrantEnds(t *testing.T) {
	t.Parallel()
	before := newRig(t)
	s := before.signIn(t, "alice")
	old := before.granted(t, s)
	first := must.Get(before.at(t, old.Access))(t)
	r := before.instance(t, func(r *rig) {
		r.people = slices.Clone(r.people)
		for i := range r.people {
			if r.people[i].Username == "alice" {
				r.people[i].Until = r.clock.Now().Add(20 * time.Second)
				r.people[i].RoleEnds = map[string]time.Time{first.Roles[0]: r.clock.Now().Add(10 * time.Second)}
			}
		}
	})
	if next := must.Get(r.rotate(t, old.Refresh))(t); next.ExpiresIn != 10*time.Second {
		t.Errorf("a token that names the role ends after %v", next.ExpiresIn)
	} else {
		old.Refresh = next.Refresh
	}
	has := func(want ...string) {
		t.Helper()
		for range 2 {
			if id := must.Get(r.at(t, old.Access))(t); !slices.Equal(id.Roles, want) {
				t.Errorf("the token has %q, want %q", id.Roles, want)
			}
		}
	}
	has(first.Roles...)
	r.clock.Advance(10*time.Second - 1)
	has(first.Roles...)
	r.clock.Advance(1)
	has(first.Roles[1:]...)
	if next := must.Get(r.rotate(t, old.Refresh))(t); next.ExpiresIn != 10*time.Second {
		t.Errorf("a token ends after %v, want with the account", next.ExpiresIn)
	} else {
		old.Refresh = next.Refresh
	}
	r.clock.Advance(10*time.Second - 1)
	has(first.Roles[1:]...)
	r.clock.Advance(1)
	r.wantOut(t, old)
}
