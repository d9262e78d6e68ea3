package store

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// held returns the number of entries in memory, dead ones included.
func (m *Memory) held() int {
	n := 0
	for i := range m.shards {
		m.shards[i].mu.RLock()
		n += len(m.shards[i].entries)
		m.shards[i].mu.RUnlock()
	}
	return n
}

func TestMemorySweeper(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(nil)
		const each = 1000
		for i := range each {
			for kind, expires := range map[string]time.Time{
				"short": time.Now().Add(30 * time.Second),
				"long":  time.Now().Add(90 * time.Second),
				"never": {},
			} {
				if err := m.Put(t.Context(), fmt.Sprintf("%s %d", kind, i), nil, expires); err != nil {
					t.Fatalf("Put: %v", err)
				}
			}
		}
		for _, step := range []struct {
			wait time.Duration
			want int
		}{
			{59 * time.Second, 3 * each}, // dead already, not yet swept
			{time.Second, 2 * each},
			{time.Minute, each},
			{time.Hour, each},
		} {
			time.Sleep(step.wait) // moves the clock of the bubble
			synctest.Wait()
			if got := m.held(); got != step.want {
				t.Fatalf("%d entries in memory, want %d", got, step.want)
			}
		}
		// The bubble ends only if Close stops the sweeper.
		if err := m.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
		if got := m.held(); got != 0 {
			t.Fatalf("%d entries in memory after Close", got)
		}
	})
}
