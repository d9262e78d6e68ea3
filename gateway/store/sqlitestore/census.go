package sqlitestore

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"authgate/gateway/store"
)

const (
	// censusStep is how many entries one step of a census reads.
	censusStep = 1024
	// censusPause is the pause after a step that failed.
	censusPause = 10 * time.Second
)

var errCounting = errors.New("the entries are still being counted")

// census knows how many entries there are. It counts those in the file once, after
// the start, in the order of their keys and in steps between other writes. What
// the writer changes behind the last key that was counted, it will still find.
// What the writer changes before that key, it learns with the commit.
//
// If the outcome of a commit is unknown, or another program has written, the
// census begins again.
type census struct {
	tally store.Tally
	next  string // the first key that is not counted yet; only the writer uses it
	all   bool   // all are counted; only the writer uses it

	mu       sync.Mutex
	complete chan struct{} // closed when all are counted
	begun    chan struct{} // has an element when there is something to count
}

func newCensus() *census {
	c := &census{complete: make(chan struct{}), begun: make(chan struct{}, 1)}
	c.begun <- struct{}{}
	return c
}

// change is an entry that comes or goes with a transaction.
type change struct {
	key     string
	expires int64
	comes   bool
}

// counted reports whether the entry of key, if there is one, is in the tally.
func (c *census) counted(key string) bool { return c.all || key < c.next }

// commit counts what a transaction has changed.
func (c *census) commit(changes []change) {
	for _, one := range changes {
		if one.comes {
			c.tally.Add(one.key, expiry(one.expires))
		} else {
			c.tally.Remove(one.key, expiry(one.expires))
		}
	}
	if c.all {
		c.mu.Lock()
		defer c.mu.Unlock()
		select {
		case <-c.complete:
		default:
			close(c.complete)
		}
	}
}

// restart begins again.
func (c *census) restart() {
	c.reset()
	select {
	case c.begun <- struct{}{}:
	default:
	}
}

// reset forgets what was counted.
func (c *census) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.complete:
		c.complete = make(chan struct{})
	default:
	}
	c.tally.Reset()
	c.next, c.all = "", false
}

// count returns the number of live entries of a kind. It waits for the end of the
// census.
func (c *census) count(ctx context.Context, kind string, now time.Time) (int, error) {
	c.mu.Lock()
	complete := c.complete
	c.mu.Unlock()
	select {
	case <-complete:
		return c.tally.Count(kind, now), nil
	case <-ctx.Done():
		return 0, errors.Join(errCounting, ctx.Err())
	}
}

// expiry returns a stored expiry as a time.
func expiry(expires int64) time.Time {
	if expires == never {
		return time.Time{}
	}
	return time.Unix(0, expires)
}

const selectNext = `SELECT key, expires FROM entries WHERE key >= ? ORDER BY key LIMIT ?`

// countUntilDone takes each census, until ctx ends.
func (s *Store) countUntilDone(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.census.begun:
		}
		for ctx.Err() == nil {
			start := time.Now()
			last, err := s.submit(ctx, "count", &write{ends: true, do: func(b *batch) ([]byte, error) { return b.countNext() }})
			if err != nil {
				s.logger.LogAttrs(ctx, slog.LevelWarn, "cannot count the entries", slog.Any("error", err))
				_ = store.Rest(ctx, censusPause)
				continue
			}
			if last != nil {
				break
			}
			_ = store.Rest(ctx, time.Since(start))
		}
	}
}

// countNext takes one step of the census. The result is nil unless it was the last.
func (b *batch) countNext() (done []byte, err error) {
	c := b.writer.census
	if c.all {
		return []byte{}, nil
	}
	b.counting = true
	rows, err := b.tx.Stmt(b.writer.next).Query([]byte(c.next), censusStep)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	found, last := 0, ""
	for ; rows.Next(); found++ {
		var key []byte
		var expires int64
		if err := rows.Scan(&key, &expires); err != nil {
			return nil, err
		}
		if last = string(key); last != probeKey {
			b.tally = append(b.tally, change{key: last, expires: expires, comes: true})
		}
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	c.all = found < censusStep
	c.next = last + "\x00"
	if c.all {
		return []byte{}, nil
	}
	return nil, nil
}
