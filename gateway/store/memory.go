package store

import (
	"bytes"
	"context"
	"errors"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// memoryShards divides the entries into shards with a lock each, so that
	// the sweeper locks a small part of them at a time.
	memoryShards        = 256
	memorySweepInterval = time.Minute
	// memorySweepStep is how many entries the sweeper looks at, at least, before it rests.
	memorySweepStep = 50
)

var errMemoryClosed = errors.New("store: memory store is closed")

// Memory is a Store whose entries end with the process. It suits tests, and a
// single gateway whose users may sign in again after a restart.
//
// Expired entries are invisible at once; a sweeper removes them. It begins about
// once a minute, takes one shard at a time, and pauses after some entries. Nothing else
// bounds the memory that entries take.
type Memory struct {
	now    func() time.Time
	seed   maphash.Seed
	shards [memoryShards]memoryShard
	closed atomic.Bool
	stop   context.CancelFunc
	swept  sync.WaitGroup
}

type memoryShard struct {
	mu      sync.RWMutex
	entries map[string]memoryEntry
}

type memoryEntry struct {
	value   []byte
	expires time.Time // without a monotonic reading; zero: never
}

func (e memoryEntry) expired(now time.Time) bool {
	return !e.expires.IsZero() && !now.Before(e.expires)
}

// NewMemory returns an empty store with the clock now; nil means time.Now.
func NewMemory(now func() time.Time) *Memory {
	if now == nil {
		now = time.Now
	}
	ctx, stop := context.WithCancel(context.Background())
	m := &Memory{now: now, seed: maphash.MakeSeed(), stop: stop}
	for i := range m.shards {
		m.shards[i].entries = make(map[string]memoryEntry)
	}
	m.swept.Go(func() { m.sweepUntilDone(ctx) })
	return m
}

// Get implements Store. Like all methods, it fails if the context has ended or
// the store is closed.
func (m *Memory) Get(ctx context.Context, key string) ([]byte, error) {
	if err := m.usable(ctx); err != nil {
		return nil, err
	}
	s := m.shard(key)
	value, dead, err := s.get(key, m.now())
	if dead { // and stays dead if the clock is set back
		s.forget(key, m.now())
	}
	return value, err
}

// Recall implements Recaller.
func (m *Memory) Recall(key string) (value []byte, known bool) {
	if m.closed.Load() {
		return nil, false
	}
	value, dead, _ := m.shard(key).get(key, m.now())
	return value, !dead // else Get forgets it
}

// Put implements Store.
func (m *Memory) Put(ctx context.Context, key string, value []byte, expires time.Time) error {
	if err := m.usable(ctx); err != nil {
		return err
	}
	s := m.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(key, value, expires, m.now())
	return nil
}

// Swap implements Store.
func (m *Memory) Swap(ctx context.Context, key string, old, value []byte, expires time.Time) error {
	if err := m.usable(ctx); err != nil {
		return err
	}
	s := m.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := m.now()
	current, _ := s.live(key, now) // nil when there is none
	if (current == nil) != (old == nil) || !bytes.Equal(current, old) {
		return ErrConflict
	}
	s.set(key, value, expires, now)
	return nil
}

// Take implements Store.
func (m *Memory) Take(ctx context.Context, key string) ([]byte, error) {
	if err := m.usable(ctx); err != nil {
		return nil, err
	}
	s := m.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	value, err := s.live(key, m.now())
	delete(s.entries, key)
	return value, err
}

// Delete implements Store.
func (m *Memory) Delete(ctx context.Context, key string) error {
	if err := m.usable(ctx); err != nil {
		return err
	}
	s := m.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.entries, key)
	return nil
}

// Walk implements Store. A shard is locked while its keys are listed.
func (m *Memory) Walk(ctx context.Context, prefix string, visit func(keys []string) error) error {
	for i := range m.shards {
		if err := m.usable(ctx); err != nil {
			return err
		}
		for keys := range slices.Chunk(m.shards[i].keys(prefix, m.now()), WalkSize) {
			if err := visit(keys); err != nil {
				return err
			}
		}
	}
	return nil
}

// Close stops the sweeper and drops the entries; later calls of the other
// methods fail. It never fails, and may be called twice.
func (m *Memory) Close() error {
	if m.closed.Swap(true) {
		return nil
	}
	m.stop()
	m.swept.Wait()
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		clear(s.entries)
		s.mu.Unlock()
	}
	return nil
}

func (m *Memory) usable(ctx context.Context) error {
	if m.closed.Load() {
		return errMemoryClosed
	}
	return ctx.Err()
}

func (m *Memory) shard(key string) *memoryShard {
	return &m.shards[maphash.String(m.seed, key)%memoryShards]
}

// sweepUntilDone removes expired entries about once a minute.
func (m *Memory) sweepUntilDone(ctx context.Context) {
	ticker := time.NewTicker(memorySweepInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			_ = m.sweepAll(func(took time.Duration) error { return Rest(ctx, took) })
		}
	}
}

// sweepAll removes expired entries, a shard at a time. It calls rest after the shards of
// a step, without a lock, and ends with its error.
func (m *Memory) sweepAll(rest func(took time.Duration) error) error {
	start, seen := time.Now(), 0
	for i := range m.shards {
		if seen += m.shards[i].sweep(m.now()); seen < memorySweepStep {
			continue
		}
		if err := rest(time.Since(start)); err != nil {
			return err
		}
		start, seen = time.Now(), 0
	}
	return nil
}

// live returns the value of key, which is never nil, or ErrNotFound.
func (s *memoryShard) live(key string, now time.Time) ([]byte, error) {
	e, ok := s.entries[key]
	if !ok || e.expired(now) {
		return nil, ErrNotFound
	}
	return e.value, nil
}

// get locks the shard and calls live. It also reports whether the key has an
// entry that has expired.
func (s *memoryShard) get(key string, now time.Time) (value []byte, dead bool, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	value, err = s.live(key, now)
	if err != nil {
		_, dead = s.entries[key]
	}
	return value, dead, err
}

// forget removes the entry of key if it has expired.
func (s *memoryShard) forget(key string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.entries[key]; ok && e.expired(now) {
		delete(s.entries, key)
	}
}

// set stores a copy of value. Its expiry is by the wall clock, even if the machine
// was suspended.
func (s *memoryShard) set(key string, value []byte, expires, now time.Time) {
	e := memoryEntry{value: append([]byte{}, value...), expires: expires.Round(0)}
	if e.expired(now) {
		delete(s.entries, key)
		return
	}
	s.entries[key] = e
}

// keys returns the live keys that begin with prefix.
func (s *memoryShard) keys(prefix string, now time.Time) []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var keys []string
	for key, e := range s.entries {
		if strings.HasPrefix(key, prefix) && !e.expired(now) {
			keys = append(keys, key)
		}
	}
	return keys
}

// sweep removes expired entries, and returns how many entries there were.
func (s *memoryShard) sweep(now time.Time) (seen int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen = len(s.entries)
	for key, e := range s.entries {
		if e.expired(now) {
			delete(s.entries, key)
		}
	}
	return seen
}
