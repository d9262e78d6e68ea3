package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"authgate/gateway/store"
)

// quotaScript carries out Draw on the server. KEYS[1] is the key. ARGV is the
// name of a new window, Quota.Limit, Quota.Spare, the window in milliseconds, and
// the fields of Draw. The script returns the name of the window, the milliseconds
// until its end, and the other fields of Drawn.
const quotaScript = `
local id, used, held = unpack(redis.call('HMGET', KEYS[1], 'id', 'used', 'held'))
if not id then
	id, used, held = ARGV[1], 0, 0
	redis.call('HSET', KEYS[1], 'id', id)
	redis.call('PEXPIRE', KEYS[1], ARGV[4])
end
used, held = tonumber(used), tonumber(held)
if ARGV[5] == id then
	used = used + tonumber(ARGV[6])
	held = math.max(0, held - tonumber(ARGV[6]))
end
local limit = tonumber(ARGV[2])
local kept = ARGV[5] == id and tonumber(ARGV[7]) or 0
local taken = math.max(0, math.min(tonumber(ARGV[8]), limit - used - kept))
used = used + taken
local more = math.max(0, math.min(tonumber(ARGV[9]), tonumber(ARGV[3]) - held, limit - used))
redis.call('HSET', KEYS[1], 'used', string.format('%.0f', used), 'held', string.format('%.0f', held + more))
return {id, redis.call('PTTL', KEYS[1]), used, taken, more}
`

// Draw implements store.Quotas. The window is measured by the server.
func (s *Store) Draw(ctx context.Context, key string, q store.Quota, d store.Draw) (store.Drawn, error) {
	if err := s.usable(ctx); err != nil {
		return store.Drawn{}, s.failed("draw", err)
	}
	args := []string{rand.Text(), number(q.Limit), number(q.Spare), number(q.Window.Milliseconds()), d.Window,
		number(d.Held), number(d.Keep), number(d.Take), number(d.Hold)}
	answer := s.link.do(ctx, func(ctx context.Context, c rueidis.Client) rueidis.RedisResult {
		return s.quota.Exec(ctx, c, []string{s.prefix + key}, args)
	})
	drawn, err := readDrawn(answer)
	if err != nil {
		return store.Drawn{}, s.failed("draw", err)
	}
	return drawn, nil
}

func readDrawn(answer rueidis.RedisResult) (store.Drawn, error) {
	parts, err := answer.ToArray()
	if err != nil {
		return store.Drawn{}, err
	}
	if len(parts) != 5 {
		return store.Drawn{}, errors.New("the answer does not have five parts")
	}
	window, err := parts[0].ToString()
	if err != nil {
		return store.Drawn{}, err
	}
	var numbers [4]int64
	for i := range numbers {
		if numbers[i], err = parts[i+1].AsInt64(); err != nil {
			return store.Drawn{}, err
		}
	}
	left := time.Duration(numbers[0]) * time.Millisecond
	return store.Drawn{Window: window, Left: left, Used: numbers[1], Taken: numbers[2], Held: numbers[3]}, nil
}

func number(n int64) string { return strconv.FormatInt(n, 10) }
