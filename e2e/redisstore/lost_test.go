package redisstore_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"authgate/e2e/redistest"
	"authgate/gateway/store"
	"authgate/gateway/store/redisstore"
)

// TestLostAnswers: Redis carries out a write, and the connection ends before
// its answer has arrived. If the store repeated the write, it would find the result
// of the first, and report a conflict.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	redis := startServer(t)
	way := redistest.StartProxy(t, redis.Address)
	s, other := openTest(t, redisstore.Options{Addresses: []string{way.Address}}), openTest(t, onServer(redis))
	if err := other.Swap(t.Context(), "script", nil, nil, time.Time{}); err != nil { // which is known from now on
		t.Fatal(err)
	}
	const none = ""
	for name, test := range map[string]struct {
		before string
		write  func() error
		after  string
	}{
		"take":   {"old", func() error { _, err := s.Take(t.Context(), "take"); return err }, none},
		"swap":   {"old", func() error { return s.Swap(t.Context(), "swap", []byte("old"), []byte("new"), time.Time{}) }, "new"},
		"create": {none, func() error { return s.Swap(t.Context(), "create", nil, []byte("new"), time.Time{}) }, "new"},
	} {
		if test.before != none {
			put(t, other, name, test.before)
		}
		eventually(t, "the store works", func() error { return s.Ping(t.Context()) })
		way.Mute()
		result := make(chan error, 1)
		go func() { result <- test.write() }()
		eventually(t, name+" happens", func() error {
			value, err := other.Get(t.Context(), name)
			if string(value) != test.after {
				return fmt.Errorf("Get = %q, %v", value, err)
			}
			return nil
		})
		way.Mend() // which ends the connection
		if err := <-result; err == nil || errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrConflict) {
			t.Errorf("%s, whose answer was lost: %v, want an error that leaves it open", name, err)
		}
	}
}

// TestForgottenConnection: the network drops all that is sent on the connection,
// without an error, and a new connection would work.
func TestForgottenConnection(t *testing.T) {
	t.Parallel()
	redis := startServer(t)
	way := redistest.StartProxy(t, redis.Address)
	s, other := openTest(t, redisstore.Options{Addresses: []string{way.Address}}), openTest(t, onServer(redis))
	for range 3 {
		put(t, other, "key", "before")
		eventually(t, "the value is seen", func() error { return holds(t, s, "key", "before") })
		warm(t, s, "key", redis)
		way.Forget()
		put(t, other, "key", "after")
		eventually(t, "reads and writes work again", func() error {
			return errors.Join(holds(t, s, "key", "after"), s.Put(t.Context(), "new", nil, time.Time{}))
		})
	}
}
