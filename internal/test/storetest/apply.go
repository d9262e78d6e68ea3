package storetest

import (
	"errors"
	"fmt"
	"testing"

	"authgate/gateway/store"
	"authgate/internal/test/clocktest"
)

// applier returns the store as store.Applier, nil if it does not apply.
func applier(s store.Store) store.Applier {
	if a, ok := s.(store.Applier); ok && a.Applies() {
		return a
	}
	return nil
}

// testApply makes several changes by one write, or none of them.
func testApply(t *testing.T, s Store, clock *clocktest.Clock) {
	a := applier(s)
	if a == nil {
		if a, ok := s.(store.Applier); ok {
			wantError(t, "Apply of a store that does not", a.Apply(t.Context(), nil), errors.ErrUnsupported)
		}
		return
	}
	for _, key := range []string{"swapped", "removed", "any"} {
		Put(t, s, key, "old")
	}
	Put(t, s, "expired", "old", clock.Now().Add(1))
	clock.Advance(1)
	old, value := []byte("old"), []byte("new")
	edit := store.Edit{Value: value, Expires: clock.Now().Add(1)}
	changes := []store.Change{
		{Key: "swapped", Old: old, Edit: edit}, {Key: "removed", Old: old, Edit: store.Removal()},
		{Key: "any", Any: true, Edit: store.Removal()}, {Key: "absent", Any: true, Edit: store.Removal()},
		{Key: "created", Edit: store.Edit{Value: value}}, {Key: "expired", Edit: store.Edit{}},
	}
	for _, wrong := range []store.Change{
		{Key: "swapped", Old: []byte("other"), Edit: edit}, {Key: "any", Edit: edit},
		{Key: "absent", Old: old, Edit: edit}, {Key: "absent", Old: []byte{}, Edit: edit},
		{Key: "expired", Old: old, Edit: edit},
	} {
		wantError(t, "Apply", a.Apply(t.Context(), append(changes, wrong)), store.ErrConflict)
	}
	for _, key := range []string{"swapped", "removed", "any"} {
		WantValue(t, s, key, "old")
	}
	WantNone(t, s, "created")
	wantError(t, "Apply", a.Apply(t.Context(), changes), nil)
	copy(old, "xxx")
	copy(value, "xxx")
	clear(changes)
	WantValue(t, s, "swapped", "new")
	WantValue(t, s, "created", "new")
	WantValue(t, s, "expired", "")
	for _, key := range []string{"removed", "any", "absent"} {
		WantNone(t, s, key)
	}
	clock.Advance(1)
	WantNone(t, s, "swapped")
	WantValue(t, s, "created", "new")
}

// testOneApplies has many goroutines change two keys at once, while others change one of them: one succeeds, and
// the two keys have values of the same goroutine.
func testOneApplies(t *testing.T, s Store, _ *clocktest.Clock) {
	a := applier(s)
	if a == nil {
		return
	}
	var first, second []byte
	for n := range 20 {
		won := race(t, 50, store.ErrConflict, func(i int) error {
			edit := store.Edit{Value: fmt.Appendf(nil, "%d by %d", n, i)}
			if i%5 == 0 {
				return s.Swap(t.Context(), "first", first, edit.Value, never)
			}
			return a.Apply(t.Context(), []store.Change{
				{Key: "second", Old: second, Edit: edit}, {Key: "first", Old: first, Edit: edit},
			})
		})
		before := string(second)
		first, _ = s.Get(t.Context(), "first")
		second, _ = s.Get(t.Context(), "second")
		if won != 1 || string(second) != before && string(second) != string(first) {
			t.Fatalf("%d of 50 changes succeeded, want 1; the values are %q and %q", won, first, second)
		}
	}
}
