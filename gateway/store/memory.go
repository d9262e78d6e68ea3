package store

import (
	"bytes"
	"context"
	"errors"
	"hash/maphash"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// memoryShards divides the entries into shards with a lock each.
	memoryShards        = 256
	memorySweepInterval = time.Minute
	// One step of the sweeper looks at so many entries and removes so many. A
	// removal takes 10 to 100 times as long as a look.
	stepLooks    = 4096
	stepRemovals = 128
)

var errMemoryClosed = errors.New("store: memory store is closed")

// Memory is a Store, a Counter and Volatile: its entries end with the process. It
// suits tests, and a single gateway whose users may sign in again after a restart.
//
// Expired entries are invisible at once; a sweeper removes them. It begins about
// once a minute, works in short steps with pauses, and has at most one shard
// locked for the time of a step. Nothing else bounds the memory that entries take.
type Memory struct {
	now    func() time.Time
	seed   maphash.Seed
	shards [memoryShards]memoryShard
	tally  Tally
	closed atomic.Bool
	stop   context.CancelFunc
	swept  sync.WaitGroup
}

type memoryShard struct {
	mu      sync.RWMutex
	entries table
}

// place is where the entry of a key is, or would be.
type place struct {
	*memoryShard
	memory *Memory
	key    string
	packed packedKey
	hash   uint32
}

// NewMemory returns an empty store with the clock now; nil means time.Now.
func NewMemory(now func() time.Time) *Memory {
	if now == nil {
		now = time.Now
	}
	ctx, stop := context.WithCancel(context.Background())
	m := &Memory{now: now, seed: maphash.MakeSeed(), stop: stop}
	m.swept.Go(func() { m.sweepUntilDone(ctx) })
	return m
}

// Volatile implements Volatile.
func (m *Memory) Volatile() bool { return true }

// Get implements Store. Like all methods, it fails if the context has ended or
// the store is closed.
func (m *Memory) Get(ctx context.Context, key string) ([]byte, error) {
	if err := m.usable(ctx); err != nil {
		return nil, err
	}
	p := m.place(key)
	value, dead, err := p.get(m.instant())
	if dead { // and stays dead if the clock is set back
		p.forget(m.instant())
	}
	return value, err
}

// Recall implements Recaller.
func (m *Memory) Recall(key string) (value []byte, known bool) {
	if m.closed.Load() {
		return nil, false
	}
	p := m.place(key)
	value, _, err := p.get(m.instant())
	return value, err == nil
}

