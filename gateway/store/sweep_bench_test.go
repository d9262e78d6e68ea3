package store_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"authgate/gateway/store"
	"authgate/internal/test/clocktest"
	"authgate/internal/test/must"
	"authgate/internal/test/storetest"
)

// BenchmarkReadsWhileSweeping compares reads while two million entries are swept with
// reads of the same store at rest.
func BenchmarkReadsWhileSweeping(b *testing.B) {
	const dead, live = 2000000, 20000
	clock := clocktest.New()
	m := store.NewMemory(clock.Now)
	defer m.Close()
	value := make([]byte, 100)
	for i := range dead {
		must.Do(b, m.Put(b.Context(), fmt.Sprint("dead:", i), value, clock.Now().Add(time.Second)))
	}
	for i := range live {
		must.Do(b, m.Put(b.Context(), fmt.Sprint("live:", i), value, time.Time{}))
	}
	clock.Advance(time.Second)
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	sweep := func() { store.Sweep(ctx, m) }
	var n atomic.Int64
	storetest.Latencies(b, sweep, stop, map[string]func(){
		"warm": func() {
			must.Get(m.Get(b.Context(), fmt.Sprint("live:", n.Add(1)%live)))(b)
		},
	})
}
