package login

import (
	"errors"
	"testing"
	"time"

	"authgate/internal/test/must"
)

// A basis holds while the store has the same bytes under all keys, and nothing under
// those that had nothing. Without records nothing holds.
func TestBasisHolds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(r *rig)
		want   bool
	}{
		"unchanged": {func(*rig) {}, true},
		"the same bytes again": {func(r *rig) {
			must.Do(t, r.store.Put(t.Context(), "login:A", []byte("one"), time.Time{}))
		}, true},
		"other bytes": {func(r *rig) {
			must.Do(t, r.store.Put(t.Context(), "login:A", []byte("two"), time.Time{}))
		}, false},
		"gone":  {func(r *rig) { must.Do(t, r.store.Delete(t.Context(), "login:A")) }, false},
		"comes": {func(r *rig) { must.Do(t, r.store.Put(t.Context(), "revoked:A", []byte("1"), time.Time{})) }, false},
	} {
		r := newRig(t)
		must.Do(t, r.store.Put(t.Context(), "login:A", []byte("one"), time.Time{}))
		c.change(r)
		holds, err := r.logins.holds(t.Context(), basis{{key: "revoked:A"}, {"login:A", []byte("one")}})
		if err != nil || holds != c.want {
			t.Errorf("%s: holds: %t, %v; want %t", name, holds, err, c.want)
		}
	}
	r := newRig(t)
	if holds, err := r.logins.holds(t.Context(), nil); err != nil || holds {
		t.Errorf("nothing holds: %t, %v", holds, err)
	}
	r.store.fails("get")
	if holds, err := r.logins.holds(t.Context(), basis{{key: "login:A"}}); !errors.Is(err, errStore) || holds {
		t.Errorf("the store fails: holds: %t, %v", holds, err)
	}
}
