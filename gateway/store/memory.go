package store

import (
	"bytes"
	"context"
	"errors"
	"hash/maphash"
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
)

var errMemoryClosed = errors.New("store: memory store is closed")

// Memory is a Store and a Counter whose entries end with the process. It suits
// tests, and a single gateway whose users may sign in again after a restart.
//
// Expired entries are invisible at once; a sweeper removes them about once a
// minute. Nothing else bounds the memory that entries take.
type Memory struct {
	now    func() time.Time
	seed   maphash.Seed
	shards [memoryShards]memoryShard
	closed atomic.Bool
	stop   chan struct{}
	swept  sync.WaitGroup
}

type memoryShard struct {
	mu      sync.RWMutex
	entries map[string]memoryEntry
}

type memoryEntry struct {
	value   []byte
	expires time.Time // zero: never
}

// NewMemory returns an empty store with the clock now; nil means time.Now.
func NewMemory(now func() time.Time) *Memory {
	if now == nil {
		now = time.Now
	}
	m := &Memory{now: now, seed: maphash.MakeSeed(), stop: make(chan struct{})}
	for i := range m.shards {
		m.shards[i].entries = make(map[string]memoryEntry)
	}
	m.swept.Go(m.sweepUntilStopped)
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

// Count implements Counter. It walks all entries, shard by shard: concurrent
// writes may or may not be counted.
func (m *Memory) Count(ctx context.Context, prefix string) (int, error) {
	if err := m.usable(ctx); err != nil {
		return 0, err
	}
	count := 0
	for i := range m.shards {
		count += m.shards[i].count(prefix, m.now())
	}
	return count, nil
}

// Close stops the sweeper and drops the entries; later calls of the other
// methods fail. It never fails, and may be called twice.
func (m *Memory) Close() error {
	if m.closed.Swap(true) {
		return nil
	}
	close(m.stop)
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

func (m *Memory) sweepUntilStopped() {
	ticker := time.NewTicker(memorySweepInterval)
	defer ticker.Stop()
	for {
		select {
		case <-m.stop:
			return
		case <-ticker.C:
			for i := range m.shards {
				m.shards[i].sweep(m.now())
			}
		}
	}
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

func (s *memoryShard) set(key string, value []byte, expires, now time.Time) {
	// Round drops the monotonic reading: an entry expires by the wall clock,
	// even if the machine was suspended.
	e := memoryEntry{value: append([]byte{}, value...), expires: expires.Round(0)}
	if e.expired(now) {
		delete(s.entries, key)
		return
	}
	s.entries[key] = e
}

func (s *memoryShard) count(prefix string, now time.Time) int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	count := 0
	for key, e := range s.entries {
		if strings.HasPrefix(key, prefix) && !e.expired(now) {
			count++
		}
	}
	return count
}

func (s *memoryShard) sweep(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, e := range s.entries {
		if e.expired(now) {
			delete(s.entries, key)
		}
	}
}

func (e memoryEntry) expired(now time.Time) bool {
	return !e.expires.IsZero() && !now.Before(e.expires)
}
