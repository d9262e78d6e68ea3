// Package redisstore keeps the gateway's entries in Redis 7 or Valkey (one
// server, Sentinel or Cluster), so that many gateways share their logins and
// revocations.
//
// An entry is one key. Each operation touches that key alone and is atomic on
// the server: Swap is a script there, Take is GETDEL. Reads come from a cache
// in memory that knows both entries and absent keys; Redis remembers what was
// read and pushes the key when anybody changes it (CLIENT TRACKING), so a warm
// read costs no round trip and yet sees a change made elsewhere as soon as
// the push arrives, which is well under a millisecond on one network. What a
// store wrote itself it reads back at once.
//
// # Limits and threats
//
// The cache is trusted only as far as contact with every node was confirmed
// within Options.MaxStaleness; see link. Without contact reads go to Redis,
// and where that fails they fail: a store without Redis answers nothing. The
// cache is bounded in entries and in bytes. On its side Redis remembers up to
// tracking-table-max-keys (1000000) keys for all gateways together; beyond
// that it makes them forget keys early, which costs round trips and nothing
// else. Likewise a node of a Cluster that does not answer, be it a replica, costs
// the cache, until the Cluster has dropped it; and slots that move cost it once
// when they begin to and once when they have.
//
// Every call ends within 1.5 seconds. A write that fails may have happened. A
// read is tried again meanwhile, a write never.
//
// Expiry goes by the clock of Redis (in a Cluster by that of the node with the
// slot of the key prefix), which each gateway asks for the time as often as
// Options.MaxStaleness; see Store.Now. Redis removes an entry a minute after its
// expiry.
//
// An acknowledged write is as durable as Redis is told to be: appendonly and
// appendfsync decide what a crash undoes, and replication, which is
// asynchronous, what a failover undoes (min-replicas-to-write limits it). A
// master that is cut off from its Sentinels or its Cluster, but not from a
// gateway, is believed until it steps down or the gateway is told of the new
// one. maxmemory-policy must be noeviction: an evicted entry reads as one
// that was deleted, and an evicted revocation as one that never was.
//
// Redis holds what callers put there, which by the contract of package store
// is no usable credential; but who can write to it can sign anybody in. Give
// it a password, a network of its own or TLS, and the gateway a user that may
// do no more than: ~PREFIX* +@read +@write +@connection +@scripting
// -@dangerous +role +time +cluster|slots +cluster|shards +cluster|nodes. Such a user
// still sees the names of all keys (SCAN) and may make Redis forget its scripts,
// which costs a round trip.
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

// What zero means in Options.
const (
	defaultMaxStaleness = 2 * time.Second
	defaultCacheEntries = 65536
	defaultCacheBytes   = 64 << 20
)

// Options say where Redis is and how far the store relies on what it
// remembers of it.
type Options struct {
	// Addresses are HOST:PORT of one server, or of some nodes of a Cluster,
	// or, with SentinelMaster, of some Sentinels.
	Addresses []string
	// SentinelMaster is the name by which Sentinels know the master; empty
	// means that there are no Sentinels.
	SentinelMaster string
	// Username and Password are for Redis. No username is the user default.
	Username, Password string
	// SentinelUsername and SentinelPassword are for the Sentinels.
	SentinelUsername, SentinelPassword string
	// TLS is how to connect to all of them; nil is without TLS.
	TLS *tls.Config
	// KeyPrefix begins every key. Stores with different prefixes, neither of
	// which begins the other, share a Redis without seeing each other.
	KeyPrefix string
	// MaxStaleness is how long what is cached may be trusted after Redis has
	// fallen silent; 0 means 2 seconds. Contact is confirmed four times as
	// often, so below a second it had better be well above the round trip.
	MaxStaleness time.Duration
	// CacheEntries is about how many entries the cache holds, and also how
	// many absent keys; 0 means 65536.
	CacheEntries int
	// CacheBytes is about how many bytes the entries in the cache take, and
	// also the absent keys; 0 means 64 MiB. A value of more than a 64th of it
	// is not cached.
	CacheBytes int
	// Logger receives when contact is lost and regained; nil discards it.
	Logger *slog.Logger
	// Now tells the time that entries expire by; nil means the clock of Redis.
	Now func() time.Time
	// Local is the clock of this machine, which tells how much time has passed
	// since Redis was asked for its own; nil means time.Now.
	Local func() time.Time
}

