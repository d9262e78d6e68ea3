package sqlitestore

import (
	"context"
	"log/slog"
	"time"
)

const (
	sweepInterval = time.Minute
	// sweepBatch is how many expired entries one write removes: so few that
	// writes that wait for it are not delayed noticeably.
	sweepBatch  = 256
	pingTimeout = 2 * time.Second
)

// Ping implements store.Pinger. It commits a write of the size of a login, reads
// from the disk, and fails if that takes longer than two seconds. After a write
// was refused because the disk is full, Ping fails until a login would succeed.
// Calls within one second share the large write.
func (s *Store) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	probe := &write{probe: true}
	probe.do = func(b *batch) (_ []byte, err error) {
		probe.large, err = b.probe()
		return nil, err
	}
	if _, err := s.submit(ctx, "ping", probe); err != nil {
		return err
	}
	var at int64
	if err := s.db.reader.QueryRowContext(ctx, "SELECT at FROM probe").Scan(&at); err != nil {
		return s.failed("ping", err)
	}
	return nil
}

const (
	countFrom  = "SELECT count(*) FROM entries WHERE key >= ? AND (expires = 0 OR expires > ?)"
	countRange = countFrom + " AND key < ?"
)

// Count implements store.Counter. It reads from the disk, and sees every write
// that has returned.
func (s *Store) Count(ctx context.Context, prefix string) (int, error) {
	if err := s.usable(ctx); err != nil {
		return 0, s.failed("count", err)
	}
	query, args := countFrom, []any{[]byte(prefix), s.now().UnixNano()}
	if end := prefixEnd(prefix); end != nil {
		query, args = countRange, append(args, end)
	}
	var count int
	err := s.db.reader.QueryRowContext(ctx, query, args...).Scan(&count)
	if err == nil {
		err = s.db.files.check()
	}
	if err != nil {
		return 0, s.failed("count", err)
	}
	return count, nil
}

// prefixEnd returns the first key after all keys that start with prefix, or nil
// if there is none.
func prefixEnd(prefix string) []byte {
	for last := len(prefix) - 1; last >= 0; last-- {
		if prefix[last] != 0xff {
			end := []byte(prefix[:last+1])
			end[last]++
			return end
		}
	}
	return nil
}

// sweepUntilDone removes expired entries about once a minute.
func (s *Store) sweepUntilDone(ctx context.Context) {
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if err := s.sweepAll(ctx); err != nil && ctx.Err() == nil {
				s.logger.LogAttrs(ctx, slog.LevelWarn, "cannot remove expired entries", slog.Any("error", err))
			}
			if s.writer.room.short.Load() {
				_ = s.Ping(ctx) // it logs when there is room again
			}
		}
	}
}

// sweepAll removes expired entries, in small batches so that other writes get
// their turn in between.
func (s *Store) sweepAll(ctx context.Context) error {
	for {
		more := false
		_, err := s.write(ctx, "sweep", func(b *batch) ([]byte, error) {
			swept, err := b.sweep(sweepBatch)
			more = swept == sweepBatch
			return nil, err
		})
		if err != nil || !more {
			return err
		}
	}
}
