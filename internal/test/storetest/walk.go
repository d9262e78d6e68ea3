package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"authgate/gateway/store"
	"authgate/internal/test/clocktest"
)

// Keys returns the keys that a walk visits, sorted, each once.
func Keys(t testing.TB, s store.Store, prefix string) []string {
	t.Helper()
	var all []string
	if err := s.Walk(t.Context(), prefix, func(keys []string) error {
		if len(keys) == 0 {
			t.Error("a walk visits nothing")
		}
		all = append(all, keys...)
		return nil
	}); err != nil {
		t.Fatalf("Walk(%q): %v", prefix, err)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// testWalk checks that a walk visits the keys with a prefix, and ends with the
// error of visit or of the context.
func testWalk(t *testing.T, s Store, clock *clocktest.Clock) {
	const many = 2*store.WalkSize + 7
	var want []string
	for i := range many {
		key := fmt.Sprintf("s:%04d", i)
		want = append(want, key)
		Put(t, s, key, "v", never)
		if i == store.WalkSize-1 { // the least key after it begins the next part
			want = append(want, key+"\x00")
			Put(t, s, key+"\x00", "v", never)
		}
	}
	odd := []string{"s*", "s*:1", "s[a]", `s\`, "s\xff", "s\xff\x00", "t:1", "S:1", "", "\xff\xff"}
	for _, key := range odd {
		Put(t, s, key, "", clock.Now().Add(time.Hour))
	}
	remove(t, s, "t:1")
	for prefix, want := range map[string][]string{
		"s:": want, "s:0000": {"s:0000"}, "s*": {"s*", "s*:1"}, "s[": {"s[a]"}, `s\`: {`s\`},
		"s\xff": {"s\xff", "s\xff\x00"}, "t": nil, "x": nil, "\xff": {"\xff\xff"},
	} {
		if got := Keys(t, s, prefix); !slices.Equal(got, want) {
			t.Errorf("Walk(%q) visits %d keys, want %d: %.200q", prefix, len(got), len(want), got)
		}
	}
	if got := Keys(t, s, ""); len(got) != len(want)+len(odd)-1 {
		t.Errorf("a walk without a prefix visits %d keys, want %d", len(got), len(want)+len(odd)-1)
	}
	enough, visits := errors.New("enough"), 0
	if err := s.Walk(t.Context(), "s:", func([]string) error { visits++; return enough }); !errors.Is(err, enough) ||
		visits != 1 {
		t.Errorf("after an error of visit: %v, %d visits", err, visits)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := s.Walk(ended, "s:", func([]string) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
}

// testWalkChanges checks that a walk misses no entry that is live all the time,
// although others come and go.
func testWalkChanges(t *testing.T, s Store, _ *clocktest.Clock) {
	const many = 3 * store.WalkSize
	stays := map[string]bool{}
	for i := range many {
		Put(t, s, fmt.Sprintf("s:goes:%d", i), "v", never)
		stays[fmt.Sprintf("s:stays:%d", i)] = true
		Put(t, s, fmt.Sprintf("s:stays:%d", i), "v", never)
	}
	step := 0
	if err := s.Walk(t.Context(), "s:", func(keys []string) error {
		for _, key := range keys {
			delete(stays, key)
		}
		for ; step < many && step%20 != 19; step++ {
			remove(t, s, fmt.Sprintf("s:goes:%d", step))
			Put(t, s, fmt.Sprintf("s:comes:%d", step), "v", never)
		}
		step++
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(stays) > 0 {
		t.Errorf("the walk has missed %d entries", len(stays))
	}
}
