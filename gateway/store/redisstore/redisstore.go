// Package redisstore is a store in Redis 7 or Valkey (one server, Sentinel or
// Cluster), so that many gateways share their logins and revocations.
//
// An entry is one key. Each operation uses that key only and is atomic on the
// server: Swap is a script, Take is GETDEL. Reads are answered from a cache in
// memory, which knows entries and absent keys. Redis remembers which keys were
// read and pushes a key when it changes (CLIENT TRACKING). So a warm read needs
// no round trip, and sees a change by another gateway as soon as the push
// arrives, well under a millisecond later on one network. A store sees its own
// writes at once.
//
// # Limits and threats
//
// The cache is used only if contact with every node was confirmed within
// Options.MaxStaleness; see link. Otherwise reads go to Redis, and fail if Redis
// does not answer. The cache is bounded in entries and in bytes. Three things
// cost the cache, and so round trips, but not correctness:
//
//   - Redis remembers up to tracking-table-max-keys (1000000) keys for all
//     gateways together, and pushes the keys that it forgets.
//   - While a node of a Cluster does not answer, even a replica, the cache is not
//     used until the Cluster has dropped the node.
//   - When slots begin to move, and when they have moved, the cache is emptied.
//
// Every call ends within 1.5 seconds. A write that fails may have happened. The
// store repeats reads within that time, and never repeats writes.
//
// Entries expire by the clock of Redis (in a Cluster, of the node with the slot
// of the key prefix), whose time each gateway requests once in
// Options.MaxStaleness; see Store.Now. Redis removes an entry a minute after its
// expiry.
//
// A write that has returned is as durable as Redis is configured: appendonly and
// appendfsync decide which writes a crash undoes. Replication, which is asynchronous,
// decides which ones a failover undoes (min-replicas-to-write limits them). A gateway
// may reach a master that is cut off from its Sentinels or its Cluster. It uses that
// master until the master steps down or the gateway learns of the new one.
// maxmemory-policy must be noeviction: after eviction of a revocation, the revoked
// credential works. The log warns of any other.
//
// Redis holds no usable credential, by the contract of package store. But a
// client that can write to it can sign in as any user. Protect it with a
// password, and with a network of its own or TLS. Give the gateway a user that
// may do no more than: ~PREFIX* +@read +@write +@connection +@scripting
// -@dangerous +role +time +info +cluster|slots +cluster|shards +cluster|nodes. Such a
// user still sees the names of all keys (SCAN) and can make Redis forget its
// scripts, which costs a round trip.
package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"authgate/gateway/store"
)

// Defaults of Options.
const (
	defaultMaxStaleness = 2 * time.Second
	defaultCacheEntries = 65536
	defaultCacheBytes   = 64 << 20
)

// Options configure a Store.
type Options struct {
	// Addresses are HOST:PORT of one server, or of some nodes of a Cluster,
	// or, with SentinelMaster, of some Sentinels.
	Addresses []string
	// SentinelMaster is the name of the master at the Sentinels; empty means
	// no Sentinels.
	SentinelMaster string
	// Username and Password are for Redis. An empty name is the user default.
	Username, Password string
	// SentinelUsername and SentinelPassword are for the Sentinels.
	SentinelUsername, SentinelPassword string
	// TLS configures the connections to all of them; nil means no TLS.
	TLS *tls.Config
	// KeyPrefix begins every key. Stores share a Redis without seeing each
	// other's keys if neither prefix begins with the other.
	KeyPrefix string
	// MaxStaleness is how long the cache is used after the last contact with
	// Redis; 0 means 2 seconds. Contact is confirmed four times in this
	// period, so it must be well above the round trip.
	MaxStaleness time.Duration
	// CacheEntries is about how many entries the cache holds, and how many
	// absent keys; 0 means 65536.
	CacheEntries int
	// CacheBytes is about how many bytes the entries in the cache take, and
	// how many the absent keys take; 0 means 64 MiB. A value of more than a
	// 64th of it is not cached.
	CacheBytes int
	// Logger logs when contact is lost and regained; nil discards that.
	Logger *slog.Logger
	// Now is the clock by which entries expire; nil means the clock of Redis.
	Now func() time.Time
	// Local is the clock of this machine, which measures the time since Redis
	// was asked for its own; nil means time.Now.
	Local func() time.Time
}

