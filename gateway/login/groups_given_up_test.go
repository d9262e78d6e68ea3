package login

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/store"
)

// leavingStore is a store whose caller leaves during each Get.
type leavingStore struct {
	store.Store
	leave func()
}

func (s leavingStore) Get(ctx context.Context, key string) ([]byte, error) {
	s.leave()
	return s.Store.Get(ctx, key)
}

// A caller that leaves while its login is added to a group reads nothing that the
// change still writes. The race detector sees it.
func TestJoinIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		memory := store.NewMemory(nil)
		defer memory.Close()
		ctx, cancel := context.WithCancel(t.Context())
		groups := NewLogins(leavingStore{memory, cancel}, time.Now).groups
		login := &Login{ID: "sid", Created: time.Now(), Expires: time.Now().Add(time.Hour)}
		if err := groups.join(ctx, "group", login, time.Now()); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		synctest.Wait() // for the change
	})
}
