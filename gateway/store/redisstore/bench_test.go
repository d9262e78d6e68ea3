package redisstore

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"authgate/gateway/store"
	"authgate/gateway/store/sqlitestore"
)

// benchmarkValue is about as long as a session.
var benchmarkValue = make([]byte, 256)

// BenchmarkGetWarm compares a warm read with that of sqlitestore.
func BenchmarkGetWarm(b *testing.B) {
	redis := openTest(b, Options{Addresses: []string{startServer(b).Address}, KeyPrefix: "authgate:"})
	sqlite, err := sqlitestore.Open(b.Context(), sqlitestore.Options{Path: filepath.Join(b.TempDir(), "bench.db")})
	if err != nil {
		b.Fatal(err)
	}
	defer sqlite.Close()
	for name, s := range map[string]store.Store{"redis": redis, "sqlite": sqlite} {
		if err := s.Put(b.Context(), "session:key", benchmarkValue, time.Time{}); err != nil {
			b.Fatal(err)
		}
		b.Run("present/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Get(b.Context(), "session:key"); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("absent/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Get(b.Context(), "revoked:key"); !errors.Is(err, store.ErrNotFound) {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkGetCold asks Redis each time.
func BenchmarkGetCold(b *testing.B) {
	s := openTest(b, Options{Addresses: []string{startServer(b).Address}})
	put(b, s, "key", string(benchmarkValue))
	b.ReportAllocs()
	for b.Loop() {
		s.cache.forget("key")
		if _, err := s.Get(b.Context(), "key"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPut has 64 writers, whose commands share round trips.
func BenchmarkPut(b *testing.B) {
	s := openTest(b, Options{Addresses: []string{startServer(b).Address}})
	expires := time.Now().Add(time.Hour)
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := s.Put(b.Context(), "key", benchmarkValue, expires); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