// Store is a store.Store, a store.Clock, a store.Pinger and a store.Quotas on Redis.
type Store struct {
	clock  *clock
	prefix string
	where  string // for errors
	cache  *cache
	link   *link
	swap   *rueidis.Lua
	quota  *rueidis.Lua
	closed atomic.Bool
}

var errClosed = errors.New("the store is closed")

// Open opens a store. It fails only for options that can never work. Redis may be
// unreachable: Open waits for the end of the first attempt to connect, or of ctx.
// The store then tries again until it succeeds; until then, calls fail.
func Open(ctx context.Context, o Options) (*Store, error) {
	o, err := complete(o)
	if err != nil {
		return nil, fmt.Errorf("redisstore: open: %w", err)
	}
	c, err := newCache(o.CacheEntries, o.CacheBytes)
	if err != nil {
		return nil, fmt.Errorf("redisstore: open: %w", err)
	}
	l := newLink(o, c)
	s := &Store{
		clock:  l.clock,
		prefix: o.KeyPrefix,
		where:  strings.Join(o.Addresses, ", "),
		cache:  c,
		link:   l,
		swap:   rueidis.NewLuaScript(swapScript),
		quota:  rueidis.NewLuaScript(quotaScript),
	}
	s.link.start(ctx)
	return s, nil
}