// Store is a store.Store, a store.Clock and a store.Pinger on Redis. It is no store.Counter:
// Redis would have to walk all of its keys to count some of them.
type Store struct {
	clock  *clock
	prefix string
	where  string // for errors
	cache  *cache
	link   *link
	swap   *rueidis.Lua
	closed atomic.Bool
}

var errClosed = errors.New("the store is closed")

// Open opens a store. It fails only for options that can never work. Redis
// need not be there: Open waits for the first attempt to connect, or until
// ctx ends, and the store goes on trying; until it succeeds, calls fail.
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
	}
	s.link.start(ctx)
	return s, nil
}

// complete checks o and puts in what zero stands for.
func complete(o Options) (Options, error) {
	if len(o.Addresses) == 0 {
		return o, errors.New("no address: want at least one, like 127.0.0.1:6379")
	}
	if o.MaxStaleness < 0 || o.CacheEntries < 0 || o.CacheBytes < 0 {
		return o, fmt.Errorf("a staleness of %v, a cache of %d entries and %d bytes: want each more than 0, or 0 for %v, %d and %d",
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

// Now implements store.Clock: the time of Redis. Right after Redis was asked, the
// difference is less than the round trip of the question; in between, the clock
// advances by the local one. Before the first answer calls of the store fail,
// and Now is the local time. If Redis does not allow the question, entries
// expire by the local clock.
func (s *Store) Now() time.Time { return s.clock.at(s.clock.local()) }

// Get implements store.Store. A key that was asked for lately is answered
// from memory, as far as that can be trusted.
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	if err := s.usable(ctx); err != nil {
		return nil, s.failed("get", err)
	}
	local := s.clock.local()
	fresh := s.link.fresh(local) // before the lookup: the cache is cleared before trust is renewed
	e, known, version := s.cache.lookup(key)
	if !known || !fresh {
		var err error
		if e, err = s.read(ctx, key); err != nil {
			return nil, s.failed("get", err)
		}
		s.cache.fill(key, e, version)
	}
	if !e.live(s.clock.at(local).UnixNano()) {
		return nil, store.ErrNotFound
	}
	return e.value, nil
}

// read returns what Redis holds under key, dead or alive.
func (s *Store) read(ctx context.Context, key string) (entry, error) {
	return found(s.link.do(ctx, func(ctx context.Context, c rueidis.Client) rueidis.RedisResult {
		return c.Do(ctx, c.B().Get().Key(s.prefix+key).Build())
	}))
}

// found returns the entry that Redis answered with, or the zero entry for nil.
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

// Put implements store.Store.
func (s *Store) Put(ctx context.Context, key string, value []byte, expires time.Time) error {
	now, until := s.Now().UnixNano(), unixNano(expires)
	if until <= now {
		return s.remove(ctx, "put", key)
	}
	stored, ttl := encode(value, until), lifetime(until, now)
	_, err := s.write(ctx, "put", key, func(ctx context.Context, c rueidis.Client) rueidis.RedisResult {
		set := c.B().Set().Key(s.prefix + key).Value(stored)
		if ttl == 0 {
			return c.Do(ctx, set.Build())
		}
		return c.Do(ctx, set.PxMilliseconds(ttl).Build())
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
	switch swapped, err := answer.AsInt64(); {
	case err != nil:
		return s.failed("swap", err)
	case swapped != 1:
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

// Ping implements store.Pinger: it asks every node but replicas, which serve
// nothing, and lets one of them carry out a write that changes nothing, which
// Redis refuses where it would refuse any other: on a replica, out of memory,
// with a disk that fails.
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

// write lets Redis do a change of key. The cache forgets the key before the
// caller learns of the result; if the change happens after its caller has
// left, Redis pushes the key.
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
