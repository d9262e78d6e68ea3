package store_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"authgate/gateway/store"
	"authgate/internal/test/clocktest"
	"authgate/internal/test/must"
	"authgate/internal/test/storetest"
)

// contested is a store in which another writer comes before each Swap.
type contested struct {
	store.Store
	swaps, writes int              // Swaps so far; writes that are left for the other
	write         func(key string) // what the other writes
}

func (c *contested) Swap(ctx context.Context, key string, old, value []byte, expires time.Time) error {
	if c.swaps++; c.swaps <= c.writes {
		c.write(key)
	}
	return c.Store.Swap(ctx, key, old, value, expires)
}

// newContested returns a store in which another writer writes so many times.
func newContested(t *testing.T, writes int) *contested {
	t.Helper()
	memory := store.NewMemory(nil)
	t.Cleanup(func() { must.Do(t, memory.Close()) })
	c := &contested{Store: memory, writes: writes}
	c.write = func(key string) { storetest.Put(t, memory, key, fmt.Sprint("other ", c.swaps)) }
	return c
}

// appended returns an edit that appends a text, and counts its calls.
func appended(text string, calls *int) func([]byte) (store.Edit, error) {
	return func(value []byte) (store.Edit, error) {
		*calls++
		return store.Edit{Value: append([]byte{}, string(value)+text...)}, nil
	}
}

// An edit that meets the writes of others is made again, of what these have written.
func TestUpdateBeginsAgain(t *testing.T) {
	t.Parallel()
	for _, others := range []int{0, 1, 3, 99} {
		s, calls := newContested(t, others), 0
		storetest.Put(t, s, "key", "first")
		must.Do(t, store.Update(t.Context(), s, "key", appended(" and mine", &calls)))
		want := "first and mine"
		if others > 0 {
			want = fmt.Sprint("other ", others, " and mine")
		}
		storetest.WantValue(t, s, "key", want)
		if calls != others+1 {
			t.Errorf("%d calls of edit for %d writes of others", calls, others)
		}
	}
}

// There are a hundred attempts. Then the value is what the others wrote last.
func TestUpdateGivesUp(t *testing.T) {
	t.Parallel()
	s, calls := newContested(t, 1000), 0
	err := store.Update(t.Context(), s, "key", appended("mine", &calls))
	if err == nil || errors.Is(err, store.ErrConflict) ||
		!strings.Contains(err.Error(), "other instances keep changing it") {
		t.Errorf("got %v", err)
	}
	storetest.WantValue(t, s, "key", "other 100")
	if calls != 100 {
		t.Errorf("%d attempts", calls)
	}
}

// A key without a live value has nil, and the new value must be the first one. An empty
// value is a value.
func TestUpdateOfNothing(t *testing.T) {
	t.Parallel()
	clock := clocktest.New()
	memory := store.NewMemory(clock.Now)
	defer memory.Close()
	var got []byte
	edit := func(value []byte) (store.Edit, error) {
		got = value
		return store.Edit{Value: []byte{}, Expires: clock.Now().Add(time.Second)}, nil
	}
	must.Do(t, store.Update(t.Context(), memory, "key", edit))
	if got != nil {
		t.Errorf("nothing is %q", got)
	}
	storetest.WantValue(t, memory, "key", "")
	must.Do(t, store.Update(t.Context(), memory, "key", edit))
	if got == nil {
		t.Error("an empty value is nil")
	}
	clock.Advance(time.Second) // the expiry of the edit
	storetest.WantNone(t, memory, "key")

	s, calls := newContested(t, 1), 0 // another one is the first
	must.Do(t, store.Update(t.Context(), s, "key", appended(" and mine", &calls)))
	storetest.WantValue(t, s, "key", "other 1 and mine")
	s, calls = newContested(t, 1), 0 // another one deletes it
	storetest.Put(t, s, "key", "first")
	s.write = func(key string) { must.Do(t, s.Delete(t.Context(), key)) }
	must.Do(t, store.Update(t.Context(), s, "key", appended("mine", &calls)))
	storetest.WantValue(t, s, "key", "mine")
}

// An edit that has expired removes the value, and one without a value writes nothing.
func TestUpdateRemovesOrKeeps(t *testing.T) {
	t.Parallel()
	s := newContested(t, 0)
	storetest.Put(t, s, "key", "first")
	must.Do(t, store.Update(t.Context(), s, "key", func([]byte) (store.Edit, error) { return store.Edit{}, nil }))
	storetest.WantValue(t, s, "key", "first")
	if s.swaps != 0 {
		t.Errorf("an edit that keeps the value was written %d times", s.swaps)
	}
	must.Do(t, store.Update(t.Context(), s, "key", func([]byte) (store.Edit, error) {
		return store.Edit{Value: []byte{}, Expires: time.Unix(1, 0)}, nil
	}))
	storetest.WantNone(t, s, "key")
}

// An edit that refuses ends the update, also when others have written before.
func TestUpdateRefused(t *testing.T) {
	t.Parallel()
	s, refused, calls := newContested(t, 1), errors.New("refused"), 0
	err := store.Update(t.Context(), s, "key", func(value []byte) (store.Edit, error) {
		if calls++; calls == 1 {
			return store.Edit{Value: []byte("mine")}, nil
		}
		return store.Edit{Value: []byte("never")}, refused
	})
	if !errors.Is(err, refused) || calls != 2 {
		t.Errorf("%v after %d calls", err, calls)
	}
	storetest.WantValue(t, s, "key", "other 1")
}

// A store that fails ends the update with its error, and so does the end of the
// context: before the first attempt and between two.
func TestUpdateFails(t *testing.T) {
	t.Parallel()
	calls := 0
	ended, end := context.WithCancel(t.Context())
	s := newContested(t, 1000)
	s.write = func(key string) {
		storetest.Put(t, s, key, fmt.Sprint("other ", s.swaps))
		if s.swaps == 3 {
			end()
		}
	}
	if err := store.Update(ended, s, "key", appended("mine", &calls)); !errors.Is(err, context.Canceled) || calls != 3 {
		t.Errorf("%v after %d attempts, want the end of the context after the third", err, calls)
	}
	if err := store.Update(ended, s, "key", appended("mine", &calls)); !errors.Is(err, context.Canceled) || calls != 3 {
		t.Errorf("with an ended context: %v, edit was called %d times", err, calls-3)
	}
	memory := store.NewMemory(nil)
	must.Do(t, memory.Close())
	err := store.Update(t.Context(), memory, "key", appended("mine", &calls))
	if err == nil || errors.Is(err, store.ErrNotFound) || calls != 3 {
		t.Errorf("a closed store: %v, edit was called %d times", err, calls-3)
	}
}

// Updates side by side lose none.
func TestUpdateSideBySide(t *testing.T) {
	t.Parallel()
	s := newContested(t, 0)
	const writers, each = 4, 10 // a writer meets at most 30 writes of others
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for range each {
				err := store.Update(t.Context(), s.Store, "key", func(value []byte) (store.Edit, error) {
					n, _ := strconv.Atoi(string(value))
					return store.Edit{Value: []byte(strconv.Itoa(n + 1))}, nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	storetest.WantValue(t, s, "key", strconv.Itoa(writers*each))
}
