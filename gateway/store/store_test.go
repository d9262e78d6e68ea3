package store_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"authgate/gateway/store"
	"authgate/internal/test/storetest"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(_ *testing.T, now func() time.Time) storetest.Store {
		return store.NewMemory(now)
	})
}

// A login is stored, changed by one of several writers, and ended.
func Example() {
	ctx := context.Background()
	memory := store.NewMemory(time.Now)
	defer memory.Close()
	var s store.Store = memory // what all other code gets

	expires := time.Now().Add(time.Hour)
	fmt.Println(s.Put(ctx, "login", []byte("first"), expires))
	fmt.Println(s.Swap(ctx, "login", []byte("first"), []byte("second"), expires))
	err := s.Swap(ctx, "login", []byte("first"), []byte("third"), expires) // too late
	fmt.Println(errors.Is(err, store.ErrConflict))
	value, err := s.Take(ctx, "login")
	fmt.Printf("%s %v\n", value, err)
	_, err = s.Get(ctx, "login")
	fmt.Println(errors.Is(err, store.ErrNotFound))
	// Output:
	// <nil>
	// <nil>
	// true
	// second <nil>
	// true
}
