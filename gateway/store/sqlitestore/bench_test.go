package sqlitestore

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"authgate/gateway/store"
)

// benchmarkValue is about as long as a session.
var benchmarkValue = make([]byte, 256)

func BenchmarkGetWarm(b *testing.B) {
	s := openTest(b, Options{})
	put(b, s, "present", string(benchmarkValue))
	for key, want := range map[string]error{"present": nil, "absent": store.ErrNotFound} {
		b.Run(key, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Get(b.Context(), key); !errors.Is(err, want) {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkGetCold goes round more keys than the cache holds.
func BenchmarkGetCold(b *testing.B) {
	s := openTest(b, Options{CacheEntries: 1})
	const keys = 4096
	fill(b, s, keys)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		if _, err := s.Get(b.Context(), fmt.Sprintf("key %d", n%keys)); err != nil {
			b.Fatal(err)
		}
		n++
	}
}

// BenchmarkPut compares writers alone and in company: with many of them an
// operation costs a fraction of an fsync.
func BenchmarkPut(b *testing.B) {
	for _, writers := range []int{2, 16, 128, 512} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			s := openTest(b, Options{})
			var serial atomic.Int64
			b.ReportAllocs()
			b.SetParallelism(writers / runtime.GOMAXPROCS(0))
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					// A key of its own each time: SQLite writes nothing where
					// nothing changes.
					key := fmt.Sprintf("key %d", serial.Add(1))
					if err := s.Put(b.Context(), key, benchmarkValue, time.Time{}); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}
