package lru_test

import (
	"testing"

	"authgate/gateway/store/lru"
)

// A full cache forgets what was used least recently, and no cache is without room.
func TestSize(t *testing.T) {
	t.Parallel()
	locked, unlocked := lru.New[int, string](2), lru.NewUnlocked[int, string](2)
	for _, key := range []int{1, 2, 1, 3} {
		locked.Add(key, "value")
		unlocked.Add(key, "value")
	}
	for key, want := range map[int]bool{1: true, 2: false, 3: true} {
		if locked.Contains(key) != want || unlocked.Contains(key) != want {
			t.Errorf("%d is known: %t and %t, want %t", key, locked.Contains(key), unlocked.Contains(key), want)
		}
	}
	for _, size := range []int{0, -1} {
		for name, make := range map[string]func(){
			"New": func() { lru.New[int, string](size) }, "NewUnlocked": func() { lru.NewUnlocked[int, string](size) },
		} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s(%d) returns a cache", name, size)
					}
				}()
				make()
			}()
		}
	}
}
