package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"authgate/gateway/store"
)

const (
	// countPrefix begins the key of the hash that counts the entries of a kind.
	countPrefix = "count:"
	// countInterval is how often an instance reports its changes.
	countInterval = time.Second
	// cleanEvery is after how many intervals it removes what has expired.
	cleanEvery = 60
	lastReport = 500 * time.Millisecond
)

// reportScript adds numbers to fields of the hash KEYS[1]. ARGV is the fields, each
// followed by its number.
const reportScript = `
for i = 1, #ARGV, 2 do
	redis.call('HINCRBY', KEYS[1], ARGV[i], ARGV[i + 1])
end
return 1
`

// sumScript returns the sum of the fields of the hash KEYS[1] that are later than
// ARGV[1], and removes the others. A field below zero, which is what remains when a
// report is lost, counts as zero.
const sumScript = `
local sum, fields = 0, redis.call('HGETALL', KEYS[1])
for i = 1, #fields, 2 do
	if tonumber(fields[i]) <= tonumber(ARGV[1]) then
		redis.call('HDEL', KEYS[1], fields[i])
	else
		sum = sum + math.max(0, tonumber(fields[i + 1]))
	end
end
return sum
`

// counter counts the entries of some kinds for all instances together, in a hash for
// each kind. Its fields are the minutes in which entries expire. Redis does not tell
// when an entry expires; a minute that is over is left out, and so the entries are.
//
// An instance reports once a second what it has changed, in one command for each
// kind, whatever the number of changes. So a write costs nothing more, and a count
// costs as much as there are minutes in the lifetime of the entries. The count is
// approximate: what an instance that is killed has not reported, and a write whose
// outcome is unknown, make it wrong until the entries concerned expire.
type counter struct {
	kinds       []string
	report, sum *rueidis.Lua

	mu      sync.Mutex
	pending map[string]map[int64]int64 // by kind and minute
}

func newCounter(kinds []string) *counter {
	return &counter{
		kinds: kinds, report: rueidis.NewLuaScript(reportScript), sum: rueidis.NewLuaScript(sumScript),
		pending: make(map[string]map[int64]int64),
	}
}

// counts reports whether the kind of key is counted.
func (c *counter) counts(key string) bool { return slices.Contains(c.kinds, store.KindOf(key)) }

// replaced notes that the entry of key has changed from before to after at now. The
// zero entry is none.
func (c *counter) replaced(key string, before, after entry, now int64) {
	if !c.counts(key) {
		return
	}
	kind := store.KindOf(key)
	if before.live(now) {
		c.add(kind, minute(before.expires), -1)
	}
	if after.live(now) {
		c.add(kind, minute(after.expires), 1)
	}
}

func (c *counter) add(kind string, minute, by int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending[kind] == nil {
		c.pending[kind] = make(map[int64]int64)
	}
	c.pending[kind][minute] += by
}

// take returns the changes of a kind that were not reported yet.
func (c *counter) take(kind string) map[int64]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.pending[kind]
	delete(c.pending, kind)
	return taken
}

// minute returns the first full minute, since 1970, at which an entry has expired.
func minute(expires int64) int64 {
	if expires == never {
		return never / int64(time.Minute)
	}
	return (expires + int64(time.Minute) - 1) / int64(time.Minute)
}

// Count implements store.Counter for the kinds of Options.Counted, and returns
// store.ErrNotCounted for others. It counts the entries of all instances. An entry
// that has expired can be counted to the end of the minute, and a change by another
// instance is counted within a second or two. See counter for what makes the
// count wrong.
func (s *Store) Count(ctx context.Context, kind string) (int, error) {
	if err := s.usable(ctx); err != nil {
		return 0, s.failed("count", err)
	}
	if !slices.Contains(s.counter.kinds, kind) {
		return 0, s.failed("count", fmt.Errorf("%w: %q", store.ErrNotCounted, kind))
	}
	if err := s.report(ctx, kind); err != nil {
		return 0, s.failed("count", err)
	}
	sum, err := s.sum(ctx, kind)
	if err != nil {
		return 0, s.failed("count", err)
	}
	return int(sum), nil
}

// report tells Redis what has changed. What it cannot tell, it tells later.
func (s *Store) report(ctx context.Context, kind string) error {
	changes := s.counter.take(kind)
	var args []string
	for minute, by := range changes {
		if by != 0 {
			args = append(args, strconv.FormatInt(minute, 10), strconv.FormatInt(by, 10))
		}
	}
	if len(args) == 0 {
		return nil
	}
	err := s.link.do(ctx, func(ctx context.Context, c rueidis.Client) rueidis.RedisResult {
		return s.counter.report.Exec(ctx, c, []string{s.prefix + countPrefix + kind}, args)
	}).Error()
	if err != nil {
		for minute, by := range changes {
			s.counter.add(kind, minute, by)
		}
	}
	return err
}

// sum returns the number of entries of a kind, and removes the minutes that are over.
func (s *Store) sum(ctx context.Context, kind string) (int64, error) {
	now := strconv.FormatInt(s.Now().UnixNano()/int64(time.Minute), 10)
	return s.link.do(ctx, func(ctx context.Context, c rueidis.Client) rueidis.RedisResult {
		return s.counter.sum.Exec(ctx, c, []string{s.prefix + countPrefix + kind}, []string{now})
	}).AsInt64()
}

// reportUntilDone reports changes until ctx ends, and then the rest, for which it
// takes at most lastReport. It ignores errors: link logs that contact is lost.
func (s *Store) reportUntilDone(ctx context.Context) {
	ticker := time.NewTicker(countInterval)
	defer ticker.Stop()
	for interval := 1; ; interval++ {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastReport)
			defer cancel()
			s.reportAll(last)
			return
		case <-ticker.C:
		}
		s.reportAll(ctx)
		if interval%cleanEvery != 0 {
			continue
		}
		for _, kind := range s.counter.kinds {
			_, _ = s.sum(ctx, kind)
		}
	}
}

func (s *Store) reportAll(ctx context.Context) {
	for _, kind := range s.counter.kinds {
		_ = s.report(ctx, kind)
	}
}
