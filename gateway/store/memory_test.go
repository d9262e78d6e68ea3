package store

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"authgate/gateway/must"
)

// wantHeld fails the test unless so many entries are in memory, dead ones
// included.
func (m *Memory) wantHeld(t *testing.T, want int) {
	t.Helper()
	got := 0
	for i := range m.shards {
		m.shards[i].mu.RLock()
		got += len(m.shards[i].entries)
		m.shards[i].mu.RUnlock()
	}
	if got != want {
		t.Fatalf("%d entries in memory, want %d", got, want)
	}
}

func TestMemorySweeper(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(nil)
		const each = 1000
		for i := range each {
			for _, expires := range []time.Time{time.Now().Add(30 * time.Second), time.Now().Add(90 * time.Second), {}} {
				must.Do(t, m.Put(t.Context(), fmt.Sprint(expires, i), nil, expires))
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
			m.wantHeld(t, step.want)
		}
		must.Do(t, m.Close()) // without which the bubble does not end
		m.wantHeld(t, 0)
	})
}
