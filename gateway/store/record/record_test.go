package record

import (
	"context"
	"errors"
	"testing"
	"time"

	"authgate/gateway/store"
	"authgate/internal/test/must"
)

// A basis holds while the store has the same bytes under all keys, and nothing under
// those that had nothing. Without records nothing holds.
func TestBasisHolds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(s store.Store) error
		want   bool
	}{
		"unchanged":            {func(store.Store) error { return nil }, true},
		"the same bytes again": {put(t, "login:A", "one"), true},
		"other bytes":          {put(t, "login:A", "two"), false},
		"gone":                 {func(s store.Store) error { return s.Delete(t.Context(), "login:A") }, false},
		"comes":                {put(t, "revoked:A", "1"), false},
	} {
		s := newStore(t)
		must.Do(t, put(t, "login:A", "one")(s))
		must.Do(t, c.change(s))
		holds, err := Basis{{Key: "revoked:A"}, {"login:A", []byte("one")}}.Holds(t.Context(), s)
		if err != nil || holds != c.want {
			t.Errorf("%s: holds: %t, %v; want %t", name, holds, err, c.want)
		}
	}
	if holds, err := (Basis)(nil).Holds(t.Context(), newStore(t)); err != nil || holds {
		t.Errorf("nothing holds: %t, %v", holds, err)
	}
	if holds, err := (Basis{{Key: "login:A"}}).Holds(t.Context(), silent{}); !errors.Is(err, errSilent) || holds {
		t.Errorf("the store fails: holds: %t, %v", holds, err)
	}
}

func TestInFuture(t *testing.T) {
	t.Parallel()
	if now := time.Now(); InFuture(now.Add(ClockLeeway), now) || !InFuture(now.Add(ClockLeeway+1), now) {
		t.Error("clocks may differ by the leeway and no more")
	}
}

func newStore(t *testing.T) store.Store {
	t.Helper()
	s := store.NewMemory(time.Now)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// put returns what writes a value.
func put(t *testing.T, key, value string) func(store.Store) error {
	return func(s store.Store) error { return s.Put(t.Context(), key, []byte(value), time.Time{}) }
}

var errSilent = errors.New("the store does not answer")

// silent is a store that does not answer.
type silent struct{ store.Store }

func (silent) Get(context.Context, string) ([]byte, error) { return nil, errSilent }