// Put implements Store.
func (m *Memory) Put(ctx context.Context, key string, value []byte, expires time.Time) error {
	if err := m.usable(ctx); err != nil {
		return err
	}
	p := m.place(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.set(value, expires, m.instant())
	return nil
}

// Swap implements Store.
func (m *Memory) Swap(ctx context.Context, key string, old, value []byte, expires time.Time) error {
	if err := m.usable(ctx); err != nil {
		return err
	}
	p := m.place(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	now := m.instant()
	current, _ := p.live(now) // nil when there is none
	if (current == nil) != (old == nil) || !bytes.Equal(current, old) {
		return ErrConflict
	}
	p.set(value, expires, now)
	return nil
}

// Take implements Store.
func (m *Memory) Take(ctx context.Context, key string) ([]byte, error) {
	if err := m.usable(ctx); err != nil {
		return nil, err
	}
	p := m.place(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	value, err := p.live(m.instant())
	p.remove()
	return value, err
}

// Delete implements Store.
func (m *Memory) Delete(ctx context.Context, key string) error {
	if err := m.usable(ctx); err != nil {
		return err
	}
	p := m.place(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remove()
	return nil
}

// Count implements Counter.
func (m *Memory) Count(ctx context.Context, kind string) (int, error) {
	if err := errors.Join(m.usable(ctx), CheckKind(kind)); err != nil {
		return 0, err
	}
	return m.tally.Count(kind, m.now()), nil
}

// Walk implements Walker. A shard is locked for the time of one step.
func (m *Memory) Walk(ctx context.Context, prefix string, visit func(keys []string) error) error {
	for i := range m.shards {
		// From the last slot to the first; see table.
		for next := math.MaxInt; next > 0; {
			if err := m.usable(ctx); err != nil {
				return err
			}
			var keys []string
			keys, next = m.shards[i].keys(prefix, next, m.instant())
			if len(keys) == 0 {
				continue
			}
			if err := visit(keys); err != nil {
				return err
			}
		}
	}
	return nil
}

// keys returns the live keys that begin with prefix in some slots before next, and
// the first of these slots.
func (s *memoryShard) keys(prefix string, next int, now int64) ([]string, int) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	next = min(next, s.entries.length)
	var keys []string
	for looks := 0; next > 0 && looks < stepLooks && len(keys) < WalkSize; looks++ {
		next--
		e := s.entries.slot(next)
		if e.expired(now) {
			continue
		}
		if key := unpack(e.key()); strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	return keys, next
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
		s.entries = table{}
		s.mu.Unlock()
	}
	m.tally.Reset()
	return nil
}

func (m *Memory) usable(ctx context.Context) error {
	if m.closed.Load() {
		return errMemoryClosed
	}
	return ctx.Err()
}

// instant returns the time in Unix nanoseconds. It has no monotonic reading: an
// entry expires by the wall clock, even if the machine was suspended.
func (m *Memory) instant() int64 { return m.now().UnixNano() }

func (m *Memory) hash(key []byte) uint64 { return maphash.Bytes(m.seed, key) }

func (m *Memory) place(key string) place {
	packed := pack(key)
	hash := m.hash(packed.bytes())
	return place{memoryShard: &m.shards[hash%memoryShards], memory: m, key: key, packed: packed, hash: hashOf(hash)}
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

// sweepAll removes expired entries in steps. It calls rest after each of them,
// without a lock, and ends with its error.
func (m *Memory) sweepAll(rest func(took time.Duration) error) error {
	start, step := time.Now(), sweepStep{}
	for i := range m.shards {
		for more := true; more; {
			if step.spent() {
				if err := rest(time.Since(start)); err != nil {
					return err
				}
				start, step.looks, step.removals = time.Now(), 0, 0
			}
			more = m.sweepShard(&m.shards[i], &step)
		}
		step.next = 0
	}
	return nil
}

// sweepStep is the state of the sweeper: what the current step has done, and
// where in the shard it continues.
type sweepStep struct {
	looks, removals int
	next            int // number of the next slot, plus one; 0: the last slot
}

func (s *sweepStep) spent() bool { return s.looks >= stepLooks || s.removals >= stepRemovals }

// sweepShard removes expired entries of a shard until the step is spent. It
// reports whether there is more to do.
func (m *Memory) sweepShard(s *memoryShard, step *sweepStep) (more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, now := &s.entries, m.instant()
	if step.next == 0 || step.next > t.length {
		step.next = t.length
	}
	for ; step.next > 0 && !step.spent(); step.next-- {
		step.looks++
		if e := t.slot(step.next - 1); e.expired(now) {
			step.removals++
			key := unpack(e.key())
			p := m.place(key)
			p.remove()
		}
	}
	return step.next > 0
}

// live returns the value of the key, which is never nil, or ErrNotFound.
func (p place) live(now int64) ([]byte, error) {
	e, _ := p.entries.find(p.hash, p.packed.bytes())
	if e == nil || e.expired(now) {
		return nil, ErrNotFound
	}
	return e.value(), nil
}

// get locks the shard and calls live. It also reports whether the key has an
// entry that has expired.
func (p place) get(now int64) (value []byte, dead bool, err error) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	value, err = p.live(now)
	if err != nil {
		e, _ := p.entries.find(p.hash, p.packed.bytes())
		dead = e != nil
	}
	return value, dead, err
}

// forget removes the entry if it has expired.
func (p place) forget(now int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e, _ := p.entries.find(p.hash, p.packed.bytes()); e != nil && e.expired(now) {
		p.remove()
	}
}

func (p place) set(value []byte, expires time.Time, now int64) {
	added := newSlot(p.packed.bytes(), value, unixNano(expires))
	if added.expired(now) {
		p.remove()
		return
	}
	if e, _ := p.entries.find(p.hash, p.packed.bytes()); e != nil {
		p.memory.tally.Remove(p.key, e.expiry())
		*e = added
	} else {
		p.entries.add(p.hash, added)
	}
	p.memory.tally.Add(p.key, added.expiry())
}

func (p place) remove() {
	e, cell := p.entries.find(p.hash, p.packed.bytes())
	if e == nil {
		return
	}
	expires := e.expiry()
	p.entries.remove(p.memory.hash, cell)
	p.memory.tally.Remove(p.key, expires)
}
