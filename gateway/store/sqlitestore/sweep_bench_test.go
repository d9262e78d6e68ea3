package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"authgate/gateway/store"
	"authgate/internal/test/must"
	"authgate/internal/test/storetest"
)

// BenchmarkReadsWhileSweeping compares reads while two million rows are expired with
// reads of the same store at rest.
func BenchmarkReadsWhileSweeping(b *testing.B) {
	const dead, live = 2000000, 20000
	s := openTest(b, Options{CacheEntries: 1024})
	must.Get(s.db.writer.Exec("PRAGMA cache_size = -400000"))(b) // for a fast beginning
	for _, entries := range []struct {
		key     string
		rows    int
		expires time.Time // and up to half an hour later, so that the sweep jumps among the keys
	}{
		{"printf('dead:%08d', i)", dead, time.Now().Add(-time.Hour)},
		{"'live:' || i", live, time.Now().Add(time.Hour)},
	} {
		must.Get(s.db.writer.Exec(`WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?)
			INSERT INTO entries SELECT CAST(`+entries.key+` AS BLOB), ? + abs(random() % 1800000000000), randomblob(250) FROM n`,
			entries.rows, entries.expires.UnixNano()))(b)
	}
	must.Get(s.db.writer.Exec("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA cache_size = -2000"))(b)
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	sweep := func() {
		err := s.sweepAll(ctx, func(took time.Duration) error { return store.Rest(ctx, took) })
		if err != nil && !errors.Is(err, context.Canceled) {
			b.Error(err)
		}
	}
	get := func(n int64) { must.Get(s.Get(b.Context(), fmt.Sprint("live:", n)))(b) }
	var cold atomic.Int64
	storetest.Latencies(b, sweep, stop, map[string]func(){
		"warm": func() { get(0) },
		"cold": func() { get(1 + cold.Add(1)%(live-1)) },
	})
}
