package storetest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"authgate/gateway/store"
	"authgate/internal/test/clocktest"
)

func testBasics(t *testing.T, s Store, _ *clocktest.Clock) {
	WantNone(t, s, "a")
	remove(t, s, "a") // not there: no error

	Put(t, s, "a", "1", never)
	Put(t, s, "b", "2", never)
	WantValue(t, s, "a", "1")
	WantValue(t, s, "a", "1") // also when asked again
	WantValue(t, s, "b", "2")

	Put(t, s, "a", "one, and longer", never)
	WantValue(t, s, "a", "one, and longer")

	remove(t, s, "a")
	WantNone(t, s, "a")
	WantValue(t, s, "b", "2")
	remove(t, s, "a")

	Put(t, s, "a", "back", never)
	WantValue(t, s, "a", "back")
}

func testValues(t *testing.T, s Store, _ *clocktest.Clock) {
	var every strings.Builder
	for b := range 256 {
		every.WriteByte(byte(b))
	}
	for name, value := range map[string][]byte{
		"nil":          nil,
		"empty":        {},
		"one NUL":      {0},
		"every byte":   []byte(every.String()),
		"not UTF-8":    []byte("\xff\xfe\x80"),
		"looks like a": []byte("NULL"),
		"one megabyte": []byte(strings.Repeat("0123456789abcdef", 1<<16)),
	} {
		if err := s.Put(t.Context(), name, value, never); err != nil {
			t.Fatalf("Put(%q): %v", name, err)
		}
		WantValue(t, s, name, string(value))

		// What Get returned is accepted as the old value.
		got, err := s.Get(t.Context(), name)
		if err != nil {
			t.Fatalf("Get(%q): %v", name, err)
		}
		if err := s.Swap(t.Context(), name, got, value, never); err != nil {
			t.Fatalf("Swap(%q): %v", name, err)
		}
		take(t, s, name, string(value))
		WantNone(t, s, name)
	}
}

func testKeys(t *testing.T, s Store, _ *clocktest.Clock) {
	keys := []string{
		"", "a", "A", "aa", "a ", " a", "a\x00", "a\x00b", "\x00", "\x00\x00",
		"%", "_", "a%", "a_", "*", "?", "[a]", "'", "''", `"`, `\`, ";--",
		"\xff", "\xff\xff", "\x80", "é", "e\u0301", "1", "01", "1.0", "NULL",
		strings.Repeat("k", 4096), strings.Repeat("k", 4095) + "l",
	}
	for _, key := range keys {
		WantNone(t, s, key)
		Put(t, s, key, "value of "+key, never)
	}
	for _, key := range keys {
		WantValue(t, s, key, "value of "+key)
	}
	for _, key := range keys {
		take(t, s, key, "value of "+key)
	}
	for _, key := range keys {
		WantNone(t, s, key)
	}
}

func testCallersSlices(t *testing.T, s Store, _ *clocktest.Clock) {
	mine := []byte("first")
	if err := s.Put(t.Context(), "key", mine, never); err != nil {
		t.Fatalf("Put: %v", err)
	}
	clear(mine)
	WantValue(t, s, "key", "first")

	old, value := []byte("first"), []byte("second")
	if err := s.Swap(t.Context(), "key", old, value, never); err != nil {
		t.Fatalf("Swap: %v", err)
	}
	clear(old)
	clear(value)
	WantValue(t, s, "key", "second")

	// A slice that was handed out keeps its bytes whatever happens to the key.
	held, err := s.Get(t.Context(), "key")
	if err != nil {
		t.Fatalf("Get: %v", err)
	}
	Put(t, s, "key", "third!", never)
	remove(t, s, "key")
	if string(held) != "second" {
		t.Fatalf("a slice that Get returned changed to %q", held)
	}
}

func testSwap(t *testing.T, s Store, _ *clocktest.Clock) {
	none, empty, red, blue := []byte(nil), []byte{}, []byte("red"), []byte("blue")
	for name, test := range map[string]struct {
		live []byte // nil: none
		old  []byte
		want error
	}{
		"none, none demanded":   {none, none, nil},
		"none, empty demanded":  {none, empty, store.ErrConflict},
		"none, red demanded":    {none, red, store.ErrConflict},
		"empty, none demanded":  {empty, none, store.ErrConflict},
		"empty, empty demanded": {empty, empty, nil},
		"empty, red demanded":   {empty, red, store.ErrConflict},
		"red, none demanded":    {red, none, store.ErrConflict},
		"red, empty demanded":   {red, empty, store.ErrConflict},
		"red, red demanded":     {red, red, nil},
		"red, blue demanded":    {red, blue, store.ErrConflict},
		"red, longer demanded":  {red, []byte("red\x00"), store.ErrConflict},
		"red, shorter demanded": {red, []byte("re"), store.ErrConflict},
		"red, RED demanded":     {red, []byte("RED"), store.ErrConflict},
	} {
		if test.live != nil {
			Put(t, s, name, string(test.live), never)
		}
		err := s.Swap(t.Context(), name, test.old, []byte("new"), never)
		wantError(t, name, err, test.want)
		switch {
		case test.want == nil:
			WantValue(t, s, name, "new")
		case test.live == nil:
			WantNone(t, s, name)
		default:
			WantValue(t, s, name, string(test.live))
		}
	}
}

func testTake(t *testing.T, s Store, _ *clocktest.Clock) {
	_, err := s.Take(t.Context(), "key")
	wantError(t, "Take of nothing", err, store.ErrNotFound)

	Put(t, s, "key", "value", never)
	Put(t, s, "other", "stays", never)
	take(t, s, "key", "value")
	got, err := s.Take(t.Context(), "key")
	wantError(t, "second Take", err, store.ErrNotFound)
	if got != nil {
		t.Fatalf("Take returned %q along with ErrNotFound", got)
	}
	WantNone(t, s, "key")
	WantValue(t, s, "other", "stays")

	swap(t, s, "key", nil, "again", never)
	take(t, s, "key", "again")
}

func testEndedContext(t *testing.T, s Store, _ *clocktest.Clock) {
	Put(t, s, "key", "old", never)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range Calls(s, "key") {
		wantError(t, name, call(ctx), context.Canceled)
	}
	WantValue(t, s, "key", "old")
}

func testClosed(t *testing.T, s Store, _ *clocktest.Clock) {
	Put(t, s, "key", "old", never)
	WantValue(t, s, "key", "old")
	WantNone(t, s, "absent")
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
	}
	for _, key := range []string{"key", "absent"} {
		if got, known := recall(s, key); known {
			t.Errorf("Recall(%q) after Close: %q, want that it is not known", key, got)
		}
	}
	for name, call := range Calls(s, "key") {
		err := call(t.Context())
		if err == nil || errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrConflict) {
			t.Errorf("%s after Close: error %v, want one that says that the store is closed", name, err)
		}
	}
}

// testPing checks that Ping leaves no entry behind.
func testPing(t *testing.T, s Store, _ *clocktest.Clock) {
	pinger, ok := s.(store.Pinger)
	if !ok {
		return
	}
	for range 2 {
		if err := pinger.Ping(t.Context()); err != nil {
			t.Fatalf("Ping: %v", err)
		}
	}
	if left := Keys(t, s, ""); len(left) > 0 {
		t.Fatalf("after Ping the store has %q, want nothing", left)
	}
}