// complete checks o and fills in the defaults.
func complete(o Options) (Options, error) {
	if len(o.Addresses) == 0 {
		return o, errors.New("no address: want at least one, like 127.0.0.1:6379")
	}
	if o.MaxStaleness < 0 || o.CacheEntries < 0 || o.CacheBytes < 0 {
		return o, fmt.Errorf("a staleness of %v, a cache of %d entries and %d bytes: want each more than 0, "+
			"or 0 for %v, %d and %d",
			o.MaxStaleness, o.CacheEntries, o.CacheBytes, defaultMaxStaleness, defaultCacheEntries, defaultCacheBytes)
	}
	if o.MaxStaleness == 0 {
		o.MaxStaleness = defaultMaxStaleness
	}
	if o.CacheEntries == 0 {
		o.CacheEntries = defaultCacheEntries
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = defaultCacheBytes
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

// Now implements store.Clock. It returns the time of Redis, with an error of less
// than the round trip in which Redis was asked. Between these requests the local
// clock measures the time. Before the first answer, Now is the local time and
// calls of the store fail. If Redis does not permit the request, entries expire
// by the local clock.
func (s *Store) Now() time.Time { return s.clock.at(s.clock.local()) }

// Get implements store.Store. A key that was read lately is answered from memory
// while the cache may be used.
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	if err := s.usable(ctx); err != nil {
		return nil, s.failed("get", err)
	}
	local := s.clock.local()
	fresh := s.link.fresh(local) // before the lookup, because beat empties the cache before it sets trusted
	e, known, version := s.cache.lookup(key)
	if !known || !fresh {
		var err error
		if e, err = s.readEntry(ctx, key); err != nil {
			return nil, s.failed("get", err)
		}
		s.cache.fill(key, e, version)
	}
	if !e.live(s.clock.at(local).UnixNano()) {
		return nil, store.ErrNotFound
	}
	return e.value, nil
}

// readEntry returns the entry of key in Redis, which may have expired.
func (s *Store) readEntry(ctx context.Context, key string) (entry, error) {
	return found(s.link.do(ctx, func(ctx context.Context, c rueidis.Client) rueidis.RedisResult {
		return c.Do(ctx, c.B().Get().Key(s.prefix+key).Build())
	}))
}

// found returns the entry in an answer of Redis, or the zero entry for nil.
func found(answer rueidis.RedisResult) (entry, error) {
	stored, err := answer.AsBytes()
	switch {
	case rueidis.IsRedisNil(err):
		return entry{}, nil
	case err != nil:
		return entry{}, err
	}
	return decode(stored)
}

// Recall implements store.Recaller.
func (s *Store) Recall(key string) (value []byte, known bool) {
	local := s.clock.local()
	if s.closed.Load() || !s.link.fresh(local) { // before the lookup, as in Get
		return nil, false
	}
	e, known, _ := s.cache.lookup(key)
	if !e.live(s.clock.at(local).UnixNano()) {
		return nil, known
	}
	return e.value, known
}

// Put implements store.Store.
func (s *Store) Put(ctx context.Context, key string, value []byte, expires time.Time) error {
	now, until := s.Now().UnixNano(), unixNano(expires)
	if until <= now {
		return s.remove(ctx, "put", key)
	}
	stored, ttl := encode(value, until), lifetime(until, now)
	_, err := s.write(ctx, "put", key, func(ctx context.Context, c rueidis.Client) rueidis.RedisResult {
		set := c.B().Arbitrary("SET").Keys(s.prefix + key).Args(stored)
		if ttl > 0 {
			set = set.Args("PX", strconv.FormatInt(ttl, 10))
		}
		return c.Do(ctx, set.Build())
	})
	return err
}

// Swap implements store.Store.
func (s *Store) Swap(ctx context.Context, key string, old, value []byte, expires time.Time) error {
	now, until := s.Now().UnixNano(), unixNano(expires)
	var was, stored string
	var ttl int64
	if old != nil {
		was = "+" + string(old)
	}
	if until > now {
		stored, ttl = encode(value, until), lifetime(until, now)
	}
	args := []string{instant(now), was, stored, strconv.FormatInt(ttl, 10)}
	answer, err := s.write(ctx, "swap", key, func(ctx context.Context, c rueidis.Client) rueidis.RedisResult {
		return s.swap.Exec(ctx, c, []string{s.prefix + key}, args)
	})
	if err != nil {
		return err
	}
	swapped, err := answer.AsInt64()
	switch {
	case err != nil:
		return s.failed("swap", err)
	case swapped == 0:
		return store.ErrConflict
	}
	return nil
}

// Take implements store.Store.
func (s *Store) Take(ctx context.Context, key string) ([]byte, error) {
	now := s.Now().UnixNano()
	answer, err := s.write(ctx, "take", key, func(ctx context.Context, c rueidis.Client) rueidis.RedisResult {
		return c.Do(ctx, c.B().Getdel().Key(s.prefix+key).Build())
	})
	if err != nil {
		return nil, err
	}
	e, err := found(answer)
	if err != nil {
		return nil, s.failed("take", err)
	}
	if !e.live(now) {
		return nil, store.ErrNotFound
	}
	return e.value, nil
}

// Delete implements store.Store.
func (s *Store) Delete(ctx context.Context, key string) error {
	return s.remove(ctx, "delete", key)
}

func (s *Store) remove(ctx context.Context, operation, key string) error {
	_, err := s.write(ctx, operation, key, func(ctx context.Context, c rueidis.Client) rueidis.RedisResult {
		return c.Do(ctx, c.B().Del().Key(s.prefix+key).Build())
	})
	return err
}

// Ping implements store.Pinger. It asks every node for its role, except for
// replicas, which serve nothing. Then it sends a write that changes nothing.
// Redis refuses it when it would refuse any other: on a replica, out of memory,
// or with a failing disk.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.usable(ctx); err != nil {
		return s.failed("ping", err)
	}
	answer := s.link.do(ctx, func(ctx context.Context, c rueidis.Client) rueidis.RedisResult {
		if err := s.link.reach(ctx, c); err != nil {
			return rueidis.NewErrorResult(err)
		}
		return c.Do(ctx, c.B().Setrange().Key(s.prefix).Offset(0).Value("").Build())
	})
	if err := answer.Error(); err != nil {
		return s.failed("ping", err)
	}
	return nil
}

// Close lets calls in progress finish, for one second at most. Later calls of
// the other methods fail. It never fails, and may be called twice.
func (s *Store) Close() error {
	if !s.closed.Swap(true) {
		s.link.close()
	}
	return nil
}

// write sends a change of key to Redis. The cache drops the key before the caller
// gets the result. If the change happens after the caller has left, Redis pushes
// the key.
func (s *Store) write(ctx context.Context, operation, key string, do exchange) (rueidis.RedisResult, error) {
	if err := s.usable(ctx); err != nil {
		return rueidis.RedisResult{}, s.failed(operation, err)
	}
	answer := s.link.do(ctx, do)
	s.cache.forget(key)
	if err := answer.Error(); err != nil && !rueidis.IsRedisNil(err) {
		return answer, s.failed(operation, err)
	}
	return answer, nil
}

func (s *Store) usable(ctx context.Context) error {
	if s.closed.Load() {
		return errClosed
	}
	return ctx.Err()
}

func (s *Store) failed(operation string, err error) error {
	return fmt.Errorf("redisstore: %s in %s: %w", operation, s.where, err)
}
