package sqlitestore

import (
	"context"
	"log/slog"
	"time"

	"authgate/gateway/store"
)

const (
	sweepInterval = time.Minute
	// sweepBatch is how many expired entries one write removes: so few that
	// requests that wait for it are not delayed noticeably.
	sweepBatch  = 8
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

// sweepUntilDone removes expired entries about once a minute.
func (s *Store) sweepUntilDone(ctx context.Context) {
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if err := s.sweepAll(ctx, func(took time.Duration) error { return store.Rest(ctx, took) }); err != nil &&
				ctx.Err() == nil {
				s.logger.LogAttrs(ctx, slog.LevelWarn, "cannot remove expired entries", slog.Any("error", err))
			}
			if s.writer.room.short.Load() {
				_ = s.Ping(ctx) // it logs when there is room again
			}
		}
	}
}

// sweepAll removes expired entries in steps. It calls rest after each of them,
// which has taken so long, and ends with its error.
func (s *Store) sweepAll(ctx context.Context, rest func(took time.Duration) error) error {
	for {
		more := false
		var took time.Duration
		_, err := s.write(ctx, "sweep", func(b *batch) ([]byte, error) {
			start := time.Now()
			swept, err := b.sweep(sweepBatch)
			more, took = swept == sweepBatch, time.Since(start)
			return nil, err
		})
		if err != nil || !more {
			return err
		}
		if err := rest(took); err != nil {
			return err
		}
	}
}
