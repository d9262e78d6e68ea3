package store_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"authgate/gateway/store"
)

// A login is stored, changed by one of several writers, and ended.
func Example() {
	ctx := context.Background()
	memory := store.NewMemory(time.Now)
	defer memory.Close()
	var s store.Store = memory // what all other code gets

	expires := time.Now().Add(time.Hour)
	if err := s.Put(ctx, "login", []byte("first"), expires); err != nil {
		fmt.Println(err)
	}
	fmt.Println(s.Swap(ctx, "login", []byte("first"), []byte("second"), expires))
	err := s.Swap(ctx, "login", []byte("first"), []byte("third"), expires) // too late
	fmt.Println(errors.Is(err, store.ErrConflict))

	value, err := s.Take(ctx, "login")
	fmt.Printf("%s %v\n", value, err)
	_, err = s.Get(ctx, "login")
	fmt.Println(errors.Is(err, store.ErrNotFound))
	// Output:
	// <nil>
	// true
	// second <nil>
	// true
}
